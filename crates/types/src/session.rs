//! The `session` surface: persistent shells and the commands run in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object;
use crate::{
    CommandId, Encoding, Env, Limits, OnDisconnect, SessionId, TextEncoding, Truncate, Truncated,
};

/// `POST /v1/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "work", "cwd": "/tmp"}))]
pub struct SessionRequest {
    /// An id of your choice: creating it again with the same spec gives the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// Working directory to start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment it starts with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// `bash` or `sh`, or the path of one; bash by default, else sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// User name or uid to run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Timeout of each command that does not bring its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Most bytes of each stream in a result; 10 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// End the session after this long without a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// End the session this long after its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lifetime_ms: Option<u64>,
    /// Resource limits of its shell and all it starts.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<Limits>,
    /// Give it a process tree of its own: nobody else in the sandbox sees or signals its processes, nor
    /// they those of others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private_processes: bool,
}

/// `PATCH /v1/sessions/{id}`: what is given changes, the rest stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"env": {"DEBUG": "1", "OLD": null}}))]
pub struct SessionPatch {
    /// Variables to export or unset, before the next command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// New default timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// New cap of each stream in a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// New idle timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// New limits, for what runs already too. Those that are left out stay.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<Limits>,
}

/// Where a session is in its life.
///
/// ```text
///            ┌────────── exec ─────────┐
///            idle ◄─── completion ─── busy
///            │  ▲                      │ shell exited or was lost
///            │  └───── restoring ◄─────┘
///            └──► ended (deleted, idle timeout, lifetime, cannot be restored)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// The shell waits for a command.
    Idle,
    /// A command runs.
    Busy,
    /// The shell ended and another is taking over its state.
    Restoring,
    /// It is over.
    Ended,
}

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// Where it is in its life.
    pub state: SessionState,
    /// Working directory after the last command.
    pub cwd: String,
    /// Path of its shell.
    pub shell: String,
    /// What this shell cannot do that bash could. Empty for bash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// The shell's pid inside the sandbox, or in its own process tree.
    pub pid: i32,
    /// Its limits now.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<Limits>,
    /// Whether its process tree is its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private_processes: bool,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: jiff::Timestamp,
    /// When its last command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<jiff::Timestamp>,
    /// Commands waiting for their turn.
    pub queue_length: u32,
    /// How often the shell was replaced and its state restored.
    pub restores: u32,
    /// The command that runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<ForegroundInfo>,
    /// Figures; only when one session is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<SessionStats>,
}

/// The command a session is busy with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForegroundInfo {
    /// Its id.
    pub command_id: CommandId,
    /// Its text.
    pub command: String,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: jiff::Timestamp,
    /// Processes it waits for; only when one session is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessInfo>,
}

/// One running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProcessInfo {
    /// Its pid as the agent sees it.
    pub pid: i32,
    /// Its command line; of a longer one the first KiB.
    pub command: String,
    /// Kernel state letter: `R`, `S`, `D`, `T`, `Z`…
    pub state: String,
}

/// What a session uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionStats {
    /// Processes alive, the shell included.
    pub processes: u32,
    /// Resident memory of all of them.
    pub memory_bytes: u64,
    /// CPU time used since the shell started.
    pub cpu_ms: u64,
    /// Commands run.
    pub commands: u64,
}

/// `POST /v1/sessions/{id}/exec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"command": "cd /tmp && export A=1"}))]
pub struct SessionExecRequest {
    /// Text for the shell.
    pub command: String,
    /// An id of your choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommandId>,
    /// Working directory for this command only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment for this command only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// Bytes for the standard input. `/dev/null` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How `stdin` is encoded.
    #[serde(default)]
    pub stdin_encoding: TextEncoding,
    /// After this the command is interrupted; the session keeps its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Most bytes of each stream in the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// What to drop when there is more.
    #[serde(default)]
    pub truncate: Truncate,
    /// Encoding of `stdout` and `stderr`.
    #[serde(default)]
    pub encoding: Encoding,
    /// What to do when the client goes away.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
}

/// Where a command is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It is over.
    Done,
    /// It was dropped before it ran: interrupted in the queue, or the session ended.
    Cancelled,
}

/// The result of a session's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExecResult {
    /// The command's id.
    pub command_id: CommandId,
    /// Exit status; 130 when interrupted, 128 + n when the shell was killed by signal n.
    pub exit_code: i32,
    /// Name of the signal that killed the shell, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How `stdout` is encoded.
    pub stdout_encoding: TextEncoding,
    /// How `stderr` is encoded.
    pub stderr_encoding: TextEncoding,
    /// Wall time from start to end.
    pub duration_ms: u64,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Present when bytes were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// How many streams children left behind still hold; what they write is on the late streams.
    pub left_running: u32,
    /// Working directory after the command.
    pub cwd: String,
    /// `kept`: the same shell goes on. `restored`: it exited, another took over everything.
    /// `restored_before`: another took over the state from before this command. `ended`: the session is over.
    #[schema(example = "kept")]
    pub session_state: String,
}

/// SSE `event: command`: the session took the command in. First event of a streamed session exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CommandEvent {
    /// The command's id.
    pub command_id: CommandId,
}

/// SSE `event: exit` of a streamed session exec: a [`SessionExecResult`] without the output, which
/// has been sent before. A reader of plain exit events understands it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExitEvent {
    /// The command's id.
    pub command_id: CommandId,
    /// Exit status; absent when it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Name of the signal that killed the shell, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Wall time from start to end.
    pub duration_ms: u64,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// How many streams children left behind still hold.
    pub left_running: u32,
    /// Working directory after the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// As in [`SessionExecResult`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "kept")]
    pub session_state: Option<String>,
}

/// An entry of a session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CommandRecord {
    /// Its id.
    pub id: CommandId,
    /// Its text.
    pub command: String,
    /// Where it is in its life.
    pub state: CommandState,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub queued_at: jiff::Timestamp,
    /// When it started to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<jiff::Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<jiff::Timestamp>,
    /// Exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Name of the signal that killed the shell, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Whether it was interrupted.
    #[serde(default)]
    pub interrupted: bool,
    /// Wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Bytes written after the end by children left behind, both streams.
    pub late_bytes: u64,
    /// Working directory after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Answer to an interrupt, given when the command is really over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InterruptReply {
    /// The command that was interrupted; absent when none ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
    /// What it took: `none`, `int`, `term`, `kill` or `shell_killed`.
    #[schema(example = "int")]
    pub method: String,
    /// The session after it.
    pub session: SessionRecord,
}

/// `POST /v1/sessions/{id}/fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "copy"}))]
pub struct ForkRequest {
    /// An id for the new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
}
