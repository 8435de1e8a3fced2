//! The `process` surface: background processes with records, streams, signals and waits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object;
use crate::{Env, Limits, ProcessId, SessionId, StreamName, TextEncoding};

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct List<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// Where the next page starts; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a process was made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// `POST /v1/exec`.
    Exec,
    /// `POST /v1/processes`.
    Process,
}

/// Where a process is in its life.
///
/// ```text
/// running ──────────────► exited
///    ▲  └──► backoff ──┐
///    └─────────────────┘   (restart policy)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It ended and its restart policy will start it again.
    Backoff,
    /// It is over.
    Exited,
}

/// When a process is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestartMode {
    /// Never.
    #[default]
    Never,
    /// When it ends with a status other than 0, or by a signal.
    OnFailure,
    /// Whenever it ends, until it is killed.
    Always,
}

/// A restart policy with its backoff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartPolicy {
    /// When to start again.
    pub mode: RestartMode,
    /// First pause; it doubles up to a minute and starts anew after a minute of running. 500 ms by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// Give up after this many restarts. No limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
}

/// `POST /v1/processes`. Exactly one of `command` and `argv` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "web", "command": "python3 -m http.server 8000"}))]
pub struct ProcessRequest {
    /// Text for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments; no shell is involved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// An id of your choice: creating it again with the same spec gives the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ProcessId>,
    /// A label of your choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Start from a snapshot of this session's state (cwd, variables, functions, options).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// First bytes for the standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How `stdin` is encoded.
    #[serde(default)]
    pub stdin_encoding: TextEncoding,
    /// Keep the standard input open for later writes.
    #[serde(default)]
    pub stdin_open: bool,
    /// Shell for `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// User name or uid to run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// After this the whole tree is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Most bytes of output kept; 256 MiB by default, the oldest go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// When to start it again.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub restart: Option<RestartPolicy>,
    /// Resource limits.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<Limits>,
}

/// What is known of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProcessRecord {
    /// Its id.
    pub id: ProcessId,
    /// Its pid inside the sandbox; of the latest start when it was restarted.
    pub pid: i32,
    /// Where it is in its life.
    pub state: ProcessState,
    /// What made it.
    pub kind: ProcessKind,
    /// The shell text, when it was started by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The argument vector, when it was started by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The session whose state it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// When it was first started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: jiff::Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<jiff::Timestamp>,
    /// Exit status; 128 + n when killed by signal n.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Name of the signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
    pub stderr_bytes: u64,
}

/// Whom a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    /// The process itself.
    #[default]
    Process,
    /// Its process group.
    Group,
    /// Everything that descends from it.
    Tree,
}

/// `POST /v1/processes/{id}/signal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"signal": "SIGHUP", "scope": "tree"}))]
pub struct SignalRequest {
    /// A name such as `SIGTERM` or `TERM`, or a number.
    #[schema(value_type = String)]
    pub signal: String,
    /// Whom it goes to.
    #[serde(default)]
    pub scope: SignalScope,
}

/// Answer to a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SignalReply {
    /// How many processes it was sent to.
    pub signalled: u32,
}

/// `POST /v1/processes/{id}/kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"grace_ms": 500}))]
pub struct KillRequest {
    /// Time between TERM and KILL; 5000 by default, 0 goes straight to KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// A process that a kill could not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Survivor {
    /// Its pid as the agent sees it.
    pub pid: i32,
    /// Its command line; of a longer one the first KiB.
    pub command: String,
}

/// How a kill was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KillReply {
    /// `already_ended`, `term`, `cgroup_kill` or `namespace_kill` (exact), or `subreaper_walk` (best effort).
    #[schema(example = "cgroup_kill")]
    pub method: String,
    /// How many processes were alive when the kill began.
    pub killed: u32,
    /// What is still alive. Empty means: gone.
    pub survivors: Vec<Survivor>,
}

/// Wait for a pattern in the output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogCondition {
    /// The text, or regular expression, to look for. Output from before the call counts.
    pub pattern: String,
    /// Whether `pattern` is a regular expression.
    #[serde(default)]
    pub regex: bool,
    /// Only in this stream; both by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamName>,
}

/// Ask for an HTTP answer as well as a listening port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpCheck {
    /// Path to request; `/` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Status to wait for; any below 500 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// Wait until a port answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PortCondition {
    /// The TCP port on the loopback address.
    pub port: u16,
    /// Also wait for an HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCheck>,
}

/// `POST /v1/processes/{id}/wait`. The end of the process always ends the wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"log": {"pattern": "listening on"}, "timeout_ms": 10000}))]
pub struct WaitRequest {
    /// Wait for the end. The default when nothing else is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<bool>,
    /// Wait for a pattern in the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogCondition>,
    /// Wait for a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortCondition>,
    /// Give up after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Which condition came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitOutcome {
    /// The process ended.
    Exit,
    /// The pattern appeared.
    Log,
    /// The port answers.
    Port,
    /// None of them within the time.
    Timeout,
}

/// Answer to a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitReply {
    /// What came first.
    pub outcome: WaitOutcome,
    /// The same as `outcome == "timeout"`.
    pub timed_out: bool,
    /// For a pattern: the line it was found in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The process at that moment.
    pub process: ProcessRecord,
}
