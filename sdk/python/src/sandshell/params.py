"""What requests take. Written by scripts/generate from the OpenAPI document.

The client builds its bodies with these, so that a type checker compares it with the document. A
value of None is left out of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict



BackupId: TypeAlias = str
"""A saved directory tree."""


CaseMode: TypeAlias = Literal["sensitive", "insensitive", "smart"]
"""How upper and lower case are told apart."""


CommandId: TypeAlias = str
"""One command run in a session."""


ContextId: TypeAlias = str
"""A code interpreter that keeps its state."""


Encoding: TypeAlias = Literal["auto", "utf8", "base64"]
"""Which encoding a client wants for bytes in JSON."""


FileKind: TypeAlias = Literal["file", "directory", "symlink", "fifo", "socket", "block_device", "char_device", "unknown"]
"""What is at a path."""


FileMode: TypeAlias = str
"""Permission bits. On the wire octal text such as `"0644"`; a number is taken as the bits
themselves.
"""


GitPullMode: TypeAlias = Literal["merge", "rebase", "fast_forward"]
"""How a pull brings both sides together."""


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


NetworkMode: TypeAlias = Literal["none", "allow", "full"]
"""How much of the network there is."""


OnDisconnect: TypeAlias = Literal["continue", "kill"]
"""What happens to the command when the client goes away before the result."""


OnIdle: TypeAlias = Literal["sleep", "destroy"]
"""What happens to an idle sandbox."""


ProcessId: TypeAlias = str
"""A process, or an `exec`, which is a process too."""


RestartMode: TypeAlias = Literal["never", "on_failure", "always"]
"""When a process is started again."""


SandboxId: TypeAlias = str
"""The id of a sandbox. It is a DNS label, so that it can stand in the name of a preview."""


SessionId: TypeAlias = str
"""A persistent shell."""


SignalScope: TypeAlias = Literal["process", "group", "tree"]
"""Whom a signal goes to."""


StreamName: TypeAlias = Literal["stdout", "stderr", "late_stdout", "late_stderr"]
"""One of the byte streams of a process or command."""


TerminalId: TypeAlias = str
"""A terminal."""


TextEncoding: TypeAlias = Literal["utf8", "base64"]
"""How the bytes next to it are encoded."""


Truncate: TypeAlias = Literal["head", "tail", "both"]
"""Which end of an over-long output is kept in a result."""


class BackupRequest(TypedDict):
    """`POST /v1/backups`: saves the tree at `path`, or takes in one from `download`."""
    download: NotRequired[Download | None]
    """Take the archive from here instead of making one."""
    exclude: NotRequired[Sequence[str] | None]
    """Globs of what to leave out. One without `/` is matched against the name, one with it against
    the path below `path`.
    """
    gitignore: NotRequired[bool | None]
    """Whether what .gitignore files exclude is left out; `.git` itself is kept. False by default."""
    id: NotRequired[BackupId | None]
    """An id of your choice: creating it again with the same spec gives the same backup."""
    path: NotRequired[str | None]
    """The directory. With `download`: where a restore without a path puts it."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    session: NotRequired[SessionId | None]
    """Relative paths start at this session's directory."""
    skip_unreadable: NotRequired[bool | None]
    """Pass over and count what the user may not read. Otherwise the first such file is an error."""
    ttl_ms: NotRequired[int | None]
    """It is deleted this long after it was made. Kept until deleted by default."""
    upload: NotRequired[Upload | None]
    """Where to send it. Nothing is then kept here but the record, unless `keep` says so."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class ChangesRequest(TypedDict):
    """`POST /v1/files/changes`: has anything changed since a version?"""
    exclude: NotRequired[Sequence[str] | None]
    """Nothing that matches one of these globs, nor anything below it."""
    include: NotRequired[Sequence[str] | None]
    """Only files that match one of these globs."""
    path: NotRequired[str | None]
    """What to watch: a directory or a file."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    recursive: NotRequired[bool | None]
    """Also everything below. True by default."""
    session: NotRequired[SessionId | None]
    """Relative paths start at this session's directory."""
    since: NotRequired[int | None]
    """The version of an earlier answer or event. Without it, the answer gives one to begin with."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class ChmodRequest(TypedDict):
    """`POST /v1/files/chmod`."""
    mode: FileMode
    """The permission bits: octal text such as `"0755"`, or the bits as a number (493)."""
    path: NotRequired[str | None]
    """What is changed. A symbolic link is followed."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    recursive: NotRequired[bool | None]
    """Also everything below; symbolic links are left alone. False by default."""
    session: NotRequired[str | None]
    """Relative paths start at this session's directory."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class ContextRequest(TypedDict):
    """`POST /v1/contexts`."""
    cwd: NotRequired[str | None]
    """Working directory; the session's or the sandbox's by default."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to its environment."""
    id: NotRequired[ContextId | None]
    """An id of your choice: creating it again with the same spec gives the same context."""
    idle_timeout_ms: NotRequired[int | None]
    """End the context after this long without a run. Never by default."""
    kernel: NotRequired[KernelChoice | None]
    """What runs the code."""
    language: Language
    """The language."""
    session: NotRequired[SessionId | None]
    """Start with the directory and environment of this session."""
    timeout_ms: NotRequired[int | None]
    """Timeout of each run that does not bring its own. None by default."""
    user: NotRequired[str | None]
    """User name or uid to run as."""


CopyRequest = TypedDict(
    "CopyRequest",
    {
        "from": "NotRequired[str | None]",
        "from_base64": "NotRequired[str | None]",
        "overwrite": "NotRequired[bool | None]",
        "parents": "NotRequired[bool | None]",
        "recursive": "NotRequired[bool | None]",
        "session": "NotRequired[str | None]",
        "to": "NotRequired[str | None]",
        "to_base64": "NotRequired[str | None]",
        "user": "NotRequired[str | None]",
    },
)
"""`POST /v1/files/copy`."""


class Download(TypedDict):
    """Where to get an archive."""
    sha256: NotRequired[str | None]
    """SHA-256 that the archive must have, as 64 hexadecimal digits."""
    url: str
    """A presigned URL for GET."""


class EnvPatch(TypedDict):
    """`PATCH /v1/env`. Seen by whatever is started from now on."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Variables to set; `null` unsets one."""


class ExecRequest(TypedDict):
    """`POST /v1/exec`. Exactly one of `command` and `argv` is given."""
    argv: NotRequired[Sequence[str] | None]
    """A program and its arguments; no shell is involved."""
    command: NotRequired[str | None]
    """Text for the shell."""
    cwd: NotRequired[str | None]
    """Working directory; the sandbox's own by default."""
    encoding: NotRequired[Encoding | None]
    """Encoding of `stdout` and `stderr` in the result."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to the environment for this command."""
    id: NotRequired[ProcessId | None]
    """An id of your choice."""
    limits: NotRequired[Limits | None]
    """Resource limits."""
    max_output_bytes: NotRequired[int | None]
    """Most bytes of each stream in the result; 10 MiB by default."""
    on_disconnect: NotRequired[OnDisconnect | None]
    """What to do when the client goes away."""
    shell: NotRequired[str | None]
    """Shell for `command`: a name or path; bash by default, else sh."""
    stdin: NotRequired[str | None]
    """Bytes for the standard input, which then ends. `/dev/null` by default."""
    stdin_encoding: NotRequired[TextEncoding | None]
    """How `stdin` is encoded."""
    timeout_ms: NotRequired[int | None]
    """After this the whole tree is ended and what there is returned. None by default."""
    truncate: NotRequired[Truncate | None]
    """What to drop when there is more."""
    user: NotRequired[str | None]
    """User name or uid to run as."""


class FindRequest(TypedDict):
    """`POST /v1/files/find`."""
    exclude: NotRequired[Sequence[str] | None]
    """Entries to leave out, and directories not to enter, as globs of the same kind."""
    gitignore: NotRequired[bool | None]
    """Whether what .gitignore files exclude is left out, and `.git` with it; false by default."""
    hidden: NotRequired[bool | None]
    """Whether names that begin with a dot are looked at; true by default."""
    kind: NotRequired[FileKind | None]
    """Only entries of this kind."""
    limit: NotRequired[int | None]
    """Most entries in the answer: 1,000 by default, 100,000 at most."""
    max_depth: NotRequired[int | None]
    """How many levels down; 1 is the directory itself. No limit by default."""
    path: NotRequired[str | None]
    """The directory to look in. Relative paths start at the session's directory, or the sandbox's."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    patterns: NotRequired[Sequence[str] | None]
    """Globs, of which one must match; all entries when left out. One without `/` is matched against
    the name, one with it against the path below `path`; `**` stands for any number of
    directories.
    """
    session: NotRequired[SessionId | None]
    """Relative paths start at this session's directory."""
    timeout_ms: NotRequired[int | None]
    """After this the answer has what was found so far; 60 s by default."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class ForkRequest(TypedDict):
    """`POST /v1/sessions/{id}/fork`."""
    id: NotRequired[SessionId | None]
    """An id for the new session."""


class GitAddRequest(TypedDict):
    """`POST /v1/git/add`. Answers with the status after it."""
    all: NotRequired[bool | None]
    """Everything, deletions included."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    paths: NotRequired[Sequence[str] | None]
    """What to add, taken literally."""
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitAuth(TypedDict):
    """Credentials for one call, over HTTP(S) only. Given to git through a pipe that can be read
    once; never in its arguments, its environment, a file or a log.
    """
    password: NotRequired[str | None]
    """The password. Exactly one of this and `token` is given."""
    token: NotRequired[str | None]
    """An access token."""
    username: NotRequired[str | None]
    """User name; that of the URL, else `x-access-token`, when left out."""


class GitBranchesRequest(TypedDict):
    """`POST /v1/git/branches`. Lists, after making or deleting one if asked to."""
    create: NotRequired[GitNewBranch | None]
    """Make this branch first."""
    delete: NotRequired[GitOldBranch | None]
    """Delete this branch first."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitCheckoutRequest(TypedDict):
    """`POST /v1/git/checkout`."""
    create: NotRequired[bool | None]
    """Make it a new branch."""
    force: NotRequired[bool | None]
    """Throw away changes that are in the way."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    start: NotRequired[str | None]
    """Where a new branch starts; the current commit by default."""
    target: str
    """Branch, tag or commit."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitCloneRequest(TypedDict):
    """`POST /v1/git/clone`."""
    auth: NotRequired[GitAuth | None]
    """Credentials for this call only."""
    branch: NotRequired[str | None]
    """Branch or tag to check out; the remote's own by default."""
    depth: NotRequired[int | None]
    """Only this many commits."""
    path: NotRequired[str | None]
    """Where to; nothing or an empty directory must be there. Named after the URL by default."""
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    timeout_ms: NotRequired[int | None]
    """After this git is ended with all it started; `timed_out`. None by default."""
    url: str
    """Where from: `http`, `https`, `ssh`, `git` or `file` URLs, `host:path`, or a path in the
    sandbox.
    """
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitCommitRequest(TypedDict):
    """`POST /v1/git/commit`."""
    all: NotRequired[bool | None]
    """Add changes of tracked files first."""
    allow_empty: NotRequired[bool | None]
    """Also when nothing has changed."""
    amend: NotRequired[bool | None]
    """Replace the last commit."""
    author: NotRequired[GitIdentity | None]
    """Who wrote it; as configured by default."""
    committer: NotRequired[GitIdentity | None]
    """Who commits it; the author by default, else as configured."""
    message: str
    """The message."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


GitDiffRequest = TypedDict(
    "GitDiffRequest",
    {
        "from": "NotRequired[str | None]",
        "max_bytes": "NotRequired[int | None]",
        "path": "NotRequired[str | None]",
        "paths": "NotRequired[Sequence[str] | None]",
        "session": "NotRequired[SessionId | None]",
        "staged": "NotRequired[bool | None]",
        "to": "NotRequired[str | None]",
        "user": "NotRequired[str | None]",
    },
)
"""`POST /v1/git/diff`."""


class GitIdentity(TypedDict):
    """Who writes or commits."""
    email: str
    """Mail address."""
    name: str
    """Name."""


class GitLogRequest(TypedDict):
    """`POST /v1/git/log`."""
    cursor: NotRequired[str | None]
    """`next_cursor` of the page before."""
    limit: NotRequired[int | None]
    """Most commits in the page: 1 to 1000, 100 by default."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    paths: NotRequired[Sequence[str] | None]
    """Only commits that touch these paths, taken literally."""
    revision: NotRequired[str | None]
    """From which commit or branch back, or a range; the current one by default."""
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitNewBranch(TypedDict):
    """A branch to be made."""
    name: str
    """Its name."""
    start: NotRequired[str | None]
    """The commit or branch it starts at; the current one by default."""


class GitOldBranch(TypedDict):
    """A branch to be deleted."""
    force: NotRequired[bool | None]
    """Also when its commits are on no other branch."""
    name: str
    """Its name."""


class GitPullRequest(TypedDict):
    """`POST /v1/git/pull`."""
    auth: NotRequired[GitAuth | None]
    """Credentials for this call only."""
    branch: NotRequired[str | None]
    """Branch there; the upstream by default."""
    mode: NotRequired[GitPullMode | None]
    """How."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    remote: NotRequired[str | None]
    """Name of the remote; that of the upstream, else `origin`, by default."""
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    timeout_ms: NotRequired[int | None]
    """After this git is ended with all it started; `timed_out`. None by default."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitPushRequest(TypedDict):
    """`POST /v1/git/push`."""
    auth: NotRequired[GitAuth | None]
    """Credentials for this call only."""
    branch: NotRequired[str | None]
    """Branch to push; the current one by default."""
    force: NotRequired[bool | None]
    """Replace what is there, if it is what was last fetched."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    remote: NotRequired[str | None]
    """Name of the remote; that of the upstream, else `origin`, by default."""
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    set_upstream: NotRequired[bool | None]
    """Follow the pushed branch from now on."""
    tags: NotRequired[bool | None]
    """Push tags too."""
    timeout_ms: NotRequired[int | None]
    """After this git is ended with all it started; `timed_out`. None by default."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class GitStatusRequest(TypedDict):
    """`POST /v1/git/status`."""
    ignored: NotRequired[bool | None]
    """Also list ignored files."""
    path: NotRequired[str | None]
    """Directory of the repository, or one in it; relative ones start at the session's directory, or
    at the sandbox's. That directory by default.
    """
    session: NotRequired[SessionId | None]
    """Git gets the environment of this session, and relative paths start at its directory."""
    user: NotRequired[str | None]
    """User name or uid to run git as."""


class HttpCheck(TypedDict):
    """Ask for an HTTP answer as well as a listening port."""
    path: NotRequired[str | None]
    """Path to request; `/` by default."""
    status: NotRequired[int | None]
    """Status to wait for; any below 500 by default."""


class ImageRequest(TypedDict):
    """`POST /v1/images`: a directory of the hub's machine becomes an image."""
    directory: str
    """The directory, which is copied."""
    name: ImageName
    """Its name from then on."""


class IsolationSpec(TypedDict):
    """How well a sandbox must be isolated."""
    policy: NotRequired[IsolationPolicy | None]
    """What is done about a protection that is off."""
    require: NotRequired[Sequence[Layer] | None]
    """Protections that must be enforced, whatever the policy."""


class KillRequest(TypedDict):
    """`POST /v1/processes/{id}/kill`."""
    grace_ms: NotRequired[int | None]
    """Time between TERM and KILL; 5000 by default, 0 goes straight to KILL."""


class Limits(TypedDict):
    """Limits for one process or session, within those of the sandbox."""
    cpu_seconds: NotRequired[int | None]
    """CPU seconds a process may use before the kernel ends it."""
    cpus: NotRequired[float | None]
    """Most processor time: 1 is one processor used all the time."""
    file_bytes: NotRequired[int | None]
    """Largest file a process may write, in bytes."""
    memory_bytes: NotRequired[int | None]
    """Most memory all of it may use together, in bytes, swap included."""
    open_files: NotRequired[int | None]
    """Most files a process may have open."""
    pids: NotRequired[int | None]
    """Most processes and threads that may live in it at a time."""


class LogCondition(TypedDict):
    """Wait for a pattern in the output."""
    pattern: str
    """The text, or regular expression, to look for. Output from before the call counts."""
    regex: NotRequired[bool | None]
    """Whether `pattern` is a regular expression."""
    stream: NotRequired[StreamName | None]
    """Only in this stream; both by default."""


class MkdirRequest(TypedDict):
    """`POST /v1/files/mkdir`."""
    exist_ok: NotRequired[bool | None]
    """Be content with a directory that is there already; false by default."""
    mode: NotRequired[FileMode | None]
    """Its permission bits; 0755 by default."""
    parents: NotRequired[bool | None]
    """Make what is missing above it; true by default."""
    path: NotRequired[str | None]
    """The directory."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    session: NotRequired[str | None]
    """Relative paths start at this session's directory."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


MoveRequest = TypedDict(
    "MoveRequest",
    {
        "from": "NotRequired[str | None]",
        "from_base64": "NotRequired[str | None]",
        "overwrite": "NotRequired[bool | None]",
        "parents": "NotRequired[bool | None]",
        "session": "NotRequired[str | None]",
        "to": "NotRequired[str | None]",
        "to_base64": "NotRequired[str | None]",
        "user": "NotRequired[str | None]",
    },
)
"""`POST /v1/files/move`."""


class Multipart(TypedDict):
    """The presigned URLs of a multipart upload."""
    abort_url: NotRequired[str | None]
    """URL of the DELETE that abandons it when something fails."""
    complete_url: str
    """URL of the POST that completes the upload."""
    part_bytes: int
    """Bytes in each part but the last; S3 wants 5 MiB at least."""
    part_urls: Sequence[str]
    """URLs of the parts, from number 1 on; there may be more than are needed."""


class NetworkSpec(TypedDict):
    """What a sandbox may reach."""
    allow: NotRequired[Sequence[str] | None]
    """With `allow`: the hosts, such as `pypi.org` or `*.example.org` (the names below it, not
    itself), each with an optional `:port`; without one 80 and 443. A public address stands for
    itself.
    """
    mode: NetworkMode
    """Nothing, a list, or everything."""


class PortCondition(TypedDict):
    """Wait until a port answers."""
    http: NotRequired[HttpCheck | None]
    """Also wait for an HTTP answer."""
    port: int
    """The TCP port on the loopback address."""


class PortWaitRequest(TypedDict):
    """`POST /v1/ports/{port}/wait`."""
    http: NotRequired[HttpCheck | None]
    """Also wait for an HTTP answer."""
    timeout_ms: NotRequired[int | None]
    """Give up after this."""


class PreviewRequest(TypedDict):
    """`POST /v1/sandboxes/{sandbox}/ports/{port}/preview`."""
    ttl_ms: NotRequired[int | None]
    """How long the name opens the port; an hour by default, a year at most."""


class ProcessRequest(TypedDict):
    """`POST /v1/processes`. Exactly one of `command` and `argv` is given."""
    argv: NotRequired[Sequence[str] | None]
    """A program and its arguments; no shell is involved."""
    command: NotRequired[str | None]
    """Text for the shell."""
    cwd: NotRequired[str | None]
    """Working directory."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to the environment."""
    id: NotRequired[ProcessId | None]
    """An id of your choice: creating it again with the same spec gives the same process."""
    limits: NotRequired[Limits | None]
    """Resource limits."""
    max_output_bytes: NotRequired[int | None]
    """Most bytes of output kept; 256 MiB by default, the oldest go first."""
    restart: NotRequired[RestartPolicy | None]
    """When to start it again."""
    session: NotRequired[SessionId | None]
    """Start from a snapshot of this session's state (cwd, variables, functions, options)."""
    shell: NotRequired[str | None]
    """Shell for `command`."""
    stdin: NotRequired[str | None]
    """First bytes for the standard input."""
    stdin_encoding: NotRequired[TextEncoding | None]
    """How `stdin` is encoded."""
    stdin_open: NotRequired[bool | None]
    """Keep the standard input open for later writes."""
    tag: NotRequired[str | None]
    """A label of your choice."""
    timeout_ms: NotRequired[int | None]
    """After this the whole tree is ended."""
    user: NotRequired[str | None]
    """User name or uid to run as."""


class RemoveRequest(TypedDict):
    """`POST /v1/files/remove`."""
    missing_ok: NotRequired[bool | None]
    """Be content when there is nothing; false by default."""
    path: NotRequired[str | None]
    """What is removed. A symbolic link is removed itself."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    recursive: NotRequired[bool | None]
    """Needed for a directory that is not empty."""
    session: NotRequired[str | None]
    """Relative paths start at this session's directory."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class ResizeRequest(TypedDict):
    """`POST /v1/terminals/{id}/resize`."""
    cols: int
    """Columns."""
    rows: int
    """Rows."""


class RestartPolicy(TypedDict):
    """A restart policy with its backoff."""
    backoff_ms: NotRequired[int | None]
    """First pause; it doubles up to a minute and starts anew after a minute of running. 500 ms by
    default.
    """
    max_restarts: NotRequired[int | None]
    """Give up after this many restarts. No limit by default."""
    mode: RestartMode
    """When to start again."""


class RestoreRequest(TypedDict):
    """`POST /v1/backups/{id}/restore`."""
    download: NotRequired[Download | None]
    """Take the archive from here, for a backup that is not kept here. It must be that very archive."""
    path: NotRequired[str | None]
    """The directory that is replaced; the one the backup was made from by default."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    session: NotRequired[SessionId | None]
    """Relative paths start at this session's directory."""
    user: NotRequired[str | None]
    """Whose rights are used, and who owns what is restored: a user name or uid; the sandbox's user
    by default.
    """


class RunRequest(TypedDict):
    """`POST /v1/contexts/{id}/run`."""
    code: str
    """The code."""
    encoding: NotRequired[Encoding | None]
    """Encoding of output."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to the environment for this run only."""
    max_output_bytes: NotRequired[int | None]
    """Most bytes of each stream in a JSON result; 10 MiB by default. The middle is left out."""
    timeout_ms: NotRequired[int | None]
    """After this the run is interrupted; the state is kept where the interpreter allows it."""


class SandboxLimits(TypedDict):
    """Limits of a whole sandbox."""
    cpus: NotRequired[float | None]
    """Processors, such as 0.5 or 2."""
    disk_bytes: NotRequired[int | None]
    """Bytes it may write."""
    inodes: NotRequired[int | None]
    """Files it may make."""
    memory_bytes: NotRequired[int | None]
    """Memory of all its commands together."""
    open_files: NotRequired[int | None]
    """Files each of its processes may have open."""
    pids: NotRequired[int | None]
    """Processes and threads."""


class SandboxPatch(TypedDict):
    """`PATCH /v1/sandboxes/{sandbox}`: what is left out stays; null means nothing but in `labels`,
    and is refused.
    """
    idle_timeout_ms: NotRequired[int | None]
    """The time without a request after which `on_idle` happens; 0 for never."""
    labels: NotRequired[Mapping[str, str | None] | None]
    """Labels to set; `null` removes one."""
    limits: NotRequired[SandboxLimits | None]
    """Limits to change while it runs: `memory_bytes`, `cpus` and `pids`. The others hold from its
    making to its end.
    """
    max_lifetime_ms: NotRequired[int | None]
    """The time since its making after which it is destroyed; 0 for never."""
    on_idle: NotRequired[OnIdle | None]
    """What happens to it when idle."""


class SandboxSpec(TypedDict):
    """`POST /v1/sandboxes`: what a sandbox is to be. Everything may be left out."""
    cwd: NotRequired[str | None]
    """Where commands start."""
    env: NotRequired[Mapping[str, str] | None]
    """Environment of every command."""
    id: NotRequired[SandboxId | None]
    """An id of your choice, which makes the call safe to send again."""
    idle_timeout_ms: NotRequired[int | None]
    """After this long without a request `on_idle` happens. Never by default."""
    image: NotRequired[str | None]
    """The root file system; the host's programs by default."""
    isolation: NotRequired[IsolationSpec | None]
    """How well it must be isolated."""
    labels: NotRequired[Mapping[str, str] | None]
    """Words to find it by."""
    limits: NotRequired[SandboxLimits | None]
    """What it may use."""
    max_lifetime_ms: NotRequired[int | None]
    """After this long it is destroyed, idle or not. Never by default."""
    network: NotRequired[NetworkSpec | None]
    """What it may reach."""
    on_idle: NotRequired[OnIdle | None]
    """What happens to an idle sandbox; `sleep` by default."""
    secrets: NotRequired[Sequence[SecretSpec] | None]
    """Headers that are added on the way out, so that secrets never enter the sandbox."""
    user: NotRequired[str | None]
    """Who commands run as."""


class SearchRequest(TypedDict):
    """`POST /v1/files/search`."""
    case: NotRequired[CaseMode | None]
    """Upper and lower case."""
    context: NotRequired[int | None]
    """Lines to give before and after each match: 0 by default, 100 at most."""
    exclude: NotRequired[Sequence[str] | None]
    """Globs of files and directories to leave out."""
    gitignore: NotRequired[bool | None]
    """Whether what .gitignore files exclude is left out; true by default."""
    hidden: NotRequired[bool | None]
    """Whether names that begin with a dot are looked at; false by default."""
    include: NotRequired[Sequence[str] | None]
    """Globs of the files to search, as in find; all when left out."""
    limit: NotRequired[int | None]
    """Most matching lines in the answer: 1,000 by default, 100,000 at most."""
    literal: NotRequired[bool | None]
    """The pattern is plain text."""
    max_file_bytes: NotRequired[int | None]
    """Larger files are passed over and counted; 64 MiB by default."""
    path: NotRequired[str | None]
    """The directory, or the one file, to search."""
    path_base64: NotRequired[str | None]
    """Instead of `path`, for names that are not UTF-8."""
    pattern: str
    """A regular expression (Rust's syntax: linear time, no look-around or back-references), matched
    within one line.
    """
    session: NotRequired[SessionId | None]
    """Relative paths start at this session's directory."""
    timeout_ms: NotRequired[int | None]
    """After this the answer has what was found so far; 60 s by default."""
    user: NotRequired[str | None]
    """Whose rights are used: a user name or uid; the sandbox's user by default."""


class SecretSpec(TypedDict):
    """A header that the egress proxy puts into requests for a host, in place of what the sandbox
    sends under its name, so that its value never enters the sandbox.
    """
    header: str
    """The name of the header."""
    host: str
    """The host."""
    value: NotRequired[str | None]
    """Its value; needed in a request, and never in a reply."""


class SessionExecRequest(TypedDict):
    """`POST /v1/sessions/{id}/exec`."""
    command: str
    """Text for the shell."""
    cwd: NotRequired[str | None]
    """Working directory for this command only."""
    encoding: NotRequired[Encoding | None]
    """Encoding of `stdout` and `stderr`."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Environment for this command only."""
    id: NotRequired[CommandId | None]
    """An id of your choice."""
    max_output_bytes: NotRequired[int | None]
    """Most bytes of each stream in the result."""
    on_disconnect: NotRequired[OnDisconnect | None]
    """What to do when the client goes away."""
    stdin: NotRequired[str | None]
    """Bytes for the standard input. `/dev/null` by default."""
    stdin_encoding: NotRequired[TextEncoding | None]
    """How `stdin` is encoded."""
    timeout_ms: NotRequired[int | None]
    """After this the command is interrupted; the session keeps its state."""
    truncate: NotRequired[Truncate | None]
    """What to drop when there is more."""


class SessionPatch(TypedDict):
    """`PATCH /v1/sessions/{id}`: what is given changes, the rest stays."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Variables to export or unset, before the next command."""
    idle_timeout_ms: NotRequired[int | None]
    """New idle timeout."""
    limits: NotRequired[Limits | None]
    """New limits, for what runs already too. Those that are left out stay."""
    max_output_bytes: NotRequired[int | None]
    """New cap of each stream in a result."""
    timeout_ms: NotRequired[int | None]
    """New default timeout."""


class SessionRequest(TypedDict):
    """`POST /v1/sessions`."""
    cwd: NotRequired[str | None]
    """Working directory to start in."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to the environment it starts with."""
    id: NotRequired[SessionId | None]
    """An id of your choice: creating it again with the same spec gives the same session."""
    idle_timeout_ms: NotRequired[int | None]
    """End the session after this long without a command."""
    limits: NotRequired[Limits | None]
    """Resource limits of its shell and all it starts."""
    max_lifetime_ms: NotRequired[int | None]
    """End the session this long after its creation."""
    max_output_bytes: NotRequired[int | None]
    """Most bytes of each stream in a result; 10 MiB by default."""
    private_processes: NotRequired[bool | None]
    """Give it a process tree of its own: nobody else in the sandbox sees or signals its processes,
    nor they those of others.
    """
    shell: NotRequired[str | None]
    """`bash` or `sh`, or the path of one; bash by default, else sh."""
    timeout_ms: NotRequired[int | None]
    """Timeout of each command that does not bring its own."""
    user: NotRequired[str | None]
    """User name or uid to run as."""


class SignalRequest(TypedDict):
    """`POST /v1/processes/{id}/signal`."""
    scope: NotRequired[SignalScope | None]
    """Whom it goes to."""
    signal: str
    """A name such as `SIGTERM` or `TERM`, or a number."""


class TerminalRequest(TypedDict):
    """`POST /v1/terminals`."""
    argv: NotRequired[Sequence[str] | None]
    """A program and its arguments, run without a shell."""
    cols: NotRequired[int | None]
    """Columns to start with."""
    command: NotRequired[str | None]
    """Text for a shell to run. Without `command` and `argv`: an interactive login shell."""
    cwd: NotRequired[str | None]
    """Working directory to start in."""
    env: NotRequired[Mapping[str, str | None] | None]
    """Changes to the environment; `TERM` is `xterm-256color` unless it is set here."""
    id: NotRequired[TerminalId | None]
    """An id of your choice: creating it again with the same spec gives the same terminal."""
    rows: NotRequired[int | None]
    """Rows to start with."""
    user: NotRequired[str | None]
    """User name or uid to run as."""


class TicketRequest(TypedDict):
    """`POST /v1/tickets`."""
    path: str
    """The path of the stream, percent-encoded as it will be asked for, without a query."""


class TokenRequest(TypedDict):
    """`POST /v1/tokens`."""
    expires_at: NotRequired[str | None]
    """From then on it opens nothing."""
    max_sandboxes: NotRequired[int | None]
    """Most sandboxes it may have at a time; the hub's own limit by default."""
    name: NotRequired[str | None]
    """What people call it."""
    scopes: Sequence[str]
    """What it opens: `admin`, `create` or `sandbox:ID`; at least one."""


class Upload(TypedDict):
    """Where to send an archive: one presigned URL, or those of a multipart upload. URLs are used and
    forgotten: they are neither stored nor logged.
    """
    keep: NotRequired[bool | None]
    """Keep the archive here, too."""
    multipart: NotRequired[Multipart | None]
    """One PUT for each part, in order."""
    url: NotRequired[str | None]
    """One PUT with everything."""


class WaitRequest(TypedDict):
    """`POST /v1/processes/{id}/wait`. The end of the process always ends the wait."""
    exit: NotRequired[bool | None]
    """Wait for the end. The default when nothing else is asked for."""
    log: NotRequired[LogCondition | None]
    """Wait for a pattern in the output."""
    port: NotRequired[PortCondition | None]
    """Wait for a port."""
    timeout_ms: NotRequired[int | None]
    """Give up after this."""
