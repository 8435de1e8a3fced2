# Written by scripts/generate from _async/test_mistakes.py: change that one.
"""Every mistake is the right exception, with what a person needs to see."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable

import pytest

from live import isolation
from sandshell import ApiError, Hub, Sandbox, ConnectionFailed, SandshellError, errors

pytestmark = pytest.mark.anyio


def test_mistakes(sandbox: Sandbox) -> None:
    process = sandbox.start_process("true")
    process.wait()
    sandbox.files.write("file", "x")
    sandbox.files.write("full/file", "x")
    session = sandbox.create_session("taken")
    terminal = sandbox.terminal("true")
    terminal.wait()

    def fails(
        kind: type[ApiError], base: type[ApiError], status: int, call: Callable[[], object]
    ) -> None:
        with pytest.raises(kind) as raised:
            call()
        error = raised.value
        assert isinstance(error, base) and isinstance(error, SandshellError)
        assert error.status == status and error.detail and error.request_id
        assert error.code in str(error)

    e = errors
    fails(e.InvalidCwd, e.BadRequestError, 400, lambda: sandbox.exec("true", cwd="/nowhere"))
    fails(e.UserNotFound, e.BadRequestError, 400, lambda: sandbox.exec("true", user="nobody-here"))
    fails(e.InvalidRequest, e.BadRequestError, 400, lambda: sandbox.exec("true", env={"A=B": "x"}))
    fails(e.ProgramNotFound, e.UnprocessableError, 422, lambda: sandbox.exec(["no-such-program"]))
    fails(e.ProgramNotExecutable, e.UnprocessableError, 422, lambda: sandbox.exec(["/etc/passwd"]))
    fails(e.FileNotFound, e.NotFoundError, 404, lambda: sandbox.files.read_bytes("nothing"))
    fails(e.IsADirectory, e.UnprocessableError, 422, lambda: sandbox.files.read_bytes("/tmp"))
    fails(e.NotADirectory, e.UnprocessableError, 422, lambda: sandbox.files.list("file"))
    fails(e.FileExists, e.ConflictError, 409, lambda: sandbox.files.mkdir("file"))
    fails(e.DirectoryNotEmpty, e.ConflictError, 409, lambda: sandbox.files.remove("full"))
    fails(
        e.PermissionDenied,
        e.PermissionDeniedError,
        403,
        lambda: sandbox.files.write("/usr/x", "", user="sandbox"),
    )
    fails(
        e.InvalidArchive, e.UnprocessableError, 422, lambda: sandbox.files.unpack(b"not a tar", "out")
    )
    fails(e.ProcessNotFound, e.NotFoundError, 404, lambda: sandbox.get_process("nobody"))
    fails(e.SessionNotFound, e.NotFoundError, 404, lambda: sandbox.get_session("nobody"))
    fails(e.TerminalNotFound, e.NotFoundError, 404, lambda: sandbox.get_terminal("nobody"))
    fails(e.ContextNotFound, e.NotFoundError, 404, lambda: sandbox.get_context("nobody"))
    fails(e.BackupNotFound, e.NotFoundError, 404, lambda: sandbox.backups.get("nobody"))
    fails(e.CommandNotFound, e.NotFoundError, 404, lambda: session.command("cmd_none"))
    fails(e.ProcessEnded, e.ConflictError, 409, lambda: process.signal("TERM"))
    fails(e.IdConflict, e.ConflictError, 409, lambda: sandbox.create_session("taken", cwd="/tmp"))
    fails(e.InvalidRequest, e.BadRequestError, 400, lambda: process.signal("NOSUCH"))
    fails(e.InvalidRequest, e.BadRequestError, 400, lambda: sandbox.files.search("(", "."))
    session.delete()
    fails(e.SessionNotFound, e.NotFoundError, 404, lambda: session.exec("true"))
    fails(e.SandboxNotFound, e.NotFoundError, 404, lambda: Sandbox.connect("nobody"))
    fails(
        e.AuthenticationError,
        e.AuthenticationError,
        401,
        lambda: Sandbox.connect(sandbox.id, token="sk_no"),
    )
    fails(
        e.ImageNotFound,
        e.NotFoundError,
        404,
        lambda: Sandbox.create(image="none", isolation=isolation()),
    )


def test_stdin_that_is_closed(sandbox: Sandbox) -> None:
    with sandbox.start_process("sleep 100") as process:
        with pytest.raises(errors.StdinClosed):
            process.write("x")
    with sandbox.start_process("sleep 100", stdin_open=True) as process:
        with pytest.raises(errors.StdinOffset) as raised:
            process.write("x", offset=7)
        assert raised.value.problem["expected_offset"] == 0


def test_a_pointer_and_a_hint(sandbox: Sandbox) -> None:
    with pytest.raises(errors.InvalidRequest) as raised:
        sandbox.start_process("true", id="not an id")
    error = raised.value
    assert error.pointer == "/id" and error.title and error.problem["type"] == "/problems/invalid_request"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.pointer == "/id" and str(again) == str(error)


def test_a_terminal_that_is_gone(sandbox: Sandbox) -> None:
    terminal = sandbox.terminal("true")
    terminal.delete()
    with pytest.raises(errors.TerminalNotFound):
        terminal.write("x")


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Hub(f"http://127.0.0.1:{port}", max_retries=1) as hub:
        with pytest.raises(ConnectionFailed, match=f"http://127.0.0.1:{port}: .*perhaps no hub runs there"):
            Sandbox.create(hub=hub)
        with pytest.raises(ConnectionError):
            hub.version()


def test_no_token_and_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SANDSHELL_TOKEN_FILE")
    for token in (None, "sk_wrong"):
        with Hub(token=token) as hub:
            with pytest.raises(errors.Unauthorized, match=r"SANDSHELL_TOKEN, .*SANDSHELL_TOKEN_FILE"):
                Sandbox.create(hub=hub)


def test_wrong_arguments(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError):
        sandbox.exec("true", timeout=-1)
    with pytest.raises(ValueError):
        sandbox.get_process("..")
    with pytest.raises(ValueError):
        Hub("ftp://nowhere")
    with pytest.raises(TypeError, match="comand"):
        sandbox.start_process("true", comand="x")  # type: ignore[call-arg]
