"""One real hub for all tests, of the binary in SANDSHELL_BIN, in a directory of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from live import PATIENCE, Live, binary, ready, short_home


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """A hub that runs."""
    with short_home() as home:
        arguments = ["serve", "--listen", "127.0.0.1:0", "--state-dir", str(home / "state")]
        arguments += ["--token-file", str(home / "token"), "--ready-file", str(home / "ready")]
        arguments += ["--preview-domain", "localhost:4020", "--rate", "0", "--destroy-on-exit"]
        with open(home / "log", "wb") as log:
            hub = subprocess.Popen([binary(), *arguments], stdout=log, stderr=log)
        try:
            url = str(ready(hub, home / "ready")["url"])
            yield Live(url=url, token_file=home / "token", token=(home / "token").read_text().strip())
        finally:
            hub.terminate()
            hub.wait(PATIENCE)


@pytest.fixture(autouse=True)
def environment(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK reads when nothing is given."""
    monkeypatch.setenv("SANDSHELL_URL", live.url)
    monkeypatch.setenv("SANDSHELL_TOKEN_FILE", str(live.token_file))
    monkeypatch.delenv("SANDSHELL_TOKEN", raising=False)


@pytest.fixture
def agent() -> Iterator[Live]:
    """An agent by itself, on a socket."""
    with short_home() as home:
        socket = f"unix:{home}/socket"
        arguments = ["agent", "--listen", socket, "--state-dir", str(home / "state")]
        arguments += ["--ready-file", str(home / "ready")]
        with open(home / "log", "wb") as log:
            process = subprocess.Popen([binary(), *arguments], stdout=log, stderr=log, cwd=home)
        try:
            ready(process, home / "ready")
            yield Live(url=socket, token_file=home / "none", token="")
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.fixture
def anyio_backend() -> str:
    """The SDK runs on asyncio."""
    return "asyncio"
