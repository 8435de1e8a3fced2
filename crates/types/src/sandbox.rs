//! The sandbox as a whole: its environment, its events, its figures.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BackupId, Cpus, Env, Layer, ProcessId, RefusalReason, SessionId, TerminalId};

/// `GET /v1/env` and the answer to its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EnvReply {
    /// The sandbox's own variables; `null` where one of the base is unset.
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// What every command of the sandbox's user has before them.
    pub base: BTreeMap<String, String>,
}

/// `PATCH /v1/env`. Seen by whatever is started from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"env": {"API_URL": "http://127.0.0.1:8000", "DEBUG": null}}))]
pub struct EnvPatch {
    /// Variables to set; `null` unsets one.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
}

/// Something that happened in the sandbox. The `id` of the event resumes after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxEvent {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

macro_rules! happenings {
    ($($(#[$doc:meta])* $name:ident = $text:literal {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
    })*) => {
        /// What can happen, by `type`, which is also the name of the event.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(tag = "type", rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Happening {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $kind,)* },)*
        }

        impl Happening {
            /// Every type, as on the wire.
            pub const TYPES: &'static [&'static str] = &[$($text),*];

            /// Its type, as on the wire.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$name { .. } => $text),* }
            }
        }
    };
}

happenings! {
    /// The sandbox takes requests.
    Ready = "ready" {
        /// Layers of isolation that are off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        protections_off: Vec<Layer>,
    }
    /// The sandbox is being ended.
    Ending = "ending" {}
    /// A process was started. Execs are not told.
    ProcessStarted = "process_started" {
        /// Which.
        process: ProcessId,
        /// Its pid.
        pid: i32,
    }
    /// A process ended and is not started again.
    ProcessExited = "process_exited" {
        /// Which.
        process: ProcessId,
        /// Its status, as a shell shows it.
        exit_code: i32,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Whether its timeout ended it.
        timed_out: bool,
        /// Whether the kernel killed one of its processes because memory was used up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        oom: bool,
    }
    /// A process was started again by its restart policy.
    ProcessRestarted = "process_restarted" {
        /// Which.
        process: ProcessId,
        /// Its pid now.
        pid: i32,
        /// How often it has been.
        restarts: u32,
    }
    /// A process was killed on request; its exit is told as well.
    ProcessKilled = "process_killed" {
        /// Which.
        process: ProcessId,
        /// How, as in the answer to the kill.
        method: String,
    }
    /// A session was made.
    SessionCreated = "session_created" {
        /// Which.
        session: SessionId,
    }
    /// A session's shell ended and another one took over its state.
    SessionRestored = "session_restored" {
        /// Which.
        session: SessionId,
        /// How often it has been.
        restores: u32,
    }
    /// A session ended.
    SessionEnded = "session_ended" {
        /// Which.
        session: SessionId,
        /// Why.
        reason: String,
    }
    /// A terminal was made.
    TerminalCreated = "terminal_created" {
        /// Which.
        terminal: TerminalId,
    }
    /// A terminal ended.
    TerminalEnded = "terminal_ended" {
        /// Which.
        terminal: TerminalId,
        /// The status of its program, when it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    }
    /// Something listens on a port.
    PortOpened = "port_opened" {
        /// Which.
        port: u16,
        /// Who, where it can be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
    }
    /// Nothing listens on a port any more.
    PortClosed = "port_closed" {
        /// Which.
        port: u16,
    }
    /// A backup was made.
    BackupCreated = "backup_created" {
        /// Which.
        backup: BackupId,
    }
    /// A backup was restored.
    BackupRestored = "backup_restored" {
        /// Which.
        backup: BackupId,
        /// Where to.
        path: String,
    }
    /// A backup was deleted, or its time was over.
    BackupDeleted = "backup_deleted" {
        /// Which.
        backup: BackupId,
    }
    /// The kernel killed processes because the memory they may use was used up.
    Oom = "oom" {
        /// How many since the last such event.
        killed: u64,
        /// Whose limit on memory it was.
        scope: LimitScope,
        /// The process they belonged to, or the exec, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessId>,
        /// The session they belonged to, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    }
    /// A limit was met: what would have gone beyond it was refused.
    LimitReached = "limit_reached" {
        /// The limit, as it is called in a request: `pids`.
        limit: String,
        /// Whose it was.
        scope: LimitScope,
        /// The process, or exec, that met it, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessId>,
        /// The session that met it, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// How often since the last such event.
        times: u64,
    }
    /// A connection to the outside was refused.
    NetworkRefused = "network_refused" {
        /// The name or address asked for.
        host: String,
        /// The port; none where only a name was looked up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Why.
        reason: RefusalReason,
        /// The address it stood for, where that was the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// Refusals since the last such event that were not told one by one.
        #[serde(default)]
        suppressed: u64,
    }
}

/// Whose limit it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// That of the whole sandbox, or of what it runs in.
    Sandbox,
    /// That of one session.
    Session,
    /// That of one process or exec.
    Process,
}

/// Event `truncated` of the sandbox's events: those between the one to resume from and the next are no
/// longer kept, or the agent was started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventsTruncated {
    /// The `id` of the first event that is kept.
    pub first: u64,
}

/// `GET /v1/stats`. What cannot be told here is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxStats {
    /// When the figures were taken.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// How long the agent has served the sandbox.
    pub uptime_ms: u64,
    /// Use of processors.
    pub cpu: CpuStats,
    /// Use of memory.
    pub memory: MemoryStats,
    /// Processes of the system that are alive, init and the shells held ready among them.
    pub pids: PidStats,
    /// The file system of the sandbox's directory.
    #[schema(nullable)]
    pub disk: Option<DiskStats>,
    /// Bytes over the network.
    #[schema(nullable)]
    pub network: Option<NetworkStats>,
    /// Sessions that have not ended.
    pub sessions: u32,
    /// Processes (not execs) that have not ended.
    pub processes: u32,
    /// Execs that have not ended.
    pub execs: u32,
    /// Terminals that have not ended.
    pub terminals: u32,
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatsSource {
    /// The sandbox's control group: exact.
    Cgroup,
    /// Summed over the processes alive; of those that ended without a parent in the sandbox nothing is known.
    Proc,
}

/// Use of processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CpuStats {
    /// Time used since the start, on all processors together.
    #[schema(nullable)]
    pub usage_ms: Option<u64>,
    /// Processors there are.
    pub cpus: u32,
    /// Processors that may be used.
    #[schema(value_type = Option<f64>, nullable)]
    pub limit: Option<Cpus>,
    /// Where it comes from.
    pub source: StatsSource,
}

/// Use of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MemoryStats {
    /// In use. From `proc`: each process's share of its pages, or all it has resident where the share cannot be read.
    #[schema(nullable)]
    pub used_bytes: Option<u64>,
    /// Most that may be.
    #[schema(nullable)]
    pub limit_bytes: Option<u64>,
    /// Where it comes from.
    pub source: StatsSource,
}

/// Processes of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PidStats {
    /// Alive.
    #[schema(nullable)]
    pub count: Option<u64>,
    /// Most that may be.
    #[schema(nullable)]
    pub limit: Option<u64>,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiskStats {
    /// The directory asked about.
    pub path: String,
    /// Its size.
    pub total_bytes: u64,
    /// In use.
    pub used_bytes: u64,
    /// What the sandbox's user can still write.
    pub available_bytes: u64,
    /// Inodes there are; 0 where the file system does not count them.
    pub total_inodes: u64,
    /// Inodes left.
    pub available_inodes: u64,
}

/// Bytes over all interfaces but the loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NetworkStats {
    /// Received.
    pub received_bytes: u64,
    /// Sent.
    pub sent_bytes: u64,
    /// Whether the sandbox shares the agent's network, so that others are counted too.
    pub shared: bool,
}
