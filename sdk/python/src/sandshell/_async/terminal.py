"""Terminals: a program on a pseudo-terminal, seen and typed at over a WebSocket.

```text
        first read or write            cut                     `exit` frame
  idle ─────────────────────► open ─────────► lost ─┐   open ───────────────► ended
                               ▲   offset=N         │
                               └────────────────────┘
```

The offset counts the bytes of output that were read; a new connection asks for those from there on, so
none is lost and none comes twice. Input has no such number: a write is sent once, or fails.
"""

from __future__ import annotations

import json
import time
from typing import Self

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.protocol import State

from .. import params
from .._decode import decode
from .._wire import Seconds, query, seconds, segment
from ..errors import (
    ApiError,
    ConnectionFailed,
    ProtocolError,
    ServerError,
    StreamBroken,
    TerminalNotFound,
    WaitTimeout,
)
from ..models import KillReply, TerminalFrame, TerminalRecord, TerminalScreen
from ..results import TerminalExit
from ._io import Lock, WebSocket, receive
from .stream import AsyncEvents
from .transport import AsyncTransport

UNREADABLE = 1011
"""Close code when the server cannot read the output."""


class AsyncTerminal(AsyncEvents[bytes]):
    """A terminal. Iterating it gives its output, from the start, as bytes; then `exit` is set.

    As a context manager, one that was started here is deleted at the end with all that runs on it.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        base: str,
        record: TerminalRecord,
        *,
        owned: bool,
        viewer: bool = False,
        offset: int = 0,
    ) -> None:
        self._transport = transport
        self._base = base
        self._path = f"{base}/terminals/{segment(record.id)}"
        self._owned = owned
        self._viewer = viewer
        self._socket: WebSocket | None = None
        self._connecting = Lock()
        self._redraw_next = False
        self._unread = b""
        self._failures = 0
        self._closed = False
        self.record: TerminalRecord = record
        """What was last heard of it; `refresh` asks again."""
        self.offset: int = offset
        """Where in the output the next byte is."""
        self.dropped: int = 0
        """How many bytes of output were no longer kept when they were wanted."""
        self.reconnects: int = 0
        """How often the connection was lost and found again."""
        self.exit: TerminalExit | None = None
        """How its program ended, once all its output has been read."""

    @property
    def id(self) -> str:
        return self.record.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.record.state}>"

    async def refresh(self) -> TerminalRecord:
        """Asks for its record."""
        self.record = await self._transport.get(TerminalRecord, self._path)
        return self.record

    # ── Output ───────────────────────────────────────────────────────────────────────────────────

    async def next(self) -> bytes | None:
        """The next output; None when the program has ended and all was read."""
        return await self._next(None)

    async def _next(self, deadline: float | None) -> bytes | None:
        if self._unread:
            piece, self._unread = self._unread, b""
            return piece
        while self.exit is None and not self._closed:
            socket = None
            try:
                socket = await self._connected()
                message = await receive(socket, deadline)
            except TimeoutError as error:
                raise WaitTimeout(f"terminal {self.id} did not write in time") from error
            except ConnectionClosed as error:
                if self._closed:
                    return None
                if error.rcvd is not None and error.rcvd.code == UNREADABLE:
                    raise ProtocolError(f"terminal {self.id}: {error}") from error
                await self._lost(socket, error)
                continue
            except ConnectionFailed as error:
                await self._lost(socket, error)
                continue
            async with self._connecting:
                if socket is not self._socket:
                    # A write has connected anew, from `offset` on: this comes again.
                    continue
                self._failures = 0
                if isinstance(message, str):
                    self._frame(decode(TerminalFrame, json.loads(message)))
                elif self._redraw_next:
                    # A picture of the screen: to be shown, not to be counted.
                    self._redraw_next = False
                    return message
                elif message:
                    self.offset += len(message)
                    return message
        return None

    async def read_until(self, needle: str | bytes, *, timeout: Seconds | None = None) -> bytes:
        """Reads up to and with `needle`; what comes after it is read next.

        `WaitTimeout` after `timeout`, `StreamBroken` when the program ends without; what was read until
        then is read again by the next call.
        """
        wanted = needle.encode() if isinstance(needle, str) else needle
        deadline = None if timeout is None else time.monotonic() + seconds(timeout)
        seen = b""
        found = -1
        try:
            while (found := seen.find(wanted)) < 0:
                piece = await self._next(deadline)
                if piece is None:
                    raise StreamBroken(f"terminal {self.id} ended before it wrote {needle!r}")
                seen += piece
        finally:
            end = found + len(wanted) if found >= 0 else 0
            seen, self._unread = seen[:end], seen[end:] + self._unread
        return seen

    def _frame(self, frame: TerminalFrame) -> None:
        if frame.type == "exit":
            self.exit = TerminalExit(exit_code=frame.exit_code or 0, signal=frame.signal)
        elif frame.type in ("ready", "truncated"):
            if frame.type == "truncated":
                self.dropped += frame.bytes or 0
                self.offset = (frame.offset or 0) + (frame.bytes or 0)
            self._redraw_next = bool(frame.redraw_bytes)

    # ── Connection ───────────────────────────────────────────────────────────────────────────────

    async def _connected(self) -> WebSocket:
        """A connection to read from. One that is closed may still hold what came before its end."""
        async with self._connecting:
            if self._socket is None:
                self._socket = await self._open()
            return self._socket

    async def _open(self) -> WebSocket:
        # An SDK is no terminal emulator: the agent answers what programs ask.
        role = "viewer" if self._viewer else None
        asked = query({"offset": self.offset, "role": role, "answers": None if role else False})
        path = f"{self._path}/connect?" + "&".join(f"{name}={value}" for name, value in asked)
        try:
            return await self._transport.websocket(path)
        except InvalidStatus as error:
            raise _problem_of(error) from error
        except (InvalidHandshake, OSError, EOFError) as error:
            raise ConnectionFailed(f"{self._path}/connect: {error}") from error

    async def _lost(self, socket: WebSocket | None, error: Exception) -> None:
        async with self._connecting:
            if socket is self._socket:
                self._socket = None
                self.reconnects += 1
        self._failures += 1
        if self._failures > self._transport.max_retries:
            raise ConnectionFailed(f"{self._path}/connect: {error}") from error
        if self._failures > 1:
            await self._transport.pause(self._failures)

    # ── Input ────────────────────────────────────────────────────────────────────────────────────

    async def write(self, data: str | bytes) -> None:
        """Types. Sent once: if the connection is lost with it, `ConnectionFailed` says so, and whether it
        arrived the output tells."""
        socket = await self._writable()
        try:
            await socket.send(data.encode() if isinstance(data, str) else data)
        except ConnectionClosed as error:
            raise ConnectionFailed(f"the connection to terminal {self.id} was lost") from error

    async def _writable(self) -> WebSocket:
        """An open connection. Looking for one may be repeated, as nothing has been sent yet."""
        tries = 0
        while True:
            try:
                async with self._connecting:
                    if self._socket is None or self._socket.state is not State.OPEN:
                        self._socket = await self._open()
                    return self._socket
            except ConnectionFailed:
                tries += 1
                if tries > self._transport.max_retries:
                    raise
                await self._transport.pause(tries)

    async def resize(self, cols: int, rows: int) -> TerminalRecord:
        """Changes its size; programs get SIGWINCH."""
        body: params.ResizeRequest = {"cols": cols, "rows": rows}
        self.record = await self._transport.post(TerminalRecord, f"{self._path}/resize", body)
        return self.record

    # ── What is there ────────────────────────────────────────────────────────────────────────────

    async def screen(self, *, scrollback: int | None = None) -> TerminalScreen:
        """What is on the screen: text, cursor, title, size."""
        return await self._transport.get(TerminalScreen, f"{self._path}/screen", {"scrollback": scrollback})

    async def screen_ansi(self) -> bytes:
        """Bytes that draw the screen on a terminal of its size."""
        response = await self._transport.send("GET", f"{self._path}/screen", params={"format": "ansi"})
        return response.content

    async def recording(self) -> str:
        """Its output so far as an asciicast (version 2)."""
        response = await self._transport.send("GET", f"{self._path}/recording", silence=None)
        return response.text

    async def wait(self, *, timeout: Seconds | None = None) -> TerminalExit:
        """Waits for the end of its program, beside whoever reads the output."""
        if self.exit is not None:
            return self.exit
        deadline = None if timeout is None else time.monotonic() + seconds(timeout)
        record = await self.refresh()
        viewer = AsyncTerminal(
            self._transport, self._base, record, owned=False, viewer=True, offset=record.output_bytes
        )
        async with viewer:
            while await viewer._next(deadline) is not None:
                pass
        if viewer.exit is None:
            raise ConnectionFailed(f"the connection to terminal {self.id} was closed")
        return viewer.exit

    async def delete(self) -> KillReply:
        """Kills all that was started on it and forgets it."""
        await self.aclose()
        return await self._transport.delete(KillReply, self._path)

    async def aclose(self) -> None:
        """Closes the connection; the terminal goes on."""
        self._closed = True
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
        if self._owned:
            try:
                await self.delete()
            except TerminalNotFound:
                pass


def _problem_of(error: InvalidStatus) -> ApiError | ConnectionFailed:
    response = error.response
    try:
        problem = json.loads(response.body or b"")
    except ValueError:
        problem = {"detail": f"{response.status_code} {response.reason_phrase}"}
    found = ApiError.of(problem, status=response.status_code)
    return ConnectionFailed(str(found)) if isinstance(found, ServerError) else found
