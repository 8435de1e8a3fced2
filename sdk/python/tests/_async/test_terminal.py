"""Terminals."""

from __future__ import annotations

import json

import pytest

from live import PATIENCE
from sandshell import AsyncSandbox, WaitTimeout
from sandshell.errors import TerminalNotFound

from ._io import together

pytestmark = pytest.mark.anyio

SHELL = ["bash", "--norc", "--noprofile"]


async def test_type_read_resize_exit(sandbox: AsyncSandbox) -> None:
    async with await sandbox.terminal(SHELL, env={"PS1": "> "}) as terminal:
        await terminal.write("echo $((40 + 2))\n")
        assert b"42\r\n" in await terminal.read_until("42\r\n", timeout=PATIENCE)
        # A shell that is about to read a line may set the size it has found before.
        await terminal.read_until("> ", timeout=PATIENCE)
        assert (await terminal.resize(100, 30)).cols == 100
        await terminal.write("stty size; echo $((1 + 1))ok\n")
        assert b"30 100" in await terminal.read_until("2ok", timeout=PATIENCE)
        screen = await terminal.screen()
        assert screen.cols == 100 and "42" in screen.text
        assert b"42" in await terminal.screen_ansi()
        await terminal.write("exit 3\n")
        rest = b"".join([piece async for piece in terminal])
        assert b"exit" in rest
        assert terminal.exit is not None and terminal.exit.exit_code == 3
        header = json.loads((await terminal.recording()).splitlines()[0])
        assert header["version"] == 2
    with pytest.raises(TerminalNotFound):
        await terminal.refresh()


async def test_waiting_beside_reading(sandbox: AsyncSandbox) -> None:
    async with await sandbox.terminal("read x; echo got $x; exit 5") as terminal:
        with pytest.raises(WaitTimeout):
            await terminal.wait(timeout=0.1)

        async def read() -> bytes:
            await terminal.write("hi\n")
            return b"".join([piece async for piece in terminal])

        end, output = await together(lambda: terminal.wait(timeout=PATIENCE), read)
        assert end.exit_code == 5 and b"got hi" in output


async def test_a_second_viewer_sees_all(sandbox: AsyncSandbox) -> None:
    async with await sandbox.terminal("seq 1 100; read x") as terminal:
        first = await terminal.read_until("100\r\n", timeout=PATIENCE)
        async with await sandbox.get_terminal(terminal.id) as viewer:
            assert await viewer.read_until("100\r\n", timeout=PATIENCE) == first
        assert [each.id async for each in sandbox.list_terminals()] == [terminal.id]


async def test_it_is_a_terminal_that_answers(sandbox: AsyncSandbox) -> None:
    # A program that asks where the cursor is gets an answer though nobody here is an emulator.
    ask = r"stty raw -echo; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | od -c; stty sane; echo en''d"
    async with await sandbox.terminal(["bash", "-c", ask]) as terminal:
        assert b"033" in await terminal.read_until("end", timeout=PATIENCE)
