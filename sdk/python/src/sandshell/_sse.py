"""Server-sent events out of bytes, however they are cut.

Owns the format alone: no connection, no meaning of an event.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from .errors import ProtocolError


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event as it stands on the wire."""

    event: str
    data: str
    id: str | None

    def json(self) -> Any:
        """The data, which is JSON everywhere in this API."""
        try:
            return json.loads(self.data)
        except ValueError as error:
            raise ProtocolError(f"the {self.event!r} event is not JSON: {error}") from error


class SseDecoder:
    """Takes pieces of a stream and gives whole events; what a cut left unfinished is never given."""

    def __init__(self) -> None:
        self._rest = b""
        self._events: deque[SseEvent] = deque()
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes. Lines end with LF or CR LF; the server sends no lone CR."""
        if b"\n" not in piece:
            self._rest += piece
            return
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))

    def next(self) -> SseEvent | None:
        """The next whole event, if there is one yet."""
        return self._events.popleft() if self._events else None

    def _line(self, line: str) -> None:
        if not line:
            if self._data or self._name:
                self._events.append(SseEvent(self._name or "message", "\n".join(self._data), self._id))
            self._name, self._data = "", []
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
