"""Git, backups, ports, contexts, environment, events, the sandbox's life, the hub, an agent by itself."""

from __future__ import annotations

import shutil
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from live import PATIENCE, Live, isolation, without
from sandshell import AsyncAgent, AsyncHub, AsyncSandbox, CodeOutput, WaitTimeout
from sandshell.errors import ContextNotFound, SandboxGone, SandboxNotFound, SandboxPaused
from sandshell.models import RunError, RunResult, SandboxEvent

from ._io import Begun, pause

pytestmark = pytest.mark.anyio

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


@needs_git
async def test_git(sandbox: AsyncSandbox) -> None:
    git = sandbox.git
    await sandbox.exec("git init -q -b main repo && git init -q --bare up.git", check=True)
    await sandbox.exec(
        "git config user.name Ada; git config user.email ada@example.org", cwd="/workspace/repo", check=True
    )
    await sandbox.files.write("repo/a", "one\n")
    assert not (await git.status("repo")).clean
    status = await git.add(["a"], "repo")
    assert [entry.index for entry in status.entries] == ["added"]
    done = await git.commit("first", "repo", author={"name": "Ada", "email": "ada@example.org"})
    assert done.committed and done.branch == "main"
    assert (await git.commit("nothing", "repo")).committed is False
    await sandbox.files.write("repo/a", "two\n")
    diff = await git.diff("repo")
    assert "+two" in diff.diff and diff.files[0].additions == 1
    await git.commit("second", "repo", all=True)
    assert [commit.subject async for commit in git.log("repo", limit=1)] == ["second", "first"]
    assert (await git.checkout("topic", "repo", create=True)).branch == "topic"
    assert {branch.name for branch in (await git.branches("repo")).items} == {"main", "topic"}
    await sandbox.exec("git remote add origin ../up.git", cwd="/workspace/repo", check=True)
    assert (await git.push("repo", set_upstream=True)).refs[0].state == "created"
    cloned = await git.clone("/workspace/up.git", "copy", branch="topic")
    assert cloned.branch == "topic" and await sandbox.files.read_text("copy/a") == "two\n"
    assert (await git.pull("copy")).updated is False


async def test_backups(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    await sandbox.files.write("tree/a", "saved")
    record = await sandbox.backups.create("tree", id="one", ttl=3600)
    assert record.state == "ready" and record.contents.files == 1
    await sandbox.files.write("tree/a", "changed")
    await sandbox.files.write("tree/b", "extra")
    assert (await sandbox.backups.restore("one")).contents.files == 1
    assert await sandbox.files.read_text("tree/a") == "saved" and not await sandbox.files.exists("tree/b")
    assert [each.id async for each in sandbox.backups.list()] == ["one"]
    assert await sandbox.backups.download("one", tmp_path / "one.tar.zst") == record.size
    assert (await sandbox.backups.get("one")).sha256 == record.sha256
    await sandbox.backups.delete("one")


async def test_ports(sandbox: AsyncSandbox, live: Live) -> None:
    events = sandbox.ports.events()
    server = "python3 -u -m http.server 8000 --bind 127.0.0.1 --directory /tmp"
    async with await sandbox.start_process(server) as process:
        await sandbox.ports.wait(8000, http={"path": "/"}, timeout=PATIENCE)
        assert [(port.port, port.process) async for port in sandbox.ports.list()] == [(8000, process.id)]
        change = await events.next()
        assert change is not None and change.port.port == 8000
        await sandbox.files.write("/tmp/page", "served")
        exposure = await sandbox.ports.expose(8000)
        page = f"{live.url}{exposure.path}page?port_token={exposure.token}"
        with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
            assert answer.read() == b"served"
        assert (await sandbox.ports.unexpose(8000)).was_exposed
        request = urllib.request.Request(sandbox.ports.proxy_url(8000, "/page"))
        request.add_header("authorization", f"Bearer {live.token}")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.read() == b"served"
        preview = await sandbox.ports.preview_url(8000, ttl=60)
        assert preview.url.startswith(f"http://8000-{sandbox.id}-")
        await sandbox.ports.revoke_previews(8000)
    closed = await events.next()
    assert closed is not None and closed.change == "closed"
    await events.aclose()
    with pytest.raises(WaitTimeout):
        await sandbox.ports.wait(8000, timeout=0.1)


async def test_contexts(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_context("python") as context:
        await context.run("x = 20")
        reply = await context.run("print('hi'); x + 1")
        assert reply.stdout == "hi\n" and reply.results[0].data["text/plain"] == "21"
        failed = await context.run("1/0")
        assert failed.status == "error" and failed.error is not None
        assert failed.error.name == "ZeroDivisionError"
        run = context.run_stream("import sys; print('out'); print('err', file=sys.stderr); x; 1/0")
        items = [item async for item in run]
        assert "".join(i.text for i in items if isinstance(i, CodeOutput) and i.stream == "stdout") == "out\n"
        assert "".join(i.text for i in items if isinstance(i, CodeOutput) and i.stream == "stderr") == "err\n"
        assert [i.name for i in items if isinstance(i, RunError)] == ["ZeroDivisionError"]
        assert not [i for i in items if isinstance(i, RunResult)]
        assert run.end is not None and (run.end.status, run.end.context) == ("error", "kept")
        slow = Begun(lambda: context.run("import time; time.sleep(1000)"))
        while (await context.refresh()).state != "busy":
            await pause(0.02)
        assert (await context.interrupt()).outcome == "kept"
        await slow.result()
        assert (await context.run("x")).results[0].data["text/plain"] == "20"
        await context.restart()
        assert (await context.run("x")).status == "error"
        assert [each.id async for each in sandbox.list_contexts()] == [context.id]
    with pytest.raises(ContextNotFound):
        await sandbox.get_context(context.id)


async def test_environment_and_figures(sandbox: AsyncSandbox) -> None:
    reply = await sandbox.set_env({"A": "1"}, B="2")
    assert reply.env == {"A": "1", "B": "2"} and "PATH" in reply.base
    assert (await sandbox.exec("echo $A$B")).stdout == "12\n"
    await sandbox.set_env(A=None)
    assert (await sandbox.exec("echo ${A-none}")).stdout == "none\n"
    assert (await sandbox.env()).env.get("A") is None
    stats = await sandbox.stats()
    assert stats.memory.limit_bytes is None or stats.memory.limit_bytes > 0
    assert {layer.name for layer in await sandbox.protections()} >= {"pid-ns", "seccomp"}


async def test_events(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process("exit 4")
    await process.wait()
    async with sandbox.events(from_=0, types=["process_started", "process_exited"]) as events:
        started, ended = await events.next(), await events.next()
    assert isinstance(started, SandboxEvent) and started.process == process.id
    assert isinstance(ended, SandboxEvent) and (ended.type, ended.exit_code) == ("process_exited", 4)
    assert ended.port is None


async def test_pause(sandbox: AsyncSandbox) -> None:
    if without(sandbox.record.protections, ["memory-limit"]):
        pytest.skip("without a control group a sandbox cannot be frozen")
    assert (await sandbox.pause()).state == "paused"
    with pytest.raises(SandboxPaused):
        await sandbox.exec("true")
    assert (await sandbox.resume()).state == "ready"
    assert (await sandbox.exec("true")).ok


async def test_life(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.keepalive()).id == sandbox.id
    changed = await sandbox.update(labels={"team": "web"}, idle_timeout=600)
    assert changed.labels == {"team": "web"} and changed.idle_timeout_ms == 600_000
    assert [each.id for each in await AsyncSandbox.list(labels={"team": "web"})] == [sandbox.id]
    async with await AsyncSandbox.connect(sandbox.id) as again:
        assert (await again.exec("hostname")).stdout.strip() == sandbox.id
    assert (await sandbox.refresh()).state == "ready"
    assert (await sandbox.destroy()).state == "gone"
    assert (await sandbox.destroy()).state == "gone"
    with pytest.raises((SandboxGone, SandboxNotFound)):
        await sandbox.exec("true")


async def test_hub_and_tokens() -> None:
    async with AsyncHub() as hub:
        assert (await hub.version()).api
        async with await AsyncSandbox.create("for-a-token", hub=hub, isolation=isolation()) as sandbox:
            soon = datetime.now(UTC) + timedelta(hours=1)
            token = await hub.create_token([f"sandbox:{sandbox.id}"], name="guest", expires_at=soon)
            async with await AsyncSandbox.connect(sandbox.id, token=token.token) as guest:
                assert (await guest.exec("echo in")).stdout == "in\n"
            assert "guest" in [each.name async for each in hub.list_tokens()]
            assert (await hub.revoke_token(token.id)).revoked_at is not None
            assert [each.id async for each in hub.list_sandboxes(state="ready")].count(sandbox.id) == 1
            actions = [entry.action async for entry in hub.audit(target=sandbox.id)]
            assert actions
        assert [image.name async for image in hub.list_images()] == []


async def test_an_agent_by_itself(agent: Live) -> None:
    async with AsyncAgent(agent.url) as computer:
        assert (await computer.version()).version
        assert (await computer.exec("echo alone")).stdout == "alone\n"
        async with await computer.create_session() as session:
            assert (await session.exec("echo $((1 + 1))")).stdout == "2\n"
        async with await computer.terminal("read x; echo got:$x") as terminal:
            await terminal.write("typed\n")
            assert b"got:typed" in await terminal.read_until("got:typed", timeout=PATIENCE)
