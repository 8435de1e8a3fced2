//! Code contexts: interpreters that keep their state, and the runs in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ContextId, Encoding, Env, SessionId, TextEncoding, Truncated};

/// The language of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript in Node.
    Javascript,
    /// TypeScript; its types are removed, not checked.
    Typescript,
    /// Bash, in a session of its own.
    Bash,
}

impl Language {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Typescript => "typescript",
            Self::Bash => "bash",
        }
    }
}

/// What runs the code of a context.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum KernelChoice {
    /// A Jupyter kernel where one for the language is installed, else the built-in driver.
    #[default]
    Auto,
    /// The built-in driver, which needs the interpreter only.
    Builtin,
    /// A Jupyter kernel; an error where none is installed.
    Jupyter,
}

/// `POST /v1/contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "calc", "language": "python"}))]
pub struct ContextRequest {
    /// An id of your choice: creating it again with the same spec gives the same context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ContextId>,
    /// The language.
    pub language: Language,
    /// Working directory; the session's or the sandbox's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// User name or uid to run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Start with the directory and environment of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Timeout of each run that does not bring its own. None by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// End the context after this long without a run. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What runs the code.
    #[serde(default)]
    pub kernel: KernelChoice,
}

impl ContextRequest {
    /// For a context of a language, with nothing else said.
    pub fn new(language: Language) -> Self {
        Self {
            id: None,
            language,
            cwd: None,
            env: Env::default(),
            user: None,
            session: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            kernel: KernelChoice::default(),
        }
    }
}

/// Where a context is in its life.
///
/// ```text
///   idle ◄──── run over ──── busy ◄── run ── idle
///    │ ▲                      │ interpreter exited or was killed
///    │ └──── restart ◄── ended┘
///    └──► (deleted, or idle for too long: gone)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextState {
    /// The interpreter waits for code.
    Idle,
    /// Code runs.
    Busy,
    /// The interpreter has ended; a restart gives a fresh one.
    Ended,
}

/// What is known of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextRecord {
    /// Its id.
    pub id: ContextId,
    /// Its language.
    pub language: Language,
    /// What runs the code: `builtin` or `jupyter`.
    pub kernel: KernelChoice,
    /// The interpreter, as it calls itself.
    #[schema(example = "Python 3.11.2")]
    pub interpreter: String,
    /// Where it is in its life.
    pub state: ContextState,
    /// Why it has ended, when it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_reason: Option<String>,
    /// Working directory it was started in.
    pub cwd: String,
    /// The interpreter's pid inside the sandbox.
    pub pid: i32,
    /// Runs begun since the interpreter started.
    pub execution_count: u64,
    /// Runs waiting for their turn.
    pub queue_length: u32,
    /// How often the interpreter was started anew.
    pub restarts: u32,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: jiff::Timestamp,
    /// When its last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<jiff::Timestamp>,
}

/// `POST /v1/contexts/{id}/run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "x = 20\nx + 1"}))]
pub struct RunRequest {
    /// The code.
    pub code: String,
    /// After this the run is interrupted; the state is kept where the interpreter allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Changes to the environment for this run only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// Most bytes of each stream in a JSON result; 10 MiB by default. The middle is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Encoding of output.
    #[serde(default)]
    pub encoding: Encoding,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// To its end.
    Ok,
    /// With an error.
    Error,
    /// Interrupted, or dropped from the queue by a restart or delete.
    Interrupted,
    /// By its timeout.
    TimedOut,
}

/// What became of the state of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextOutcome {
    /// The same interpreter goes on.
    Kept,
    /// It had to be killed; a fresh one has taken its place.
    Lost,
    /// It ended by itself; a restart gives a fresh one.
    Ended,
}

/// SSE `event: started`: the run's turn has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunStarted {
    /// Its id.
    pub run_id: String,
    /// Its number since the interpreter started.
    pub execution_count: u64,
}

/// SSE `event: stdout` and `event: stderr`: a piece of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunOutput {
    /// The bytes.
    pub data: String,
    /// How `data` is encoded.
    pub encoding: TextEncoding,
}

/// SSE `event: result`: a value in all the forms it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(example = json!({"is_main": true, "data": {"text/plain": "21"}}))]
pub struct RunResult {
    /// Whether it is the value of the last expression; else the code displayed it.
    pub is_main: bool,
    /// By MIME type: text as it is, pictures as base64, JSON as JSON.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub data: BTreeMap<String, serde_json::Value>,
}

/// SSE `event: error`: what the code raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(example = json!({"name": "NameError", "value": "name 'y' is not defined", "traceback": []}))]
pub struct RunError {
    /// Its name, such as `ValueError`.
    pub name: String,
    /// Its message.
    pub value: String,
    /// Its traceback, line by line.
    pub traceback: Vec<String>,
}

/// SSE `event: end`: the run is over. Always the last event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunEnd {
    /// How it ended.
    pub status: RunStatus,
    /// Its number since the interpreter started; 0 when its turn never came.
    pub execution_count: u64,
    /// Wall time from start to end.
    pub duration_ms: u64,
    /// What became of the state.
    pub context: ContextOutcome,
    /// For bash: the exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Results left out because there were too many bytes of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_results: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The events of a run, by the name of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum RunEvent {
    /// The turn has come.
    Started(RunStarted),
    /// Standard output.
    Stdout(RunOutput),
    /// Standard error.
    Stderr(RunOutput),
    /// Bytes that are missing.
    Truncated(Truncated),
    /// A value.
    Result(RunResult),
    /// An error.
    Error(RunError),
    /// The end.
    End(RunEnd),
}

/// A run as one JSON answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunReply {
    /// Its id.
    pub run_id: String,
    /// Standard output.
    pub stdout: String,
    /// How `stdout` is encoded.
    pub stdout_encoding: TextEncoding,
    /// Standard error.
    pub stderr: String,
    /// How `stderr` is encoded.
    pub stderr_encoding: TextEncoding,
    /// Values, in order.
    pub results: Vec<RunResult>,
    /// What the code raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// Present when output was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// How it ended.
    #[serde(flatten)]
    pub end: RunEnd,
}

/// Answer to an interrupt, given when the run is really over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextInterruptReply {
    /// The run that was interrupted; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What became of the state.
    pub outcome: ContextOutcome,
    /// The context after it.
    pub context: ContextRecord,
}
