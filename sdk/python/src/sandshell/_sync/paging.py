# Written by scripts/generate from _async/paging.py: change that one.
"""Lists that come in pages, as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from .._decode import decode
from .transport import Transport

T = TypeVar("T")


def pages(
    transport: Transport, kind: type[T], path: str, params: Mapping[str, Any] | None = None
) -> Iterator[T]:
    """Every item; the next page is asked for when it is needed."""
    query = dict(params or {})
    while True:
        page = transport.json("GET", path, params=query)
        for item in page["items"]:
            yield decode(kind, item)
        query["cursor"] = page.get("next_cursor")
        if query["cursor"] is None:
            return
