"""Sessions: commands that share a shell."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import httpx

from .. import params
from .._decode import decode
from .._sse import SseEvent
from .._wire import Command, Seconds, milliseconds, segment, text_or_base64
from ..errors import SessionEnded, SessionNotFound
from ..models import (
    CommandRecord,
    ExitEvent,
    InterruptReply,
    KillReply,
    SessionExitEvent,
    SessionRecord,
)
from ..results import SessionExit, SessionResult, encoding_for, result_fields
from .paging import pages
from .process import EXIT, AsyncProcess
from .stream import SILENCE, AsyncEventSource, AsyncOutputReader
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .sandbox import AsyncComputer, ProcessOptions


class AsyncSessionStream(AsyncOutputReader[SessionExit]):
    """What a command in a session writes, while it runs; then `exit` is set."""

    def __init__(self, source: _AsyncCommandSource) -> None:
        super().__init__(source)
        self._command = source
        self.command_id: str = source.command_id
        """The id under which the command is in the session's history."""

    async def _exit(self, event: SseEvent) -> SessionExit:
        if event.json().get("command_id"):
            end = decode(SessionExitEvent, event.json())
            return SessionExit(
                exit_code=end.exit_code,
                duration_ms=end.duration_ms,
                signal=end.signal,
                timed_out=end.timed_out,
                oom=end.oom,
                command_id=end.command_id,
                cwd=end.cwd,
                interrupted=end.interrupted,
                session_state=end.session_state,
            )
        # A resumed stream ends as that of a process does; the record has the rest.
        exit = decode(ExitEvent, event.json())
        record = await self._command.record()
        return SessionExit(
            exit_code=exit.exit_code,
            duration_ms=exit.duration_ms,
            signal=exit.signal,
            timed_out=exit.timed_out,
            oom=exit.oom,
            command_id=self.command_id,
            cwd=exit.cwd or record.cwd,
            interrupted=record.interrupted,
        )


class _AsyncCommandSource(AsyncEventSource):
    """The events of a command that is run by the request itself.

    The first request runs it. Until its first event has come, the request is sent again as it was, with
    the same idempotency key; from then on the command's output is read where it broke off.
    """

    def __init__(self, transport: AsyncTransport, session: str, body: params.SessionExecRequest) -> None:
        self.command_id: str = body.get("id") or f"cmd_{uuid.uuid4().hex}"
        body["id"] = self.command_id
        self._session = session
        self._body = body
        self._key = uuid.uuid4().hex
        super().__init__(transport, f"{session}/commands/{segment(self.command_id)}/output", last=EXIT)

    async def _ask(self) -> httpx.Response:
        if self.last_id is not None:
            return await super()._ask()
        return await self.transport.send(
            "POST",
            f"{self._session}/exec",
            body=self._body,
            headers={"accept": "text/event-stream"},
            silence=SILENCE,
            key=self._key,
            stream=True,
            retries=0,
        )

    async def record(self) -> CommandRecord:
        return await self.transport.get(CommandRecord, f"{self._session}/commands/{segment(self.command_id)}")


class AsyncSession:
    """A shell that keeps its state from command to command: directory, variables, functions, options.

    As a context manager, one that was made here is deleted at the end.
    """

    def __init__(self, computer: AsyncComputer, record: SessionRecord, *, owned: bool) -> None:
        self._computer = computer
        self._transport: AsyncTransport = computer._transport
        self._path = f"{computer._base}/sessions/{segment(record.id)}"
        self._owned = owned
        self.record: SessionRecord = record
        """What was last heard of it; `refresh` asks again."""

    @property
    def id(self) -> str:
        return self.record.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def refresh(self) -> SessionRecord:
        """Asks for its record, with what runs in the foreground and what it uses."""
        self.record = await self._transport.get(SessionRecord, self._path)
        return self.record

    @overload
    async def exec(
        self,
        command: Command,
        *,
        text: Literal[True] = True,
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> SessionResult[str]: ...

    @overload
    async def exec(
        self,
        command: Command,
        *,
        text: Literal[False],
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> SessionResult[bytes]: ...

    async def exec(
        self,
        command: Command,
        *,
        text: bool = True,
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> SessionResult[str] | SessionResult[bytes]:
        """Runs a command and waits for its result; a list is quoted. Commands take their turn.

        `cwd` and `env` hold for this command only. After `timeout` it is interrupted and the session kept.
        """
        body = _body(command, id, cwd, env, stdin, timeout)
        body["max_output_bytes"] = max_output_bytes
        body["truncate"] = truncate
        body["on_disconnect"] = on_disconnect
        body["encoding"] = encoding_for(text)
        reply = await self._transport.json("POST", f"{self._path}/exec", body=body, long=True)
        result: SessionResult[Any] = decode_result(reply, text)
        return result.check() if check else result

    def exec_stream(
        self,
        command: Command,
        *,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout: Seconds | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> AsyncSessionStream:
        """Runs a command and gives its output as it is written; it starts with the first read."""
        body = _body(command, id, cwd, env, stdin, timeout)
        body["on_disconnect"] = on_disconnect
        return AsyncSessionStream(_AsyncCommandSource(self._transport, self._path, body))

    async def interrupt(self) -> InterruptReply:
        """Ends the command that runs, keeps the shell; returns when it is really over."""
        return await self._transport.post(InterruptReply, f"{self._path}/interrupt", long=True)

    async def fork(self, *, id: str | None = None) -> AsyncSession:
        """A new session with a copy of this one's state."""
        body: params.ForkRequest = {"id": id}
        record = await self._transport.post(SessionRecord, f"{self._path}/fork", body, long=True)
        return AsyncSession(self._computer, record, owned=True)

    async def start_process(self, command: Command, **options: Unpack[ProcessOptions]) -> AsyncProcess:
        """Starts a process from a copy of this session's state; it writes nothing back."""
        options["session"] = self.id
        return await self._computer.start_process(command, **options)

    async def update(
        self,
        *,
        env: Mapping[str, str | None] | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
        idle_timeout: Seconds | None = None,
        limits: params.Limits | None = None,
    ) -> SessionRecord:
        """Changes what is given."""
        body: params.SessionPatch = {
            "env": env,
            "timeout_ms": milliseconds(timeout),
            "max_output_bytes": max_output_bytes,
            "idle_timeout_ms": milliseconds(idle_timeout),
            "limits": limits,
        }
        self.record = decode(SessionRecord, await self._transport.json("PATCH", self._path, body=body))
        return self.record

    def commands(self) -> AsyncIterator[CommandRecord]:
        """Its history, oldest first."""
        return pages(self._transport, CommandRecord, f"{self._path}/commands")

    async def command(self, command_id: str) -> CommandRecord:
        """One command of its history."""
        return await self._transport.get(CommandRecord, f"{self._path}/commands/{segment(command_id)}")

    async def read_output(
        self,
        command_id: str,
        stream: Literal["stdout", "stderr", "late_stdout", "late_stderr"] = "stdout",
        *,
        offset: int = 0,
    ) -> bytes:
        """The bytes of one stream of a command; `late_…` is what its children wrote after its end."""
        response = await self._transport.send(
            "GET",
            f"{self._path}/commands/{segment(command_id)}/output",
            params={"stream": stream, "offset": offset},
        )
        return response.content

    async def delete(self) -> KillReply:
        """Ends it and all that runs in it."""
        return await self._transport.delete(KillReply, self._path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._owned:
            try:
                await self.delete()
            except (SessionNotFound, SessionEnded):
                pass


def _body(
    command: Command,
    id: str | None,
    cwd: str | None,
    env: Mapping[str, str | None] | None,
    stdin: str | bytes | None,
    timeout: Seconds | None,
) -> params.SessionExecRequest:
    text, encoding = text_or_base64(stdin)
    return {
        "command": command if isinstance(command, str) else shlex.join(command),
        "id": id,
        "cwd": cwd,
        "env": env,
        "stdin": text,
        "stdin_encoding": encoding,
        "timeout_ms": milliseconds(timeout),
    }


def decode_result(reply: Any, text: bool) -> SessionResult[Any]:
    return decode(SessionResult, result_fields(reply, text))
