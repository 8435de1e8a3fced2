# Written by scripts/generate from _async/test_process.py: change that one.
"""Processes."""

from __future__ import annotations

import pytest

from live import PATIENCE
from sandshell import Sandbox, ProcessExited, WaitTimeout

from ._io import together

pytestmark = pytest.mark.anyio


def test_logs_lines_and_record(sandbox: Sandbox) -> None:
    process = sandbox.start_process(
        "for n in 1 2 3; do echo $n; done; echo err >&2; exit 5", tag="count"
    )
    logs = process.logs()
    both: dict[str, str] = {"stdout": "", "stderr": ""}
    for piece in logs:
        both[piece.stream] += piece.text
    assert both == {"stdout": "1\n2\n3\n", "stderr": "err\n"}
    assert logs.exit is not None and logs.exit.exit_code == 5
    assert [line for line in process.lines(stream="stdout")] == ["1", "2", "3"]
    assert process.read(offset=2) == b"2\n3\n"
    record = process.wait()
    assert (record.state, record.exit_code, record.tag) == ("exited", 5, "count")
    assert [each.id for each in sandbox.list_processes()] == [process.id]


def test_what_there_is_now(sandbox: Sandbox) -> None:
    with sandbox.start_process("echo here; sleep 1000") as process:
        process.wait_for_log("here")
        stream = process.logs(follow=False)
        assert "".join([piece.text for piece in stream]) == "here\n"
        assert stream.exit is None


def test_input(sandbox: Sandbox) -> None:
    process = sandbox.start_process(
        'while read -r l; do echo "got $l"; done; echo over', stdin_open=True
    )
    assert process.write("one\n") == 4
    assert process.write(b"two\n") == 8
    assert process.close_stdin() == 8
    assert [line for line in process.lines()] == ["got one", "got two", "over"]


def test_waiting(sandbox: Sandbox) -> None:
    command = "sleep 0.1; echo listening on 8123; exec python3 -m http.server 8123 --bind 127.0.0.1"
    with sandbox.start_process(command) as process:
        line = process.wait_for_log(r"listening on \d+", regex=True, timeout=PATIENCE)
        assert line == "listening on 8123"
        process.wait_for_port(8123, http={"path": "/", "status": 200}, timeout=PATIENCE)
        with pytest.raises(WaitTimeout):
            process.wait(timeout=0.05)
        with pytest.raises(TimeoutError):
            process.wait_for_log("never", timeout=0.05)
    assert (process.refresh()).state == "exited"


def test_an_end_before_what_was_waited_for(sandbox: Sandbox) -> None:
    process = sandbox.start_process("echo bye; exit 3")
    with pytest.raises(ProcessExited, match="without writing 'hello'") as raised:
        process.wait_for_log("hello", timeout=PATIENCE)
    assert raised.value.process.exit_code == 3
    with pytest.raises(ProcessExited):
        process.wait_for_port(9999, timeout=PATIENCE)


def test_signals_and_kill(sandbox: Sandbox) -> None:
    process = sandbox.start_process(
        "trap 'echo caught; exit 7' USR1; echo armed; while :; do sleep 0.02; done"
    )
    process.wait_for_log("armed")
    assert (process.signal("USR1")).signalled == 1
    assert (process.wait(timeout=PATIENCE)).exit_code == 7

    tree = sandbox.start_process("sleep 1000 & setsid sleep 1000 & echo up; wait")
    tree.wait_for_log("up")
    reply = tree.kill()
    assert reply.killed == 3 and reply.survivors == []
    assert (tree.kill()).method == "already_ended"
    tree.delete()


def test_reading_while_it_is_written(sandbox: Sandbox) -> None:
    process = sandbox.start_process("cat", stdin_open=True)

    def write() -> None:
        for number in range(50):
            process.write(f"line {number}\n")
        process.close_stdin()

    def read() -> list[str]:
        return [line for line in process.lines()]

    _, lines = together(write, read)
    assert lines == [f"line {number}" for number in range(50)]


def test_the_same_id_is_the_same_process(sandbox: Sandbox) -> None:
    first = sandbox.start_process("sleep 1000", id="one")
    second = sandbox.start_process("sleep 1000", id="one")
    assert first.pid == second.pid
    assert (sandbox.get_process("one")).pid == first.pid
