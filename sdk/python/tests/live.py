"""Where the service under test is, and how sandboxes are made there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandshell import params
from sandshell.models import Protection


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
