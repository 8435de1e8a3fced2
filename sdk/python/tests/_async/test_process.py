"""Processes."""

from __future__ import annotations

import pytest

from live import PATIENCE
from sandshell import AsyncSandbox, ProcessExited, WaitTimeout

from ._io import together

pytestmark = pytest.mark.anyio


async def test_logs_lines_and_record(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process(
        "for n in 1 2 3; do echo $n; done; echo err >&2; exit 5", tag="count"
    )
    logs = process.logs()
    both: dict[str, str] = {"stdout": "", "stderr": ""}
    async for piece in logs:
        both[piece.stream] += piece.text
    assert both == {"stdout": "1\n2\n3\n", "stderr": "err\n"}
    assert logs.exit is not None and logs.exit.exit_code == 5
    assert [line async for line in process.lines(stream="stdout")] == ["1", "2", "3"]
    assert await process.read(offset=2) == b"2\n3\n"
    record = await process.wait()
    assert (record.state, record.exit_code, record.tag) == ("exited", 5, "count")
    assert [each.id async for each in sandbox.list_processes()] == [process.id]


async def test_what_there_is_now(sandbox: AsyncSandbox) -> None:
    async with await sandbox.start_process("echo here; sleep 1000") as process:
        await process.wait_for_log("here")
        stream = process.logs(follow=False)
        assert "".join([piece.text async for piece in stream]) == "here\n"
        assert stream.exit is None


async def test_input(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process(
        'while read -r l; do echo "got $l"; done; echo over', stdin_open=True
    )
    assert await process.write("one\n") == 4
    assert await process.write(b"two\n") == 8
    assert await process.close_stdin() == 8
    assert [line async for line in process.lines()] == ["got one", "got two", "over"]


async def test_waiting(sandbox: AsyncSandbox) -> None:
    command = "sleep 0.1; echo listening on 8123; exec python3 -m http.server 8123 --bind 127.0.0.1"
    async with await sandbox.start_process(command) as process:
        line = await process.wait_for_log(r"listening on \d+", regex=True, timeout=PATIENCE)
        assert line == "listening on 8123"
        await process.wait_for_port(8123, http={"path": "/", "status": 200}, timeout=PATIENCE)
        with pytest.raises(WaitTimeout):
            await process.wait(timeout=0.05)
        with pytest.raises(TimeoutError):
            await process.wait_for_log("never", timeout=0.05)
    assert (await process.refresh()).state == "exited"


async def test_an_end_before_what_was_waited_for(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process("echo bye; exit 3")
    with pytest.raises(ProcessExited, match="without writing 'hello'") as raised:
        await process.wait_for_log("hello", timeout=PATIENCE)
    assert raised.value.process.exit_code == 3
    with pytest.raises(ProcessExited):
        await process.wait_for_port(9999, timeout=PATIENCE)


async def test_signals_and_kill(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process(
        "trap 'echo caught; exit 7' USR1; echo armed; while :; do sleep 0.02; done"
    )
    await process.wait_for_log("armed")
    assert (await process.signal("USR1")).signalled == 1
    assert (await process.wait(timeout=PATIENCE)).exit_code == 7

    tree = await sandbox.start_process("sleep 1000 & setsid sleep 1000 & echo up; wait")
    await tree.wait_for_log("up")
    reply = await tree.kill()
    assert reply.killed == 3 and reply.survivors == []
    assert (await tree.kill()).method == "already_ended"
    await tree.delete()


async def test_reading_while_it_is_written(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process("cat", stdin_open=True)

    async def write() -> None:
        for number in range(50):
            await process.write(f"line {number}\n")
        await process.close_stdin()

    async def read() -> list[str]:
        return [line async for line in process.lines()]

    _, lines = await together(write, read)
    assert lines == [f"line {number}" for number in range(50)]


async def test_the_same_id_is_the_same_process(sandbox: AsyncSandbox) -> None:
    first = await sandbox.start_process("sleep 1000", id="one")
    second = await sandbox.start_process("sleep 1000", id="one")
    assert first.pid == second.pid
    assert (await sandbox.get_process("one")).pid == first.pid
