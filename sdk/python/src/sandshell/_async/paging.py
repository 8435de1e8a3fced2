"""Lists that come in pages, as one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from .._decode import decode
from .transport import AsyncTransport

T = TypeVar("T")


async def pages(
    transport: AsyncTransport, kind: type[T], path: str, params: Mapping[str, Any] | None = None
) -> AsyncIterator[T]:
    """Every item; the next page is asked for when it is needed."""
    query = dict(params or {})
    while True:
        page = await transport.json("GET", path, params=query)
        for item in page["items"]:
            yield decode(kind, item)
        query["cursor"] = page.get("next_cursor")
        if query["cursor"] is None:
            return
