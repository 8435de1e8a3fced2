"""Streams of events that survive the loss of their connection.

An `AsyncEventSource` reads one stream of the API; when the connection breaks, or is silent for longer
than the server ever is, it asks again from the last event it has seen. What an event means, and what
to do with a piece that comes twice after a resume, is the user's part: `AsyncOutputStream` here, for
what commands write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import httpx

from .._decode import decode
from .._sse import SseDecoder, SseEvent
from ..errors import ApiError, ConnectionFailed, ProtocolError, RateLimitError, ServerError, StreamBroken
from ..models import ExitEvent, OutputEvent, TruncatedEvent
from ..results import Exit, Output, OutputJoiner, exit_of
from .transport import AsyncTransport

T = TypeVar("T")
E = TypeVar("E", bound=Exit)

SILENCE = 45.0
"""Seconds without a byte after which a connection is taken for dead; the server says something every 15."""


class AsyncEventSource:
    """The events of one GET, as they stand on the wire, until one whose name is in `last`.

    `ends_alone`: the server may also end the stream without such an event.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        last: frozenset[str] = frozenset(),
        from_id: str | None = None,
        ends_alone: bool = False,
    ) -> None:
        self.transport: AsyncTransport = transport
        self.path: str = path
        self.params: dict[str, Any] = dict(params or {})
        self.last: frozenset[str] = last
        self.last_id: str | None = from_id
        self.ends_alone: bool = ends_alone
        self.reconnects: int = 0
        """How often the connection was lost and found again."""
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._decoder = SseDecoder()
        self._failures = 0
        self._opened = False
        self.over: bool = False
        """Whether nothing more comes."""
        self.last_event: str | None = None

    async def open(self) -> None:
        """Connects, if it is not connected. Raises what the server says against it."""
        if self._pieces is not None or self.over:
            return
        response = await self._ask()
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await response.aclose()
            raise ProtocolError(f"{self.path} did not answer with events")
        if self._opened:
            self.reconnects += 1
        self._opened = True
        self._response, self._pieces = response, response.aiter_raw()
        self._decoder = SseDecoder()

    async def _ask(self) -> httpx.Response:
        headers = {"accept": "text/event-stream"}
        if self.last_id is not None:
            headers["last-event-id"] = self.last_id
        return await self.transport.send(
            "GET",
            self.path,
            params=self.params,
            headers=headers,
            silence=SILENCE,
            stream=True,
            retries=0,
        )

    async def next(self) -> SseEvent | None:
        """The next event; None when the stream is over."""
        while not self.over:
            try:
                await self.open()
                event = await self._event()
            except StreamBroken:
                raise
            except (httpx.TransportError, httpx.StreamError, ConnectionFailed) as error:
                await self._lost(error)
                continue
            except (RateLimitError, ServerError) as error:
                # A service that ends or starts says this for a moment.
                if not self._opened and error.retry_after is None:
                    raise
                await self._lost(error)
                continue
            if event is None and self.ends_alone:
                await self.aclose()
                return None
            if event is None:
                await self._lost(ConnectionFailed(f"GET {self.path}: the stream ended early"))
                continue
            self._failures = 0
            self.last_event = event.event
            if event.id is not None:
                self.last_id = event.id
            if event.event in self.last:
                await self.aclose()
            return event
        return None

    async def _event(self) -> SseEvent | None:
        while (event := self._decoder.next()) is None:
            piece = await anext(self._pieces, None) if self._pieces is not None else None
            if piece is None:
                return None
            self._decoder.feed(piece)
        return event

    async def _lost(self, error: Exception) -> None:
        """Lets go of a broken connection, and gives up after too many in a row without an event."""
        await self._drop()
        self._failures += 1
        if self._failures > self.transport.max_retries:
            if isinstance(error, (ApiError, ConnectionFailed)):
                raise error
            raise ConnectionFailed(f"GET {self.path}: {error or type(error).__name__}") from error
        if self._failures > 1:
            await self.transport.pause(self._failures)

    async def _drop(self) -> None:
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            await response.aclose()

    async def aclose(self) -> None:
        """Ends the stream from here. What the server does goes on."""
        self.over = True
        await self._drop()


class AsyncEvents(Generic[T]):
    """Things of a stream, one after another; the base of the streams that users see."""

    async def next(self) -> T | None:
        """The next one; None when there are no more."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Ends the reading; what is read goes on by itself."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = await self.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncDownload(AsyncEvents[bytes]):
    """Bytes that are made while they are sent, and so cannot be asked for again: a loss is `StreamBroken`."""

    def __init__(self, transport: AsyncTransport, path: str, params: Mapping[str, Any] | None = None) -> None:
        self._transport = transport
        self._path = path
        self._params = params
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._over = False

    async def next(self) -> bytes | None:
        """The next piece; None at the end."""
        if self._over:
            return None
        if self._pieces is None:
            self._response = await self._transport.send(
                "GET", self._path, params=self._params, silence=None, stream=True
            )
            self._pieces = self._response.aiter_raw()
        try:
            piece = await anext(self._pieces, None)
        except httpx.TransportError as error:
            await self.aclose()
            raise StreamBroken(f"GET {self._path}: {error}") from error
        if piece is None:
            await self.aclose()
        return piece

    async def save(self, to: str | Path) -> int:
        """Writes all of it to a file here; the number of its bytes. A file that is broken off is removed."""
        size = 0
        try:
            async with self:
                with open(to, "wb") as file:
                    async for piece in self:
                        size += file.write(piece)
        except BaseException:
            Path(to).unlink(missing_ok=True)
            raise
        return size

    async def aclose(self) -> None:
        """Ends the reading."""
        self._over = True
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()


class AsyncOutputReader(AsyncEvents[Output], Generic[E]):
    """Pieces of output as they come, each byte once, also over lost connections; then `exit` is set.

    Both streams are in order of arrival.
    """

    def __init__(self, source: AsyncEventSource) -> None:
        self._source = source
        self._joiner = OutputJoiner()
        self._left: deque[Output] = deque()
        self._ended = False
        self.exit: E | None = None
        """How the command ended, once all its output has been read."""

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and found again."""
        return self._source.reconnects

    async def next(self) -> Output | None:
        """The next piece; None when there is no more."""
        while not self._ended:
            event = await self._source.next()
            piece = None
            if event is None:
                self._finish()
            elif event.event == "output":
                piece = self._joiner.output(decode(OutputEvent, event.json()))
            elif event.event == "truncated":
                piece = self._joiner.truncated(decode(TruncatedEvent, event.json()))
            elif event.event == "exit":
                self.exit = await self._exit(event)
                self._finish()
            elif event.event == "error":
                raise ApiError.of(event.json(), status=event.json().get("status", 0))
            else:
                self._other(event)
            if piece is not None:
                return piece
        return self._left.popleft() if self._left else None

    def _finish(self) -> None:
        self._ended = True
        self._left.extend(self._joiner.rest())

    def _other(self, event: SseEvent) -> None:
        """Events of newer servers are passed over."""

    async def _exit(self, event: SseEvent) -> E:
        raise NotImplementedError

    async def wait(self) -> E:
        """Reads to the end and tells how the command ended."""
        while await self.next() is not None:
            pass
        if self.exit is None:
            raise ConnectionFailed("the stream was closed before the command ended")
        return self.exit

    async def aclose(self) -> None:
        """Ends the reading; the command goes on."""
        await self._source.aclose()


class AsyncOutputStream(AsyncOutputReader[Exit]):
    """What a process writes."""

    async def _exit(self, event: SseEvent) -> Exit:
        return exit_of(decode(ExitEvent, event.json()))
