"""Commands, sessions and terminals."""

import asyncio
import hashlib
import json

import aiohttp
from agents.sandbox import ExecTimeoutError
from agents.sandbox.errors import PtySessionNotFoundError

from service import BRIDGE, PATIENCE, TOKEN, Raw, gone, in_time, inner, run, sandbox_id, stream


async def results(session):
    """Output on both streams, byte by byte, and the exit code."""
    result = await session.exec("printf 'out\\0\\377'; printf err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\0\xff", b"err", 3)
    assert await run(session, "pwd") == b"/workspace\n"
    # There is no standard input.
    assert await run(session, "cat") == b""
    # Arguments stay what they are.
    words = ["a b", "", "it's", "$HOME `id`", "new\nline", "\ttab", "ü", "*", "\\", '"']
    result = await session.exec("printf", "%s|", *words, shell=False)
    assert result.stdout.decode() == "".join(word + "|" for word in words), result.stdout
    # A signal, and what is no program.
    assert (await session.exec("kill -9 $$")).exit_code == 137
    missing = await session.exec("no-such-program", shell=False)
    assert missing.exit_code == 127 and b"not found" in missing.stderr, missing.stderr
    await session.write("plain", stream(b"text"))
    refused = await session.exec("/workspace/plain", shell=False)
    assert refused.exit_code == 126, refused.exit_code


async def much_output(session):
    """Nothing of a large output is lost, on either stream."""
    size = 8 * 1024 * 1024
    command = (
        f"head -c {size} /dev/urandom > r; cat r; tac r >&2; sha256sum < r; tac r | sha256sum >&2"
    )
    result = await session.exec(command, timeout=PATIENCE)
    for output in (result.stdout, result.stderr):
        body, digest = output[:-68], output[-68:-4]
        assert len(body) == size, len(body)
        assert hashlib.sha256(body).hexdigest().encode() == digest, digest


async def background(session):
    """A child left behind neither holds its command up nor dies with it."""
    pid = await in_time(run(session, "sleep 3600 & echo $!"))
    assert (await session.exec(f"kill -0 {int(pid)}")).exit_code == 0
    await run(session, f"kill {int(pid)}")
    await gone(session, pid)


async def live(session):
    """Output comes while the command runs."""
    command = "echo before; until [ -e /workspace/go ]; do sleep 0.02; done; echo after"
    seen = []
    async with Raw() as raw:
        async for event in raw.events(sandbox_id(session), ["sh", "-c", command]):
            seen.append(event)
            if event == ("stdout", b"before\n"):
                await session.write("go", stream(b""))
    assert seen == [
        ("stdout", b"before\n"),
        ("stdout", b"after\n"),
        ("exit", {"exit_code": 0}),
    ], seen


async def timeout(session):
    """What is over its time is ended with all it started, and is a timeout to the SDK."""
    await run(session, "touch a b")
    command = "setsid sleep 3600 & echo $! > a; sleep 3601 & echo $! > b; trap '' TERM; wait"
    # On a machine that stands still the time may be over before both are written.
    for seconds in (0.5, 5, 50):
        try:
            await session.exec(command, timeout=seconds)
            raise AssertionError("it came to an end")
        except ExecTimeoutError:
            pass
        pids = [(await session.read(name)).read() for name in ("a", "b")]
        for pid in pids:
            if pid:
                await gone(session, pid)
        if all(pids):
            return
    raise AssertionError(f"they were not started in time: {pids}")


async def given_up(session):
    """A command ends with its reader: nobody else could end it."""
    command = "sleep 3600 & echo $! > child; mv child pid; wait"
    waits = "until [ -e pid ]; do sleep 0.02; done; cat pid"
    running = asyncio.create_task(session.exec(command, timeout=3600))
    pid = await in_time(run(session, waits))
    running.cancel()
    await asyncio.wait([running])
    await gone(session, pid)


async def sessions(session):
    """The state of a session is kept, and is nobody else's."""
    id = sandbox_id(session)
    async with Raw() as raw:
        asked = {"id": "work", "cwd": "/tmp", "env": {"GREETING": "hello"}}
        made = await raw.ask("POST", f"/v1/sandbox/{id}/session", json=asked)
        assert made == (200, {"id": "work"}), made
        status, again = await raw.ask("POST", f"/v1/sandbox/{id}/session", json=asked)
        assert (status, again["code"]) == (502, "session_error"), again

        async def say(*argv, session="work", **fields):
            stdout, last = await raw.exec(id, list(argv), session=session, **fields)
            return stdout.decode(), last

        assert await say("eval", "pwd; echo $GREETING") == (
            "/tmp\nhello\n",
            ("exit", {"exit_code": 0}),
        )
        await say("cd", "/usr")
        await say("eval", 'export WORD="two words"; f() { echo "f $1"; }')
        assert (await say("eval", 'pwd; echo "$WORD"; f x'))[0] == "/usr\ntwo words\nf x\n"
        assert (await say("exit", "4"))[1] == ("exit", {"exit_code": 4})
        # Another, which is made when it is first named; and none.
        assert (await say("eval", "pwd; echo [$WORD]", session="other"))[0] == "/workspace\n[]\n"
        assert (await raw.exec(id, ["sh", "-c", "echo [$WORD]"]))[0] == b"[]\n"
        # One that is over its time does not lose its state.
        last = (await say("sleep", "3600", timeout_ms=200))[1]
        assert last[0] == "error" and last[1]["code"] == "exec_error", last
        assert (await say("pwd"))[0] == "/usr\n"
        # A working directory for one command.
        assert (await say("pwd", cwd="/workspace"))[0] == "/workspace\n"
        assert (await say("pwd"))[0] == "/usr\n"
        status, deleted = await raw.ask("DELETE", f"/v1/sandbox/{id}/session/work")
        assert status == 200 and deleted["success"] and deleted["sessionId"] == "work", deleted
        status, deleted = await raw.ask("DELETE", f"/v1/sandbox/{id}/session/work")
        assert (status, deleted["code"]) == (502, "session_error"), deleted
        status, made = await raw.ask("POST", f"/v1/sandbox/{id}/session")
        assert status == 200 and made["id"], made


async def until(update, session, text):
    """Reads a terminal until it shows a text."""
    seen = update.output
    while text not in seen:
        assert update.process_id is not None, seen
        update = await session.pty_write_stdin(
            session_id=update.process_id, chars="", yield_time_s=1
        )
        seen += update.output
    return update


async def typed(session, command):
    """A command on a terminal. The SDK waits 30 s for one and no longer, but types nothing before it is there."""
    for last in (False, True):
        try:
            return await session.pty_exec_start(command, tty=True, yield_time_s=0.25)
        except ExecTimeoutError:
            if last:
                raise


async def terminal(session):
    """A program on a terminal: input, exit code, and its end with the session's."""
    begun = await typed(session, "tty && echo READY && read name && echo GOT-$name")
    begun = await in_time(until(begun, session, b"READY\r\n"))
    update = await session.pty_write_stdin(session_id=begun.process_id, chars="bob\n")
    await in_time(until(update, session, b"GOT-bob\r\n"))
    # The shell it was typed into goes on, until it is told to end.
    ended = await session.pty_write_stdin(session_id=begun.process_id, chars="exit 7\n")
    while ended.process_id is not None:
        ended = await session.pty_write_stdin(session_id=begun.process_id, chars="")
    assert ended.exit_code == 7, ended
    try:
        await session.pty_write_stdin(session_id=begun.process_id, chars="x")
        raise AssertionError("it is still there")
    except PtySessionNotFoundError:
        pass
    # Two at once are two.
    first = await typed(session, "echo $$ > one; echo A-A; cat")
    second = await typed(session, "echo $$ > two; echo B-B; cat")
    await in_time(until(first, session, b"A-A\r\n"))
    await in_time(until(second, session, b"B-B\r\n"))
    pids = [(await session.read(name)).read() for name in ("one", "two")]
    await session.pty_terminate_all()
    for pid in pids:
        await gone(session, pid)


class Screen:
    """A terminal over a WebSocket, as the wire has it."""

    def __init__(self, socket):
        self.socket = socket
        self.seen = b""

    async def ready(self):
        while True:
            message = await self.socket.receive()
            if message.type == aiohttp.WSMsgType.TEXT:
                assert json.loads(message.data) == {"type": "ready"}, message.data
                return

    async def shows(self, text):
        while text not in self.seen:
            message = await self.socket.receive()
            assert message.type == aiohttp.WSMsgType.BINARY, (message, self.seen)
            self.seen += message.data

    async def exits(self):
        while True:
            message = await self.socket.receive()
            if message.type == aiohttp.WSMsgType.TEXT:
                return json.loads(message.data)
            assert message.type == aiohttp.WSMsgType.BINARY, (message, self.seen)


async def resizing(session):
    """The size of a terminal, and that of a session, which stays when its viewer goes."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    address = f"{BRIDGE}/v1/sandbox/{sandbox_id(session)}/pty"
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.ws_connect(address + "?cols=100&rows=30&shell=/bin/sh") as socket:
            screen = Screen(socket)
            await in_time(screen.ready())
            await socket.send_bytes(b"stty size; echo $0\n")
            await in_time(screen.shows(b"30 100\r\n/bin/sh\r\n"))
            await socket.send_str(json.dumps({"type": "resize", "cols": 90, "rows": 20}))
            # The signal of the change comes before the next line is read.
            await socket.send_bytes(b"stty size\n")
            await in_time(screen.shows(b"20 90\r\n"))
            await socket.send_bytes(b"kill -TERM $$; kill -KILL $$\n")
            assert await in_time(screen.exits()) == {"type": "exit", "code": 137, "signal": "SIGKILL"}
        named = address + "?session=desk"
        async with http.ws_connect(named) as socket:
            screen = Screen(socket)
            await in_time(screen.ready())
            await socket.send_bytes(b"echo $$ > pid; echo IS-$((40 + 2))\n")
            await in_time(screen.shows(b"IS-42\r\n"))
        pid = (await session.read("pid")).read()
        assert (await session.exec(f"kill -0 {int(pid)}")).exit_code == 0
        async with http.ws_connect(address, headers={"Session-Id": "desk"}) as socket:
            screen = Screen(socket)
            await in_time(screen.ready())
            await in_time(screen.shows(b"IS-42"))
            await socket.send_bytes(b"exit\n")
            assert await in_time(screen.exits()) == {"type": "exit", "code": 0}
    await gone(session, pid)


async def manifest_environment(session):
    """What the manifest of a session sets is there in each command."""
    value = await run(session, 'printf %s "$OF_MANIFEST"')
    assert value.decode() == inner(session).state.manifest.environment.value["OF_MANIFEST"], value


ALL = [results, much_output, background, live, timeout, given_up, sessions, terminal, resizing]
