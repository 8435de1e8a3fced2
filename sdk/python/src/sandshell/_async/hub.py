"""A hub: sandboxes, tokens, images and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Self

from .. import params
from .._decode import decode
from .._wire import segment
from ..models import AuditEntry, ImageRecord, SandboxRecord, TokenCreated, TokenRecord, VersionInfo
from ._io import Content
from .paging import pages
from .transport import MAX_RETRIES, AsyncTransport


class AsyncHub:
    """Connections to one hub, which many sandboxes can share (`AsyncSandbox.create(hub=hub)`).

    `url` and `token` default to SANDSHELL_URL (else http://127.0.0.1:4020) and SANDSHELL_TOKEN or the
    file SANDSHELL_TOKEN_FILE. `unix:PATH` is a socket.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, max_retries: int = MAX_RETRIES
    ) -> None:
        self._transport = AsyncTransport(url, token, max_retries=max_retries)

    async def version(self) -> VersionInfo:
        return await self._transport.get(VersionInfo, "/version")

    def list_sandboxes(
        self, *, labels: Mapping[str, str] | None = None, state: str | None = None
    ) -> AsyncIterator[SandboxRecord]:
        """The sandboxes the token may use, oldest first; `state="all"` for those that are over, too."""
        wanted = [f"{name}={value}" for name, value in (labels or {}).items()]
        query = {"label": wanted, "state": state}
        return pages(self._transport, SandboxRecord, "/v1/sandboxes", query)

    # ── Tokens ───────────────────────────────────────────────────────────────────────────────────

    async def create_token(
        self,
        scopes: Sequence[str],
        *,
        name: str | None = None,
        expires_at: datetime | None = None,
        max_sandboxes: int | None = None,
    ) -> TokenCreated:
        """Makes a token for `admin`, `create` or `sandbox:ID`; it is shown this once."""
        body: params.TokenRequest = {
            "scopes": scopes,
            "name": name,
            "expires_at": expires_at.isoformat() if expires_at else None,
            "max_sandboxes": max_sandboxes,
        }
        return await self._transport.post(TokenCreated, "/v1/tokens", body)

    def list_tokens(self) -> AsyncIterator[TokenRecord]:
        return pages(self._transport, TokenRecord, "/v1/tokens")

    async def revoke_token(self, id: str) -> TokenRecord:
        """Takes a token away; streams that are open go on."""
        return await self._transport.delete(TokenRecord, f"/v1/tokens/{segment(id)}")

    # ── Images ───────────────────────────────────────────────────────────────────────────────────

    async def import_image(self, name: str, archive: Content) -> ImageRecord:
        """Takes in a root file system: a tar of `docker export`, `docker save` or an OCI layout."""
        reply = await self._transport.json(
            "PUT",
            f"/v1/images/{segment(name)}",
            content=archive,
            headers={"content-type": "application/x-tar"},
            long=True,
        )
        return decode(ImageRecord, reply)

    async def import_image_directory(self, name: str, directory: str) -> ImageRecord:
        """The same from a directory of the hub's machine, which is copied."""
        body: params.ImageRequest = {"name": name, "directory": directory}
        return await self._transport.post(ImageRecord, "/v1/images", body, long=True)

    async def get_image(self, name: str) -> ImageRecord:
        return await self._transport.get(ImageRecord, f"/v1/images/{segment(name)}")

    def list_images(self) -> AsyncIterator[ImageRecord]:
        return pages(self._transport, ImageRecord, "/v1/images")

    async def remove_image(self, name: str) -> ImageRecord:
        return await self._transport.delete(ImageRecord, f"/v1/images/{segment(name)}")

    def audit(self, *, target: str | None = None, action: str | None = None) -> AsyncIterator[AuditEntry]:
        """What was done to sandboxes and tokens, newest first."""
        return pages(self._transport, AuditEntry, "/v1/audit", {"target": target, "action": action})

    async def aclose(self) -> None:
        """Closes the connections; sandboxes go on."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
