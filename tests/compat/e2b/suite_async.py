"""The asynchronous client of the same package, where it differs: its streams are its own."""

import asyncio
import os
import time
import traceback
from functools import partial

from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    SandboxNotFoundException,
    SandboxNotRunningException,
    SandboxQuery,
    TimeoutException,
)
from e2b_code_interpreter import AsyncSandbox as AsyncCodeSandbox

from checks import PATIENCE, leave, patient

CROWD = 20


async def fails(kind, work):
    try:
        await work
    except Exception as error:
        assert type(error) is kind, f"{kind.__name__} was due, not {error!r}"
        return error
    raise AssertionError(f"{kind.__name__} was due")


async def commands(sandbox):
    ran = await sandbox.commands.run("echo out; echo err >&2; pwd", envs={"A": "1"}, cwd="/tmp")
    assert (ran.stdout, ran.stderr) == ("out\n/tmp\n", "err\n")
    failed = await fails(CommandExitException, sandbox.commands.run("exit 9"))
    assert failed.exit_code == 9
    first = asyncio.Event()
    seen = []

    def told(text):
        seen.append(text)
        first.set()

    handle = await sandbox.commands.run(
        "echo one; read x; echo $x; cat", background=True, stdin=True, on_stdout=told
    )
    await first.wait()
    assert seen == ["one\n"]
    await handle.send_stdin("two\n")
    handle_again = await sandbox.commands.connect(handle.pid)
    async with sandbox.commands.stream_input(handle.pid) as keys:
        await keys.send("three ")
        await keys.send(b"four\n")
    await handle.close_stdin()
    for each in (handle, handle_again):
        assert (await each.wait()).stdout == "one\ntwo\nthree four\n"
    handle = await sandbox.commands.run("sleep 86391 & echo up; wait", background=True, timeout=0)
    assert await handle.kill() is True
    await fails(CommandExitException, handle.wait())
    assert (await sandbox.commands.run("pgrep -f '[s]leep 86391' || true")).stdout == ""
    assert await handle.kill() is False
    await fails(TimeoutException, sandbox.commands.run("sleep 86390", timeout=0.3))
    at_once = [sandbox.commands.run(f"echo {n}") for n in range(10)]
    assert [ran.stdout for ran in await asyncio.gather(*at_once)] == [f"{n}\n" for n in range(10)]


async def files(sandbox):
    fs = sandbox.files
    every = bytes(range(256)) * 1000
    await fs.write("every", every)
    assert bytes(await fs.read("every", format="bytes")) == every
    pieces = [piece async for piece in await fs.read("every", format="stream")]
    assert b"".join(pieces) == every
    assert await fs.make_dir("dir") is True and await fs.make_dir("dir") is False
    await fs.write("dir/a", "text")
    assert [one.name for one in await fs.list("dir")] == ["a"]
    assert await fs.exists("dir/a")
    await fs.remove("dir")
    assert not await fs.exists("dir")


async def watching(sandbox):
    fs = sandbox.files
    await fs.make_dir("seen")
    events = asyncio.Queue()
    ended = asyncio.Event()
    handle = await fs.watch_dir("seen", events.put_nowait, on_exit=lambda _: ended.set(), recursive=True)
    await fs.write("seen/a", "1")
    event = await events.get()
    assert (event.type, event.name) == (FilesystemEventType.CREATE, "a")
    await fs.rename("seen/a", "seen/b")
    while event.type != FilesystemEventType.RENAME:
        event = await events.get()
    event = await events.get()
    assert (event.type, event.name) == (FilesystemEventType.CREATE, "b")
    await handle.stop()
    await ended.wait()


# Before it says this, bash reads the size of its terminal and sets it again: a change in between would be lost.
PROMPTED = b"\x1b[?2004h"


async def terminal(sandbox):
    text = bytearray()
    prompted = asyncio.Event()

    def shown(data):
        text.extend(data)
        if PROMPTED in text:
            prompted.set()

    handle = await sandbox.pty.create(PtySize(rows=20, cols=70), on_data=shown)
    await prompted.wait()
    await sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=100))
    await sandbox.pty.send_stdin(handle.pid, b"stty size; exit 4\n")
    ended = await fails(CommandExitException, handle.wait())
    assert ended.exit_code == 4 and b"30 100\r\n" in text, (ended.exit_code, bytes(text))


async def errors(sandbox):
    await fails(SandboxNotFoundException, AsyncSandbox.connect("sb-nobody", request_timeout=PATIENCE))
    await fails(AuthenticationException, AsyncSandbox.create(api_key="e2b_wrong", request_timeout=PATIENCE))
    await fails(FileNotFoundException, sandbox.files.read("none"))
    await fails(FileNotFoundException, sandbox.files.list("none"))
    await fails(InvalidArgumentException, sandbox.files.read("/tmp"))
    await fails(InvalidArgumentException, sandbox.commands.run("true", cwd="/nowhere"))
    await fails(NotFoundException, sandbox.commands.send_stdin(2_000_000, "x"))
    await fails(AuthenticationException, sandbox.commands.run("true", user="nobody-here"))


async def lifecycle(sandbox):
    made = patient(await AsyncSandbox.create(metadata={"of": sandbox.sandbox_id}, request_timeout=PATIENCE))
    query = SandboxQuery(metadata={"of": sandbox.sandbox_id})
    listed = AsyncSandbox.list(query=query, request_timeout=PATIENCE)
    assert [one.sandbox_id for one in await listed.next_items()] == [made.sandbox_id]
    if "MUST_PAUSE" in os.environ:
        await made.pause()
        assert not await made.is_running()
        await fails(SandboxNotRunningException, made.commands.run("true"))
        await made.connect()
    waiting = await made.commands.run("sleep 86389", background=True, timeout=0)
    assert await made.kill() is True
    await fails(SandboxNotRunningException, waiting.wait())
    assert await made.kill() is False


async def code(sandbox):
    sandbox = await AsyncCodeSandbox.connect(sandbox.sandbox_id, request_timeout=PATIENCE)
    assert (await sandbox.run_code("a = 6; a * 7")).text == "42"
    context = await sandbox.create_code_context(language="javascript")
    ran = await sandbox.run_code("console.log('js'); 5", context=context)
    assert ran.text == "5" and ran.logs.stdout == ["js\n"]
    await sandbox.remove_code_context(context)
    await fails(TimeoutException, sandbox.run_code("while True: pass", timeout=0.5))
    assert (await sandbox.run_code("a")).text == "6"


ALL = [commands, files, watching, terminal, errors, lifecycle, code]


async def client(number):
    sandbox = patient(await AsyncSandbox.create(timeout=900, request_timeout=PATIENCE))
    # The other client's watches have no end.
    sandbox.files.watch_dir = partial(sandbox.files.watch_dir, timeout=PATIENCE)
    good = True
    try:
        for check in ALL:
            began = time.monotonic()
            try:
                await check(sandbox)
            except Exception:
                good = False
                print(f"FAILED {check.__name__} of client {number}\n{traceback.format_exc()}", flush=True)
            else:
                if number is None:
                    print(f"ok {check.__name__} {time.monotonic() - began:.2f} s", flush=True)
    finally:
        await sandbox.kill()
    return good


async def main():
    good = [await client(None)]
    began = time.monotonic()
    good += await asyncio.gather(*[client(number) for number in range(CROWD)])
    print(f"{CROWD} clients at once: {time.monotonic() - began:.1f} s")
    return 0 if all(good) else 1


leave(asyncio.run(main()))
