"""A TCP proxy that cuts connections at chosen places.

`cut("/output", [100, 0, 7])` cuts the next three connections on which a request with `/output` in its
first line is sent: after 100 bytes of the answer have passed, before any, after 7. Everything else
passes. It is reset, not closed, so that a client sees what a broken network shows.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from typing import Self
from urllib.parse import urlsplit


class CuttingProxy:
    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._needle = b""
        self._plan: deque[int] = deque()
        self.cuts = 0
        self._pairs: list[_Pair] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def cut(self, needle: str, after: list[int]) -> None:
        with self._lock:
            self._needle, self._plan, self.cuts = needle.encode(), deque(after), 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            pair = _Pair(self, client, server)
            with self._lock:
                self._pairs.append(pair)
            for work in (pair.up, pair.down):
                threading.Thread(target=work, daemon=True).start()

    def take(self, request: bytes) -> int | None:
        """How much of the answer to this request may pass; None for all."""
        first = request.split(b"\r\n", 1)[0]
        with self._lock:
            if self._plan and self._needle in first:
                return self._plan.popleft()
            return None

    def counted(self) -> None:
        with self._lock:
            self.cuts += 1

    def cut_now(self) -> None:
        """Cuts every connection there is."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.reset()

    def close(self) -> None:
        self._listener.close()
        self.cut_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Pair:
    """One connection and its continuation."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.lock = threading.Lock()
        self.left: int | None = None

    def up(self) -> None:
        while piece := self._receive(self.client):
            allowed = self.proxy.take(piece)
            if allowed is not None:
                with self.lock:
                    self.left = allowed
            try:
                self.server.sendall(piece)
            except OSError:
                break
        self._shut(self.server)

    def down(self) -> None:
        while piece := self._receive(self.server):
            with self.lock:
                left = self.left
                if left is not None:
                    self.left = max(left - len(piece), 0)
            try:
                self.client.sendall(piece if left is None else piece[:left])
            except OSError:
                break
            if left is not None and len(piece) >= left:
                self.proxy.counted()
                self.reset()
                return
        self._shut(self.client)

    @staticmethod
    def _receive(end: socket.socket) -> bytes:
        try:
            return end.recv(65536)
        except OSError:
            return b""

    @staticmethod
    def _shut(end: socket.socket) -> None:
        try:
            end.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def reset(self) -> None:
        for end in (self.client, self.server):
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)
            except OSError:
                pass
            end.close()
