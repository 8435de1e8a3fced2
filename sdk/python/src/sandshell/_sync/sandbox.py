# Written by scripts/generate from _async/sandbox.py: change that one.
"""A computer behind the API, and the two ways to have one: a hub's sandbox, and an agent by itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypedDict, Unpack, overload

import httpx

from .. import params
from .._decode import decode
from .._sse import SseEvent
from .._wire import Command, Seconds, command_or_argv, milliseconds, segment, text_or_base64
from ..errors import ProcessEnded, ProcessNotFound, SandboxGone, SandboxNotFound
from ..models import (
    ContextRecord,
    EnvReply,
    EventsTruncated,
    ExitEvent,
    KillReply,
    ProcessKind,
    ProcessRecord,
    Protection,
    ProtectionsReply,
    SandboxEvent,
    SandboxRecord,
    SandboxStats,
    SessionRecord,
    TerminalRecord,
    VersionInfo,
)
from ..results import ExecResult, Exit, encoding_for, exit_of, result_fields
from .backups import Backups
from .contexts import Context
from .files import Files
from .git import Git
from .hub import Hub
from .paging import pages
from .ports import Ports
from .process import EXIT, Process
from .session import Session
from .stream import Events, EventSource, OutputReader
from .terminal import Terminal
from .transport import MAX_RETRIES, Transport


class ProcessOptions(TypedDict, total=False):
    """How a process is started."""

    id: str | None
    """An id of your choice: starting it again with the same options gives the same process."""
    cwd: str | None
    env: Mapping[str, str | None] | None
    """Changes to the environment; None unsets a variable."""
    stdin: str | bytes | None
    """What it reads; its input then ends."""
    stdin_open: bool | None
    """Keeps its input open for `write`."""
    shell: str | None
    user: str | None
    session: str | None
    """Starts from a copy of this session's state."""
    timeout: Seconds | None
    """After this the whole tree is ended."""
    tag: str | None
    restart: params.RestartPolicy | None
    limits: params.Limits | None
    max_output_bytes: int | None
    """How much of its output is kept."""


class SandboxEvents(Events[SandboxEvent | EventsTruncated]):
    """What happens in a sandbox, as it happens."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def next(self) -> SandboxEvent | EventsTruncated | None:
        """The next event; `EventsTruncated` where some are no longer kept."""
        event = self._source.next()
        if event is None:
            return None
        if event.event == "truncated":
            return decode(EventsTruncated, event.json())
        return decode(SandboxEvent, event.json())

    def close(self) -> None:
        self._source.close()


class ExecStream(OutputReader[Exit]):
    """What an exec writes, while it runs; then `exit` is set. Closed before that, the command is killed."""

    def __init__(self, source: _ExecSource) -> None:
        super().__init__(source)
        self.id: str = source.id
        """The id of the process that runs it."""

    def _exit(self, event: SseEvent) -> Exit:
        return exit_of(decode(ExitEvent, event.json()))


class _ExecSource(EventSource):
    """The output of a process that is started by the first request. Its id is chosen here, so that a
    start whose answer was lost is not done twice."""

    def __init__(self, transport: Transport, base: str, body: params.ProcessRequest) -> None:
        self.id: str = body.get("id") or f"proc_{uuid.uuid4().hex}"
        body["id"] = self.id
        self._start = f"{base}/processes"
        self._process = f"{base}/processes/{segment(self.id)}"
        self._body = body
        self._started = False
        super().__init__(transport, f"{self._process}/output", last=EXIT)

    def _ask(self) -> httpx.Response:
        if not self._started:
            self.transport.post(ProcessRecord, self._start, self._body)
            self._started = True
        return super()._ask()

    def close(self) -> None:
        abandoned = self._started and not self.over
        super().close()
        if abandoned and self.last_event not in EXIT:
            try:
                self.transport.post(KillReply, f"{self._process}/kill", {"grace_ms": 0}, long=True)
            except (ProcessNotFound, ProcessEnded):
                pass


class Computer:
    """Everything that can be done in one sandbox. Relative paths start at its working directory."""

    def __init__(self, transport: Transport, base: str) -> None:
        self._transport = transport
        self._base = base
        self.files: Files = Files(transport, base)
        """Reading, writing, listing, searching and watching files."""
        self.git: Git = Git(transport, base)
        """Git in the sandbox."""
        self.ports: Ports = Ports(transport, base)
        """Servers in the sandbox."""
        self.backups: Backups = Backups(transport, base)
        """Saved directories."""

    # ── Exec ─────────────────────────────────────────────────────────────────────────────────────

    @overload
    def exec(
        self,
        command: Command,
        *,
        text: Literal[True] = True,
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        shell: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        limits: params.Limits | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> ExecResult[str]: ...

    @overload
    def exec(
        self,
        command: Command,
        *,
        text: Literal[False],
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        shell: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        limits: params.Limits | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> ExecResult[bytes]: ...

    def exec(
        self,
        command: Command,
        *,
        text: bool = True,
        check: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        shell: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        limits: params.Limits | None = None,
        max_output_bytes: int | None = None,
        truncate: params.Truncate | None = None,
        on_disconnect: params.OnDisconnect | None = None,
    ) -> ExecResult[str] | ExecResult[bytes]:
        """Runs one command and waits for its result. Each starts clean; sessions keep state.

        `command` is text for a shell, or a list of a program and its arguments. The streams come as text,
        or exactly, as bytes, with `text=False`. A status other than 0 is a result; with `check=True` it
        is raised as `CommandFailed`. After `timeout` the whole tree is ended and what there is returned.
        """
        line, argv = command_or_argv(command)
        data, encoding = text_or_base64(stdin)
        body: params.ExecRequest = {
            "command": line,
            "argv": argv,
            "id": id,
            "cwd": cwd,
            "env": env,
            "stdin": data,
            "stdin_encoding": encoding,
            "shell": shell,
            "user": user,
            "timeout_ms": milliseconds(timeout),
            "limits": limits,
            "max_output_bytes": max_output_bytes,
            "truncate": truncate,
            "on_disconnect": on_disconnect,
            "encoding": encoding_for(text),
        }
        reply = self._transport.json("POST", f"{self._base}/exec", body=body, long=True)
        result: ExecResult[Any] = decode(ExecResult, result_fields(reply, text))
        return result.check() if check else result

    def exec_stream(
        self,
        command: Command,
        *,
        id: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        shell: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        limits: params.Limits | None = None,
    ) -> ExecStream:
        """Runs one command and gives its output as it is written; it starts with the first read.

        A stream that is closed before the end kills the command. To leave it running, start a process.
        """
        body = _process_body(
            command,
            {
                "id": id,
                "cwd": cwd,
                "env": env,
                "stdin": stdin,
                "shell": shell,
                "user": user,
                "timeout": timeout,
                "limits": limits,
            },
        )
        return ExecStream(_ExecSource(self._transport, self._base, body))

    # ── Processes ────────────────────────────────────────────────────────────────────────────────

    def start_process(self, command: Command, **options: Unpack[ProcessOptions]) -> Process:
        """Starts a process, which goes on by itself: a server, or long work."""
        body = _process_body(command, options)
        record = self._transport.post(ProcessRecord, f"{self._base}/processes", body)
        return Process(self, record, owned=True)

    def get_process(self, id: str) -> Process:
        """A process that there is."""
        path = f"{self._base}/processes/{segment(id)}"
        return Process(self, self._transport.get(ProcessRecord, path), owned=False)

    def list_processes(
        self, *, kind: ProcessKind | None = None, session: str | None = None
    ) -> Iterator[ProcessRecord]:
        """Processes, finished ones for a while too; `kind="exec"` for execs."""
        query = {"kind": kind, "session": session}
        return pages(self._transport, ProcessRecord, f"{self._base}/processes", query)

    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────

    def create_session(
        self,
        id: str | None = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        shell: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        max_output_bytes: int | None = None,
        idle_timeout: Seconds | None = None,
        max_lifetime: Seconds | None = None,
        limits: params.Limits | None = None,
        private_processes: bool | None = None,
    ) -> Session:
        """Makes a session. `timeout` and `max_output_bytes` hold for commands that have none of their own."""
        body: params.SessionRequest = {
            "id": id,
            "cwd": cwd,
            "env": env,
            "shell": shell,
            "user": user,
            "timeout_ms": milliseconds(timeout),
            "max_output_bytes": max_output_bytes,
            "idle_timeout_ms": milliseconds(idle_timeout),
            "max_lifetime_ms": milliseconds(max_lifetime),
            "limits": limits,
            "private_processes": private_processes,
        }
        record = self._transport.post(SessionRecord, f"{self._base}/sessions", body)
        return Session(self, record, owned=True)

    def get_session(self, id: str) -> Session:
        """A session that there is."""
        path = f"{self._base}/sessions/{segment(id)}"
        return Session(self, self._transport.get(SessionRecord, path), owned=False)

    def list_sessions(self) -> Iterator[SessionRecord]:
        return pages(self._transport, SessionRecord, f"{self._base}/sessions")

    # ── Terminals ────────────────────────────────────────────────────────────────────────────────

    def terminal(
        self,
        command: Command | None = None,
        *,
        id: str | None = None,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        user: str | None = None,
    ) -> Terminal:
        """Starts a program on a terminal: an interactive login shell, or `command`."""
        line, argv = (None, None) if command is None else command_or_argv(command)
        body: params.TerminalRequest = {
            "command": line,
            "argv": argv,
            "id": id,
            "cols": cols,
            "rows": rows,
            "cwd": cwd,
            "env": env,
            "user": user,
        }
        record = self._transport.post(TerminalRecord, f"{self._base}/terminals", body)
        return Terminal(self._transport, self._base, record, owned=True)

    def get_terminal(self, id: str) -> Terminal:
        """A terminal that there is; its output comes from the start."""
        path = f"{self._base}/terminals/{segment(id)}"
        record = self._transport.get(TerminalRecord, path)
        return Terminal(self._transport, self._base, record, owned=False)

    def list_terminals(self) -> Iterator[TerminalRecord]:
        return pages(self._transport, TerminalRecord, f"{self._base}/terminals")

    # ── Code contexts ────────────────────────────────────────────────────────────────────────────

    def create_context(
        self,
        language: params.Language = "python",
        *,
        id: str | None = None,
        kernel: params.KernelChoice | None = None,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        session: str | None = None,
        user: str | None = None,
        timeout: Seconds | None = None,
        idle_timeout: Seconds | None = None,
    ) -> Context:
        """Makes an interpreter that keeps its state from run to run."""
        body: params.ContextRequest = {
            "language": language,
            "id": id,
            "kernel": kernel,
            "cwd": cwd,
            "env": env,
            "session": session,
            "user": user,
            "timeout_ms": milliseconds(timeout),
            "idle_timeout_ms": milliseconds(idle_timeout),
        }
        record = self._transport.post(ContextRecord, f"{self._base}/contexts", body, long=True)
        return Context(self._transport, self._base, record, owned=True)

    def get_context(self, id: str) -> Context:
        """A context that there is."""
        path = f"{self._base}/contexts/{segment(id)}"
        record = self._transport.get(ContextRecord, path)
        return Context(self._transport, self._base, record, owned=False)

    def list_contexts(self) -> Iterator[ContextRecord]:
        return pages(self._transport, ContextRecord, f"{self._base}/contexts")

    # ── Environment, events, figures ─────────────────────────────────────────────────────────────

    def env(self) -> EnvReply:
        """The sandbox's variables (`env`), and the base below them."""
        return self._transport.get(EnvReply, f"{self._base}/env")

    def set_env(
        self, variables: Mapping[str, str | None] | None = None, /, **more: str | None
    ) -> EnvReply:
        """Sets variables for whatever is started from now on; None unsets one."""
        body: params.EnvPatch = {"env": {**(variables or {}), **more}}
        return decode(EnvReply, self._transport.json("PATCH", f"{self._base}/env", body=body))

    def events(self, *, types: Sequence[str] | None = None, from_: int | None = None) -> SandboxEvents:
        """What happens from now on; with `from_` after that event, `0` for all that are kept.

        From the first event on nothing is missed over lost connections. Before it there is no place to go
        on from, unless `from_` gives one.
        """
        query = {"types": ",".join(types) if types else None}
        source = EventSource(
            self._transport,
            f"{self._base}/events",
            params=query,
            from_id=None if from_ is None else str(from_),
        )
        return SandboxEvents(source)

    def stats(self) -> SandboxStats:
        """What it uses."""
        return self._transport.get(SandboxStats, f"{self._base}/stats")

    def protections(self) -> list[Protection]:
        """How it is isolated, layer by layer."""
        return (self._transport.get(ProtectionsReply, f"{self._base}/protections")).protections


class Agent(Computer):
    """The one sandbox of an agent by itself (`sandshell agent`), as in a container."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, max_retries: int = MAX_RETRIES
    ) -> None:
        super().__init__(Transport(url, token, max_retries=max_retries), "/v1")

    def version(self) -> VersionInfo:
        return self._transport.get(VersionInfo, "/version")

    def close(self) -> None:
        """Closes the connections; what runs goes on."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sandbox(Computer):
    """A sandbox of a hub.

    As a context manager, one that was made with `create` is destroyed at the end, one that was found
    with `connect` is left as it is.
    """

    def __init__(self, hub: Hub, record: SandboxRecord, *, owned: bool, owns_hub: bool) -> None:
        super().__init__(hub._transport, f"/v1/sandboxes/{segment(record.id)}")
        self._hub = hub
        self._owned = owned
        self._owns_hub = owns_hub
        self.record: SandboxRecord = record
        """What was last heard of it; `refresh` asks again."""

    @property
    def id(self) -> str:
        return self.record.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.record.state}>"

    @classmethod
    def create(
        cls,
        id: str | None = None,
        *,
        hub: Hub | None = None,
        url: str | None = None,
        token: str | None = None,
        labels: Mapping[str, str] | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        limits: params.SandboxLimits | None = None,
        network: params.NetworkSpec | None = None,
        secrets: Sequence[params.SecretSpec] | None = None,
        isolation: params.IsolationSpec | None = None,
        idle_timeout: Seconds | None = None,
        on_idle: params.OnIdle | None = None,
        max_lifetime: Seconds | None = None,
    ) -> Self:
        """Makes a sandbox; returns when it takes commands. With an `id` that is there already, that one.

        The hub is `hub`, or that of `url` and `token`, by default SANDSHELL_URL and SANDSHELL_TOKEN or
        SANDSHELL_TOKEN_FILE.
        """
        body: params.SandboxSpec = {
            "id": id,
            "labels": labels,
            "image": image,
            "env": env,
            "cwd": cwd,
            "user": user,
            "limits": limits,
            "network": network,
            "secrets": secrets,
            "isolation": isolation,
            "idle_timeout_ms": milliseconds(idle_timeout),
            "on_idle": on_idle,
            "max_lifetime_ms": milliseconds(max_lifetime),
        }
        at = hub or Hub(url, token)
        try:
            record = at._transport.post(SandboxRecord, "/v1/sandboxes", body, long=True)
        except BaseException:
            if hub is None:
                at.close()
            raise
        return cls(at, record, owned=True, owns_hub=hub is None)

    @classmethod
    def connect(
        cls,
        id: str,
        *,
        hub: Hub | None = None,
        url: str | None = None,
        token: str | None = None,
    ) -> Self:
        """A sandbox that there is."""
        path = f"/v1/sandboxes/{segment(id)}"
        at = hub or Hub(url, token)
        try:
            record = at._transport.get(SandboxRecord, path)
        except BaseException:
            if hub is None:
                at.close()
            raise
        return cls(at, record, owned=False, owns_hub=hub is None)

    @classmethod
    def list(
        cls,
        *,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        hub: Hub | None = None,
        url: str | None = None,
        token: str | None = None,
    ) -> list[SandboxRecord]:
        """The sandboxes the token may use, oldest first; `state="all"` for those that are over, too."""
        at = hub or Hub(url, token)
        try:
            return [record for record in at.list_sandboxes(labels=labels, state=state)]
        finally:
            if hub is None:
                at.close()

    def refresh(self) -> SandboxRecord:
        """Asks for its record."""
        self.record = self._transport.get(SandboxRecord, self._base)
        return self.record

    def update(
        self,
        *,
        labels: Mapping[str, str | None] | None = None,
        limits: params.SandboxLimits | None = None,
        idle_timeout: Seconds | None = None,
        on_idle: params.OnIdle | None = None,
        max_lifetime: Seconds | None = None,
    ) -> SandboxRecord:
        """Changes what is given: a label to None removes it, a time of 0 means never."""
        body: params.SandboxPatch = {
            "labels": labels,
            "limits": limits,
            "idle_timeout_ms": milliseconds(idle_timeout),
            "on_idle": on_idle,
            "max_lifetime_ms": milliseconds(max_lifetime),
        }
        self.record = decode(SandboxRecord, self._transport.json("PATCH", self._base, body=body))
        return self.record

    def pause(self) -> SandboxRecord:
        """Freezes everything in it; requests are refused until `resume`."""
        return self._lifecycle("pause")

    def resume(self) -> SandboxRecord:
        """Goes on after a `pause`."""
        return self._lifecycle("resume")

    def keepalive(self) -> SandboxRecord:
        """Starts its idle time anew."""
        return self._lifecycle("keepalive")

    def _lifecycle(self, what: str) -> SandboxRecord:
        self.record = self._transport.post(SandboxRecord, f"{self._base}/{what}", long=True)
        return self.record

    def destroy(self) -> SandboxRecord:
        """Ends it; when it returns, nothing of it runs. One that is gone already is no error."""
        try:
            self.record = self._transport.delete(SandboxRecord, self._base)
        except (SandboxGone, SandboxNotFound):
            if not self._owned:
                raise
        return self.record

    def close(self) -> None:
        """Closes the connections, if they are its own; the sandbox goes on."""
        if self._owns_hub:
            self._hub.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._owned:
                self.destroy()
        finally:
            self.close()


def _process_body(command: Command, options: ProcessOptions) -> params.ProcessRequest:
    # Keyword arguments by a typed dictionary are checked by type checkers, but not by Python.
    if unknown := set(options) - ProcessOptions.__annotations__.keys():
        raise TypeError(f"start_process() got unexpected keyword arguments {sorted(unknown)}")
    line, argv = command_or_argv(command)
    data, encoding = text_or_base64(options.get("stdin"))
    return {
        "command": line,
        "argv": argv,
        "session": options.get("session"),
        "id": options.get("id"),
        "cwd": options.get("cwd"),
        "env": options.get("env"),
        "stdin": data,
        "stdin_encoding": encoding,
        "stdin_open": options.get("stdin_open"),
        "shell": options.get("shell"),
        "user": options.get("user"),
        "timeout_ms": milliseconds(options.get("timeout")),
        "tag": options.get("tag"),
        "restart": options.get("restart"),
        "limits": options.get("limits"),
        "max_output_bytes": options.get("max_output_bytes"),
    }
