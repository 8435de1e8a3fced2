# Written by scripts/generate from _async/conftest.py: change that one.
"""A fresh sandbox for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cutting_proxy import CuttingProxy
from live import Live, isolation
from sandshell import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(isolation=isolation()) as made:
        yield made


@pytest.fixture
def through(sandbox: Sandbox, live: Live) -> Iterator[tuple[Sandbox, CuttingProxy]]:
    """The same sandbox, reached over a proxy that can cut."""
    with CuttingProxy(live.url) as proxy:
        with Sandbox.connect(sandbox.id, url=proxy.url, token=live.token) as again:
            yield again, proxy
