"""Every mistake is the right exception, with what a person needs to see."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Awaitable, Callable

import pytest

from live import isolation
from sandshell import ApiError, AsyncHub, AsyncSandbox, ConnectionFailed, SandshellError, errors

pytestmark = pytest.mark.anyio


async def test_mistakes(sandbox: AsyncSandbox) -> None:
    process = await sandbox.start_process("true")
    await process.wait()
    await sandbox.files.write("file", "x")
    await sandbox.files.write("full/file", "x")
    session = await sandbox.create_session("taken")
    terminal = await sandbox.terminal("true")
    await terminal.wait()

    async def fails(
        kind: type[ApiError], base: type[ApiError], status: int, call: Callable[[], Awaitable[object]]
    ) -> None:
        with pytest.raises(kind) as raised:
            await call()
        error = raised.value
        assert isinstance(error, base) and isinstance(error, SandshellError)
        assert error.status == status and error.detail and error.request_id
        assert error.code in str(error)

    e = errors
    await fails(e.InvalidCwd, e.BadRequestError, 400, lambda: sandbox.exec("true", cwd="/nowhere"))
    await fails(e.UserNotFound, e.BadRequestError, 400, lambda: sandbox.exec("true", user="nobody-here"))
    await fails(e.InvalidRequest, e.BadRequestError, 400, lambda: sandbox.exec("true", env={"A=B": "x"}))
    await fails(e.ProgramNotFound, e.UnprocessableError, 422, lambda: sandbox.exec(["no-such-program"]))
    await fails(e.ProgramNotExecutable, e.UnprocessableError, 422, lambda: sandbox.exec(["/etc/passwd"]))
    await fails(e.FileNotFound, e.NotFoundError, 404, lambda: sandbox.files.read_bytes("nothing"))
    await fails(e.IsADirectory, e.UnprocessableError, 422, lambda: sandbox.files.read_bytes("/tmp"))
    await fails(e.NotADirectory, e.UnprocessableError, 422, lambda: sandbox.files.list("file"))
    await fails(e.FileExists, e.ConflictError, 409, lambda: sandbox.files.mkdir("file"))
    await fails(e.DirectoryNotEmpty, e.ConflictError, 409, lambda: sandbox.files.remove("full"))
    await fails(
        e.PermissionDenied,
        e.PermissionDeniedError,
        403,
        lambda: sandbox.files.write("/usr/x", "", user="sandbox"),
    )
    await fails(
        e.InvalidArchive, e.UnprocessableError, 422, lambda: sandbox.files.unpack(b"not a tar", "out")
    )
    await fails(e.ProcessNotFound, e.NotFoundError, 404, lambda: sandbox.get_process("nobody"))
    await fails(e.SessionNotFound, e.NotFoundError, 404, lambda: sandbox.get_session("nobody"))
    await fails(e.TerminalNotFound, e.NotFoundError, 404, lambda: sandbox.get_terminal("nobody"))
    await fails(e.ContextNotFound, e.NotFoundError, 404, lambda: sandbox.get_context("nobody"))
    await fails(e.BackupNotFound, e.NotFoundError, 404, lambda: sandbox.backups.get("nobody"))
    await fails(e.CommandNotFound, e.NotFoundError, 404, lambda: session.command("cmd_none"))
    await fails(e.ProcessEnded, e.ConflictError, 409, lambda: process.signal("TERM"))
    await fails(e.IdConflict, e.ConflictError, 409, lambda: sandbox.create_session("taken", cwd="/tmp"))
    await fails(e.InvalidRequest, e.BadRequestError, 400, lambda: process.signal("NOSUCH"))
    await fails(e.InvalidRequest, e.BadRequestError, 400, lambda: sandbox.files.search("(", "."))
    await session.delete()
    await fails(e.SessionNotFound, e.NotFoundError, 404, lambda: session.exec("true"))
    await fails(e.SandboxNotFound, e.NotFoundError, 404, lambda: AsyncSandbox.connect("nobody"))
    await fails(
        e.AuthenticationError,
        e.AuthenticationError,
        401,
        lambda: AsyncSandbox.connect(sandbox.id, token="sk_no"),
    )
    await fails(
        e.ImageNotFound,
        e.NotFoundError,
        404,
        lambda: AsyncSandbox.create(image="none", isolation=isolation()),
    )


async def test_stdin_that_is_closed(sandbox: AsyncSandbox) -> None:
    async with await sandbox.start_process("sleep 100") as process:
        with pytest.raises(errors.StdinClosed):
            await process.write("x")
    async with await sandbox.start_process("sleep 100", stdin_open=True) as process:
        with pytest.raises(errors.StdinOffset) as raised:
            await process.write("x", offset=7)
        assert raised.value.problem["expected_offset"] == 0


async def test_a_pointer_and_a_hint(sandbox: AsyncSandbox) -> None:
    with pytest.raises(errors.InvalidRequest) as raised:
        await sandbox.start_process("true", id="not an id")
    error = raised.value
    assert error.pointer == "/id" and error.title and error.problem["type"] == "/problems/invalid_request"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.pointer == "/id" and str(again) == str(error)


async def test_a_terminal_that_is_gone(sandbox: AsyncSandbox) -> None:
    terminal = await sandbox.terminal("true")
    await terminal.delete()
    with pytest.raises(errors.TerminalNotFound):
        await terminal.write("x")


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with AsyncHub(f"http://127.0.0.1:{port}", max_retries=1) as hub:
        with pytest.raises(ConnectionFailed, match=f"http://127.0.0.1:{port}: .*perhaps no hub runs there"):
            await AsyncSandbox.create(hub=hub)
        with pytest.raises(ConnectionError):
            await hub.version()


async def test_no_token_and_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SANDSHELL_TOKEN_FILE")
    for token in (None, "sk_wrong"):
        async with AsyncHub(token=token) as hub:
            with pytest.raises(errors.Unauthorized, match=r"SANDSHELL_TOKEN, .*SANDSHELL_TOKEN_FILE"):
                await AsyncSandbox.create(hub=hub)


async def test_wrong_arguments(sandbox: AsyncSandbox) -> None:
    with pytest.raises(ValueError):
        await sandbox.exec("true", timeout=-1)
    with pytest.raises(ValueError):
        await sandbox.get_process("..")
    with pytest.raises(ValueError):
        AsyncHub("ftp://nowhere")
    with pytest.raises(TypeError, match="comand"):
        await sandbox.start_process("true", comand="x")  # type: ignore[call-arg]
