# Written by scripts/generate from _async/files.py: change that one.
"""Files of a sandbox: whole, in pieces, as trees, and what changes in them.

Every call takes `user` (whose rights are used) and `session` (relative paths start at its directory).
A path may be text, a `PurePosixPath`, or bytes where a name is not UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import httpx

from .. import params
from .._decode import decode
from .._wire import SandboxPath, Seconds, milliseconds, path_or_base64, path_query
from ..errors import ApiError, ConnectionFailed, PreconditionFailed, StreamBroken
from ..models import (
    ArchiveCounts,
    ChangesReply,
    ChmodReply,
    CopyReply,
    FileEntry,
    FileEvent,
    FindReply,
    RemoveReply,
    RescanEvent,
    SearchReply,
    WatchEndEvent,
    WatchReadyEvent,
)
from ._io import Content
from .stream import Download, Events, EventSource
from .transport import Transport

OCTETS = {"content-type": "application/octet-stream"}


class FileReader(Events[bytes]):
    """The bytes of a file in pieces. A lost connection goes on where it broke off, and only if the file
    is still the same (`StreamBroken` otherwise)."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: dict[str, Any],
        offset: int,
        length: int | None,
    ) -> None:
        self._transport = transport
        self._path = path
        self._query = query
        self._offset = offset
        self._end = None if length is None else offset + length
        self._etag: str | None = None
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] | None = None
        self._failures = 0
        self._over = False

    def next(self) -> bytes | None:
        """The next piece; None at the end."""
        while not self._over:
            try:
                if self._pieces is None:
                    self._open()
                assert self._pieces is not None
                piece = next(self._pieces, None)
            except httpx.TransportError as error:
                self._drop()
                self._failures += 1
                if self._failures > self._transport.max_retries:
                    raise ConnectionFailed(f"GET {self._path}: {error}") from error
                self._transport.pause(self._failures)
                continue
            except PreconditionFailed as error:
                self.close()
                raise StreamBroken("the file changed while it was read") from error
            if piece is None:
                self.close()
                return None
            if piece:
                self._failures = 0
                self._offset += len(piece)
                return piece
        return None

    def _open(self) -> None:
        headers = {}
        if self._etag is not None:
            headers["if-match"] = self._etag
        if self._end is not None and self._offset >= self._end:
            self._pieces = _nothing()
            return
        if self._offset or self._end is not None:
            last = "" if self._end is None else self._end - 1
            headers["range"] = f"bytes={self._offset}-{last}"
        try:
            self._response = self._transport.send(
                "GET", self._path, params=self._query, headers=headers, stream=True
            )
        except ApiError as error:
            # Nothing is left after the last byte, and a range of nothing cannot be asked for.
            if self._etag is None or error.status != 416:
                raise
            self._pieces = _nothing()
            return
        self._etag = self._response.headers.get("etag")
        self._pieces = self._response.iter_raw()

    def _drop(self) -> None:
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            response.close()

    def close(self) -> None:
        """Ends the reading."""
        self._over = True
        self._drop()


def _nothing() -> Iterator[bytes]:
    return
    yield b""


class Watch(Events[FileEvent | RescanEvent]):
    """What changes below a path. `RescanEvent` says that some changes are missing: list again."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self.ready: WatchReadyEvent | None = None
        """What is watched; every change after it is told."""
        self.end: WatchEndEvent | None = None
        """Why the watch ended, when it did so by itself."""

    def start(self) -> Self:
        """Waits until changes are told."""
        while self.ready is None:
            event = self._source.next()
            if event is None:
                break
            if event.event == "ready":
                self.ready = decode(WatchReadyEvent, event.json())
        return self

    def next(self) -> FileEvent | RescanEvent | None:
        """The next change; None when the watch has ended."""
        while (event := self._source.next()) is not None:
            if event.event == "rescan":
                return decode(RescanEvent, event.json())
            if event.event == "end":
                self.end = decode(WatchEndEvent, event.json())
                return None
            if event.event != "ready":
                return decode(FileEvent, event.json())
        return None

    def close(self) -> None:
        self._source.close()


class Files:
    """Files of a sandbox."""

    def __init__(self, transport: Transport, base: str) -> None:
        self._transport = transport
        self._base = f"{base}/files"

    # ── Content ──────────────────────────────────────────────────────────────────────────────────

    def read_bytes(
        self,
        path: SandboxPath,
        *,
        offset: int = 0,
        length: int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> bytes:
        """All of a file, or `length` bytes of it from `offset` on."""
        pieces = []
        reading = self.read_stream(path, offset=offset, length=length, user=user, session=session)
        with reading as reader:
            for piece in reader:
                pieces.append(piece)
        return b"".join(pieces)

    def read_text(
        self,
        path: SandboxPath,
        *,
        encoding: str = "utf-8",
        errors: str = "strict",
        user: str | None = None,
        session: str | None = None,
    ) -> str:
        """All of a file, as text; line ends stay as they are."""
        return (self.read_bytes(path, user=user, session=session)).decode(encoding, errors)

    def read_stream(
        self,
        path: SandboxPath,
        *,
        offset: int = 0,
        length: int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FileReader:
        """A file in pieces, of any size; `length` bytes of it, or all, from `offset` on."""
        query = {**path_query(path), "user": user, "session": session}
        return FileReader(self._transport, f"{self._base}/content", query, offset, length)

    def write(
        self,
        path: SandboxPath,
        content: Content,
        *,
        mode: str | int | None = None,
        parents: bool | None = None,
        append: bool | None = None,
        durable: bool | None = None,
        modified_at: datetime | None = None,
        if_match: str | None = None,
        create_only: bool = False,
        user: str | None = None,
        session: str | None = None,
    ) -> FileEntry:
        """Writes a file in one step: readers see the old content or the new. Makes missing directories.

        `content` is text (as UTF-8), bytes, an open binary file, or an iterable of bytes. `if_match` writes
        only over the version with that ETag, `create_only` only where nothing is.
        """
        query = {
            **path_query(path),
            "mode": _octal(mode),
            "parents": parents,
            "append": append,
            "durable": durable,
            "modified_at": modified_at.isoformat() if modified_at else None,
            "user": user,
            "session": session,
        }
        headers = dict(OCTETS)
        if if_match is not None:
            headers["if-match"] = if_match
        if create_only:
            headers["if-none-match"] = "*"
        # An append, and a write under a condition that it makes untrue itself, would not be the same twice.
        once = bool(append) or create_only or if_match is not None
        reply = self._transport.json(
            "PUT",
            f"{self._base}/content",
            params=query,
            content=content,
            headers=headers,
            long=True,
            once=once,
        )
        return decode(FileEntry, reply)

    def download(
        self,
        path: SandboxPath,
        to: str | Path,
        *,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Copies a file of the sandbox to one here; the number of its bytes."""
        size = 0
        with self.read_stream(path, user=user, session=session) as reader:
            with open(to, "wb") as file:
                for piece in reader:
                    size += file.write(piece)
        return size

    def upload(
        self,
        from_: str | Path,
        path: SandboxPath,
        *,
        mode: str | int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FileEntry:
        """Copies a file here into the sandbox."""
        with open(from_, "rb") as file:
            return self.write(path, file, mode=mode, user=user, session=session)

    # ── Entries ──────────────────────────────────────────────────────────────────────────────────

    def stat(
        self,
        path: SandboxPath,
        *,
        follow: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FileEntry:
        """What is at a path; with `follow=False` a symbolic link itself."""
        query = {**path_query(path), "follow": follow, "user": user, "session": session}
        return self._transport.get(FileEntry, f"{self._base}/stat", query)

    def exists(self, path: SandboxPath, *, user: str | None = None, session: str | None = None) -> bool:
        """Whether something is at a path."""
        try:
            self.stat(path, user=user, session=session)
        except ApiError as error:
            if error.code in ("file_not_found", "not_a_directory"):
                return False
            raise
        return True

    def list(
        self,
        path: SandboxPath | None = None,
        *,
        recursive: bool | None = None,
        hidden: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> list[FileEntry]:
        """What is in a directory, by name; with `recursive` all below it."""
        query = {
            **path_query(path),
            "recursive": recursive,
            "hidden": hidden,
            "user": user,
            "session": session,
        }
        # All in lines: one request, however many there are.
        response = self._transport.send(
            "GET", self._base, params=query, headers={"accept": "application/x-ndjson"}, silence=None
        )
        return [decode(FileEntry, json.loads(line)) for line in response.content.splitlines()]

    def mkdir(
        self,
        path: SandboxPath,
        *,
        parents: bool | None = None,
        exist_ok: bool | None = None,
        mode: str | int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FileEntry:
        """Makes a directory."""
        text, encoded = path_or_base64(path)
        body: params.MkdirRequest = {
            "path": text,
            "path_base64": encoded,
            "parents": parents,
            "exist_ok": exist_ok,
            "mode": _octal(mode),
            "user": user,
            "session": session,
        }
        return self._transport.post(FileEntry, f"{self._base}/mkdir", body)

    def remove(
        self,
        path: SandboxPath,
        *,
        recursive: bool | None = None,
        missing_ok: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Removes a file or a directory, with `recursive` and all in it; how many entries that were."""
        text, encoded = path_or_base64(path)
        body: params.RemoveRequest = {
            "path": text,
            "path_base64": encoded,
            "recursive": recursive,
            "missing_ok": missing_ok,
            "user": user,
            "session": session,
        }
        return (self._transport.post(RemoveReply, f"{self._base}/remove", body, long=True)).removed

    def move(
        self,
        from_: SandboxPath,
        to: SandboxPath,
        *,
        overwrite: bool | None = None,
        parents: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FileEntry:
        """Moves or renames; `to` is the new path itself."""
        body: params.MoveRequest = {
            "from": path_or_base64(from_)[0],
            "from_base64": path_or_base64(from_)[1],
            "to": path_or_base64(to)[0],
            "to_base64": path_or_base64(to)[1],
            "overwrite": overwrite,
            "parents": parents,
            "user": user,
            "session": session,
        }
        return self._transport.post(FileEntry, f"{self._base}/move", body, long=True)

    def copy(
        self,
        from_: SandboxPath,
        to: SandboxPath,
        *,
        recursive: bool | None = None,
        overwrite: bool | None = None,
        parents: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> CopyReply:
        """Copies a file, or a tree with `recursive`; `to` is the new path itself."""
        body: params.CopyRequest = {
            "from": path_or_base64(from_)[0],
            "from_base64": path_or_base64(from_)[1],
            "to": path_or_base64(to)[0],
            "to_base64": path_or_base64(to)[1],
            "recursive": recursive,
            "overwrite": overwrite,
            "parents": parents,
            "user": user,
            "session": session,
        }
        return self._transport.post(CopyReply, f"{self._base}/copy", body, long=True)

    def chmod(
        self,
        path: SandboxPath,
        mode: str | int,
        *,
        recursive: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> int:
        """Sets permission bits (`0o755` or `"755"`); how many entries were changed."""
        text, encoded = path_or_base64(path)
        body: params.ChmodRequest = {
            "path": text,
            "path_base64": encoded,
            "mode": _octal(mode) or "",
            "recursive": recursive,
            "user": user,
            "session": session,
        }
        return (self._transport.post(ChmodReply, f"{self._base}/chmod", body, long=True)).changed

    # ── Trees ────────────────────────────────────────────────────────────────────────────────────

    def find(
        self,
        path: SandboxPath = ".",
        *,
        patterns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        kind: params.FileKind | None = None,
        hidden: bool | None = None,
        gitignore: bool | None = None,
        max_depth: int | None = None,
        limit: int | None = None,
        timeout: Seconds | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> FindReply:
        """Entries below a directory, by glob and kind."""
        text, encoded = path_or_base64(path)
        body: params.FindRequest = {
            "path": text,
            "path_base64": encoded,
            "patterns": patterns,
            "exclude": exclude,
            "kind": kind,
            "hidden": hidden,
            "gitignore": gitignore,
            "max_depth": max_depth,
            "limit": limit,
            "timeout_ms": milliseconds(timeout),
            "user": user,
            "session": session,
        }
        return self._transport.post(FindReply, f"{self._base}/find", body, long=True)

    def search(
        self,
        pattern: str,
        path: SandboxPath = ".",
        *,
        literal: bool | None = None,
        case: params.CaseMode | None = None,
        context: int | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        hidden: bool | None = None,
        gitignore: bool | None = None,
        limit: int | None = None,
        max_file_bytes: int | None = None,
        timeout: Seconds | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> SearchReply:
        """Lines that match a regular expression, or with `literal` contain the text."""
        text, encoded = path_or_base64(path)
        body: params.SearchRequest = {
            "pattern": pattern,
            "path": text,
            "path_base64": encoded,
            "literal": literal,
            "case": case,
            "context": context,
            "include": include,
            "exclude": exclude,
            "hidden": hidden,
            "gitignore": gitignore,
            "limit": limit,
            "max_file_bytes": max_file_bytes,
            "timeout_ms": milliseconds(timeout),
            "user": user,
            "session": session,
        }
        return self._transport.post(SearchReply, f"{self._base}/search", body, long=True)

    def pack(
        self,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "tar.gz", "tar.zst"] | None = None,
        exclude: Sequence[str] | None = None,
        gitignore: bool | None = None,
        skip_unreadable: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> bytes:
        """A directory as an archive."""
        query = _pack_query(path, format, exclude, gitignore, skip_unreadable, user, session)
        response = self._transport.send("GET", f"{self._base}/archive", params=query, silence=None)
        return response.content

    def pack_stream(
        self,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "tar.gz", "tar.zst"] | None = None,
        exclude: Sequence[str] | None = None,
        gitignore: bool | None = None,
        skip_unreadable: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> Download:
        """A directory as an archive, in pieces, of any size."""
        query = _pack_query(path, format, exclude, gitignore, skip_unreadable, user, session)
        return Download(self._transport, f"{self._base}/archive", query)

    def unpack(
        self,
        archive: Content,
        path: SandboxPath = ".",
        *,
        user: str | None = None,
        session: str | None = None,
    ) -> ArchiveCounts:
        """Unpacks a tar archive (plain, gzip or zstd) into a directory, all or nothing."""
        query = {**path_query(path), "user": user, "session": session}
        reply = self._transport.json(
            "PUT",
            f"{self._base}/archive",
            params=query,
            content=archive,
            headers={"content-type": "application/x-tar"},
            long=True,
        )
        return decode(ArchiveCounts, reply)

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────

    def watch(
        self,
        path: SandboxPath = ".",
        *,
        recursive: bool | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        since: int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> Watch:
        """What changes below a path. When this returns, every later change is told."""
        query = {
            **path_query(path),
            "recursive": recursive,
            "include": ",".join(include) if include else None,
            "exclude": ",".join(exclude) if exclude else None,
            "user": user,
            "session": session,
        }
        source = EventSource(
            self._transport,
            f"{self._base}/watch",
            params=query,
            last=frozenset({"end"}),
            from_id=None if since is None else str(since),
        )
        return Watch(source).start()

    def changes(
        self,
        path: SandboxPath = ".",
        *,
        since: int | None = None,
        recursive: bool | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> ChangesReply:
        """Whether anything changed since a version; without `since`, a version to begin with."""
        text, encoded = path_or_base64(path)
        body: params.ChangesRequest = {
            "path": text,
            "path_base64": encoded,
            "since": since,
            "recursive": recursive,
            "include": include,
            "exclude": exclude,
            "user": user,
            "session": session,
        }
        return self._transport.post(ChangesReply, f"{self._base}/changes", body)


def _octal(mode: str | int | None) -> str | None:
    """`0o755` and `"755"` as the API has them."""
    return f"{mode:04o}" if isinstance(mode, int) else mode


def _pack_query(
    path: SandboxPath,
    format: str | None,
    exclude: Sequence[str] | None,
    gitignore: bool | None,
    skip_unreadable: bool | None,
    user: str | None,
    session: str | None,
) -> dict[str, Any]:
    return {
        **path_query(path),
        "format": format,
        "exclude": ",".join(exclude) if exclude else None,
        "gitignore": gitignore,
        "skip_unreadable": skip_unreadable,
        "user": user,
        "session": session,
    }
