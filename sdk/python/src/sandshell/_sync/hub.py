# Written by scripts/generate from _async/hub.py: change that one.
"""A hub: sandboxes, tokens, images and the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Self

from .. import params
from .._decode import decode
from .._wire import segment
from ..models import AuditEntry, ImageRecord, SandboxRecord, TokenCreated, TokenRecord, VersionInfo
from ._io import Content
from .paging import pages
from .transport import MAX_RETRIES, Transport


class Hub:
    """Connections to one hub, which many sandboxes can share (`Sandbox.create(hub=hub)`).

    `url` and `token` default to SANDSHELL_URL (else http://127.0.0.1:4020) and SANDSHELL_TOKEN or the
    file SANDSHELL_TOKEN_FILE. `unix:PATH` is a socket.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, max_retries: int = MAX_RETRIES
    ) -> None:
        self._transport = Transport(url, token, max_retries=max_retries)

    def version(self) -> VersionInfo:
        return self._transport.get(VersionInfo, "/version")

    def list_sandboxes(
        self, *, labels: Mapping[str, str] | None = None, state: str | None = None
    ) -> Iterator[SandboxRecord]:
        """The sandboxes the token may use, oldest first; `state="all"` for those that are over, too."""
        wanted = [f"{name}={value}" for name, value in (labels or {}).items()]
        query = {"label": wanted, "state": state}
        return pages(self._transport, SandboxRecord, "/v1/sandboxes", query)

    # ── Tokens ───────────────────────────────────────────────────────────────────────────────────

    def create_token(
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
        return self._transport.post(TokenCreated, "/v1/tokens", body)

    def list_tokens(self) -> Iterator[TokenRecord]:
        return pages(self._transport, TokenRecord, "/v1/tokens")

    def revoke_token(self, id: str) -> TokenRecord:
        """Takes a token away; streams that are open go on."""
        return self._transport.delete(TokenRecord, f"/v1/tokens/{segment(id)}")

    # ── Images ───────────────────────────────────────────────────────────────────────────────────

    def import_image(self, name: str, archive: Content) -> ImageRecord:
        """Takes in a root file system: a tar of `docker export`, `docker save` or an OCI layout."""
        reply = self._transport.json(
            "PUT",
            f"/v1/images/{segment(name)}",
            content=archive,
            headers={"content-type": "application/x-tar"},
            long=True,
        )
        return decode(ImageRecord, reply)

    def import_image_directory(self, name: str, directory: str) -> ImageRecord:
        """The same from a directory of the hub's machine, which is copied."""
        body: params.ImageRequest = {"name": name, "directory": directory}
        return self._transport.post(ImageRecord, "/v1/images", body, long=True)

    def get_image(self, name: str) -> ImageRecord:
        return self._transport.get(ImageRecord, f"/v1/images/{segment(name)}")

    def list_images(self) -> Iterator[ImageRecord]:
        return pages(self._transport, ImageRecord, "/v1/images")

    def remove_image(self, name: str) -> ImageRecord:
        return self._transport.delete(ImageRecord, f"/v1/images/{segment(name)}")

    def audit(self, *, target: str | None = None, action: str | None = None) -> Iterator[AuditEntry]:
        """What was done to sandboxes and tokens, newest first."""
        return pages(self._transport, AuditEntry, "/v1/audit", {"target": target, "action": action})

    def close(self) -> None:
        """Closes the connections; sandboxes go on."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
