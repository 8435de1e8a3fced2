"""A fresh sandbox for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cutting_proxy import CuttingProxy
from live import Live, isolation
from sandshell import AsyncSandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[AsyncSandbox]:
    async with await AsyncSandbox.create(isolation=isolation()) as made:
        yield made


@pytest.fixture
async def through(sandbox: AsyncSandbox, live: Live) -> AsyncIterator[tuple[AsyncSandbox, CuttingProxy]]:
    """The same sandbox, reached over a proxy that can cut."""
    with CuttingProxy(live.url) as proxy:
        async with await AsyncSandbox.connect(sandbox.id, url=proxy.url, token=live.token) as again:
            yield again, proxy
