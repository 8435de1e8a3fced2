"""Git in a sandbox. `path` is a directory of the repository; the sandbox's own by default."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from .. import params
from .._decode import decode
from .._wire import Seconds, milliseconds
from ..models import (
    GitBranchesReply,
    GitCloneReply,
    GitCommit,
    GitCommitReply,
    GitDiffReply,
    GitHeadReply,
    GitPullReply,
    GitPushReply,
    GitStatusReply,
)
from .transport import AsyncTransport


class AsyncGit:
    """Git in a sandbox. Credentials hold for the one call and are kept nowhere."""

    def __init__(self, transport: AsyncTransport, base: str) -> None:
        self._transport = transport
        self._base = f"{base}/git"

    async def clone(
        self,
        url: str,
        path: str | None = None,
        *,
        branch: str | None = None,
        depth: int | None = None,
        auth: params.GitAuth | None = None,
        timeout: Seconds | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitCloneReply:
        """Clones a repository; one that fails leaves nothing."""
        body: params.GitCloneRequest = {
            "url": url,
            "path": path,
            "branch": branch,
            "depth": depth,
            "auth": auth,
            "timeout_ms": milliseconds(timeout),
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitCloneReply, f"{self._base}/clone", body, long=True)

    async def status(
        self,
        path: str | None = None,
        *,
        ignored: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitStatusReply:
        """Branch, upstream, and each changed file."""
        body: params.GitStatusRequest = {
            "path": path,
            "ignored": ignored,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitStatusReply, f"{self._base}/status", body, long=True)

    async def diff(
        self,
        path: str | None = None,
        *,
        staged: bool | None = None,
        from_: str | None = None,
        to: str | None = None,
        paths: Sequence[str] | None = None,
        max_bytes: int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitDiffReply:
        """Lines added and deleted for each file, and the patch."""
        body: params.GitDiffRequest = {
            "path": path,
            "staged": staged,
            "from": from_,
            "to": to,
            "paths": paths,
            "max_bytes": max_bytes,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitDiffReply, f"{self._base}/diff", body, long=True)

    async def log(
        self,
        path: str | None = None,
        *,
        revision: str | None = None,
        paths: Sequence[str] | None = None,
        limit: int | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> AsyncIterator[GitCommit]:
        """Commits, newest first: all of them, asked for in pages of `limit`."""
        body: params.GitLogRequest = {
            "path": path,
            "revision": revision,
            "paths": paths,
            "limit": limit,
            "user": user,
            "session": session,
        }
        while True:
            page: Any = await self._transport.json("POST", f"{self._base}/log", body=body, long=True)
            for item in page["items"]:
                yield decode(GitCommit, item)
            body["cursor"] = page.get("next_cursor")
            if body["cursor"] is None:
                return

    async def branches(
        self,
        path: str | None = None,
        *,
        create: params.GitNewBranch | None = None,
        delete: params.GitOldBranch | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitBranchesReply:
        """All branches; makes or deletes one first if asked to."""
        body: params.GitBranchesRequest = {
            "path": path,
            "create": create,
            "delete": delete,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitBranchesReply, f"{self._base}/branches", body, long=True)

    async def checkout(
        self,
        target: str,
        path: str | None = None,
        *,
        create: bool | None = None,
        start: str | None = None,
        force: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitHeadReply:
        """Switches to a branch, tag or commit; `create` makes the branch."""
        body: params.GitCheckoutRequest = {
            "target": target,
            "path": path,
            "create": create,
            "start": start,
            "force": force,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitHeadReply, f"{self._base}/checkout", body, long=True)

    async def add(
        self,
        paths: Sequence[str] | None = None,
        path: str | None = None,
        *,
        all: bool | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitStatusReply:
        """Adds `paths`, or `all`, to the index."""
        body: params.GitAddRequest = {
            "paths": paths,
            "path": path,
            "all": all,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitStatusReply, f"{self._base}/add", body, long=True)

    async def commit(
        self,
        message: str,
        path: str | None = None,
        *,
        all: bool | None = None,
        amend: bool | None = None,
        allow_empty: bool | None = None,
        author: params.GitIdentity | None = None,
        committer: params.GitIdentity | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitCommitReply:
        """Commits; `committed` is false when there was nothing to commit."""
        body: params.GitCommitRequest = {
            "message": message,
            "path": path,
            "all": all,
            "amend": amend,
            "allow_empty": allow_empty,
            "author": author,
            "committer": committer,
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitCommitReply, f"{self._base}/commit", body, long=True)

    async def pull(
        self,
        path: str | None = None,
        *,
        remote: str | None = None,
        branch: str | None = None,
        mode: params.GitPullMode | None = None,
        auth: params.GitAuth | None = None,
        timeout: Seconds | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitPullReply:
        """Fetches, then merges, rebases or fast-forwards."""
        body: params.GitPullRequest = {
            "path": path,
            "remote": remote,
            "branch": branch,
            "mode": mode,
            "auth": auth,
            "timeout_ms": milliseconds(timeout),
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitPullReply, f"{self._base}/pull", body, long=True)

    async def push(
        self,
        path: str | None = None,
        *,
        remote: str | None = None,
        branch: str | None = None,
        force: bool | None = None,
        set_upstream: bool | None = None,
        tags: bool | None = None,
        auth: params.GitAuth | None = None,
        timeout: Seconds | None = None,
        user: str | None = None,
        session: str | None = None,
    ) -> GitPushReply:
        """Pushes a branch; `force` replaces only what was last fetched."""
        body: params.GitPushRequest = {
            "path": path,
            "remote": remote,
            "branch": branch,
            "force": force,
            "set_upstream": set_upstream,
            "tags": tags,
            "auth": auth,
            "timeout_ms": milliseconds(timeout),
            "user": user,
            "session": session,
        }
        return await self._transport.post(GitPushReply, f"{self._base}/push", body, long=True)
