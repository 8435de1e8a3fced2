# Written by scripts/generate from _async/test_session.py: change that one.
"""Sessions."""

from __future__ import annotations

import pytest

from live import TOO_SHORT, until
from sandshell import Sandbox
from sandshell.errors import SessionNotFound

from ._io import Begun, pause

pytestmark = pytest.mark.anyio


def test_state_is_kept(sandbox: Sandbox) -> None:
    with sandbox.create_session(env={"A": "1"}) as session:
        session.exec('cd /tmp; x=5; greet() { echo "hello $1 $x"; }')
        result = session.exec("greet $A; pwd")
        assert result.stdout == "hello 1 5\n/tmp\n"
        assert (result.cwd, result.session_state) == ("/tmp", "kept")
        assert (session.exec(["printf", "%s", "a b"])).stdout == "a b"
        raw = session.exec("printf '\\377\\000'", text=False)
        assert raw.stdout == b"\xff\x00"
        assert [command.exit_code for command in session.commands()] == [0, 0, 0, 0]
        assert session.read_output(raw.command_id) == b"\xff\x00"
    with pytest.raises(SessionNotFound):
        session.refresh()


def test_stream(sandbox: Sandbox) -> None:
    with sandbox.create_session() as session:
        stream = session.exec_stream(f"echo one; {until('go')}; echo two; cd /tmp; exit 3")
        first = stream.next()
        assert first is not None and first.text == "one\n"
        sandbox.files.write("go", "")
        assert [piece.text for piece in stream] == ["two\n"]
        end = stream.exit
        assert end is not None and (end.exit_code, end.cwd, end.session_state) == (3, "/tmp", "restored")
        assert (session.command(stream.command_id)).state == "done"


def test_timeout_and_interrupt_keep_the_shell(sandbox: Sandbox) -> None:
    with sandbox.create_session() as session:
        session.exec("x=kept")
        for timeout in TOO_SHORT:
            slow = session.exec("echo begun; sleep 1000", timeout=timeout)
            assert slow.timed_out
            if slow.stdout:
                break
        assert slow.stdout == "begun\n"
        stream = session.exec_stream("echo running; sleep 1000")
        piece = stream.next()
        assert piece is not None and piece.text == "running\n"
        reply = session.interrupt()
        assert reply.command_id == stream.command_id
        assert (stream.wait()).interrupted
        assert (session.exec("echo $x")).stdout == "kept\n"


def test_commands_take_their_turn(sandbox: Sandbox) -> None:
    with sandbox.create_session() as session:
        first = Begun(lambda: session.exec(f"{until('/tmp/go')}; echo first >> /tmp/order"))
        while (session.refresh()).state != "busy":
            pause(0.02)
        second = Begun(lambda: session.exec("echo second >> /tmp/order"))
        while (session.refresh()).queue_length != 1:
            pause(0.02)
        sandbox.files.write("/tmp/go", "")
        first.result()
        second.result()
    assert sandbox.files.read_text("/tmp/order") == "first\nsecond\n"


def test_fork_and_process(sandbox: Sandbox) -> None:
    with sandbox.create_session() as session:
        session.exec("cd /tmp; secret=42; f() { echo f:$secret; }")
        with session.fork() as fork:
            fork.exec("secret=43")
            assert (fork.exec("f; pwd")).stdout == "f:43\n/tmp\n"
        process = session.start_process("f; pwd")
        assert [line for line in process.lines()] == ["f:42", "/tmp"]
        assert process.record.session == session.id
        assert (session.exec("f")).stdout == "f:42\n"


def test_update_and_late_output(sandbox: Sandbox) -> None:
    with sandbox.create_session() as session:
        session.update(env={"LATER": "yes"})
        assert (session.exec("echo $LATER")).stdout == "yes\n"
        result = session.exec(f"({until('/tmp/go')}; echo late) & echo now")
        assert result.stdout == "now\n" and result.left_running >= 1
        sandbox.files.write("/tmp/go", "")
        late = b""
        while not late:
            pause(0.02)
            late = session.read_output(result.command_id, "late_stdout")
        assert late == b"late\n"


def test_connect_to_one_that_is_there(sandbox: Sandbox) -> None:
    made = sandbox.create_session("work")
    made.exec("x=1")
    with sandbox.get_session("work") as again:
        assert (again.exec("echo $x")).stdout == "1\n"
    assert [each.id for each in sandbox.list_sessions()] == ["work"]
    made.delete()
