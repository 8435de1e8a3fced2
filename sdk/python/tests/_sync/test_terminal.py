# Written by scripts/generate from _async/test_terminal.py: change that one.
"""Terminals."""

from __future__ import annotations

import json

import pytest

from live import PATIENCE
from sandshell import Sandbox, WaitTimeout
from sandshell.errors import TerminalNotFound

from ._io import together

pytestmark = pytest.mark.anyio

SHELL = ["bash", "--norc", "--noprofile"]


def test_type_read_resize_exit(sandbox: Sandbox) -> None:
    with sandbox.terminal(SHELL, env={"PS1": "> "}) as terminal:
        terminal.write("echo $((40 + 2))\n")
        assert b"42\r\n" in terminal.read_until("42\r\n", timeout=PATIENCE)
        # A shell that is about to read a line may set the size it has found before.
        terminal.read_until("> ", timeout=PATIENCE)
        assert (terminal.resize(100, 30)).cols == 100
        terminal.write("stty size; echo $((1 + 1))ok\n")
        assert b"30 100" in terminal.read_until("2ok", timeout=PATIENCE)
        screen = terminal.screen()
        assert screen.cols == 100 and "42" in screen.text
        assert b"42" in terminal.screen_ansi()
        terminal.write("exit 3\n")
        rest = b"".join([piece for piece in terminal])
        assert b"exit" in rest
        assert terminal.exit is not None and terminal.exit.exit_code == 3
        header = json.loads((terminal.recording()).splitlines()[0])
        assert header["version"] == 2
    with pytest.raises(TerminalNotFound):
        terminal.refresh()


def test_waiting_beside_reading(sandbox: Sandbox) -> None:
    with sandbox.terminal("read x; echo got $x; exit 5") as terminal:
        with pytest.raises(WaitTimeout):
            terminal.wait(timeout=0.1)

        def read() -> bytes:
            terminal.write("hi\n")
            return b"".join([piece for piece in terminal])

        end, output = together(lambda: terminal.wait(timeout=PATIENCE), read)
        assert end.exit_code == 5 and b"got hi" in output


def test_a_second_viewer_sees_all(sandbox: Sandbox) -> None:
    with sandbox.terminal("seq 1 100; read x") as terminal:
        first = terminal.read_until("100\r\n", timeout=PATIENCE)
        with sandbox.get_terminal(terminal.id) as viewer:
            assert viewer.read_until("100\r\n", timeout=PATIENCE) == first
        assert [each.id for each in sandbox.list_terminals()] == [terminal.id]


def test_it_is_a_terminal_that_answers(sandbox: Sandbox) -> None:
    # A program that asks where the cursor is gets an answer though nobody here is an emulator.
    ask = r"stty raw -echo; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | od -c; stty sane; echo en''d"
    with sandbox.terminal(["bash", "-c", ask]) as terminal:
        assert b"033" in terminal.read_until("end", timeout=PATIENCE)
