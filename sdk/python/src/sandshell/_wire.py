"""How Python values go onto the wire: durations, bytes, paths, bodies; and where the service is.

Nothing here does input or output but `Settings.of`, which reads the environment and the token file.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import quote, urlsplit

from .errors import ProtocolError, SandshellError
from .params import TextEncoding

DEFAULT_URL = "http://127.0.0.1:4020"
TOKEN_FILE = "SANDSHELL_TOKEN_FILE"

Seconds: TypeAlias = float | timedelta
"""A duration: seconds, or a timedelta."""

SandboxPath: TypeAlias = str | bytes | os.PathLike[str]
"""A path in the sandbox. Names that are not UTF-8 are given as bytes."""

Command: TypeAlias = str | Sequence[str]
"""Text for the shell, or a program and its arguments."""


@runtime_checkable
class Readable(Protocol):
    """An open binary file, as far as it is needed."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the service is and what opens it."""

    base_url: str
    token: str | None
    unix_socket: str | None = None

    @staticmethod
    def of(url: str | None, token: str | None) -> Settings:
        """What is given, else SANDSHELL_URL, SANDSHELL_TOKEN and SANDSHELL_TOKEN_FILE."""
        where = url or os.environ.get("SANDSHELL_URL") or DEFAULT_URL
        secret = token or os.environ.get("SANDSHELL_TOKEN")
        if not secret and (file := os.environ.get(TOKEN_FILE)):
            secret = _token_in(file)
        if where.startswith("unix:"):
            socket = where.removeprefix("unix:")
            socket = socket.removeprefix("//") if socket.startswith("///") else socket
            return Settings("http://localhost", secret or None, socket)
        parts = urlsplit(where)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not a URL of a service: {where!r} (http://…, https://… or unix:PATH)")
        return Settings(where.rstrip("/"), secret or None)

    def is_local(self) -> bool:
        """Whether it is on this machine, so that no proxy of the environment leads there."""
        host = urlsplit(self.base_url).hostname or ""
        return self.unix_socket is not None or host in ("localhost", "::1") or host.startswith("127.")

    def websocket_url(self, path: str) -> str:
        return "ws" + self.base_url.removeprefix("http") + path


def _token_in(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            token = opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SandshellError(f"the token file {file} ({TOKEN_FILE}) cannot be read: {error}") from error
    if not token:
        raise SandshellError(f"the token file {file} ({TOKEN_FILE}) is empty")
    return token


def milliseconds(duration: Seconds | None) -> int | None:
    """For a field that ends in `_ms`; rounded up, so that a short time is not none at all."""
    if duration is None:
        return None
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not seconds >= 0 or math.isinf(seconds):
        raise ValueError(f"not a duration: {duration!r}")
    return math.ceil(seconds * 1000)


def seconds(duration: Seconds) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def text_or_base64(data: str | bytes | None) -> tuple[str | None, TextEncoding | None]:
    """Text as it is, bytes in base64; the second says which."""
    if data is None:
        return None, None
    if isinstance(data, str):
        return data, "utf8"
    return base64.b64encode(data).decode("ascii"), "base64"


def to_bytes(data: str, encoding: str) -> bytes:
    """The bytes of a text field by its `*_encoding`."""
    if encoding == "utf8":
        return data.encode("utf-8")
    if encoding == "base64":
        return base64.b64decode(data)
    raise ProtocolError(f"unknown encoding {encoding!r}")


def command_or_argv(command: Command) -> tuple[str | None, list[str] | None]:
    if isinstance(command, str):
        return command, None
    return None, list(command)


def path_or_base64(path: SandboxPath | None) -> tuple[str | None, str | None]:
    """A path as text, or in base64 where it is not UTF-8."""
    if path is None:
        return None, None
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(raw).decode("ascii")


def path_query(path: SandboxPath | None) -> dict[str, str | None]:
    text, encoded = path_or_base64(path)
    return {"path": text, "path_base64": encoded}


def without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body or query without what was not given. Nulls below the first level mean something."""
    return {key: value for key, value in body.items() if value is not None}


def query(params: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool | None]]:
    """Query parameters; a list repeats its name, and None is left out."""
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in params.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is None:
                continue
            text = ("true" if each else "false") if isinstance(each, bool) else str(each)
            pairs.append((name, text))
    return pairs


def segment(text: str) -> str:
    """One segment of a path."""
    if text in ("", ".", ".."):
        raise ValueError(f"not an id: {text!r}")
    return quote(text, safe="")
