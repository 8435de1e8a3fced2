//! The words of the Sandshell API: ids, requests, replies, events and error codes.
//!
//! Everything here is plain data with serde and `OpenAPI` schemas. It knows no runtime, no HTTP
//! framework and no operating system, so that clients on any platform can share it with the server.
//!
//! Conventions: fields are `snake_case`; durations end in `_ms`; times are RFC 3339 and end in `_at`;
//! requests refuse unknown fields, replies may grow.

mod archive;
mod backup;
mod context;
mod error;
mod exec;
mod file;
mod git;
mod ids;
mod output;
mod port;
mod process;
mod sandbox;
mod search;
mod service;
mod session;
mod terminal;
mod watch;

pub use archive::{ArchiveCounts, ArchiveFormat};
pub use backup::{
    BackupProgress, BackupRecord, BackupRequest, BackupStage, BackupState, Download, Multipart,
    RestoreReply, RestoreRequest, Upload,
};
pub use error::{ErrorCode, Problem};
pub use exec::{Env, ExecRequest, ExecResult, Limits, OnDisconnect, Truncate, Truncated};
pub use ids::{BackupId, CommandId, ContextId, IdError, ProcessId, SessionId, TerminalId};
pub use output::{
    Encoded, Encoding, ExitEvent, OutputEvent, StdinReply, StreamName, TextEncoding, TruncatedEvent,
};
pub use process::{
    HttpCheck, KillReply, KillRequest, List, LogCondition, PortCondition, ProcessKind,
    ProcessRecord, ProcessRequest, ProcessState, RestartMode, RestartPolicy, SignalReply,
    SignalRequest, SignalScope, Survivor, WaitOutcome, WaitReply, WaitRequest,
};
pub use search::{
    CaseMode, ContextLine, EntryKind, FindReply, FindRequest, FoundEntry, SearchMatch, SearchReply,
    SearchRequest, SearchSummary, Span,
};
pub use service::{API_VERSION, Health, VersionInfo};
pub use session::{
    CommandEvent, CommandRecord, CommandState, ForegroundInfo, ForkRequest, InterruptReply,
    ProcessInfo, SessionExecRequest, SessionExecResult, SessionExitEvent, SessionPatch,
    SessionRecord, SessionRequest, SessionState, SessionStats,
};

/// The time type of the API; serialised as RFC 3339.
pub use jiff::Timestamp;
