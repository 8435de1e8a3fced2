"""Where the service under test is, how it is started, and how sandboxes are made there."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandshell import params
from sandshell.models import Protection

PATIENCE = 120
"""Seconds for what comes soon, also on a machine that stands still for a minute."""
TOO_SHORT = (0.3, 3, 30, 90)
"""Seconds for a command that is to be cut off when it has begun; tried in turn until it has."""


@dataclass(frozen=True)
class Live:
    url: str
    token_file: Path
    token: str


def isolation() -> params.IsolationSpec | None:
    """Strict, which is the default; an ordinary user's hub cannot keep all limits."""
    return None if os.geteuid() == 0 else {"policy": "best_effort"}


def without(protections: list[Protection], required: list[str]) -> list[str]:
    """Those that are required and not enforced."""
    enforced = {each.name for each in protections if each.status == "enforced"}
    return [name for name in required if name not in enforced]


def until(file: str) -> str:
    """A command that waits for a file in the sandbox."""
    return f"until test -e {file}; do sleep 0.02; done"


def binary() -> str:
    """The program under test."""
    binary = os.environ.get("SANDSHELL_BIN")
    if not binary:
        pytest.exit("SANDSHELL_BIN is not set: these tests drive a real hub", returncode=2)
    return binary


def ready(process: subprocess.Popen[bytes], file: Path) -> dict[str, object]:
    """What the server writes when it serves: a file that appears whole, or the server has failed."""
    deadline = time.monotonic() + PATIENCE
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {file.with_name('log').read_text()}")
        time.sleep(0.01)
    return dict(json.loads(file.read_text()))


@contextmanager
def short_home() -> Iterator[Path]:
    """A directory for a server. Sockets lie below it, whose paths may not be long; pytest's own are."""
    with TemporaryDirectory(prefix="ss-", dir="/tmp", ignore_cleanup_errors=True) as made:
        yield Path(made)
