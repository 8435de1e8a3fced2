# Written by scripts/generate from _async/ports.py: change that one.
"""Ports: servers in a sandbox, and ways to them from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .. import params
from .._decode import decode
from .._wire import Seconds, milliseconds
from ..errors import WaitTimeout
from ..models import PortExposure, PortRecord, PortsEvent, PortUnexposed, PortWaitReply, Preview
from .paging import pages
from .stream import Events, EventSource
from .transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class PortChange:
    """A port that opened or closed, or was open when the watching began."""

    change: Literal["open", "opened", "closed"]
    port: PortRecord


class PortEvents(Events[PortChange]):
    """Ports as they open and close; first those that are open.

    After a lost connection the server begins anew, so what is known already is left out here, and what
    closed meanwhile is told.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._known: dict[int, PortRecord] = {}
        self._waiting: list[PortChange] = []
        self._begun = False

    def next(self) -> PortChange | None:
        """The next change."""
        while not self._waiting:
            event = self._source.next()
            if event is None:
                return None
            if event.event == "ports":
                self._compare(decode(PortsEvent, event.json()).items)
            elif event.event in ("opened", "closed"):
                self._change(decode(PortRecord, event.json()), event.event == "opened")
        return self._waiting.pop(0)

    def _compare(self, now: list[PortRecord]) -> None:
        there = {record.port: record for record in now}
        for port, record in list(self._known.items()):
            if port not in there:
                self._change(record, False)
        for port, record in there.items():
            if port not in self._known:
                self._known[port] = record
                change: Literal["open", "opened"] = "opened" if self._begun else "open"
                self._waiting.append(PortChange(change=change, port=record))
        self._begun = True

    def _change(self, record: PortRecord, opened: bool) -> None:
        if opened:
            self._known[record.port] = record
            self._waiting.append(PortChange(change="opened", port=record))
        elif self._known.pop(record.port, None) is not None:
            self._waiting.append(PortChange(change="closed", port=record))

    def close(self) -> None:
        self._source.close()


class Ports:
    """TCP ports that processes of a sandbox listen on."""

    def __init__(self, transport: Transport, base: str) -> None:
        self._transport = transport
        self._base = f"{base}/ports"

    def list(self) -> Iterator[PortRecord]:
        """Ports that are listened on, with whose they are."""
        return pages(self._transport, PortRecord, self._base)

    def events(self) -> PortEvents:
        """Ports as they open and close."""
        return PortEvents(EventSource(self._transport, self._base))

    def wait(
        self, port: int, *, http: params.HttpCheck | None = None, timeout: Seconds | None = None
    ) -> PortRecord | None:
        """Waits until a port takes connections, or gives the HTTP answer that `http` tells."""
        body: params.PortWaitRequest = {"http": http, "timeout_ms": milliseconds(timeout)}
        reply = self._transport.post(PortWaitReply, f"{self._base}/{port}/wait", body, long=True)
        if not reply.ready:
            raise WaitTimeout(f"waited for port {port} in vain ({timeout} s)")
        return reply.port

    def expose(self, port: int) -> PortExposure:
        """A URL with a token that opens this port and nothing else."""
        return decode(PortExposure, self._transport.json("PUT", f"{self._base}/{port}"))

    def unexpose(self, port: int) -> PortUnexposed:
        """Takes that token away."""
        return self._transport.delete(PortUnexposed, f"{self._base}/{port}")

    def preview_url(self, port: int, *, ttl: Seconds | None = None) -> Preview:
        """A signed URL with a host name of its own; needs a hub with `--preview-domain`."""
        body: params.PreviewRequest = {"ttl_ms": milliseconds(ttl)}
        return self._transport.post(Preview, f"{self._base}/{port}/preview", body)

    def revoke_previews(self, port: int) -> PortUnexposed:
        """Makes all preview URLs of a port invalid."""
        return self._transport.delete(PortUnexposed, f"{self._base}/{port}/preview")

    def proxy_url(self, port: int, path: str = "/") -> str:
        """Where a port's server is reached with the token of the API."""
        return f"{self._transport.settings.base_url}{self._base}/{port}/proxy/{path.lstrip('/')}"
