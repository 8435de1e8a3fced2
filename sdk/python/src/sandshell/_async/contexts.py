"""Code contexts: interpreters that keep their state from run to run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Self, TypeAlias

import httpx

from .. import params
from .._decode import decode
from .._sse import SseEvent
from .._wire import Seconds, milliseconds, segment, to_bytes
from ..errors import ContextEnded, ContextNotFound, StreamBroken
from ..models import (
    ContextInterruptReply,
    ContextRecord,
    KillReply,
    RunEnd,
    RunError,
    RunOutput,
    RunReply,
    RunResult,
    Truncated,
)
from ..results import CodeOutput
from .stream import SILENCE, AsyncEvents, AsyncEventSource
from .transport import AsyncTransport

RunItem: TypeAlias = CodeOutput | RunResult | RunError | Truncated
"""What a run gives: output, values by MIME type, an error, or how much was left out."""

RESUMABLE = 9 * 60.0
"""Seconds for which a run can be asked for again; the server keeps the key for 10 minutes."""


class AsyncRun(AsyncEvents[RunItem]):
    """A run of code, as it goes: what it writes, gives and raises; then `end` is set."""

    def __init__(self, source: _AsyncRunSource) -> None:
        self._source = source
        self.end: RunEnd | None = None
        """How it ended, and what became of the context's state."""

    async def next(self) -> RunItem | None:
        """The next thing; None when the run is over."""
        while (event := await self._source.next()) is not None:
            if event.event in ("stdout", "stderr"):
                output = decode(RunOutput, event.json())
                data = to_bytes(output.data, output.encoding)
                return CodeOutput(
                    stream="stdout" if event.event == "stdout" else "stderr",
                    data=data,
                    text=data.decode("utf-8", "replace"),
                )
            if event.event == "result":
                return decode(RunResult, event.json())
            if event.event == "error":
                return decode(RunError, event.json())
            if event.event == "truncated":
                return decode(Truncated, event.json())
            if event.event == "end":
                self.end = decode(RunEnd, event.json())
        return None

    async def aclose(self) -> None:
        """Ends the reading; the run goes on."""
        await self._source.aclose()


class _AsyncRunSource(AsyncEventSource):
    """The events of a run. It is always told from its start, to whoever asks with the same key: after a
    lost connection, what has a number that was seen is passed over."""

    def __init__(self, transport: AsyncTransport, context: str, body: params.RunRequest) -> None:
        super().__init__(transport, f"{context}/run", last=frozenset({"end"}))
        self._body = body
        self._key = uuid.uuid4().hex
        self._begun: float | None = None

    async def _ask(self) -> httpx.Response:
        now = time.monotonic()
        if self._begun is not None and now - self._begun > RESUMABLE:
            raise StreamBroken("the run was lost, and asking for it again could run the code twice")
        self._begun = self._begun or now
        return await self.transport.send(
            "POST",
            self.path,
            body=self._body,
            headers={"accept": "text/event-stream"},
            silence=SILENCE,
            key=self._key,
            stream=True,
            retries=0,
        )

    async def _event(self) -> SseEvent | None:
        while (event := await super()._event()) is not None:
            if event.id is None or self.last_id is None or int(event.id) > int(self.last_id):
                return event
        return None


class AsyncContext:
    """An interpreter. As a context manager, one that was made here is deleted at the end."""

    def __init__(self, transport: AsyncTransport, base: str, record: ContextRecord, *, owned: bool) -> None:
        self._transport = transport
        self._path = f"{base}/contexts/{segment(record.id)}"
        self._owned = owned
        self.record: ContextRecord = record
        """What was last heard of it; `refresh` asks again."""

    @property
    def id(self) -> str:
        return self.record.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.record.language}>"

    async def refresh(self) -> ContextRecord:
        """Asks for its record."""
        self.record = await self._transport.get(ContextRecord, self._path)
        return self.record

    async def run(
        self,
        code: str,
        *,
        env: Mapping[str, str | None] | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
    ) -> RunReply:
        """Runs code and waits for all it gives. An error in the code is in `error`, not raised."""
        body = _body(code, env, timeout)
        body["max_output_bytes"] = max_output_bytes
        body["encoding"] = "utf8"
        return await self._transport.post(RunReply, f"{self._path}/run", body, long=True)

    def run_stream(
        self,
        code: str,
        *,
        env: Mapping[str, str | None] | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncRun:
        """Runs code and gives what comes of it as it comes; it starts with the first read."""
        return AsyncRun(_AsyncRunSource(self._transport, self._path, _body(code, env, timeout)))

    async def interrupt(self) -> ContextInterruptReply:
        """Interrupts the run; returns when it is really over."""
        return await self._transport.post(ContextInterruptReply, f"{self._path}/interrupt", long=True)

    async def restart(self) -> ContextRecord:
        """Gives it a fresh interpreter."""
        self.record = await self._transport.post(ContextRecord, f"{self._path}/restart", long=True)
        return self.record

    async def delete(self) -> KillReply:
        """Ends it with all it started."""
        return await self._transport.delete(KillReply, self._path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._owned:
            try:
                await self.delete()
            except (ContextNotFound, ContextEnded):
                pass


def _body(code: str, env: Mapping[str, str | None] | None, timeout: Seconds | None) -> params.RunRequest:
    return {"code": code, "env": env, "timeout_ms": milliseconds(timeout)}
