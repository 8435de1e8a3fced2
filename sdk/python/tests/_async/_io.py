"""What the tests of this half do otherwise than those of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def together(first: Callable[[], Awaitable[T]], second: Callable[[], Awaitable[U]]) -> tuple[T, U]:
    """Both at the same time."""
    return await asyncio.gather(first(), second())


class Begun:
    """A call that was begun and is not waited for yet."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._task = asyncio.ensure_future(call())

    async def result(self) -> object:
        return await self._task


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)
