"""Backups: directories saved as archives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from .. import params
from .._wire import SandboxPath, Seconds, milliseconds, path_or_base64, segment
from ..models import BackupRecord, RestoreReply
from .paging import pages
from .stream import AsyncDownload
from .transport import AsyncTransport


class AsyncBackups:
    """Backups of a sandbox; kept until deleted, or until their time is over."""

    def __init__(self, transport: AsyncTransport, base: str) -> None:
        self._transport = transport
        self._base = f"{base}/backups"

    async def create(
        self,
        path: SandboxPath | None = None,
        *,
        id: str | None = None,
        exclude: Sequence[str] | None = None,
        gitignore: bool | None = None,
        skip_unreadable: bool | None = None,
        ttl: Seconds | None = None,
        upload: params.Upload | None = None,
        download: params.Download | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> BackupRecord:
        """Saves a directory; returns when it is done."""
        text, encoded = path_or_base64(path)
        body: params.BackupRequest = {
            "path": text,
            "path_base64": encoded,
            "id": id,
            "exclude": exclude,
            "gitignore": gitignore,
            "skip_unreadable": skip_unreadable,
            "ttl_ms": milliseconds(ttl),
            "upload": upload,
            "download": download,
            "user": user,
            "session": session,
        }
        return await self._transport.post(BackupRecord, self._base, body, long=True)

    async def restore(
        self,
        id: str,
        path: SandboxPath | None = None,
        *,
        download: params.Download | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> RestoreReply:
        """Puts a backup in the place of a directory, all or nothing."""
        text, encoded = path_or_base64(path)
        body: params.RestoreRequest = {
            "path": text,
            "path_base64": encoded,
            "download": download,
            "user": user,
            "session": session,
        }
        return await self._transport.post(
            RestoreReply, f"{self._base}/{segment(id)}/restore", body, long=True
        )

    async def get(self, id: str) -> BackupRecord:
        return await self._transport.get(BackupRecord, f"{self._base}/{segment(id)}")

    def list(self) -> AsyncIterator[BackupRecord]:
        return pages(self._transport, BackupRecord, self._base)

    def content(self, id: str) -> AsyncDownload:
        """The archive, a zstd tar, in pieces."""
        return AsyncDownload(self._transport, f"{self._base}/{segment(id)}/content")

    async def download(self, id: str, to: str | Path) -> int:
        """Writes the archive to a file here; the number of its bytes."""
        return await self.content(id).save(to)

    async def delete(self, id: str) -> BackupRecord:
        """Deletes a backup; ends the making of it."""
        return await self._transport.delete(BackupRecord, f"{self._base}/{segment(id)}")
