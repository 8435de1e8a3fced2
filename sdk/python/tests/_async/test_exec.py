"""Exec and its streams."""

from __future__ import annotations

import pytest

from live import TOO_SHORT, until
from sandshell import AsyncSandbox, CommandFailed

pytestmark = pytest.mark.anyio


async def test_text_result(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec("echo hällo; echo oops >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("hällo\n", "oops\n", 3)
    assert not result.ok and not result.timed_out and result.truncated is None


async def test_bytes_are_exact(sandbox: AsyncSandbox) -> None:
    data = bytes(range(256)) * 3
    result = await sandbox.exec(["cat"], stdin=data, text=False)
    assert result.stdout == data and result.stderr == b""


async def test_argv_is_not_for_a_shell(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec(["printf", "%s|", "$HOME", "a b", "*"])
    assert result.stdout == "$HOME|a b|*|"


async def test_env_cwd_stdin_user(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec(
        'pwd; echo "$COLOUR ${LANG-unset}"; cat', cwd="/tmp", env={"COLOUR": "blue", "LANG": None}, stdin="in"
    )
    assert result.stdout == "/tmp\nblue unset\nin"
    assert (await sandbox.exec("id -un", user="sandbox")).stdout == "sandbox\n"


async def test_timeout_returns_what_there_is(sandbox: AsyncSandbox) -> None:
    for timeout in TOO_SHORT:
        result = await sandbox.exec("echo begun; sleep 1000", timeout=timeout)
        assert result.timed_out and not result.ok
        if result.stdout:
            break
    assert result.stdout == "begun\n"


async def test_check_raises(sandbox: AsyncSandbox) -> None:
    with pytest.raises(CommandFailed, match="ended with 9: no luck") as raised:
        await sandbox.exec("echo no luck >&2; exit 9", check=True)
    assert raised.value.result.exit_code == 9
    assert (await sandbox.exec("true", check=True)).ok


async def test_truncation_is_told(sandbox: AsyncSandbox) -> None:
    result = await sandbox.exec("seq 1 10000", max_output_bytes=1000)
    assert len(result.stdout) <= 1000 and result.truncated is not None
    assert result.truncated.stdout_bytes == 48894 - len(result.stdout)


async def test_stream(sandbox: AsyncSandbox) -> None:
    stream = sandbox.exec_stream(
        f"echo one; {until('1')}; echo two >&2; {until('2')}; printf 'thr\\303\\251'; exit 4"
    )
    pieces = []
    async for piece in stream:
        pieces.append(piece)
        # What comes next is written when this was read.
        await sandbox.files.write(str(len(pieces)), "")
    assert [(piece.stream, piece.text) for piece in pieces] == [
        ("stdout", "one\n"),
        ("stderr", "two\n"),
        ("stdout", "thré"),
    ]
    assert [piece.offset for piece in pieces] == [0, 0, 4]
    assert stream.exit is not None and stream.exit.exit_code == 4


async def test_stream_that_is_left_kills(sandbox: AsyncSandbox) -> None:
    async with sandbox.exec_stream("echo begun; sleep 1000") as stream:
        async for piece in stream:
            assert piece.text == "begun\n"
            break
    record = await (await sandbox.get_process(stream.id)).refresh()
    assert record.state == "exited" and record.signal is not None


async def test_an_incomplete_character_is_told_at_the_end(sandbox: AsyncSandbox) -> None:
    stream = sandbox.exec_stream("printf 'a\\303'")
    pieces = [piece async for piece in stream]
    assert b"".join(piece.data for piece in pieces) == b"a\xc3"
    assert "".join(piece.text for piece in pieces) == "a\N{REPLACEMENT CHARACTER}"
