"""Files, trees and changes."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from cutting_proxy import CuttingProxy
from sandshell import AsyncSandbox
from sandshell.errors import PreconditionFailed, StreamBroken
from sandshell.models import FileEvent

pytestmark = pytest.mark.anyio


async def test_text_and_bytes(sandbox: AsyncSandbox) -> None:
    files = sandbox.files
    entry = await files.write("a/b/note.txt", "hällo\r\n", mode=0o600)
    assert (entry.path, entry.size, entry.mode, entry.kind) == ("/workspace/a/b/note.txt", 8, "0600", "file")
    assert await files.read_text("a/b/note.txt") == "hällo\r\n"
    assert await files.read_bytes(PurePosixPath("a/b/note.txt"), offset=1, length=2) == "ä".encode()
    assert await files.read_bytes("a/b/note.txt", length=0) == b""
    await files.write("a/b/note.txt", b"\x00\xff", append=True)
    assert await files.read_bytes("a/b/note.txt") == "hällo\r\n".encode() + b"\x00\xff"
    await files.write("empty", b"")
    assert await files.read_bytes("empty") == b""


async def test_streams_both_ways(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    await sandbox.files.write(
        "big", (data[start : start + 100_000] for start in range(0, len(data), 100_000))
    )
    pieces = [piece async for piece in sandbox.files.read_stream("big")]
    assert len(pieces) > 1 and b"".join(pieces) == data
    assert await sandbox.files.download("big", tmp_path / "down") == len(data)
    assert (tmp_path / "down").read_bytes() == data
    assert (await sandbox.files.upload(tmp_path / "down", "up")).size == len(data)
    assert (await sandbox.exec("cmp big up")).ok
    await sandbox.files.write("again", io.BytesIO(data))
    assert (await sandbox.exec("cmp big again")).ok


async def test_conditions(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("once", "1", create_only=True)
    with pytest.raises(PreconditionFailed):
        await sandbox.files.write("once", "2", create_only=True)
    with pytest.raises(PreconditionFailed):
        await sandbox.files.write("once", "2", if_match='"nothing"')
    assert await sandbox.files.read_text("once") == "1"


async def test_entries(sandbox: AsyncSandbox) -> None:
    files = sandbox.files
    await files.mkdir("d/e", parents=True)
    await files.mkdir("d/e", exist_ok=True)
    await files.write("d/e/f", "x")
    await sandbox.exec("ln -s e d/link")
    assert [entry.path for entry in await files.list("d", recursive=True)] == [
        "/workspace/d/e",
        "/workspace/d/e/f",
        "/workspace/d/link",
    ]
    assert (await files.stat("d/link")).kind == "directory"
    assert (await files.stat("d/link", follow=False)).link_target == "e"
    assert (await files.move("d/e/f", "d/g")).path == "/workspace/d/g"
    assert (await files.copy("d", "copied", recursive=True)).copied >= 3
    assert await files.chmod("copied/g", 0o755) == 1
    assert (await files.stat("copied/g")).mode == "0755"
    assert await files.exists("d/g") and not await files.exists("d/e/f") and not await files.exists("d/g/h")
    assert await files.remove("d", recursive=True) >= 3
    assert await files.remove("d", missing_ok=True) == 0
    assert [entry.name for entry in await files.list()] == ["copied"]


async def test_names_that_are_not_text(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write(b"/tmp/\xff\xfe", "odd")
    assert await sandbox.files.read_text(b"/tmp/\xff\xfe") == "odd"
    entry = await sandbox.files.stat(os.fsdecode(b"/tmp/\xff\xfe"))
    assert entry.path_base64 is not None


async def test_find_and_search(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("src/a.py", "import os\nprint('needle')\n")
    await sandbox.files.write("src/b.txt", "no\nneedle here\n")
    found = await sandbox.files.find("src", patterns=["*.py"])
    assert [entry.name for entry in found.items] == ["a.py"]
    reply = await sandbox.files.search("needle", "src", context=1)
    assert [(match.path, match.line) for match in reply.matches] == [
        ("/workspace/src/a.py", 2),
        ("/workspace/src/b.txt", 2),
    ]
    assert reply.matches[0].before[0].text.startswith("import os") and reply.summary.matched_lines == 2


async def test_archives(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("deep/file")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    assert (await sandbox.files.unpack(made.getvalue(), "/tmp/out")).files == 1
    assert await sandbox.files.read_text("/tmp/out/deep/file") == "abc"
    packed = await sandbox.files.pack("/tmp/out", format="tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert any(name.endswith("deep/file") for name in archive.getnames())
    assert await sandbox.files.pack_stream("/tmp/out").save(tmp_path / "out.tar") > 0
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert any(name.endswith("deep/file") for name in archive.getnames())


async def test_an_archive_that_breaks_off(
    sandbox: AsyncSandbox, through: tuple[AsyncSandbox, CuttingProxy], tmp_path: Path
) -> None:
    far, proxy = through
    await sandbox.exec("head -c 1000000 /dev/urandom > big", check=True)
    proxy.cut("/files/archive", [200_000])
    with pytest.raises(StreamBroken):
        await far.files.pack_stream(".").save(tmp_path / "cut.tar")
    assert not (tmp_path / "cut.tar").exists()
    # All at once it is simply asked for again.
    proxy.cut("/files/archive", [200_000, 0])
    assert len(await far.files.pack(".")) > 1_000_000 and proxy.cuts == 2


async def test_session_paths(sandbox: AsyncSandbox) -> None:
    async with await sandbox.create_session(cwd="/tmp") as session:
        await sandbox.files.write("here", "x", session=session.id)
    assert (await sandbox.files.stat("/tmp/here")).size == 1


async def test_watch(sandbox: AsyncSandbox) -> None:
    await sandbox.files.mkdir("watched")
    async with await sandbox.files.watch("watched", exclude=["*.log"]) as watch:
        assert watch.ready is not None and watch.ready.path == "/workspace/watched"
        await sandbox.exec("cd watched; echo > no.log; echo > one; mv one two; rm two")
        seen = []
        async for event in watch:
            assert isinstance(event, FileEvent)
            seen.append((event.change, Path(event.path).name))
            if event.change == "removed":
                break
    assert ("created", "one") in seen and ("moved", "two") in seen and seen[-1] == ("removed", "two")
    assert not any(name == "no.log" for _, name in seen)


async def test_a_watch_ends_with_its_directory(sandbox: AsyncSandbox) -> None:
    await sandbox.files.mkdir("short")
    async with await sandbox.files.watch("short") as watch:
        await sandbox.files.remove("short", recursive=True)
        async for _ in watch:
            pass
        assert watch.end is not None and watch.end.reason == "removed"


async def test_changes(sandbox: AsyncSandbox) -> None:
    before = await sandbox.files.changes(".")
    assert (await sandbox.files.changes(".", since=before.version)).status == "unchanged"
    await sandbox.files.write("new", "")
    assert (await sandbox.files.changes(".", since=before.version)).status == "changed"
