"""What the API answers with. Written by scripts/generate from the OpenAPI document.

Unknown fields of a newer server are passed over; fields that may be missing have defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias



BackupId: TypeAlias = str
"""A saved directory tree."""


BackupStage: TypeAlias = Literal["packing", "uploading", "downloading", "unpacking"]
"""What a backup or a restore is doing."""


BackupState: TypeAlias = Literal["creating", "ready"]
"""Where a backup is in its life.

```text creating ──► ready ──► (deleted, or its time is over) └──► (failed: nothing of it is kept)
```
"""


ChangesStatus: TypeAlias = Literal["unchanged", "changed", "rescan"]
"""Whether something changed."""


CommandId: TypeAlias = str
"""One command run in a session."""


CommandState: TypeAlias = Literal["queued", "running", "done", "cancelled"]
"""Where a command is in its life."""


ContextId: TypeAlias = str
"""A code interpreter that keeps its state."""


ContextOutcome: TypeAlias = Literal["kept", "lost", "ended"]
"""What became of the state of a context."""


ContextState: TypeAlias = Literal["idle", "busy", "ended"]
"""Where a context is in its life.

```text idle ◄──── run over ──── busy ◄── run ── idle │ ▲ │ interpreter exited or was killed │
└──── restart ◄── ended┘ └──► (deleted, or idle for too long: gone) ```
"""


ErrorCode: TypeAlias = Literal["invalid_request", "invalid_cwd", "user_not_found", "unauthorized", "forbidden", "permission_denied", "not_found", "process_not_found", "session_not_found", "command_not_found", "terminal_not_found", "file_not_found", "backup_not_found", "port_not_found", "context_not_found", "sandbox_not_found", "image_not_found", "token_not_found", "method_not_allowed", "id_conflict", "idempotency_conflict", "process_ended", "stdin_closed", "stdin_offset", "file_exists", "directory_not_empty", "git_conflict", "context_busy", "sandbox_paused", "image_in_use", "session_ended", "offset_gone", "terminal_ended", "context_ended", "sandbox_gone", "precondition_failed", "body_too_large", "unsupported_media_type", "range_not_satisfiable", "program_not_found", "program_not_executable", "not_a_directory", "is_a_directory", "not_a_regular_file", "too_many_links", "name_too_long", "invalid_archive", "invalid_image", "git_failed", "git_auth", "git_not_found", "interpreter_not_found", "isolation_unavailable", "limit_unavailable", "limit_reached", "internal", "sandbox_unreachable", "port_unreachable", "git_network", "storage_failed", "unavailable", "timed_out", "no_space"]
"""A stable, machine-readable reason for a failed request."""


FileChange: TypeAlias = Literal["created", "modified", "removed", "moved", "attributes"]
"""What happened to a path."""


FileKind: TypeAlias = Literal["file", "directory", "symlink", "fifo", "socket", "block_device", "char_device", "unknown"]
"""What is at a path."""


FileMode: TypeAlias = str
"""Permission bits. On the wire octal text such as `"0644"`; a number is taken as the bits
themselves.
"""


GitConflictKind: TypeAlias = Literal["both_deleted", "added_by_us", "deleted_by_them", "added_by_them", "deleted_by_us", "both_added", "both_modified"]
"""What the two sides of a merge did to a file in conflict."""


GitFileState: TypeAlias = Literal["unmodified", "modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged", "untracked", "ignored"]
"""What has become of a file."""


GitPushState: TypeAlias = Literal["updated", "forced", "created", "deleted", "up_to_date"]
"""What became of a pushed reference."""


ImageName: TypeAlias = str
"""The name of an image. It is one name of a path, never hidden and never above."""


IsolationPolicy: TypeAlias = Literal["strict", "best_effort"]
"""What is done about a protection that is off."""


KernelChoice: TypeAlias = Literal["auto", "builtin", "jupyter"]
"""What runs the code of a context."""


Language: TypeAlias = Literal["python", "javascript", "typescript", "bash"]
"""The language of a context."""


Layer: TypeAlias = Literal["uid-separation", "capability-drop", "no-new-privs", "pid-ns", "mount-ns", "net-ns", "ipc-ns", "uts-ns", "cgroup-ns", "pivot-root", "landlock-fs", "landlock-scope", "seccomp", "cpu-limit", "memory-limit", "pids-limit", "disk-limit", "inode-limit", "egress-policy", "kill-tree", "oom-attribution"]
"""The layers, in the order of the report."""


LimitScope: TypeAlias = Literal["sandbox", "session", "process"]
"""Whose limit it was."""


NetworkMode: TypeAlias = Literal["none", "allow", "full"]
"""How much of the network there is."""


OnIdle: TypeAlias = Literal["sleep", "destroy"]
"""What happens to an idle sandbox."""


ProcessId: TypeAlias = str
"""A process, or an `exec`, which is a process too."""


ProcessKind: TypeAlias = Literal["exec", "process"]
"""What a process was made by."""


ProcessState: TypeAlias = Literal["running", "backoff", "exited"]
"""Where a process is in its life.

```text running ──────────────► exited ▲ └──► backoff ──┐ └─────────────────┘ (restart policy) ```
"""


ProtectionStatus: TypeAlias = Literal["enforced", "partial", "off"]
"""What became of a layer."""


RefusalReason: TypeAlias = Literal["host_not_allowed", "port_not_allowed", "address_not_allowed", "address_denied", "bad_name", "sni_missing", "sni_mismatch", "host_mismatch", "protocol", "bad_request", "too_many_connections"]
"""Why a connection was refused."""


RescanReason: TypeAlias = Literal["overflow", "dropped", "unknown_version"]
"""Why the events do not tell everything."""


RunStatus: TypeAlias = Literal["ok", "error", "interrupted", "timed_out"]
"""How a run ended."""


SandboxId: TypeAlias = str
"""The id of a sandbox. It is a DNS label, so that it can stand in the name of a preview."""


SandboxState: TypeAlias = Literal["creating", "ready", "paused", "asleep", "destroying", "gone", "failed"]
"""Where a sandbox is in its life."""


SessionId: TypeAlias = str
"""A persistent shell."""


SessionState: TypeAlias = Literal["idle", "busy", "restoring", "ended"]
"""Where a session is in its life.

```text ┌────────── exec ─────────┐ idle ◄─── completion ─── busy │ ▲ │ shell exited or was lost │
└───── restoring ◄─────┘ └──► ended (deleted, idle timeout, lifetime, cannot be restored) ```
"""


StatsSource: TypeAlias = Literal["cgroup", "proc"]
"""Where a figure comes from."""


StreamName: TypeAlias = Literal["stdout", "stderr", "late_stdout", "late_stderr"]
"""One of the byte streams of a process or command."""


TerminalId: TypeAlias = str
"""A terminal."""


TerminalState: TypeAlias = Literal["running", "exited"]
"""Where a terminal is in its life."""


TextEncoding: TypeAlias = Literal["utf8", "base64"]
"""How the bytes next to it are encoded."""


WaitOutcome: TypeAlias = Literal["exit", "log", "port", "timeout"]
"""Which condition came first."""


WatchEndReason: TypeAlias = Literal["removed", "moved", "unmounted", "limit_reached", "failed"]
"""Why a watch is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCounts:
    """What came out of an archive, or went into one."""
    bytes: int
    """Bytes in the files."""
    directories: int
    """Directories."""
    files: int
    """Regular files, hard links included."""
    skipped: int
    """Entries passed over: FIFOs, sockets and devices, and what could not be read when that was
    allowed.
    """
    symlinks: int
    """Symbolic links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that was done, or refused, and by whom."""
    action: str
    """What was done, such as `sandbox.create`."""
    at: datetime
    """When."""
    detail: str | None = None
    """What else there is to know."""
    id: int
    """Its number; later ones are higher."""
    outcome: str
    """`ok`, or the code of the problem."""
    request_id: str | None = None
    """The id of the request."""
    target: str | None = None
    """The sandbox or token it was done to."""
    token: str | None = None
    """The token that asked; left out when the hub did it by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupProgress:
    """SSE `event: progress`. The last event is `backup` (a backup record), `restored` (the reply) or
    `error` (a problem).
    """
    archive_bytes: int
    """Bytes of the archive written, sent or fetched so far."""
    bytes: int
    """Bytes in these files."""
    files: int
    """Files so far."""
    stage: BackupStage
    """What is being done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord:
    """A saved directory tree."""
    contents: ArchiveCounts
    """What is in it; while it is being made, what is in it so far."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None = None
    """When it will be deleted."""
    id: BackupId
    """Its id."""
    path: str
    """The directory it was made from."""
    path_base64: str | None = None
    """The exact path, when it is not UTF-8."""
    sha256: str | None = None
    """SHA-256 of the archive, as hexadecimal digits; absent while it is being made."""
    size: int
    """Bytes of the archive."""
    state: BackupState
    """Where it is in its life."""
    stored: bool
    """Whether the archive is kept here. If not, a restore needs `download`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesReply:
    """Answer to `POST /v1/files/changes`."""
    reason: RescanReason | None = None
    """With `rescan`: why."""
    status: ChangesStatus
    """Whether something changed."""
    version: int
    """The version now. Whatever ended before the request is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChmodReply:
    """What was changed."""
    changed: int
    """Files and directories changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEvent:
    """SSE `event: command`: the session took the command in. First event of a streamed session exec."""
    command_id: CommandId
    """The command's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """An entry of a session's history."""
    command: str
    """Its text."""
    cwd: str | None = None
    """Working directory after it."""
    duration_ms: int | None = None
    """Wall time."""
    ended_at: datetime | None = None
    """When it ended."""
    exit_code: int | None = None
    """Exit status."""
    id: CommandId
    """Its id."""
    interrupted: bool = False
    """Whether it was interrupted."""
    late_bytes: int
    """Bytes written after the end by children left behind, both streams."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    queued_at: datetime
    """When it was accepted."""
    signal: str | None = None
    """Name of the signal that killed the shell, when one did."""
    started_at: datetime | None = None
    """When it started to run."""
    state: CommandState
    """Where it is in its life."""
    stderr_bytes: int
    """Bytes written to standard error."""
    stdout_bytes: int
    """Bytes written to standard output."""
    timed_out: bool = False
    """Whether its timeout ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextInterruptReply:
    """Answer to an interrupt, given when the run is really over."""
    context: ContextRecord
    """The context after it."""
    outcome: ContextOutcome
    """What became of the state."""
    run_id: str | None = None
    """The run that was interrupted; absent when none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLine:
    """A line beside a match."""
    line: int
    """Its number, from 1."""
    text: str
    """The line without its end."""
    text_encoding: TextEncoding
    """How `text` is encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord:
    """What is known of a context."""
    created_at: datetime
    """When it was made."""
    cwd: str
    """Working directory it was started in."""
    ended_reason: str | None = None
    """Why it has ended, when it has."""
    execution_count: int
    """Runs begun since the interpreter started."""
    id: ContextId
    """Its id."""
    interpreter: str
    """The interpreter, as it calls itself."""
    kernel: KernelChoice
    """What runs the code: `builtin` or `jupyter`."""
    language: Language
    """Its language."""
    last_used_at: datetime | None = None
    """When its last run ended."""
    pid: int
    """The interpreter's pid inside the sandbox."""
    queue_length: int
    """Runs waiting for their turn."""
    restarts: int
    """How often the interpreter was started anew."""
    state: ContextState
    """Where it is in its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReply:
    """What was copied."""
    bytes: int
    """Bytes of files copied."""
    copied: int
    """Files, directories and links made."""
    entry: FileEntry
    """The copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStats:
    """Use of processors."""
    cpus: int
    """Processors there are."""
    limit: float | None = None
    """Processors that may be used."""
    source: StatsSource
    """Where it comes from."""
    usage_ms: int | None = None
    """Time used since the start, on all processors together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskStats:
    """A file system."""
    available_bytes: int
    """What the sandbox's user can still write."""
    available_inodes: int
    """Inodes left."""
    path: str
    """The directory asked about."""
    total_bytes: int
    """Its size."""
    total_inodes: int
    """Inodes there are; 0 where the file system does not count them."""
    used_bytes: int
    """In use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvReply:
    """`GET /v1/env` and the answer to its change."""
    base: dict[str, str]
    """What every command of the sandbox's user has before them."""
    env: dict[str, str | None]
    """The sandbox's own variables; `null` where one of the base is unset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsTruncated:
    """Event `truncated` of the sandbox's events: those between the one to resume from and the next
    are no longer kept, or the agent was started again.
    """
    first: int
    """The `id` of the first event that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """The result of an exec."""
    duration_ms: int
    """Wall time from start to end."""
    exit_code: int
    """Exit status; 128 + n when killed by signal n."""
    id: ProcessId
    """The id; output and record stay available under it for a while."""
    left_running: int
    """How many of its children are still running."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    signal: str | None = None
    """Name of the signal that killed it, such as `SIGKILL`."""
    stderr: str
    """Standard error."""
    stderr_encoding: TextEncoding
    """How `stderr` is encoded."""
    stdout: str
    """Standard output."""
    stdout_encoding: TextEncoding
    """How `stdout` is encoded."""
    timed_out: bool
    """Whether `timeout_ms` ended it."""
    truncated: Truncated | None = None
    """Present when bytes were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEvent:
    """SSE `event: exit`: the process or command is over. Always the last event."""
    cwd: str | None = None
    """For a session's command: the working directory after it."""
    duration_ms: int
    """Wall time from start to end."""
    exit_code: int | None = None
    """Exit status; 128 + n when killed by signal n. Absent when it never ran."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    signal: str | None = None
    """Name of the signal that killed it."""
    timed_out: bool = False
    """Whether its timeout ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file, directory or other thing."""
    error: ErrorCode | None = None
    """In a recursive list: why what is in this directory could not be listed."""
    gid: int
    """Id of its group."""
    group: str | None = None
    """Name of its group, when it has one."""
    kind: FileKind
    """What it is."""
    link_target: str | None = None
    """Where a symbolic link leads, as it is written in it."""
    link_target_base64: str | None = None
    """The link's bytes, when they are not UTF-8."""
    mode: FileMode
    """Its permission bits."""
    modified_at: datetime
    """When its content was last changed."""
    name: str
    """The last name of the path."""
    name_base64: str | None = None
    """The name's bytes, when they are not UTF-8."""
    owner: str | None = None
    """Name of its owner, when it has one."""
    path: str
    """The absolute path."""
    path_base64: str | None = None
    """The path's bytes, when they are not UTF-8."""
    size: int
    """Bytes in it."""
    uid: int
    """Id of its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """Events `created`, `modified`, `removed`, `moved` and `attributes`. Their `id` is the version
    of the watch after them.
    """
    at: datetime
    """When the agent learnt of it."""
    change: FileChange
    """What happened."""
    directory: bool
    """Whether it is a directory."""
    from_: str | None = None
    """With `moved`: the former path."""
    from_base64: str | None = None
    """The exact former path, when it is not UTF-8."""
    path: str
    """Absolute path; U+FFFD stands for bytes that are not UTF-8."""
    path_base64: str | None = None
    """The exact path, when it is not UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindReply:
    """What was found, in the order of a walk: sorted within each directory."""
    items: list[FileEntry]
    """The entries."""
    timed_out: bool
    """The time ran out."""
    truncated: bool
    """There are more than `limit`, or than an answer holds, or the time ran out."""
    unreadable: int
    """Directories that the user may not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForegroundInfo:
    """The command a session is busy with."""
    command: str
    """Its text."""
    command_id: CommandId
    """Its id."""
    processes: list[ProcessInfo] = field(default_factory=lambda: list[ProcessInfo]())
    """Processes it waits for; only when one session is asked for."""
    started_at: datetime
    """When it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitBranch:
    """A branch."""
    ahead: int | None = None
    """Commits that the upstream does not have."""
    behind: int | None = None
    """Commits that only the upstream has."""
    commit: str
    """The commit it is at."""
    current: bool
    """Whether it is checked out."""
    name: str
    """Its name; `origin/main` for one of a remote."""
    remote: bool
    """Whether it is a remote's, as last fetched."""
    upstream: str | None = None
    """The branch it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitBranchesReply:
    """Answer to `branches`."""
    current: str | None = None
    """The branch that is checked out; absent when detached."""
    items: list[GitBranch]
    """All branches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCloneReply:
    """Answer to a clone."""
    branch: str | None = None
    """The branch that is checked out; absent when detached."""
    commit: str | None = None
    """The commit that is checked out; absent in an empty repository."""
    path: str
    """Where it is, absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommit:
    """A commit."""
    author: GitSignature
    """Who wrote it."""
    committer: GitSignature
    """Who committed it."""
    hash: str
    """Its hash."""
    message: str
    """The whole message."""
    parents: list[str]
    """Hashes of its parents."""
    subject: str
    """The first line of its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommitReply:
    """Answer to a commit."""
    branch: str | None = None
    """The branch; absent when detached."""
    commit: str | None = None
    """The commit the branch is at now."""
    committed: bool
    """Whether there was something to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitDiffFile:
    """A file in a diff."""
    additions: int | None = None
    """Lines added; absent for a binary file."""
    binary: bool
    """Whether it is binary."""
    deletions: int | None = None
    """Lines deleted; absent for a binary file."""
    original_path: str | None = None
    """The name before a rename or copy."""
    original_path_base64: str | None = None
    """Its exact bytes when it is not UTF-8."""
    path: str
    """Path in the repository; with U+FFFD for what is not UTF-8."""
    path_base64: str | None = None
    """The exact bytes of a path that is not UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitDiffReply:
    """Answer to a diff."""
    diff: str
    """The patch."""
    diff_encoding: TextEncoding
    """How `diff` is encoded."""
    files: list[GitDiffFile]
    """Each file with its figures; at most 10,000."""
    omitted_bytes: int
    """Bytes of the patch that were left out at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHeadReply:
    """Where the working tree is now."""
    branch: str | None = None
    """The branch; absent when detached."""
    commit: str | None = None
    """The commit; absent before the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitProgress:
    """`event: progress` of a clone."""
    current: int | None = None
    """How many are done."""
    percent: int | None = None
    """How much of it is done."""
    phase: str
    """What is being done, in git's words."""
    total: int | None = None
    """Of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPullReply:
    """Answer to a pull."""
    before: str | None = None
    """The commit before."""
    branch: str | None = None
    """The branch; absent when detached."""
    commit: str | None = None
    """The commit now."""
    updated: bool
    """Whether anything came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPushReply:
    """Answer to a push."""
    refs: list[GitPushedRef]
    """The references."""
    remote: str
    """Name of the remote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPushedRef:
    """A pushed reference."""
    from_: str
    """Ours."""
    state: GitPushState
    """What became of it."""
    to: str
    """Theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSignature:
    """A person and a time."""
    at: datetime
    """When."""
    email: str
    """Mail address."""
    name: str
    """Name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatusEntry:
    """A file that is not as in the last commit."""
    conflict: GitConflictKind | None = None
    """The conflict it is in."""
    index: GitFileState
    """What the index has of it."""
    original_path: str | None = None
    """The name before a rename or copy."""
    original_path_base64: str | None = None
    """Its exact bytes when it is not UTF-8."""
    path: str
    """Path in the repository; with U+FFFD for what is not UTF-8."""
    path_base64: str | None = None
    """The exact bytes of a path that is not UTF-8."""
    worktree: GitFileState
    """What the working tree has of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatusReply:
    """Answer to a status."""
    ahead: int | None = None
    """Commits that the upstream does not have."""
    behind: int | None = None
    """Commits that only the upstream has."""
    branch: str | None = None
    """The branch; absent when detached."""
    clean: bool
    """Whether nothing is changed or untracked."""
    commit: str | None = None
    """The commit it is at; absent before the first one."""
    entries: list[GitStatusEntry]
    """What is changed; at most 10,000, or as many as an answer holds."""
    omitted_entries: int
    """How many more there are."""
    upstream: str | None = None
    """The branch it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`GET /healthz`."""
    status: str
    """`ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says about the commands that run in it."""
    cmd: list[str] = field(default_factory=lambda: list[str]())
    """What is run when nothing else is asked for, after the entry point."""
    entrypoint: list[str] = field(default_factory=lambda: list[str]())
    """What is run when nothing else is asked for."""
    env: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Environment of every command, below the sandbox's own."""
    user: str | None = None
    """Who commands run as, unless the sandbox says otherwise: a name or number, and `:GROUP`
    perhaps.
    """
    workdir: str | None = None
    """Where commands start, unless the sandbox says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """An image as the hub knows it."""
    config: ImageConfig
    """What it says about commands."""
    created_at: datetime
    """When it was imported."""
    digest: str | None = None
    """The digest of its manifest, or of its configuration where there is no manifest; left out for a
    plain root.
    """
    files: int
    """Files and links in it, without directories."""
    name: ImageName
    """Its name."""
    size_bytes: int
    """Bytes of its files."""
    skipped: int
    """Device nodes, sockets and FIFOs that were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptReply:
    """Answer to an interrupt, given when the command is really over."""
    command_id: CommandId | None = None
    """The command that was interrupted; absent when none ran."""
    method: str
    """What it took: `none`, `int`, `term`, `kill` or `shell_killed`."""
    session: SessionRecord
    """The session after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationSpec:
    """How well a sandbox must be isolated."""
    policy: IsolationPolicy | None = None
    """What is done about a protection that is off."""
    require: list[Layer] = field(default_factory=lambda: list[Layer]())
    """Protections that must be enforced, whatever the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillReply:
    """How a kill was done."""
    killed: int
    """How many processes were alive when the kill began."""
    method: str
    """`already_ended`, `term`, `cgroup_kill` or `namespace_kill` (exact), or `subreaper_walk` (best
    effort).
    """
    survivors: list[Survivor]
    """What is still alive. Empty means: gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one process or session, within those of the sandbox."""
    cpu_seconds: int | None = None
    """CPU seconds a process may use before the kernel ends it."""
    cpus: float | None = None
    """Most processor time: 1 is one processor used all the time."""
    file_bytes: int | None = None
    """Largest file a process may write, in bytes."""
    memory_bytes: int | None = None
    """Most memory all of it may use together, in bytes, swap included."""
    open_files: int | None = None
    """Most files a process may have open."""
    pids: int | None = None
    """Most processes and threads that may live in it at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """Use of memory."""
    limit_bytes: int | None = None
    """Most that may be."""
    source: StatsSource
    """Where it comes from."""
    used_bytes: int | None = None
    """In use. From `proc`: each process's share of its pages, or all it has resident where the share
    cannot be read.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """What a sandbox may reach."""
    allow: list[str] = field(default_factory=lambda: list[str]())
    """With `allow`: the hosts, such as `pypi.org` or `*.example.org` (the names below it, not
    itself), each with an optional `:port`; without one 80 and 443. A public address stands for
    itself.
    """
    mode: NetworkMode
    """Nothing, a list, or everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStats:
    """Bytes over all interfaces but the loopback."""
    received_bytes: int
    """Received."""
    sent_bytes: int
    """Sent."""
    shared: bool
    """Whether the sandbox shares the agent's network, so that others are counted too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """SSE `event: output`: a piece of one stream. The event's `id` is the position after it in the
    joint log, to be sent back as `Last-Event-ID`.
    """
    at: datetime
    """When the bytes arrived."""
    data: str
    """The bytes."""
    encoding: TextEncoding
    """How `data` is encoded."""
    offset: int
    """Byte offset of the piece in its stream."""
    stream: StreamName
    """Which stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PidStats:
    """Processes of the system."""
    count: int | None = None
    """Alive."""
    limit: int | None = None
    """Most that may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortExposure:
    """Answer to `PUT /v1/ports/{port}`: how it is reached without the agent's token."""
    path: str
    """Path of the proxy, without the token."""
    port: int
    """The TCP port."""
    token: str
    """Opens this port and nothing else, until it is unexposed or the agent ends: as `?port_token=`,
    as the header `x-port-token`, or as the cookie that the first answer sets.
    """
    url: str
    """For a browser: the address by which the agent was asked, with the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRecord:
    """A port that something in the sandbox listens on."""
    addresses: list[str]
    """The addresses it is bound to; `0.0.0.0` and `::` mean all."""
    command: str
    """Its command line; of a longer one the first KiB."""
    exposed: bool = False
    """Whether a port token opens it."""
    pid: int
    """The process that listens, as the sandbox counts. The first of several that share the socket."""
    port: int
    """The TCP port."""
    process: ProcessId | None = None
    """The process or exec it belongs to."""
    session: SessionId | None = None
    """The session it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUnexposed:
    """Answer to `DELETE /v1/ports/{port}`."""
    port: int
    """The TCP port."""
    was_exposed: bool
    """Whether it was exposed until now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWaitReply:
    """Answer to a wait for a port."""
    port: PortRecord | None = None
    """The port, when it answers and its owner could still be seen."""
    ready: bool
    """Whether it answers."""
    timed_out: bool
    """Whether the time was over first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsEvent:
    """First of the events of `GET /v1/ports`: all ports there are. What is more than 8 MiB of them
    follows as `opened`.
    """
    items: list[PortRecord]
    """The ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A name under which a port can be reached without a token."""
    expires_at: datetime
    """From then on it opens nothing."""
    port: int
    """The TCP port."""
    url: str
    """Whoever has it reaches the port, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An RFC 9457 problem document: what went wrong, why, and what to do next."""
    code: ErrorCode
    """The stable code to branch on."""
    detail: str
    """What happened this time."""
    expected_offset: int | None = None
    """With `stdin_offset`: the offset the next write must have."""
    first_offset: int | None = None
    """With `offset_gone`: the first offset that is still kept."""
    hint: str | None = None
    """What to do about it."""
    pointer: str | None = None
    """JSON pointer to the offending field of the request."""
    protections: list[Protection] = field(default_factory=lambda: list[Protection]())
    """With `isolation_unavailable`: what became of each layer."""
    request_id: str | None = None
    """The id of the request, also in the `x-request-id` header."""
    status: int
    """The HTTP status."""
    title: str
    """A short title, the same for every problem of this kind."""
    type: str
    """A URI reference that names the kind of problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """One running process."""
    command: str
    """Its command line; of a longer one the first KiB."""
    pid: int
    """Its pid as the agent sees it."""
    state: str
    """Kernel state letter: `R`, `S`, `D`, `T`, `Z`…"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What is known of a process."""
    argv: list[str] | None = None
    """The argument vector, when it was started by one."""
    command: str | None = None
    """The shell text, when it was started by one."""
    ended_at: datetime | None = None
    """When it ended."""
    exit_code: int | None = None
    """Exit status; 128 + n when killed by signal n."""
    id: ProcessId
    """Its id."""
    kind: ProcessKind
    """What made it."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    pid: int
    """Its pid inside the sandbox; of the latest start when it was restarted."""
    restarts: int = 0
    """How often it was started again."""
    session: SessionId | None = None
    """The session whose state it started from."""
    signal: str | None = None
    """Name of the signal that killed it."""
    started_at: datetime
    """When it was first started."""
    state: ProcessState
    """Where it is in its life."""
    stderr_bytes: int
    """Bytes written to standard error so far."""
    stdout_bytes: int
    """Bytes written to standard output so far."""
    tag: str | None = None
    """The label."""
    timed_out: bool = False
    """Whether its timeout ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """One layer of isolation, as proved from inside the sandbox."""
    name: Layer
    """Which layer."""
    reason: str | None = None
    """Why it does not hold, or not wholly."""
    status: ProtectionStatus
    """Whether it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionsReply:
    """`GET /v1/protections`."""
    protections: list[Protection]
    """Every layer, in the order of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveReply:
    """What was removed."""
    removed: int
    """Files, directories and links removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescanEvent:
    """Event `rescan`: some changes are missing here. List the directory again; the events after this
    one hold from then on.
    """
    reason: RescanReason
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReply:
    """What a restore did."""
    contents: ArchiveCounts
    """What is in it now."""
    path: str
    """The directory that was replaced."""
    path_base64: str | None = None
    """The exact path, when it is not UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """SSE `event: end`: the run is over. Always the last event."""
    context: ContextOutcome
    """What became of the state."""
    dropped_results: int = 0
    """Results left out because there were too many bytes of them."""
    duration_ms: int
    """Wall time from start to end."""
    execution_count: int
    """Its number since the interpreter started; 0 when its turn never came."""
    exit_code: int | None = None
    """For bash: the exit status."""
    status: RunStatus
    """How it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """SSE `event: error`: what the code raised."""
    name: str
    """Its name, such as `ValueError`."""
    traceback: list[str]
    """Its traceback, line by line."""
    value: str
    """Its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """SSE `event: stdout` and `event: stderr`: a piece of output."""
    data: str
    """The bytes."""
    encoding: TextEncoding
    """How `data` is encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReply:
    """A run as one JSON answer."""
    context: ContextOutcome
    """What became of the state."""
    dropped_results: int = 0
    """Results left out because there were too many bytes of them."""
    duration_ms: int
    """Wall time from start to end."""
    execution_count: int
    """Its number since the interpreter started; 0 when its turn never came."""
    exit_code: int | None = None
    """For bash: the exit status."""
    status: RunStatus
    """How it ended."""
    error: RunError | None = None
    """What the code raised."""
    results: list[RunResult]
    """Values, in order."""
    run_id: str
    """Its id."""
    stderr: str
    """Standard error."""
    stderr_encoding: TextEncoding
    """How `stderr` is encoded."""
    stdout: str
    """Standard output."""
    stdout_encoding: TextEncoding
    """How `stdout` is encoded."""
    truncated: Truncated | None = None
    """Present when output was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """SSE `event: result`: a value in all the forms it has."""
    data: dict[str, Any]
    """By MIME type: text as it is, pictures as base64, JSON as JSON."""
    is_main: bool
    """Whether it is the value of the last expression; else the code displayed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """SSE `event: started`: the run's turn has come."""
    execution_count: int
    """Its number since the interpreter started."""
    run_id: str
    """Its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEvent:
    """Something that happened in the sandbox. The `id` of the event resumes after it."""
    protections_off: list[Layer] | None = None
    """Layers of isolation that are off."""
    type: Literal["ready", "ending", "process_started", "process_exited", "process_restarted", "process_killed", "session_created", "session_restored", "session_ended", "terminal_created", "terminal_ended", "port_opened", "port_closed", "backup_created", "backup_restored", "backup_deleted", "oom", "limit_reached", "network_refused"]
    pid: int | None = None
    """Its pid."""
    process: ProcessId | None = None
    """Which."""
    exit_code: int | None = None
    """Its status, as a shell shows it."""
    oom: bool | None = None
    """Whether the kernel killed one of its processes because memory was used up."""
    signal: str | None | None = None
    """The signal that ended it."""
    timed_out: bool | None = None
    """Whether its timeout ended it."""
    restarts: int | None = None
    """How often it has been."""
    method: str | None = None
    """How, as in the answer to the kill."""
    session: SessionId | None = None
    """Which."""
    restores: int | None = None
    """How often it has been."""
    reason: str | None = None
    """Why."""
    terminal: TerminalId | None = None
    """Which."""
    port: int | None = None
    """Which."""
    backup: BackupId | None = None
    """Which."""
    path: str | None = None
    """Where to."""
    killed: int | None = None
    """How many since the last such event."""
    scope: LimitScope | None = None
    """Whose limit on memory it was."""
    limit: str | None = None
    """The limit, as it is called in a request: `pids`."""
    times: int | None = None
    """How often since the last such event."""
    address: str | None | None = None
    """The address it stood for, where that was the reason."""
    host: str | None = None
    """The name or address asked for."""
    suppressed: int | None = None
    """Refusals since the last such event that were not told one by one."""
    at: datetime
    """When."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of a whole sandbox."""
    cpus: float | None = None
    """Processors, such as 0.5 or 2."""
    disk_bytes: int | None = None
    """Bytes it may write."""
    inodes: int | None = None
    """Files it may make."""
    memory_bytes: int | None = None
    """Memory of all its commands together."""
    open_files: int | None = None
    """Files each of its processes may have open."""
    pids: int | None = None
    """Processes and threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """A sandbox as the hub knows it."""
    cwd: str | None = None
    """Where commands start."""
    env: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Environment of every command."""
    id: SandboxId
    """Its id."""
    idle_timeout_ms: int | None = None
    """After this long without a request `on_idle` happens. Never by default."""
    image: str | None = None
    """The root file system; the host's programs by default."""
    isolation: IsolationSpec | None = None
    """How well it must be isolated."""
    labels: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Words to find it by."""
    limits: SandboxLimits | None = None
    """What it may use."""
    max_lifetime_ms: int | None = None
    """After this long it is destroyed, idle or not. Never by default."""
    network: NetworkSpec | None = None
    """What it may reach."""
    on_idle: OnIdle | None = None
    """What happens to an idle sandbox; `sleep` by default."""
    secrets: list[SecretSpec] = field(default_factory=lambda: list[SecretSpec]())
    """Headers that are added on the way out, so that secrets never enter the sandbox."""
    user: str | None = None
    """Who commands run as."""
    created_at: datetime
    """When it was made."""
    ended_at: datetime | None = None
    """When it ended."""
    expires_at: datetime | None = None
    """When its lifetime ends."""
    last_used_at: datetime
    """When it last had a request, as far as this hub has seen."""
    owner: str
    """The id of the token that made it."""
    protections: list[Protection]
    """What became of each layer of isolation."""
    reason: str | None = None
    """Why it is no more."""
    state: SandboxState
    """Where it is in its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """`POST /v1/sandboxes`: what a sandbox is to be. Everything may be left out."""
    cwd: str | None = None
    """Where commands start."""
    env: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Environment of every command."""
    id: SandboxId | None = None
    """An id of your choice, which makes the call safe to send again."""
    idle_timeout_ms: int | None = None
    """After this long without a request `on_idle` happens. Never by default."""
    image: str | None = None
    """The root file system; the host's programs by default."""
    isolation: IsolationSpec | None = None
    """How well it must be isolated."""
    labels: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    """Words to find it by."""
    limits: SandboxLimits | None = None
    """What it may use."""
    max_lifetime_ms: int | None = None
    """After this long it is destroyed, idle or not. Never by default."""
    network: NetworkSpec | None = None
    """What it may reach."""
    on_idle: OnIdle | None = None
    """What happens to an idle sandbox; `sleep` by default."""
    secrets: list[SecretSpec] = field(default_factory=lambda: list[SecretSpec]())
    """Headers that are added on the way out, so that secrets never enter the sandbox."""
    user: str | None = None
    """Who commands run as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStats:
    """`GET /v1/stats`. What cannot be told here is `null`."""
    at: datetime
    """When the figures were taken."""
    cpu: CpuStats
    """Use of processors."""
    disk: DiskStats | None = None
    """The file system of the sandbox's directory."""
    execs: int
    """Execs that have not ended."""
    memory: MemoryStats
    """Use of memory."""
    network: NetworkStats | None = None
    """Bytes over the network."""
    pids: PidStats
    """Processes of the system that are alive, init and the shells held ready among them."""
    processes: int
    """Processes (not execs) that have not ended."""
    sessions: int
    """Sessions that have not ended."""
    terminals: int
    """Terminals that have not ended."""
    uptime_ms: int
    """How long the agent has served the sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMatch:
    """SSE `event: match`: one line that matches."""
    after: list[ContextLine] = field(default_factory=lambda: list[ContextLine]())
    """Lines after it, the same."""
    before: list[ContextLine] = field(default_factory=lambda: list[ContextLine]())
    """Lines before it, as far as they were asked for and belong to no other match."""
    line: int
    """Number of the line, from 1."""
    offset: int
    """Where the line begins in the file, in bytes."""
    path: str
    """The file's absolute path; what is not UTF-8 in it is replaced."""
    path_base64: str | None = None
    """The exact bytes of the path, when it is not UTF-8."""
    spans: list[Span]
    """What matched in the line, 1,000 at most."""
    text: str
    """The line without its end."""
    text_encoding: TextEncoding
    """How `text` is encoded."""
    text_truncated: bool = False
    """The line is longer than 16 KiB, and `text` is only its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReply:
    """What a search found."""
    matches: list[SearchMatch]
    """The lines, sorted by path within each directory."""
    summary: SearchSummary
    """What was searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSummary:
    """SSE `event: done`: what was searched."""
    binary_files: int
    """Files passed over because a NUL byte was found in them; matches before it are given."""
    large_files: int
    """Files passed over because they, or a line of theirs, are too large."""
    matched_files: int
    """Files with a match."""
    matched_lines: int
    """Lines that matched and are in the answer."""
    searched_files: int
    """Files that were searched."""
    timed_out: bool
    """The time ran out."""
    truncated: bool
    """There are more matches than `limit`, or than an answer holds, or the time ran out."""
    unreadable: int
    """Files and directories that the user may not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSpec:
    """A header that the egress proxy puts into requests for a host, in place of what the sandbox
    sends under its name, so that its value never enters the sandbox.
    """
    header: str
    """The name of the header."""
    host: str
    """The host."""
    value: str | None = None
    """Its value; needed in a request, and never in a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExecResult:
    """The result of a session's command."""
    command_id: CommandId
    """The command's id."""
    cwd: str
    """Working directory after the command."""
    duration_ms: int
    """Wall time from start to end."""
    exit_code: int
    """Exit status; 130 when interrupted, 128 + n when the shell was killed by signal n."""
    interrupted: bool
    """Whether it was interrupted."""
    left_running: int
    """How many streams children left behind still hold; what they write is on the late streams."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    session_state: str
    """`kept`: the same shell goes on. `restored`: it exited, another took over everything.
    `restored_before`: another took over the state from before this command. `ended`: the session
    is over.
    """
    signal: str | None = None
    """Name of the signal that killed the shell, when one did."""
    stderr: str
    """Standard error."""
    stderr_encoding: TextEncoding
    """How `stderr` is encoded."""
    stdout: str
    """Standard output."""
    stdout_encoding: TextEncoding
    """How `stdout` is encoded."""
    timed_out: bool
    """Whether its timeout ended it."""
    truncated: Truncated | None = None
    """Present when bytes were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExitEvent:
    """SSE `event: exit` of a streamed session exec: a [`SessionExecResult`] without the output,
    which has been sent before. A reader of plain exit events understands it too.
    """
    command_id: CommandId
    """The command's id."""
    cwd: str | None = None
    """Working directory after the command."""
    duration_ms: int
    """Wall time from start to end."""
    exit_code: int | None = None
    """Exit status; absent when it never ran."""
    interrupted: bool
    """Whether it was interrupted."""
    left_running: int
    """How many streams children left behind still hold."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    session_state: str | None = None
    """As in [`SessionExecResult`]."""
    signal: str | None = None
    """Name of the signal that killed the shell, when one did."""
    timed_out: bool
    """Whether its timeout ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """What is known of a session."""
    created_at: datetime
    """When it was made."""
    cwd: str
    """Working directory after the last command."""
    degraded: list[str] = field(default_factory=lambda: list[str]())
    """What this shell cannot do that bash could. Empty for bash."""
    foreground: ForegroundInfo | None = None
    """The command that runs now."""
    id: SessionId
    """Its id."""
    last_used_at: datetime | None = None
    """When its last command ended."""
    limits: Limits | None = None
    """Its limits now."""
    pid: int
    """The shell's pid inside the sandbox, or in its own process tree."""
    private_processes: bool = False
    """Whether its process tree is its own."""
    queue_length: int
    """Commands waiting for their turn."""
    restores: int
    """How often the shell was replaced and its state restored."""
    shell: str
    """Path of its shell."""
    state: SessionState
    """Where it is in its life."""
    stats: SessionStats | None = None
    """Figures; only when one session is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """What a session uses."""
    commands: int
    """Commands run."""
    cpu_ms: int
    """CPU time used since the shell started."""
    memory_bytes: int
    """Resident memory of all of them."""
    processes: int
    """Processes alive, the shell included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReply:
    """Answer to a signal."""
    signalled: int
    """How many processes it was sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a line, in bytes from its beginning."""
    end: int
    """The byte after the last."""
    start: int
    """The first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinReply:
    """Answer to a stdin write."""
    offset: int
    """Bytes accepted since the process started: the offset of the next write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A process that a kill could not end."""
    command: str
    """Its command line; of a longer one the first KiB."""
    pid: int
    """Its pid as the agent sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalCursor:
    """Where the cursor is."""
    col: int
    """Column, from 0."""
    row: int
    """Row, from 0."""
    visible: bool
    """Whether it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalFrame:
    """A text frame from the server on a connection to a terminal. Binary frames are output."""
    cols: int | None = None
    """Columns now."""
    offset: int | None = None
    """Offset of the first byte of output that will come."""
    redraw_bytes: int | None = None
    """When not 0, the next binary frame has so many bytes and draws the screen as it is at `offset`.
    They are not output and have no offset.
    """
    rows: int | None = None
    """Rows now."""
    type: Literal["ready", "resize", "truncated", "exit"]
    bytes: int | None = None
    """How many bytes are left out."""
    exit_code: int | None = None
    """Exit status; 128 + n when killed by signal n."""
    signal: str | None | None = None
    """Name of the signal that killed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalRecord:
    """What is known of a terminal."""
    argv: list[str] | None = None
    """The program it was started with."""
    cols: int
    """Columns now."""
    command: str | None = None
    """The text it was started with."""
    ended_at: datetime | None = None
    """When its program ended."""
    exit_code: int | None = None
    """Exit status; 128 + n when killed by signal n."""
    id: TerminalId
    """Its id."""
    output_bytes: int
    """Bytes written to it so far."""
    pid: int
    """The pid of its program inside the sandbox."""
    rows: int
    """Rows now."""
    signal: str | None = None
    """Name of the signal that killed it."""
    started_at: datetime
    """When it was started."""
    state: TerminalState
    """Where it is in its life."""
    title: str | None = None
    """The title its programs gave it."""
    viewers: int
    """Clients connected now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalScreen:
    """`GET /v1/terminals/{id}/screen`: what a person in front of the terminal sees."""
    alternate: bool
    """Whether a full-screen program has the alternate screen."""
    cols: int
    """Columns."""
    cursor: TerminalCursor
    """Where the cursor is."""
    offset: int
    """Bytes of output that this screen is made of."""
    rows: int
    """Rows."""
    scrollback: str | None = None
    """The last lines that scrolled away at the top, when asked for."""
    state: TerminalState
    """Whether its program still runs."""
    text: str
    """All rows, without blanks at their ends, joined by newlines."""
    title: str | None = None
    """The title its programs gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketReply:
    """Answer to `POST /v1/tickets`."""
    expires_at: datetime
    """When it is forgotten if it has not been used."""
    ticket: str
    """The ticket: the value of `?ticket=`."""
    url: str
    """The path with the ticket in its query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreated:
    """Answer to `POST /v1/tokens`."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None = None
    """From then on it opens nothing."""
    id: str
    """Its id, which is no secret."""
    max_sandboxes: int | None = None
    """Most sandboxes it may have at a time."""
    name: str | None = None
    """What people call it."""
    revoked_at: datetime | None = None
    """When it was revoked."""
    scopes: list[str]
    """What it opens: `admin`, `create` or `sandbox:ID`."""
    token: str
    """The token, shown this once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token as the hub knows it; the secret itself is kept nowhere."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None = None
    """From then on it opens nothing."""
    id: str
    """Its id, which is no secret."""
    max_sandboxes: int | None = None
    """Most sandboxes it may have at a time."""
    name: str | None = None
    """What people call it."""
    revoked_at: datetime | None = None
    """When it was revoked."""
    scopes: list[str]
    """What it opens: `admin`, `create` or `sandbox:ID`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """How many bytes of each stream are missing from a result."""
    stderr_bytes: int
    """Bytes of standard error left out."""
    stdout_bytes: int
    """Bytes of standard output left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedEvent:
    """SSE `event: truncated`: bytes that are no longer kept, or that a cap dropped."""
    bytes: int
    """How many bytes are missing."""
    offset: int
    """First byte that is missing."""
    stream: StreamName
    """Which stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionInfo:
    """`GET /version`."""
    api: str
    """Version of the wire contract."""
    version: str
    """Version of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReply:
    """Answer to a wait."""
    line: str | None = None
    """For a pattern: the line it was found in."""
    outcome: WaitOutcome
    """What came first."""
    process: ProcessRecord
    """The process at that moment."""
    timed_out: bool
    """The same as `outcome == "timeout"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEndEvent:
    """Event `end`: the last one. A new watch may be begun."""
    detail: str | None = None
    """More about it."""
    reason: WatchEndReason
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReadyEvent:
    """First event of a watch: from now on every change is told. Its `id` is `version`."""
    directories: int
    """Directories that are watched."""
    entries: int
    """What lies in them."""
    path: str
    """The absolute path that is watched."""
    path_base64: str | None = None
    """The exact path, when it is not UTF-8."""
    version: int
    """The version the events go on from."""
