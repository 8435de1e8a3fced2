"""One real hub for all tests, of the binary in SANDSHELL_BIN, in a directory of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from live import Live, binary, ready


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A hub that runs."""
    home = tmp_path_factory.mktemp("hub")
    arguments = ["serve", "--listen", "127.0.0.1:0", "--state-dir", str(home / "state"), "--destroy-on-exit"]
    arguments += ["--token-file", str(home / "token"), "--ready-file", str(home / "ready")]
    arguments += ["--preview-domain", "localhost:4020", "--rate", "0"]
    with open(home / "log", "wb") as log:
        hub = subprocess.Popen([binary(), *arguments], stdout=log, stderr=log)
    try:
        url = str(ready(hub, home / "ready")["url"])
        yield Live(url=url, token_file=home / "token", token=(home / "token").read_text().strip())
    finally:
        hub.terminate()
        hub.wait(30)


@pytest.fixture(autouse=True)
def environment(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK reads when nothing is given."""
    monkeypatch.setenv("SANDSHELL_URL", live.url)
    monkeypatch.setenv("SANDSHELL_TOKEN_FILE", str(live.token_file))
    monkeypatch.delenv("SANDSHELL_TOKEN", raising=False)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Live]:
    """An agent by itself, on a socket."""
    socket = f"unix:{tmp_path}/socket"
    arguments = ["agent", "--listen", socket, "--state-dir", str(tmp_path / "state")]
    arguments += ["--ready-file", str(tmp_path / "ready")]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([binary(), *arguments], stdout=log, stderr=log, cwd=tmp_path)
    try:
        ready(process, tmp_path / "ready")
        yield Live(url=socket, token_file=tmp_path / "none", token="")
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def anyio_backend() -> str:
    """The SDK runs on asyncio."""
    return "asyncio"
