"""Streams and calls whose connections are cut: nothing is lost, nothing comes twice, nothing runs twice.

Each test has five cuts at the least, at places where they hurt: before the answer, inside its head, inside an
event, after much. The oracle is the file that the command wrote beside its output.
"""

from __future__ import annotations

import pytest

from cutting_proxy import CuttingProxy
from live import PATIENCE, Live
from sandshell import AsyncHub, AsyncSandbox, CodeOutput, ConnectionFailed
from sandshell.models import FileEvent

from ._io import together

pytestmark = pytest.mark.anyio

CUTS = [0, 90, 1_000, 20_000, 70_000, 3, 150_000]
Through = tuple[AsyncSandbox, CuttingProxy]

# Bytes of every value on both streams, in many pieces, some with pauses between.
NOISE = """
for n in 1 2 3 4 5 6 7 8; do
  head -c 30011 /dev/urandom | tee -a /tmp/out
  head -c 10007 /dev/urandom | tee -a /tmp/err >&2
  sleep 0.02
done
"""


async def test_process_output(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    process = await far.start_process(NOISE)
    proxy.cut("/output", list(CUTS))
    got = {"stdout": b"", "stderr": b""}
    logs = process.logs()
    async for piece in logs:
        assert piece.offset == len(got[piece.stream]) and piece.dropped == 0
        got[piece.stream] += piece.data
    assert proxy.cuts == len(CUTS)
    assert logs.exit is not None and logs.exit.exit_code == 0
    assert got["stdout"] == await sandbox.files.read_bytes("/tmp/out")
    assert got["stderr"] == await sandbox.files.read_bytes("/tmp/err")


async def test_text_over_cuts(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    stream = far.exec_stream('for n in $(seq 2000); do echo "$n äöü€𝄞"; done | tee /tmp/out')
    proxy.cut("/output", [500, 5_000, 30, 17_777, 9_000])
    text = "".join([piece.text async for piece in stream])
    assert proxy.cuts == 5
    assert text == await sandbox.files.read_text("/tmp/out") and "\N{REPLACEMENT CHARACTER}" not in text


async def test_session_stream(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    session = await far.create_session("cut")
    await session.exec("cd /tmp; kept=1")
    # The first two are of the request that runs the command, which must then not run again.
    proxy.cut("/sessions/cut/", list(CUTS))
    stream = session.exec_stream("echo run >> /tmp/runs; cd /; " + NOISE)
    got = {"stdout": b"", "stderr": b""}
    async for piece in stream:
        got[piece.stream] += piece.data
    assert proxy.cuts == len(CUTS)
    assert got["stdout"] == await sandbox.files.read_bytes("/tmp/out")
    assert got["stderr"] == await sandbox.files.read_bytes("/tmp/err")
    assert await sandbox.files.read_text("/tmp/runs") == "run\n"
    end = stream.exit
    assert end is not None and (end.exit_code, end.cwd, end.command_id) == (0, "/", stream.command_id)
    assert (await session.exec("echo $kept")).stdout == "1\n"


async def test_terminal(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/connect", [0, 200, 5_000, 60_000, 100_000, 40])
    command = "stty raw -echo; for n in 1 2 3 4 5 6; do head -c 50021 /dev/urandom | tee -a /tmp/out; sleep 0.02; done"
    terminal = await far.terminal(command)
    got = b"".join([piece async for piece in terminal])
    assert proxy.cuts == 6 and terminal.dropped == 0
    assert terminal.exit is not None and terminal.exit.exit_code == 0
    assert got == await sandbox.files.read_bytes("/tmp/out")


async def test_terminal_typed_at_between_cuts(through: Through) -> None:
    far, proxy = through
    async with await far.terminal(["bash", "--norc"], env={"PS1": ""}) as terminal:
        for number in range(6):
            # The rest is written when the connection is gone, so that the reader must have found another.
            rest = f"echo n$((100 + {number})); read; head -c 3000 /dev/zero | tr '\\0' x; echo en''d\n"
            await terminal.write(rest)
            await terminal.read_until(f"n{100 + number}\r\n", timeout=PATIENCE)
            proxy.cut_now()
            async with await far.get_terminal(terminal.id) as other:
                await other.write("\n")
            assert (
                await terminal.read_until("end\r\n", timeout=PATIENCE) == b"\r\n" + b"x" * 3000 + b"end\r\n"
            )
        assert terminal.reconnects >= 5


async def test_typing_finds_another_connection(through: Through) -> None:
    far, proxy = through
    async with await far.terminal("read x; echo got:$x; read y; echo got:$y") as terminal:
        # Nothing is sent before the connection is there, so that looking for it may be repeated.
        proxy.cut("/connect", [0, 10, 50])
        await terminal.write("one\n")
        assert proxy.cuts == 3
        await terminal.read_until("got:one", timeout=PATIENCE)
        await terminal.write("two\n")
        await terminal.read_until("got:two", timeout=PATIENCE)


async def test_file_content(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    await sandbox.exec("head -c 1000000 /dev/urandom > big", check=True)
    proxy.cut("/files/content", [0, 100, 300_000, 1, 400_000, 50_000])
    got = await far.files.read_bytes("big")
    assert proxy.cuts == 6 and got == await sandbox.files.read_bytes("big")


async def test_file_that_changes_in_between(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    await sandbox.files.write("big", b"a" * 1_000_000)
    proxy.cut("/files/content", [100_000])
    reader = far.files.read_stream("big")
    assert await reader.next()
    await sandbox.files.write("big", b"b" * 1_000_000)
    with pytest.raises(ConnectionFailed, match="changed while it was read"):
        while await reader.next():
            pass


async def test_a_write_is_whole(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/files/content", [0, 10, 0, 0, 0])
    await far.files.write("whole", b"x" * 300_000)
    assert proxy.cuts == 5 and (await sandbox.files.stat("whole")).size == 300_000


async def test_exec_runs_once(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/exec", [0, 20, 100, 0, 50])
    result = await far.exec("echo run >> /tmp/runs; echo done")
    assert proxy.cuts == 5 and result.stdout == "done\n"
    assert await sandbox.files.read_text("/tmp/runs") == "run\n"


async def test_input_is_written_once(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    process = await far.start_process("cat > /tmp/in", stdin_open=True)
    data = bytes(range(256)) * 1000
    proxy.cut("/stdin?", [0, 10, 0, 0, 30])
    await process.write(data)
    assert proxy.cuts == 5
    await process.write(b"end")
    await process.close_stdin()
    await process.wait()
    assert await sandbox.files.read_bytes("/tmp/in") == data + b"end"


async def test_code_runs_once(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    context = await far.create_context("python")
    proxy.cut("/run HTTP", [0, 60, 400, 2_000, 700, 3_000])
    code = "open('/tmp/runs', 'a').write('run\\n')\nfor n in range(3000): print(n, 'é', flush=True)\n40 + 2"
    run = context.run_stream(code)
    items = [item async for item in run]
    text = "".join(item.text for item in items if isinstance(item, CodeOutput))
    assert proxy.cuts == 6
    assert text == "".join(f"{n} é\n" for n in range(3000))
    assert run.end is not None and run.end.status == "ok"
    assert await sandbox.files.read_text("/tmp/runs") == "run\n"


async def test_watch(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    await sandbox.files.mkdir("watched")
    # Set before it begins, so that the connection on which it begins is cut too, by what it tells.
    proxy.cut("/files/watch", [2_000, 300, 1_000, 0, 1_500])
    async with await far.files.watch("watched") as watch:
        assert proxy.cuts == 0
        names = [f"file-{number}" for number in range(40)]

        async def write() -> None:
            for name in names:
                await sandbox.files.write(f"watched/{name}", "")

        async def read() -> list[str]:
            made: list[str] = []
            async for event in watch:
                assert isinstance(event, FileEvent), event
                if event.change == "created" and event.path.rsplit("/", 1)[-1].startswith("file-"):
                    made.append(event.path.rsplit("/", 1)[-1])
                if len(made) == len(names):
                    break
            return made

        _, made = await together(write, read)
        assert proxy.cuts == 5 and made == names


async def test_events(sandbox: AsyncSandbox, through: Through) -> None:
    far, proxy = through
    proxy.cut("/events", [0, 300, 900, 100, 1_500])
    started = [(await sandbox.start_process("true")).id for _ in range(20)]
    seen: list[str | None] = []
    async with far.events(from_=0, types=["process_started"]) as events:
        while len(seen) < len(started):
            event = await events.next()
            seen.append(getattr(event, "process", None))
    assert proxy.cuts == 5 and seen == started


async def test_giving_up(sandbox: AsyncSandbox, live: Live) -> None:
    process = await sandbox.start_process("sleep 100")
    with CuttingProxy(live.url) as proxy:
        async with AsyncHub(proxy.url, live.token, max_retries=2) as hub:
            far = await (await AsyncSandbox.connect(sandbox.id, hub=hub)).get_process(process.id)
            proxy.cut("/", [0] * 100)
            with pytest.raises(ConnectionFailed):
                await far.logs().next()
            assert proxy.cuts == 3
            with pytest.raises(ConnectionFailed):
                await far.refresh()
            assert proxy.cuts == 6
    await process.kill(grace=0)
