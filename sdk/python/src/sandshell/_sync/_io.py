"""What differs between the halves: clients, sleeping, locks, WebSockets. Plain threads here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import httpx
from websockets.sync.client import ClientConnection, connect, unix_connect

from .._wire import Readable

HttpClient = httpx.Client
HttpTransport = httpx.HTTPTransport
Lock = threading.Lock
WebSocket: TypeAlias = ClientConnection

Content: TypeAlias = str | bytes | Readable | Iterable[bytes]
"""What a file can be written from."""

PIECE = 1 << 16


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def open_websocket(url: str, headers: dict[str, str], unix_socket: str | None, local: bool) -> WebSocket:
    proxy: Literal[True] | None = None if local else True
    if unix_socket is not None:
        opened = unix_connect(unix_socket, url, additional_headers=headers, compression=None, max_size=None)
    else:
        opened = connect(url, additional_headers=headers, compression=None, max_size=None, proxy=proxy)
    # It must be entered; `close` does all that leaving it would.
    return opened.__enter__()


def receive(socket: WebSocket, deadline: float | None) -> str | bytes:
    """The next message; TimeoutError when `deadline` (of `time.monotonic`) has come."""
    return socket.recv(None if deadline is None else max(deadline - time.monotonic(), 0))


def body_of(content: Content) -> str | bytes | Iterator[bytes]:
    """A request body; what is not held in memory is read piece by piece."""
    if isinstance(content, (str, bytes)):
        return content
    return _pieces(content)


def _pieces(content: Readable | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(content, Readable):
        while piece := content.read(PIECE):
            yield piece
    else:
        yield from content
