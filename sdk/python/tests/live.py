"""Where the service under test is, and how sandboxes are made there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandshell import params


@dataclass(frozen=True)
class Live:
    url: str
    token_file: Path
    token: str


def isolation() -> params.IsolationSpec | None:
    """Strict, which is the default; an ordinary user's hub cannot keep all limits."""
    return None if os.geteuid() == 0 else {"policy": "best_effort"}
