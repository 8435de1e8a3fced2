"""What differs between the halves: clients, sleeping, locks, WebSockets. asyncio is what it runs on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Literal, TypeAlias

import httpx
from websockets.asyncio.client import ClientConnection, connect, unix_connect

from .._wire import Readable

HttpClient = httpx.AsyncClient
HttpTransport = httpx.AsyncHTTPTransport
Lock = asyncio.Lock
WebSocket: TypeAlias = ClientConnection

Content: TypeAlias = str | bytes | Readable | Iterable[bytes] | AsyncIterable[bytes]
"""What a file can be written from."""

PIECE = 1 << 16


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def open_websocket(
    url: str, headers: dict[str, str], unix_socket: str | None, local: bool
) -> WebSocket:
    proxy: Literal[True] | None = None if local else True
    if unix_socket is not None:
        return await unix_connect(
            unix_socket, url, additional_headers=headers, compression=None, max_size=None
        )
    return await connect(url, additional_headers=headers, compression=None, max_size=None, proxy=proxy)


async def receive(socket: WebSocket, deadline: float | None) -> str | bytes:
    """The next message; TimeoutError when `deadline` (of `time.monotonic`) has come."""
    if deadline is None:
        return await socket.recv()
    async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
        return await socket.recv()


def body_of(content: Content) -> str | bytes | AsyncIterator[bytes]:
    """A request body; what is not held in memory is read piece by piece."""
    if isinstance(content, (str, bytes)):
        return content
    return _pieces(content)


async def _pieces(content: Readable | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(content, AsyncIterable):
        async for piece in content:
            yield piece
    elif isinstance(content, Readable):
        while piece := await asyncio.to_thread(content.read, PIECE):
            yield piece
    else:
        for piece in content:
            yield piece
