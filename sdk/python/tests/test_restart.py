"""A hub that is killed and started again in the middle of everything: clients go on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from live import PATIENCE, binary, isolation, ready, short_home
from sandshell import AsyncHub, AsyncSandbox


class Restartable:
    """A hub at one address and on one directory, however often it is started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        arguments = [binary(), "serve", "--listen", self.address, "--state-dir", str(self.home / "state")]
        arguments += ["--token-file", str(self.home / "token"), "--ready-file", str(self.home / "ready")]
        with open(self.home / "log", "ab") as log:
            command = [*arguments, "--destroy-on-exit"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        ready(self.process, self.home / "ready")

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        (self.home / "ready").unlink()

    def end(self) -> None:
        # One that was killed has left its sandboxes behind; the next one ends them.
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture
def hub() -> Iterator[Restartable]:
    with short_home() as home:
        made = Restartable(home)
        made.start()
        try:
            yield made
        finally:
            made.end()


@pytest.mark.anyio
async def test_everything_goes_on(hub: Restartable) -> None:
    token = (hub.home / "token").read_text().strip()
    noise = "for n in $(seq 40); do head -c 5003 /dev/urandom | tee -a /tmp/{0}; sleep 0.02; done"
    async with (
        # It goes on asking for minutes, however late the hub comes again.
        AsyncHub(f"http://{hub.address}", token, max_retries=100) as client,
        await AsyncSandbox.create("survivor", hub=client, isolation=isolation()) as sandbox,
    ):
        process = await sandbox.start_process(noise.format("process"))
        session = await sandbox.create_session()
        # Without echo: noise may hold a question to the terminal, whose answer would be shown.
        terminal = await sandbox.terminal("stty raw -echo; " + noise.format("terminal"))
        begun = [asyncio.Event() for _ in range(3)]

        async def of_process() -> bytes:
            got = b""
            async for piece in process.logs():
                got += piece.data
                begun[0].set()
            return got

        async def of_session() -> bytes:
            got = b""
            async for piece in session.exec_stream(noise.format("session")):
                got += piece.data
                begun[1].set()
            return got

        async def of_terminal() -> bytes:
            got = b""
            async for piece in terminal:
                got += piece
                begun[2].set()
            return got

        async def of_exec() -> str:
            return (await sandbox.exec("echo ran >> /tmp/ran; sleep 0.5; echo done")).stdout

        async def restart() -> None:
            for each in begun:
                await each.wait()
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)

        streams = (of_process(), of_session(), of_terminal(), of_exec(), restart())
        *outputs, done, _ = await asyncio.gather(*streams)
        for name, output in zip(("process", "session", "terminal"), outputs, strict=True):
            assert output == await sandbox.files.read_bytes(f"/tmp/{name}"), name
        assert done == "done\n" and await sandbox.files.read_text("/tmp/ran") == "ran\n"
