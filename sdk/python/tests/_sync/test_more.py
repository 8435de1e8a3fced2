# Written by scripts/generate from _async/test_more.py: change that one.
"""Git, backups, ports, contexts, environment, events, the sandbox's life, the hub, an agent by itself."""

from __future__ import annotations

import shutil
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from live import PATIENCE, Live, isolation, without
from sandshell import Agent, Hub, Sandbox, CodeOutput, WaitTimeout
from sandshell.errors import ContextNotFound, SandboxGone, SandboxNotFound, SandboxPaused
from sandshell.models import RunError, RunResult, SandboxEvent

from ._io import Begun, pause

pytestmark = pytest.mark.anyio

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


@needs_git
def test_git(sandbox: Sandbox) -> None:
    git = sandbox.git
    sandbox.exec("git init -q -b main repo && git init -q --bare up.git", check=True)
    sandbox.exec(
        "git config user.name Ada; git config user.email ada@example.org", cwd="/workspace/repo", check=True
    )
    sandbox.files.write("repo/a", "one\n")
    assert not (git.status("repo")).clean
    status = git.add(["a"], "repo")
    assert [entry.index for entry in status.entries] == ["added"]
    done = git.commit("first", "repo", author={"name": "Ada", "email": "ada@example.org"})
    assert done.committed and done.branch == "main"
    assert (git.commit("nothing", "repo")).committed is False
    sandbox.files.write("repo/a", "two\n")
    diff = git.diff("repo")
    assert "+two" in diff.diff and diff.files[0].additions == 1
    git.commit("second", "repo", all=True)
    assert [commit.subject for commit in git.log("repo", limit=1)] == ["second", "first"]
    assert (git.checkout("topic", "repo", create=True)).branch == "topic"
    assert {branch.name for branch in (git.branches("repo")).items} == {"main", "topic"}
    sandbox.exec("git remote add origin ../up.git", cwd="/workspace/repo", check=True)
    assert (git.push("repo", set_upstream=True)).refs[0].state == "created"
    cloned = git.clone("/workspace/up.git", "copy", branch="topic")
    assert cloned.branch == "topic" and sandbox.files.read_text("copy/a") == "two\n"
    assert (git.pull("copy")).updated is False


def test_backups(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.files.write("tree/a", "saved")
    record = sandbox.backups.create("tree", id="one", ttl=3600)
    assert record.state == "ready" and record.contents.files == 1
    sandbox.files.write("tree/a", "changed")
    sandbox.files.write("tree/b", "extra")
    assert (sandbox.backups.restore("one")).contents.files == 1
    assert sandbox.files.read_text("tree/a") == "saved" and not sandbox.files.exists("tree/b")
    assert [each.id for each in sandbox.backups.list()] == ["one"]
    assert sandbox.backups.download("one", tmp_path / "one.tar.zst") == record.size
    assert (sandbox.backups.get("one")).sha256 == record.sha256
    sandbox.backups.delete("one")


def test_ports(sandbox: Sandbox, live: Live) -> None:
    events = sandbox.ports.events()
    server = "python3 -u -m http.server 8000 --bind 127.0.0.1 --directory /tmp"
    with sandbox.start_process(server) as process:
        sandbox.ports.wait(8000, http={"path": "/"}, timeout=PATIENCE)
        assert [(port.port, port.process) for port in sandbox.ports.list()] == [(8000, process.id)]
        change = events.next()
        assert change is not None and change.port.port == 8000
        sandbox.files.write("/tmp/page", "served")
        exposure = sandbox.ports.expose(8000)
        page = f"{live.url}{exposure.path}page?port_token={exposure.token}"
        with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
            assert answer.read() == b"served"
        assert (sandbox.ports.unexpose(8000)).was_exposed
        request = urllib.request.Request(sandbox.ports.proxy_url(8000, "/page"))
        request.add_header("authorization", f"Bearer {live.token}")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.read() == b"served"
        preview = sandbox.ports.preview_url(8000, ttl=60)
        assert preview.url.startswith(f"http://8000-{sandbox.id}-")
        sandbox.ports.revoke_previews(8000)
    closed = events.next()
    assert closed is not None and closed.change == "closed"
    events.close()
    with pytest.raises(WaitTimeout):
        sandbox.ports.wait(8000, timeout=0.1)


def test_contexts(sandbox: Sandbox) -> None:
    with sandbox.create_context("python") as context:
        context.run("x = 20")
        reply = context.run("print('hi'); x + 1")
        assert reply.stdout == "hi\n" and reply.results[0].data["text/plain"] == "21"
        failed = context.run("1/0")
        assert failed.status == "error" and failed.error is not None
        assert failed.error.name == "ZeroDivisionError"
        run = context.run_stream("import sys; print('out'); print('err', file=sys.stderr); x; 1/0")
        items = [item for item in run]
        assert "".join(i.text for i in items if isinstance(i, CodeOutput) and i.stream == "stdout") == "out\n"
        assert "".join(i.text for i in items if isinstance(i, CodeOutput) and i.stream == "stderr") == "err\n"
        assert [i.name for i in items if isinstance(i, RunError)] == ["ZeroDivisionError"]
        assert not [i for i in items if isinstance(i, RunResult)]
        assert run.end is not None and (run.end.status, run.end.context) == ("error", "kept")
        slow = Begun(lambda: context.run("import time; time.sleep(1000)"))
        while (context.refresh()).state != "busy":
            pause(0.02)
        assert (context.interrupt()).outcome == "kept"
        slow.result()
        assert (context.run("x")).results[0].data["text/plain"] == "20"
        context.restart()
        assert (context.run("x")).status == "error"
        assert [each.id for each in sandbox.list_contexts()] == [context.id]
    with pytest.raises(ContextNotFound):
        sandbox.get_context(context.id)


def test_environment_and_figures(sandbox: Sandbox) -> None:
    reply = sandbox.set_env({"A": "1"}, B="2")
    assert reply.env == {"A": "1", "B": "2"} and "PATH" in reply.base
    assert (sandbox.exec("echo $A$B")).stdout == "12\n"
    sandbox.set_env(A=None)
    assert (sandbox.exec("echo ${A-none}")).stdout == "none\n"
    assert (sandbox.env()).env.get("A") is None
    stats = sandbox.stats()
    assert stats.memory.limit_bytes is None or stats.memory.limit_bytes > 0
    assert {layer.name for layer in sandbox.protections()} >= {"pid-ns", "seccomp"}


def test_events(sandbox: Sandbox) -> None:
    process = sandbox.start_process("exit 4")
    process.wait()
    with sandbox.events(from_=0, types=["process_started", "process_exited"]) as events:
        started, ended = events.next(), events.next()
    assert isinstance(started, SandboxEvent) and started.process == process.id
    assert isinstance(ended, SandboxEvent) and (ended.type, ended.exit_code) == ("process_exited", 4)
    assert ended.port is None


def test_pause(sandbox: Sandbox) -> None:
    if without(sandbox.record.protections, ["memory-limit"]):
        pytest.skip("without a control group a sandbox cannot be frozen")
    assert (sandbox.pause()).state == "paused"
    with pytest.raises(SandboxPaused):
        sandbox.exec("true")
    assert (sandbox.resume()).state == "ready"
    assert (sandbox.exec("true")).ok


def test_life(sandbox: Sandbox) -> None:
    assert (sandbox.keepalive()).id == sandbox.id
    changed = sandbox.update(labels={"team": "web"}, idle_timeout=600)
    assert changed.labels == {"team": "web"} and changed.idle_timeout_ms == 600_000
    assert [each.id for each in Sandbox.list(labels={"team": "web"})] == [sandbox.id]
    with Sandbox.connect(sandbox.id) as again:
        assert (again.exec("hostname")).stdout.strip() == sandbox.id
    assert (sandbox.refresh()).state == "ready"
    assert (sandbox.destroy()).state == "gone"
    assert (sandbox.destroy()).state == "gone"
    with pytest.raises((SandboxGone, SandboxNotFound)):
        sandbox.exec("true")


def test_hub_and_tokens() -> None:
    with Hub() as hub:
        assert (hub.version()).api
        with Sandbox.create("for-a-token", hub=hub, isolation=isolation()) as sandbox:
            soon = datetime.now(UTC) + timedelta(hours=1)
            token = hub.create_token([f"sandbox:{sandbox.id}"], name="guest", expires_at=soon)
            with Sandbox.connect(sandbox.id, token=token.token) as guest:
                assert (guest.exec("echo in")).stdout == "in\n"
            assert "guest" in [each.name for each in hub.list_tokens()]
            assert (hub.revoke_token(token.id)).revoked_at is not None
            assert [each.id for each in hub.list_sandboxes(state="ready")].count(sandbox.id) == 1
            actions = [entry.action for entry in hub.audit(target=sandbox.id)]
            assert actions
        assert [image.name for image in hub.list_images()] == []


def test_an_agent_by_itself(agent: Live) -> None:
    with Agent(agent.url) as computer:
        assert (computer.version()).version
        assert (computer.exec("echo alone")).stdout == "alone\n"
        with computer.create_session() as session:
            assert (session.exec("echo $((1 + 1))")).stdout == "2\n"
        with computer.terminal("read x; echo got:$x") as terminal:
            terminal.write("typed\n")
            assert b"got:typed" in terminal.read_until("got:typed", timeout=PATIENCE)
