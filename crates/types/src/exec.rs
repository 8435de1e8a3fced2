//! The stateless `exec` surface: one command in, its result out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object;
use crate::{Encoding, ProcessId, TextEncoding};

/// Environment changes: a value sets a variable, `null` unsets it.
pub type Env = BTreeMap<String, Option<String>>;

/// Which end of an over-long output is kept in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// Drop the head, keep the tail.
    Head,
    /// Drop the tail, keep the head.
    Tail,
    /// Drop the middle, keep head and tail.
    #[default]
    Both,
}

/// What happens to the command when the client goes away before the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It runs on; the result can be fetched by id.
    #[default]
    Continue,
    /// Its whole tree is killed.
    Kill,
}

/// A share of the processors: 0.5 is half the time of one. Kept in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cpus(u32);

impl Cpus {
    /// The least share that the kernel keeps.
    const LEAST_MILLIS: f64 = 10.0;

    /// A share; `None` for what is none: less than a hundredth, or not a number.
    #[expect(clippy::cast_sign_loss, reason = "checked to be positive")]
    pub fn new(cpus: f64) -> Option<Self> {
        let millis = (cpus * 1000.0).round();
        (Self::LEAST_MILLIS..=f64::from(u32::MAX))
            .contains(&millis)
            .then_some(Self(millis as u32))
    }

    /// A share in thousandths of a processor; `None` for none.
    pub fn from_millis(millis: u64) -> Option<Self> {
        u32::try_from(millis).ok().filter(|n| *n > 0).map(Self)
    }

    /// In thousandths of a processor.
    pub fn millis(self) -> u64 {
        u64::from(self.0)
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f64::from(*self).fmt(f)
    }
}

impl From<Cpus> for f64 {
    fn from(cpus: Cpus) -> Self {
        Self::from(cpus.0) / 1000.0
    }
}

impl TryFrom<f64> for Cpus {
    type Error = &'static str;
    fn try_from(cpus: f64) -> Result<Self, Self::Error> {
        Self::new(cpus).ok_or("a share of the processors is a number from 0.01 on")
    }
}

/// Limits for one process or session, within those of the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"memory_bytes": 268_435_456, "cpus": 0.5, "pids": 64}))]
pub struct Limits {
    /// Most memory all of it may use together, in bytes, swap included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Most processor time: 1 is one processor used all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0.01)]
    pub cpus: Option<Cpus>,
    /// Most processes and threads that may live in it at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Most files a process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Largest file a process may write, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// CPU seconds a process may use before the kernel ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// `POST /v1/exec`. Exactly one of `command` and `argv` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"command": "echo hello; echo oops >&2"}))]
pub struct ExecRequest {
    /// Text for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments; no shell is involved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// An id of your choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ProcessId>,
    /// Working directory; the sandbox's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment for this command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// Bytes for the standard input, which then ends. `/dev/null` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How `stdin` is encoded.
    #[serde(default)]
    pub stdin_encoding: TextEncoding,
    /// Shell for `command`: a name or path; bash by default, else sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// User name or uid to run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// After this the whole tree is ended and what there is returned. None by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Most bytes of each stream in the result; 10 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// What to drop when there is more.
    #[serde(default)]
    pub truncate: Truncate,
    /// Encoding of `stdout` and `stderr` in the result.
    #[serde(default)]
    pub encoding: Encoding,
    /// What to do when the client goes away.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// Resource limits.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<Limits>,
}

/// How many bytes of each stream are missing from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Truncated {
    /// Bytes of standard output left out.
    pub stdout_bytes: u64,
    /// Bytes of standard error left out.
    pub stderr_bytes: u64,
}

/// The result of an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExecResult {
    /// The id; output and record stay available under it for a while.
    pub id: ProcessId,
    /// Exit status; 128 + n when killed by signal n.
    pub exit_code: i32,
    /// Name of the signal that killed it, such as `SIGKILL`.
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
    /// Whether `timeout_ms` ended it.
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Present when bytes were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// How many of its children are still running.
    pub left_running: u32,
}
