"""What the tests of this half do otherwise than those of the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def together(first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """Both at the same time."""
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first), pool.submit(second)
        return one.result(), two.result()


class Begun:
    """A call that was begun and is not waited for yet."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(call)

    def result(self) -> object:
        try:
            return self._future.result()
        finally:
            self._pool.shutdown(wait=False)


def pause(seconds: float) -> None:
    time.sleep(seconds)
