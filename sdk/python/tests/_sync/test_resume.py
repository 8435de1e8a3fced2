# Written by scripts/generate from _async/test_resume.py: change that one.
"""Streams and calls whose connections are cut: nothing is lost, nothing comes twice, nothing runs twice.

Each test has five cuts at the least, at places where they hurt: before the answer, inside its head, inside an
event, after much. The oracle is the file that the command wrote beside its output.
"""

from __future__ import annotations

import pytest

from cutting_proxy import CuttingProxy
from live import PATIENCE, Live
from sandshell import Hub, Sandbox, CodeOutput, ConnectionFailed
from sandshell.models import FileEvent

from ._io import together

pytestmark = pytest.mark.anyio

CUTS = [0, 90, 1_000, 20_000, 70_000, 3, 150_000]
Through = tuple[Sandbox, CuttingProxy]

# Bytes of every value on both streams, in many pieces, some with pauses between.
NOISE = """
for n in 1 2 3 4 5 6 7 8; do
  head -c 30011 /dev/urandom | tee -a /tmp/out
  head -c 10007 /dev/urandom | tee -a /tmp/err >&2
  sleep 0.02
done
"""


def test_process_output(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    process = far.start_process(NOISE)
    proxy.cut("/output", list(CUTS))
    got = {"stdout": b"", "stderr": b""}
    logs = process.logs()
    for piece in logs:
        assert piece.offset == len(got[piece.stream]) and piece.dropped == 0
        got[piece.stream] += piece.data
    assert proxy.cuts == len(CUTS)
    assert logs.exit is not None and logs.exit.exit_code == 0
    assert got["stdout"] == sandbox.files.read_bytes("/tmp/out")
    assert got["stderr"] == sandbox.files.read_bytes("/tmp/err")


def test_text_over_cuts(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    stream = far.exec_stream('for n in $(seq 2000); do echo "$n äöü€𝄞"; done | tee /tmp/out')
    proxy.cut("/output", [500, 5_000, 30, 17_777, 9_000])
    text = "".join([piece.text for piece in stream])
    assert proxy.cuts == 5
    assert text == sandbox.files.read_text("/tmp/out") and "\N{REPLACEMENT CHARACTER}" not in text


def test_session_stream(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    session = far.create_session("cut")
    session.exec("cd /tmp; kept=1")
    # The first two are of the request that runs the command, which must then not run again.
    proxy.cut("/sessions/cut/", list(CUTS))
    stream = session.exec_stream("echo run >> /tmp/runs; cd /; " + NOISE)
    got = {"stdout": b"", "stderr": b""}
    for piece in stream:
        got[piece.stream] += piece.data
    assert proxy.cuts == len(CUTS)
    assert got["stdout"] == sandbox.files.read_bytes("/tmp/out")
    assert got["stderr"] == sandbox.files.read_bytes("/tmp/err")
    assert sandbox.files.read_text("/tmp/runs") == "run\n"
    end = stream.exit
    assert end is not None and (end.exit_code, end.cwd, end.command_id) == (0, "/", stream.command_id)
    assert (session.exec("echo $kept")).stdout == "1\n"


def test_terminal(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/connect", [0, 200, 5_000, 60_000, 100_000, 40])
    command = "stty raw -echo; for n in 1 2 3 4 5 6; do head -c 50021 /dev/urandom | tee -a /tmp/out; sleep 0.02; done"
    terminal = far.terminal(command)
    got = b"".join([piece for piece in terminal])
    assert proxy.cuts == 6 and terminal.dropped == 0
    assert terminal.exit is not None and terminal.exit.exit_code == 0
    assert got == sandbox.files.read_bytes("/tmp/out")


def test_terminal_typed_at_between_cuts(through: Through) -> None:
    far, proxy = through
    with far.terminal(["bash", "--norc"], env={"PS1": ""}) as terminal:
        for number in range(6):
            # The rest is written when the connection is gone, so that the reader must have found another.
            rest = f"echo n$((100 + {number})); read; head -c 3000 /dev/zero | tr '\\0' x; echo en''d\n"
            terminal.write(rest)
            terminal.read_until(f"n{100 + number}\r\n", timeout=PATIENCE)
            proxy.cut_now()
            with far.get_terminal(terminal.id) as other:
                other.write("\n")
            assert (
                terminal.read_until("end\r\n", timeout=PATIENCE) == b"\r\n" + b"x" * 3000 + b"end\r\n"
            )
        assert terminal.reconnects >= 5


def test_typing_finds_another_connection(through: Through) -> None:
    far, proxy = through
    with far.terminal("read x; echo got:$x; read y; echo got:$y") as terminal:
        # Nothing is sent before the connection is there, so that looking for it may be repeated.
        proxy.cut("/connect", [0, 10, 50])
        terminal.write("one\n")
        assert proxy.cuts == 3
        terminal.read_until("got:one", timeout=PATIENCE)
        terminal.write("two\n")
        terminal.read_until("got:two", timeout=PATIENCE)


def test_file_content(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    sandbox.exec("head -c 1000000 /dev/urandom > big", check=True)
    proxy.cut("/files/content", [0, 100, 300_000, 1, 400_000, 50_000])
    got = far.files.read_bytes("big")
    assert proxy.cuts == 6 and got == sandbox.files.read_bytes("big")


def test_file_that_changes_in_between(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    sandbox.files.write("big", b"a" * 1_000_000)
    proxy.cut("/files/content", [100_000])
    reader = far.files.read_stream("big")
    assert reader.next()
    sandbox.files.write("big", b"b" * 1_000_000)
    with pytest.raises(ConnectionFailed, match="changed while it was read"):
        while reader.next():
            pass


def test_a_write_is_whole(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/files/content", [0, 10, 0, 0, 0])
    far.files.write("whole", b"x" * 300_000)
    assert proxy.cuts == 5 and (sandbox.files.stat("whole")).size == 300_000


def test_exec_runs_once(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/exec", [0, 20, 100, 0, 50])
    result = far.exec("echo run >> /tmp/runs; echo done")
    assert proxy.cuts == 5 and result.stdout == "done\n"
    assert sandbox.files.read_text("/tmp/runs") == "run\n"


def test_input_is_written_once(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    process = far.start_process("cat > /tmp/in", stdin_open=True)
    data = bytes(range(256)) * 1000
    proxy.cut("/stdin?", [0, 10, 0, 0, 30])
    process.write(data)
    assert proxy.cuts == 5
    process.write(b"end")
    process.close_stdin()
    process.wait()
    assert sandbox.files.read_bytes("/tmp/in") == data + b"end"


def test_code_runs_once(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    context = far.create_context("python")
    proxy.cut("/run HTTP", [0, 60, 400, 2_000, 700, 3_000])
    code = "open('/tmp/runs', 'a').write('run\\n')\nfor n in range(3000): print(n, 'é', flush=True)\n40 + 2"
    run = context.run_stream(code)
    items = [item for item in run]
    text = "".join(item.text for item in items if isinstance(item, CodeOutput))
    assert proxy.cuts == 6
    assert text == "".join(f"{n} é\n" for n in range(3000))
    assert run.end is not None and run.end.status == "ok"
    assert sandbox.files.read_text("/tmp/runs") == "run\n"


def test_watch(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    sandbox.files.mkdir("watched")
    # Set before it begins, so that the connection on which it begins is cut too, by what it tells.
    proxy.cut("/files/watch", [2_000, 300, 1_000, 0, 1_500])
    with far.files.watch("watched") as watch:
        assert proxy.cuts == 0
        names = [f"file-{number}" for number in range(40)]

        def write() -> None:
            for name in names:
                sandbox.files.write(f"watched/{name}", "")

        def read() -> list[str]:
            made: list[str] = []
            for event in watch:
                assert isinstance(event, FileEvent), event
                if event.change == "created" and event.path.rsplit("/", 1)[-1].startswith("file-"):
                    made.append(event.path.rsplit("/", 1)[-1])
                if len(made) == len(names):
                    break
            return made

        _, made = together(write, read)
        assert proxy.cuts == 5 and made == names


def test_events(sandbox: Sandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/events", [0, 300, 900, 100, 1_500])
    started = [(sandbox.start_process("true")).id for _ in range(20)]
    seen: list[str | None] = []
    with far.events(from_=0, types=["process_started"]) as events:
        while len(seen) < len(started):
            event = events.next()
            seen.append(getattr(event, "process", None))
    assert proxy.cuts == 5 and seen == started


def test_giving_up(sandbox: Sandbox, live: Live) -> None:
    process = sandbox.start_process("sleep 100")
    with CuttingProxy(live.url) as proxy:
        with Hub(proxy.url, live.token, max_retries=2) as hub:
            far = (Sandbox.connect(sandbox.id, hub=hub)).get_process(process.id)
            proxy.cut("/", [0] * 100)
            with pytest.raises(ConnectionFailed):
                far.logs().next()
            assert proxy.cuts == 3
            with pytest.raises(ConnectionFailed):
                far.refresh()
            assert proxy.cuts == 6
    process.kill(grace=0)
