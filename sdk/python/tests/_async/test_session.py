"""Sessions."""

from __future__ import annotations

import pytest

from live import TOO_SHORT, until
from sandshell import AsyncSandbox
from sandshell.errors import SessionNotFound

from ._io import Begun, pause

pytestmark = pytest.mark.anyio


async def test_state_is_kept(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session(env={"A": "1"}) as session:
        await session.exec('cd /tmp; x=5; greet() { echo "hello $1 $x"; }')
        result = await session.exec("greet $A; pwd")
        assert result.stdout == "hello 1 5\n/tmp\n"
        assert (result.cwd, result.session_state) == ("/tmp", "kept")
        assert (await session.exec(["printf", "%s", "a b"])).stdout == "a b"
        raw = await session.exec("printf '\\377\\000'", text=False)
        assert raw.stdout == b"\xff\x00"
        assert [command.exit_code async for command in session.commands()] == [0, 0, 0, 0]
        assert await session.read_output(raw.command_id) == b"\xff\x00"
    with pytest.raises(SessionNotFound):
        await session.refresh()


async def test_stream(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session() as session:
        stream = session.exec_stream(f"echo one; {until('go')}; echo two; cd /tmp; exit 3")
        first = await stream.next()
        assert first is not None and first.text == "one\n"
        await sandbox.files.write("go", "")
        assert [piece.text async for piece in stream] == ["two\n"]
        end = stream.exit
        assert end is not None and (end.exit_code, end.cwd, end.session_state) == (3, "/tmp", "restored")
        assert (await session.command(stream.command_id)).state == "done"


async def test_timeout_and_interrupt_keep_the_shell(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session() as session:
        await session.exec("x=kept")
        for timeout in TOO_SHORT:
            slow = await session.exec("echo begun; sleep 1000", timeout=timeout)
            assert slow.timed_out
            if slow.stdout:
                break
        assert slow.stdout == "begun\n"
        stream = session.exec_stream("echo running; sleep 1000")
        piece = await stream.next()
        assert piece is not None and piece.text == "running\n"
        reply = await session.interrupt()
        assert reply.command_id == stream.command_id
        assert (await stream.wait()).interrupted
        assert (await session.exec("echo $x")).stdout == "kept\n"


async def test_commands_take_their_turn(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session() as session:
        first = Begun(lambda: session.exec(f"{until('/tmp/go')}; echo first >> /tmp/order"))
        while (await session.refresh()).state != "busy":
            await pause(0.02)
        second = Begun(lambda: session.exec("echo second >> /tmp/order"))
        while (await session.refresh()).queue_length != 1:
            await pause(0.02)
        await sandbox.files.write("/tmp/go", "")
        await first.result()
        await second.result()
    assert await sandbox.files.read_text("/tmp/order") == "first\nsecond\n"


async def test_fork_and_process(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session() as session:
        await session.exec("cd /tmp; secret=42; f() { echo f:$secret; }")
        async with await session.fork() as fork:
            await fork.exec("secret=43")
            assert (await fork.exec("f; pwd")).stdout == "f:43\n/tmp\n"
        process = await session.start_process("f; pwd")
        assert [line async for line in process.lines()] == ["f:42", "/tmp"]
        assert process.record.session == session.id
        assert (await session.exec("f")).stdout == "f:42\n"


async def test_update_and_late_output(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session() as session:
        await session.update(env={"LATER": "yes"})
        assert (await session.exec("echo $LATER")).stdout == "yes\n"
        result = await session.exec(f"({until('/tmp/go')}; echo late) & echo now")
        assert result.stdout == "now\n" and result.left_running >= 1
        await sandbox.files.write("/tmp/go", "")
        late = b""
        while not late:
            await pause(0.02)
            late = await session.read_output(result.command_id, "late_stdout")
        assert late == b"late\n"


async def test_connect_to_one_that_is_there(sandbox: AsyncSandbox) -> None:
    made = await sandbox.create_session("work")
    await made.exec("x=1")
    async with await sandbox.get_session("work") as again:
        assert (await again.exec("echo $x")).stdout == "1\n"
    assert [each.id async for each in sandbox.list_sessions()] == ["work"]
    await made.delete()
