# Written by scripts/generate from _async/test_files.py: change that one.
"""Files, trees and changes."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from cutting_proxy import CuttingProxy
from sandshell import Sandbox
from sandshell.errors import PreconditionFailed, StreamBroken
from sandshell.models import FileEvent

pytestmark = pytest.mark.anyio


def test_text_and_bytes(sandbox: Sandbox) -> None:
    files = sandbox.files
    entry = files.write("a/b/note.txt", "hällo\r\n", mode=0o600)
    assert (entry.path, entry.size, entry.mode, entry.kind) == ("/workspace/a/b/note.txt", 8, "0600", "file")
    assert files.read_text("a/b/note.txt") == "hällo\r\n"
    assert files.read_bytes(PurePosixPath("a/b/note.txt"), offset=1, length=2) == "ä".encode()
    assert files.read_bytes("a/b/note.txt", length=0) == b""
    files.write("a/b/note.txt", b"\x00\xff", append=True)
    assert files.read_bytes("a/b/note.txt") == "hällo\r\n".encode() + b"\x00\xff"
    files.write("empty", b"")
    assert files.read_bytes("empty") == b""


def test_streams_both_ways(sandbox: Sandbox, tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    sandbox.files.write(
        "big", (data[start : start + 100_000] for start in range(0, len(data), 100_000))
    )
    pieces = [piece for piece in sandbox.files.read_stream("big")]
    assert len(pieces) > 1 and b"".join(pieces) == data
    assert sandbox.files.download("big", tmp_path / "down") == len(data)
    assert (tmp_path / "down").read_bytes() == data
    assert (sandbox.files.upload(tmp_path / "down", "up")).size == len(data)
    assert (sandbox.exec("cmp big up")).ok
    sandbox.files.write("again", io.BytesIO(data))
    assert (sandbox.exec("cmp big again")).ok


def test_conditions(sandbox: Sandbox) -> None:
    sandbox.files.write("once", "1", create_only=True)
    with pytest.raises(PreconditionFailed):
        sandbox.files.write("once", "2", create_only=True)
    with pytest.raises(PreconditionFailed):
        sandbox.files.write("once", "2", if_match='"nothing"')
    assert sandbox.files.read_text("once") == "1"


def test_entries(sandbox: Sandbox) -> None:
    files = sandbox.files
    files.mkdir("d/e", parents=True)
    files.mkdir("d/e", exist_ok=True)
    files.write("d/e/f", "x")
    sandbox.exec("ln -s e d/link")
    assert [entry.path for entry in files.list("d", recursive=True)] == [
        "/workspace/d/e",
        "/workspace/d/e/f",
        "/workspace/d/link",
    ]
    assert (files.stat("d/link")).kind == "directory"
    assert (files.stat("d/link", follow=False)).link_target == "e"
    assert (files.move("d/e/f", "d/g")).path == "/workspace/d/g"
    assert (files.copy("d", "copied", recursive=True)).copied >= 3
    assert files.chmod("copied/g", 0o755) == 1
    assert (files.stat("copied/g")).mode == "0755"
    assert files.exists("d/g") and not files.exists("d/e/f") and not files.exists("d/g/h")
    assert files.remove("d", recursive=True) >= 3
    assert files.remove("d", missing_ok=True) == 0
    assert [entry.name for entry in files.list()] == ["copied"]


def test_names_that_are_not_text(sandbox: Sandbox) -> None:
    sandbox.files.write(b"/tmp/\xff\xfe", "odd")
    assert sandbox.files.read_text(b"/tmp/\xff\xfe") == "odd"
    entry = sandbox.files.stat(os.fsdecode(b"/tmp/\xff\xfe"))
    assert entry.path_base64 is not None


def test_find_and_search(sandbox: Sandbox) -> None:
    sandbox.files.write("src/a.py", "import os\nprint('needle')\n")
    sandbox.files.write("src/b.txt", "no\nneedle here\n")
    found = sandbox.files.find("src", patterns=["*.py"])
    assert [entry.name for entry in found.items] == ["a.py"]
    reply = sandbox.files.search("needle", "src", context=1)
    assert [(match.path, match.line) for match in reply.matches] == [
        ("/workspace/src/a.py", 2),
        ("/workspace/src/b.txt", 2),
    ]
    assert reply.matches[0].before[0].text.startswith("import os") and reply.summary.matched_lines == 2


def test_archives(sandbox: Sandbox, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("deep/file")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    assert (sandbox.files.unpack(made.getvalue(), "/tmp/out")).files == 1
    assert sandbox.files.read_text("/tmp/out/deep/file") == "abc"
    packed = sandbox.files.pack("/tmp/out", format="tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert any(name.endswith("deep/file") for name in archive.getnames())
    assert sandbox.files.pack_stream("/tmp/out").save(tmp_path / "out.tar") > 0
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert any(name.endswith("deep/file") for name in archive.getnames())


def test_an_archive_that_breaks_off(
    sandbox: Sandbox, through: tuple[Sandbox, CuttingProxy], tmp_path: Path
) -> None:
    far, proxy = through
    sandbox.exec("head -c 1000000 /dev/urandom > big", check=True)
    proxy.cut("/files/archive", [200_000])
    with pytest.raises(StreamBroken):
        far.files.pack_stream(".").save(tmp_path / "cut.tar")
    assert not (tmp_path / "cut.tar").exists()
    # All at once it is simply asked for again.
    proxy.cut("/files/archive", [200_000, 0])
    assert len(far.files.pack(".")) > 1_000_000 and proxy.cuts == 2


def test_session_paths(sandbox: Sandbox) -> None:
    with sandbox.create_session(cwd="/tmp") as session:
        sandbox.files.write("here", "x", session=session.id)
    assert (sandbox.files.stat("/tmp/here")).size == 1


def test_watch(sandbox: Sandbox) -> None:
    sandbox.files.mkdir("watched")
    with sandbox.files.watch("watched", exclude=["*.log"]) as watch:
        assert watch.ready is not None and watch.ready.path == "/workspace/watched"
        sandbox.exec("cd watched; echo > no.log; echo > one; mv one two; rm two")
        seen = []
        for event in watch:
            assert isinstance(event, FileEvent)
            seen.append((event.change, Path(event.path).name))
            if event.change == "removed":
                break
    assert ("created", "one") in seen and ("moved", "two") in seen and seen[-1] == ("removed", "two")
    assert not any(name == "no.log" for _, name in seen)


def test_a_watch_ends_with_its_directory(sandbox: Sandbox) -> None:
    sandbox.files.mkdir("short")
    with sandbox.files.watch("short") as watch:
        sandbox.files.remove("short", recursive=True)
        for _ in watch:
            pass
        assert watch.end is not None and watch.end.reason == "removed"


def test_changes(sandbox: Sandbox) -> None:
    before = sandbox.files.changes(".")
    assert (sandbox.files.changes(".", since=before.version)).status == "unchanged"
    sandbox.files.write("new", "")
    assert (sandbox.files.changes(".", since=before.version)).status == "changed"
