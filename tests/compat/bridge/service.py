"""The server under test, and sandboxes of it: through the SDK, and as plain HTTP."""

import asyncio
import base64
import io
import json
import os
from contextlib import asynccontextmanager

import aiohttp
from agents.extensions.sandbox.cloudflare import (
    CloudflareSandboxClient,
    CloudflareSandboxClientOptions,
)

URL = os.environ["SANDSHELL_URL"]
BRIDGE = URL + "/bridge"
# A resumed session takes it from there.
TOKEN = os.environ["CLOUDFLARE_SANDBOX_API_KEY"]
# Opens one sandbox, and makes none.
NARROW_TOKEN = os.environ["NARROW_TOKEN"]

# The longest that anything here waits for something that should come.
PATIENCE = 150


def patient_client():
    """The SDK's client. By itself it gives a command 30 s, as long as a machine may stand still."""
    return CloudflareSandboxClient(exec_timeout_s=PATIENCE, request_timeout_s=PATIENCE)


def options(token=TOKEN, url=BRIDGE):
    return CloudflareSandboxClientOptions(worker_url=url, api_key=token)


@asynccontextmanager
async def sandbox(**settings):
    """A session of the SDK, started, which is gone afterwards."""
    client = patient_client()
    session = await client.create(options=options(), **settings)
    try:
        await session.start()
        yield session
    finally:
        await client.delete(session)


def inner(session):
    """What the SDK wraps: it has the routes of the bridge as methods."""
    return session._inner


def sandbox_id(session):
    return session.state.sandbox_id


async def run(session, command, **settings):
    """The output of a command that succeeds."""
    result = await session.exec(command, **settings)
    assert result.exit_code == 0, (command, result.exit_code, result.stdout, result.stderr)
    return result.stdout


async def gone(session, pid):
    """Waits until a process of the sandbox is no more."""
    await run(session, f"timeout {PATIENCE} tail --pid={int(pid)} -f /dev/null", timeout=PATIENCE)


class Raw:
    """Plain HTTP, for what the SDK does not say."""

    def __init__(self, token=TOKEN, base=BRIDGE):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.base = base
        self.http = aiohttp.ClientSession(
            headers=headers, timeout=aiohttp.ClientTimeout(total=PATIENCE)
        )

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.http.close()

    async def ask(self, method, path, **settings):
        """Status and body, as JSON where it is."""
        from yarl import URL as Address

        address = Address(self.base + path, encoded=True)
        async with self.http.request(method, address, **settings) as reply:
            body = await reply.read()
            try:
                return reply.status, json.loads(body)
            except ValueError:
                return reply.status, body

    async def events(self, id, argv, session=None, **fields):
        """The events of a command, as they come."""
        headers = {"Session-Id": session} if session else {}
        path = f"{self.base}/v1/sandbox/{id}/exec"
        async with self.http.post(path, json={"argv": argv, **fields}, headers=headers) as reply:
            assert reply.status == 200, (reply.status, await reply.text())
            assert reply.content_type == "text/event-stream", reply.content_type
            name = None
            async for line in reply.content:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                    if name in ("stdout", "stderr"):
                        yield name, base64.b64decode(data)
                    else:
                        yield name, json.loads(data)

    async def exec(self, id, argv, **settings):
        """Standard output and the last event."""
        stdout = b""
        last = None
        async for name, data in self.events(id, argv, **settings):
            if name == "stdout":
                stdout += data
            last = (name, data)
        return stdout, last


def stream(content):
    return io.BytesIO(content)


def in_time(work):
    return asyncio.wait_for(work, PATIENCE)
