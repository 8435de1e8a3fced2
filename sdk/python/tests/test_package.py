"""The package as a whole: derived files, error classes, the README, and what is built of it."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import sandshell
from live import Live, isolation
from sandshell import AsyncSandbox, Sandbox, errors

HERE = Path(__file__).resolve().parent.parent
README = HERE / "README.md"
TUTORIAL = HERE.parent.parent / "docs" / "tutorial.md"
DOCUMENT = HERE.parent.parent / "openapi" / "hub-v1.json"


def test_what_is_derived_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "scripts" / "generate", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_error_code_has_its_class() -> None:
    codes = json.loads(DOCUMENT.read_text())["components"]["schemas"]["ErrorCode"]["enum"]
    assert set(codes) == set(errors.CodedError.by_code)
    for code, kind in errors.CodedError.by_code.items():
        made = errors.ApiError.of({"code": code}, status=418)
        assert type(made) is kind and made.code == code
    assert type(errors.ApiError.of({"code": "of_tomorrow"}, status=404)) is errors.NotFoundError
    assert type(errors.ApiError.of({}, status=502)) is errors.ServerError


def test_both_halves_have_the_same_names() -> None:
    for name in dir(sandshell):
        if not name.startswith("Async"):
            continue
        other = getattr(sandshell, name.removeprefix("Async"))
        pairs = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
        pairs |= {"__aiter__": "__iter__", "__anext__": "__next__"}
        for method, value in inspect.getmembers(getattr(sandshell, name), callable):
            if method.startswith("_") and method not in pairs:
                continue
            twin = getattr(other, pairs.get(method, method))
            assert inspect.signature(value).parameters.keys() == inspect.signature(twin).parameters.keys()


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), re.M | re.S)


def expected(block: str) -> list[str]:
    """What a block says that it prints: comments behind prints, and below them."""
    lines: list[str] = []
    printing = False
    for line in block.splitlines():
        code, mark, comment = line.partition("  # ")
        if mark and "print(" in code:
            printing = True
            lines.append(comment)
        elif printing and line.lstrip().startswith("# ") and line.index("#") > 20:
            lines.append(line.lstrip()[2:])
        else:
            printing = False
    return lines


TIME = re.compile(r"(sleep |timeout=)([\d.]+)")


def slower(block: str, times: int) -> str:
    """The same with all its times so many times as long."""
    return TIME.sub(lambda match: f"{match[1]}{float(match[2]) * times:g}", block)


def fitted(block: str) -> str:
    """For an ordinary user, as the text says."""
    return block.replace("Sandbox.create()", f"Sandbox.create(isolation={isolation()!r})")


@pytest.mark.parametrize(("document", "least"), [(README, 9), (TUTORIAL, 2)])
def test_documents(document: Path, least: int) -> None:
    found = blocks(document)
    assert len(found) >= least
    # Times that are right for a reader are too short for a machine that stands still for a while.
    for times in (1, 5, 25):
        wrong = first_wrong(document, found, times)
        if wrong is None or not TIME.search(wrong[0]):
            break
    assert wrong is None


def first_wrong(document: Path, found: list[str], times: int) -> tuple[str, list[str]] | None:
    """The first block that does not print what it says, and what it prints."""
    with Sandbox.create(isolation=isolation()) as sandbox:
        names: dict[str, object] = {"sandbox": sandbox}
        for number, block in enumerate(found):
            ast.parse(block)
            code = slower(fitted(block), times)
            told = io.StringIO()
            try:
                with contextlib.redirect_stdout(told):
                    exec(compile(code, f"{document.name} block {number + 1}", "exec"), names)
            except errors.WaitTimeout as error:
                return block, [str(error)]
            names["sandbox"] = sandbox
            if told.getvalue().splitlines() != expected(block):
                return block, told.getvalue().splitlines()
    return None


def test_wheel_and_sdist_in_a_clean_place(tmp_path: Path, live: Live) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(HERE)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("sandshell-*.whl")
    (sdist,) = tmp_path.glob("sandshell-*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "sandshell/py.typed" in names and "sandshell/_sync/sandbox.py" in names
    assert not [name for name in names if "test" in name or "scripts" in name]
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())

    place = tmp_path / "venv"
    venv.create(place)
    python = str(place / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    environment = {"SANDSHELL_URL": live.url, "SANDSHELL_TOKEN": live.token, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [python, "-I", "-c", fitted(blocks(README)[0])],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n 3\n"), done.stderr


@pytest.mark.anyio
async def test_many_at_once() -> None:
    """Twenty sandboxes with ten commands each over the connections of one hub."""
    async with sandshell.AsyncHub() as hub:

        async def one(number: int) -> list[str]:
            async with await AsyncSandbox.create(hub=hub, isolation=isolation()) as sandbox:
                results = await asyncio.gather(*[sandbox.exec(f"echo {number}.{each}") for each in range(10)])
                return [result.stdout for result in results]

        got = await asyncio.gather(*[one(number) for number in range(20)])
    assert got == [[f"{number}.{each}\n" for each in range(10)] for number in range(20)]
