"""Files, and the workspace as an archive."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

from agents.sandbox import LocalSnapshotSpec, WorkspaceReadNotFoundError

from service import Raw, inner, options, patient_client, run, sandbox, sandbox_id, stream

# All there is of a tree: kinds, modes, times, targets of links, and contents.
LISTING = (
    "cd /workspace && find . -mindepth 1 -printf '%P\\0%y %m %l %T@\\n' | LC_ALL=C sort && "
    "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum"
)

TREE = r"""
set -e
umask 022
mkdir -p empty deep/er/est secret locked
printf 'text\n' > plain
printf '' > nothing
head -c 300000 /dev/urandom > binary
printf '#!/bin/sh\necho ran\n' > run; chmod 755 run
chmod 700 secret; printf x > secret/key; chmod 600 secret/key
chmod 444 plain
ln -s plain link
ln -s ../../plain deep/er/up
ln -s nowhere dangling
printf shared > deep/one; ln deep/one deep/two
printf n > "name with spaces"; printf n > 'ümläut'; printf n > 'new
line'; printf n > "it's"; printf n > .hidden
printf n > "$(printf 'not-\377-utf8')"
long=$(printf 'l%.0s' $(seq 150)); mkdir -p "$long/$long"; printf n > "$long/$long/$long"
touch -d '2001-02-03 04:05:06' binary empty
chmod 500 locked
"""


async def contents(session, size=1024 * 1024):
    """Text, bytes and a large file, in and out."""
    large = os.urandom(size)
    for name, content in {
        "text": "grüße\n".encode(),
        "bytes": bytes(range(256)) * 10,
        "empty": b"",
        "a/b/c/deep": b"its directories are made",
        "with space & % # ? ü.txt": b"odd name",
        "looks": b'data: {"type":"metadata"',
        "large": large,
    }.items():
        await session.write(name, stream(content))
        assert (await session.read(name)).read() == content, name
    digest = await run(session, "sha256sum < large")
    assert digest.split()[0].decode() == hashlib.sha256(large).hexdigest()
    # What is written again is replaced.
    await session.write("text", stream(b"short"))
    assert (await session.read("text")).read() == b"short"
    assert await session.read_bounded(Path("bytes"), max_bytes=10) == bytes(range(10))
    # A name that is no text can be named in an address.
    await run(session, "printf odd > \"$(printf 'x\\377')\"")
    async with Raw() as raw:
        found = await raw.ask("GET", f"/v1/sandbox/{sandbox_id(session)}/file/workspace/x%FF")
        assert found == (200, b"odd"), found


async def directories(session):
    """What the SDK does with directories."""
    await session.mkdir("d/e", parents=True)
    await session.write("d/f", stream(b"1"))
    names = sorted(Path(entry.path).name for entry in await session.ls("d"))
    assert names == ["e", "f"], names
    await session.mv("d/f", "d/e/g")
    assert (await session.read("d/e/g")).read() == b"1"
    await session.rm("d", recursive=True)
    try:
        await session.read("d/e/g")
        raise AssertionError("it is still there")
    except WorkspaceReadNotFoundError:
        pass
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("inside")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    archive.seek(0)
    await session.extract("out/it.tar", archive, compression_scheme="tar")
    assert (await session.read("out/inside")).read() == b"abc"


async def carried_over(session):
    """The workspace of a sandbox, in another: the same tree."""
    await run(session, TREE)
    archive = (await session.persist_workspace()).read()
    async with sandbox() as other:
        await run(other, "printf stays > there")
        await other.hydrate_workspace(io.BytesIO(archive))
        assert await run(other, "cat there && rm there") == b"stays"
        before, after = await run(session, LISTING), await run(other, LISTING)
        assert len(before.splitlines()) > 30 and before == after, (before, after)
        assert await run(other, "./run") == b"ran\n"
        # And back.
        again = (await other.persist_workspace()).read()
    await run(session, "chmod -R u+w . && find . -mindepth 1 -delete")
    await session.hydrate_workspace(io.BytesIO(again))
    assert await run(session, LISTING) == before


async def left_out(session):
    """What is not to be kept is not in the archive; like names elsewhere are."""
    await run(session, "mkdir -p cache sub/cache 'odd[1]'; touch cache/a sub/cache/b 'odd[1]/c' odd1")
    session.register_persist_workspace_skip_path("cache")
    session.register_persist_workspace_skip_path("odd[1]")
    archive = await session.persist_workspace()
    with tarfile.open(fileobj=archive) as tar:
        names = {name.removeprefix("./") for name in tar.getnames()}
    assert {"sub/cache/b", "odd1"} <= names, names
    assert not {"cache", "cache/a", "odd[1]", "odd[1]/c"} & names, names


async def snapshots(place):
    """A session that is stopped and deleted is resumed from its snapshot, by the same id."""
    client = patient_client()
    session = await client.create(
        options=options(), snapshot=LocalSnapshotSpec(base_path=Path(place))
    )
    await session.start()
    await run(session, TREE)
    before = await run(session, LISTING)
    await session.stop()
    await client.delete(session)
    saved = client.serialize_session_state(session.state)
    state = client.deserialize_session_state(saved)
    resumed = await client.resume(state)
    try:
        assert not await inner(resumed).running()
        await resumed.start()
        assert sandbox_id(resumed) == sandbox_id(session)
        assert await run(resumed, LISTING) == before
    finally:
        await client.delete(resumed)


ALL = [contents, directories, carried_over, left_out]
