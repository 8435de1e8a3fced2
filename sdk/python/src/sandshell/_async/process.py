"""Processes: what runs by itself and is looked at from outside."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal, Self

from .. import params
from .._decode import decode
from .._wire import Seconds, milliseconds, segment
from ..errors import ConnectionFailed, ProcessEnded, ProcessExited, ProcessNotFound, StdinOffset, WaitTimeout
from ..models import KillReply, ProcessRecord, SignalReply, StdinReply, WaitReply
from .stream import AsyncEventSource, AsyncOutputStream
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .sandbox import AsyncComputer

EXIT = frozenset({"exit"})


class AsyncProcess:
    """A process in a sandbox. As a context manager, one that was started here is killed at the end."""

    def __init__(self, computer: AsyncComputer, record: ProcessRecord, *, owned: bool) -> None:
        self._transport: AsyncTransport = computer._transport
        self._base = computer._base
        self._path = f"{computer._base}/processes/{segment(record.id)}"
        self._owned = owned
        # Known from the start for a process of ours; else after the first write.
        self._stdin_offset = 0 if owned else None
        self.record: ProcessRecord = record
        """What was last heard of it; `refresh` asks again."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def pid(self) -> int:
        """Its pid in the sandbox."""
        return self.record.pid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.record.state}>"

    async def refresh(self) -> ProcessRecord:
        """Asks for its record."""
        self.record = await self._transport.get(ProcessRecord, self._path)
        return self.record

    # ── Output ───────────────────────────────────────────────────────────────────────────────────

    def logs(
        self,
        *,
        stream: Literal["stdout", "stderr"] | None = None,
        follow: bool = True,
    ) -> AsyncOutputStream:
        """What it has written and writes, from the start; both streams in order of arrival.

        Each byte comes once, over lost connections too. Ends with the process, and `exit` is then set;
        with `follow=False` ends with what there is now.
        """
        last = EXIT
        query = {"stream": stream, "follow": None if follow else False}
        source = AsyncEventSource(
            self._transport, f"{self._path}/output", params=query, last=last, ends_alone=not follow
        )
        return AsyncOutputStream(source)

    def __aiter__(self) -> AsyncOutputStream:
        return self.logs()

    async def lines(self, *, stream: Literal["stdout", "stderr"] | None = None) -> AsyncIterator[str]:
        """Its output as lines of text, without their ends; of both streams, or one."""
        rest = {"stdout": "", "stderr": ""}
        async with self.logs(stream=stream) as logs:
            async for piece in logs:
                *whole, rest[piece.stream] = re.split(r"\r?\n", rest.get(piece.stream, "") + piece.text)
                for line in whole:
                    yield line
        for line in rest.values():
            if line:
                yield line

    async def read(self, stream: Literal["stdout", "stderr"] = "stdout", *, offset: int = 0) -> bytes:
        """The bytes of one stream that there are now."""
        response = await self._transport.send(
            "GET", f"{self._path}/output", params={"stream": stream, "offset": offset}
        )
        return response.content

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────

    async def wait(self, timeout: Seconds | None = None) -> ProcessRecord:
        """Waits for its end. `WaitTimeout` after `timeout`; the process goes on then."""
        return (await self._wait({"exit": True}, timeout, "it to end")).process

    async def wait_for_exit(self, timeout: Seconds | None = None) -> ProcessRecord:
        """The same as `wait`."""
        return await self.wait(timeout)

    async def wait_for_log(
        self,
        pattern: str,
        *,
        regex: bool = False,
        stream: Literal["stdout", "stderr"] | None = None,
        timeout: Seconds | None = None,
    ) -> str:
        """Waits for a line with `pattern` in its output, also one that is there already; gives that line.

        `ProcessExited` if it ends without.
        """
        log: params.LogCondition = {"pattern": pattern, "regex": regex}
        if stream is not None:
            log["stream"] = stream
        reply = await self._wait({"log": log}, timeout, f"the output {pattern!r}")
        if reply.outcome == "exit":
            raise ProcessExited(f"process {self.id} ended without writing {pattern!r}", reply.process)
        return reply.line or ""

    async def wait_for_port(
        self, port: int, *, http: params.HttpCheck | None = None, timeout: Seconds | None = None
    ) -> None:
        """Waits until `port` takes connections, or gives the HTTP answer that `http` tells.

        `ProcessExited` if the process ends before.
        """
        condition: params.PortCondition = {"port": port}
        if http is not None:
            condition["http"] = http
        reply = await self._wait({"port": condition}, timeout, f"port {port}")
        if reply.outcome == "exit":
            raise ProcessExited(f"process {self.id} ended before port {port} answered", reply.process)

    async def _wait(self, body: params.WaitRequest, timeout: Seconds | None, what: str) -> WaitReply:
        body["timeout_ms"] = milliseconds(timeout)
        reply = await self._transport.post(WaitReply, f"{self._path}/wait", body, long=True)
        self.record = reply.process
        if reply.timed_out:
            raise WaitTimeout(f"waited for {what} in vain (process {self.id}, {timeout} s)")
        return reply

    # ── Input and end ────────────────────────────────────────────────────────────────────────────

    async def write(self, data: str | bytes, *, offset: int | None = None) -> int:
        """Writes to its standard input (`stdin_open=True`), each byte once, over lost connections too.

        Gives the number of bytes it has been sent so far. `offset` is that number before the write, which
        is known here unless somebody else writes as well.
        """
        left = data.encode() if isinstance(data, str) else data
        lost = 0
        if offset is None:
            offset = self._stdin_offset
        while True:
            try:
                reply = await self._transport.json(
                    "POST",
                    f"{self._path}/stdin",
                    params={"offset": offset},
                    content=left,
                    headers={"content-type": "application/octet-stream"},
                    long=True,
                    once=True,
                )
            except ConnectionFailed:
                lost += 1
                if offset is None or lost > self._transport.max_retries:
                    raise
                await self._transport.pause(lost)
                continue
            except StdinOffset as error:
                # What a lost request brought through is not written again.
                expected = error.problem.get("expected_offset")
                if not lost or offset is None or not isinstance(expected, int):
                    raise
                if not offset <= expected <= offset + len(left):
                    raise
                left, offset = left[expected - offset :], expected
                if left:
                    continue
                self._stdin_offset = offset
                return offset
            self._stdin_offset = decode(StdinReply, reply).offset
            return self._stdin_offset

    async def close_stdin(self) -> int:
        """Ends its standard input; how many bytes it was sent."""
        return (await self._transport.post(StdinReply, f"{self._path}/stdin/close")).offset

    async def signal(
        self, signal: str | int, *, scope: Literal["process", "group", "tree"] | None = None
    ) -> SignalReply:
        """Sends a signal, such as `"HUP"`, to the process, its group or its whole tree."""
        body: params.SignalRequest = {"signal": str(signal), "scope": scope}
        return await self._transport.post(SignalReply, f"{self._path}/signal", body)

    async def kill(self, *, grace: Seconds | None = None) -> KillReply:
        """Ends the whole tree: TERM, after `grace` (5 s) KILL. When it returns, nothing of it runs."""
        body: params.KillRequest = {"grace_ms": milliseconds(grace)}
        return await self._transport.post(KillReply, f"{self._path}/kill", body, long=True)

    async def delete(self) -> KillReply:
        """Kills the tree at once and forgets the process with its output."""
        return await self._transport.delete(KillReply, self._path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._owned:
            try:
                await self.kill(grace=0)
            except (ProcessNotFound, ProcessEnded):
                pass
