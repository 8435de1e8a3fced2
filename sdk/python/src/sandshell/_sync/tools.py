# Written by scripts/generate from _async/tools.py: change that one.
"""Ready tools for language models, in the shapes that their makers' APIs have.

Both sets work on one session, so that a directory or a variable of one command is there for the next, and
on the sandbox's files. They speak dictionaries, and take the objects of the makers' own SDKs as well;
neither is needed. What goes wrong with a call is an answer for the model, never an exception, but for a
service that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from .. import _edit, _patch
from .._wire import Seconds
from ..errors import ApiError, FileNotFound, SessionEnded, SessionNotFound
from ..results import SessionResult
from .sandbox import Computer
from .session import Session

TIMEOUT = 120.0
"""Seconds for one command."""
MAX_OUTPUT = 30_000
"""Characters of an answer; about eight thousand tokens."""


class _ToolSession:
    """The session behind a set of tools: made with the first command, made anew when it is gone."""

    def __init__(self, computer: Computer, session: Session | None, timeout: Seconds) -> None:
        self.computer = computer
        self.given = session
        self.session = session
        self.timeout = timeout

    def run(self, command: str, timeout: Seconds | None, limit: int) -> SessionResult[str]:
        session = self.session or self.restart()
        # Enough from the server that its own cut, in the middle, lies within what is left out here.
        most = 8 * limit
        timeout = timeout or self.timeout
        try:
            return session.exec(command, timeout=timeout, max_output_bytes=most, truncate="both")
        except (SessionEnded, SessionNotFound):
            session = self.restart()
            return session.exec(command, timeout=timeout, max_output_bytes=most, truncate="both")

    def restart(self) -> Session:
        """A fresh shell in the place of the present one."""
        self.end()
        self.session = self.computer.create_session()
        return self.session

    def end(self) -> None:
        """Deletes the session, unless it is the user's own."""
        session, self.session = self.session, None
        if session is not None and session is not self.given:
            try:
                session.delete()
            except (SessionEnded, SessionNotFound):
                pass

    def cwd(self) -> str | None:
        """The session whose directory relative paths start at."""
        return self.session.id if self.session is not None else None


class _Tools:
    """What both sets have in common."""

    def __init__(
        self,
        computer: Computer,
        *,
        session: Session | None = None,
        timeout: Seconds = TIMEOUT,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self._computer = computer
        self._files = computer.files
        self._shell = _ToolSession(computer, session, timeout)
        self._limit = max_output

    def close(self) -> None:
        """Deletes the session that was made for the tools."""
        self._shell.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, path: str) -> str:
        data = self._files.read_bytes(path, session=self._shell.cwd())
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise _edit.EditError(f"{path} is not a text file.") from None

    def _write(self, path: str, text: str) -> None:
        self._files.write(path, text, session=self._shell.cwd())


class AnthropicTools(_Tools):
    """Anthropic's `bash_20250124` and `text_editor_20250728`.

    `definitions` go into the request; `handle` takes a `tool_use` block of the answer and gives the
    `tool_result` block for the next request.
    """

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """For the `tools` of a request."""
        return [
            {"type": "bash_20250124", "name": "bash"},
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        ]

    def handle(self, tool_use: Any) -> dict[str, Any]:
        """Does what a `tool_use` block asks for."""
        block = _mapping(tool_use)
        arguments = block.get("input")
        try:
            if not isinstance(arguments, Mapping):
                raise _edit.EditError("The input of a tool is an object.")
            if block.get("name") == "bash":
                text = self.bash(**arguments)
            elif block.get("name") == "str_replace_based_edit_tool":
                text = self.edit(**arguments)
            else:
                raise _edit.EditError(f"There is no tool {block.get('name')!r}.")
            failed = False
        except (ApiError, _edit.EditError, TypeError) as error:
            text, failed = _words(error), True
        return {
            "type": "tool_result",
            "tool_use_id": block.get("id"),
            "content": text,
            "is_error": failed,
        }

    def bash(self, command: str | None = None, restart: bool | None = None) -> str:
        """Runs a command in the session, or gives it a fresh shell."""
        if restart:
            self._shell.restart()
            return "The shell was restarted."
        if not command:
            raise _edit.EditError("Give a command, or restart.")
        result = self._shell.run(command, None, self._limit)
        return _answer(result, self._limit)

    def edit(
        self,
        command: str,
        path: str,
        view_range: list[int] | None = None,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
        insert_text: str | None = None,
    ) -> str:
        """One command of the text editor: `view`, `create`, `str_replace` or `insert`."""
        if command == "view":
            return self._view(path, view_range)
        if command == "create":
            return self._create(path, file_text)
        if command == "str_replace":
            if old_str is None:
                raise _edit.EditError("str_replace needs old_str.")
            text, snippet = _edit.replaced(self._read(path), old_str, new_str or "")
        elif command == "insert":
            added = insert_text if insert_text is not None else new_str
            if insert_line is None or added is None:
                raise _edit.EditError("insert needs insert_line and insert_text.")
            text, snippet = _edit.inserted(self._read(path), insert_line, added)
        else:
            raise _edit.EditError(f"There is no command {command!r}: view, create, str_replace, insert.")
        self._write(path, text)
        return f"The file {path} has been edited. Around the change:\n{snippet}"

    def _view(self, path: str, view_range: list[int] | None) -> str:
        entry = self._files.stat(path, session=self._shell.cwd())
        if entry.kind != "directory":
            return _edit.clipped(_edit.view_of(self._read(path), view_range), self._limit)
        if view_range is not None:
            raise _edit.EditError("view_range is for files; this is a directory.")
        found = self._files.find(
            path, max_depth=2, hidden=False, exclude=["node_modules"], session=self._shell.cwd()
        )
        names = [each.path + ("/" if each.kind == "directory" else "") for each in found.items]
        more = "[… there are more …]\n" if found.truncated else ""
        listing = "".join(f"{name}\n" for name in names)
        about = f"Files and directories in {path}, two levels deep, without hidden ones:\n"
        return about + _edit.clipped(listing, self._limit) + more

    def _create(self, path: str, file_text: str | None) -> str:
        if file_text is None:
            raise _edit.EditError("create needs file_text.")
        there = self._files.exists(path, session=self._shell.cwd())
        self._write(path, file_text)
        return f"The file {path} has been {'replaced' if there else 'created'}."


class OpenAITools(_Tools):
    """OpenAI's `shell` and `apply_patch` of the Responses API.

    `definitions` go into the request; `handle` takes a `shell_call` or `apply_patch_call` item of the
    answer and gives the output item for the next request. `apply_patch` takes a whole V4A patch, for
    models that are given it as a function.
    """

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """For the `tools` of a request."""
        return [{"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]

    def handle(self, call: Any) -> dict[str, Any]:
        """Does what a call item asks for."""
        item = _mapping(call)
        if item.get("type") == "shell_call":
            return self._shell_call(item)
        if item.get("type") == "apply_patch_call":
            return self._apply_patch_call(item)
        raise ValueError(f"not a call of these tools: {item.get('type')!r}")

    def _shell_call(self, item: Mapping[str, Any]) -> dict[str, Any]:
        action = _mapping(item.get("action") or {})
        milliseconds, length = action.get("timeout_ms"), action.get("max_output_length")
        limit = int(length) if length else self._limit
        output = []
        for command in action.get("commands") or []:
            timeout = None if milliseconds is None else milliseconds / 1000
            output.append(self.shell(str(command), timeout=timeout, max_output=limit))
        reply = {"type": "shell_call_output", "call_id": item.get("call_id"), "output": output}
        return {**reply, "max_output_length": length} if length else reply

    def shell(
        self, command: str, *, timeout: Seconds | None = None, max_output: int | None = None
    ) -> dict[str, Any]:
        """Runs one command in the session: its output and outcome."""
        limit = self._limit if max_output is None else max_output
        try:
            result = self._shell.run(command, timeout, limit)
        except ApiError as error:
            return {"stdout": "", "stderr": _words(error), "outcome": {"type": "exit", "exit_code": 125}}
        exited = {"type": "exit", "exit_code": result.exit_code}
        stdout, stderr = _streams(result, limit)
        return {
            "stdout": stdout,
            "stderr": stderr,
            "outcome": {"type": "timeout"} if result.timed_out else exited,
        }

    def _apply_patch_call(self, item: Mapping[str, Any]) -> dict[str, Any]:
        operation = _mapping(item.get("operation") or {})
        kind, path, diff = operation.get("type"), str(operation.get("path")), str(operation.get("diff"))
        try:
            if kind == "create_file":
                text = self._apply([_patch.AddFile(path, _patch.created_text(diff))])
            elif kind == "update_file":
                text = self._apply([_patch.UpdateFile(path, _patch.parse_diff(diff))])
            elif kind == "delete_file":
                text = self._apply([_patch.DeleteFile(path)])
            else:
                raise _patch.PatchError(f"there is no operation {kind!r}")
            status = "completed"
        except (ApiError, _patch.PatchError, _edit.EditError) as error:
            text, status = _words(error), "failed"
        return {
            "type": "apply_patch_call_output",
            "call_id": item.get("call_id"),
            "status": status,
            "output": text,
        }

    def apply_patch(self, patch: str) -> str:
        """Applies a whole V4A patch. `PatchError` when it does not fit; then nothing was changed."""
        return self._apply(_patch.parse_patch(patch))

    def _apply(self, changes: list[_patch.AddFile | _patch.DeleteFile | _patch.UpdateFile]) -> str:
        """First everything is read and worked out, then it is written."""
        session = self._shell.cwd()
        texts: dict[str, str | None] = {}
        told = []
        for change in changes:
            path = change.path
            if isinstance(change, _patch.AddFile):
                if texts.get(path) is not None or (
                    path not in texts and self._files.exists(path, session=session)
                ):
                    raise _patch.PatchError(f"{path} exists already; update it instead")
                texts[path] = change.text
                told.append(f"A {path}")
                continue
            before = texts[path] if path in texts else self._text_of(path)
            if before is None:
                raise _patch.PatchError(f"{path} does not exist")
            if isinstance(change, _patch.DeleteFile):
                texts[path] = None
                told.append(f"D {path}")
                continue
            try:
                after = _patch.apply_hunks(before, change.hunks)
            except _patch.PatchError as error:
                raise _patch.PatchError(f"{path}: {error}") from None
            if change.move_to is not None and change.move_to != path:
                texts[path] = None
                path = change.move_to
            texts[path] = after
            told.append(f"M {path}")
        for path, text in texts.items():
            if text is not None:
                self._files.write(path, text, session=session)
        for path, text in texts.items():
            if text is None:
                self._files.remove(path, missing_ok=True, session=session)
        return "\n".join(told)

    def _text_of(self, path: str) -> str | None:
        try:
            return self._read(path)
        except FileNotFound:
            return None


def _mapping(value: Any) -> Mapping[str, Any]:
    """A dictionary, or an object of a maker's SDK as one."""
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "model_dump"):
        dumped: Mapping[str, Any] = value.model_dump()
        return dumped
    raise TypeError(f"expected a dictionary or a model, not {type(value).__name__}")


def _words(error: Exception) -> str:
    return f"Error: {error}"


def _streams(result: SessionResult[str], limit: int) -> tuple[str, str]:
    missing = result.truncated
    return (
        _edit.clipped(result.stdout, limit, dropped=missing.stdout_bytes if missing else 0),
        _edit.clipped(result.stderr, limit, dropped=missing.stderr_bytes if missing else 0),
    )


def _answer(result: SessionResult[str], limit: int) -> str:
    """Both streams as one text, and how the command ended where that is not plain success."""
    stdout, stderr = _streams(result, limit)
    text = stdout
    if stderr:
        text += "" if not text or text.endswith("\n") else "\n"
        text += stderr
    notes = []
    if result.timed_out:
        notes.append(f"[timed out after {result.duration_ms / 1000:g} s; the shell is still there]")
    elif result.exit_code != 0:
        notes.append(f"[exit code {result.exit_code}]")
    if result.left_running:
        notes.append(f"[{result.left_running} processes left running]")
    if result.session_state not in ("kept", "restored"):
        notes.append(f"[the shell's state: {result.session_state}]")
    if notes:
        text += "" if not text or text.endswith("\n") else "\n"
    return (text + "\n".join(notes)) or "[no output]"
