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
mod hub;
mod ids;
mod image;
mod network;
mod object;
mod output;
mod port;
mod process;
mod protection;
mod room;
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
pub use context::{
    ContextInterruptReply, ContextOutcome, ContextRecord, ContextRequest, ContextState,
    KernelChoice, Language, RunEnd, RunError, RunEvent, RunOutput, RunReply, RunRequest, RunResult,
    RunStarted, RunStatus,
};
pub use error::{ErrorCode, Problem};
pub use exec::{Cpus, Env, ExecRequest, ExecResult, Limits, OnDisconnect, Truncate, Truncated};
pub use file::{
    ChmodReply, ChmodRequest, CopyReply, CopyRequest, FileEntry, FileKind, FileMode, MkdirRequest,
    MoveRequest, RemoveReply, RemoveRequest,
};
pub use git::{
    GitAddRequest, GitAuth, GitBranch, GitBranchesReply, GitBranchesRequest, GitCheckoutRequest,
    GitCloneReply, GitCloneRequest, GitCommit, GitCommitReply, GitCommitRequest, GitConflictKind,
    GitDiffFile, GitDiffReply, GitDiffRequest, GitFileState, GitHeadReply, GitIdentity,
    GitLogRequest, GitNewBranch, GitOldBranch, GitProgress, GitPullMode, GitPullReply,
    GitPullRequest, GitPushReply, GitPushRequest, GitPushState, GitPushedRef, GitSignature,
    GitStatusEntry, GitStatusReply, GitStatusRequest,
};
pub use hub::{
    AuditEntry, IsolationPolicy, IsolationSpec, NetworkMode, NetworkSpec, OnIdle, Preview,
    PreviewRequest, SandboxId, SandboxIdError, SandboxLimits, SandboxPatch, SandboxRecord,
    SandboxSpec, SandboxState, Scope, SecretSpec, TokenCreated, TokenRecord, TokenRequest,
};
pub use ids::{BackupId, CommandId, ContextId, IdError, ProcessId, SessionId, TerminalId};
pub use image::{ImageConfig, ImageName, ImageNameError, ImageRecord, ImageRequest};
pub use network::{NetworkRefused, RefusalReason};
pub use output::{
    Encoded, Encoding, ExitEvent, OutputEvent, StdinReply, StreamName, TextEncoding, TruncatedEvent,
};
pub use port::{
    PortExposure, PortRecord, PortUnexposed, PortWaitReply, PortWaitRequest, PortsEvent,
};
pub use process::{
    HttpCheck, KillReply, KillRequest, List, LogCondition, PortCondition, ProcessKind,
    ProcessRecord, ProcessRequest, ProcessState, RestartMode, RestartPolicy, SignalReply,
    SignalRequest, SignalScope, Survivor, WaitOutcome, WaitReply, WaitRequest,
};
pub use protection::{Layer, Protection, ProtectionStatus, ProtectionsReply};
pub use room::{ANSWER_BYTES, PAGE_BYTES, Room};
pub use sandbox::{
    CpuStats, DiskStats, EnvPatch, EnvReply, EventsTruncated, Happening, LimitScope, MemoryStats,
    NetworkStats, PidStats, SandboxEvent, SandboxStats, StatsSource,
};
pub use search::{
    CaseMode, ContextLine, FindReply, FindRequest, SearchMatch, SearchReply, SearchRequest,
    SearchSummary, Span,
};
pub use service::{API_VERSION, Health, TicketReply, TicketRequest, VersionInfo};
pub use session::{
    CommandEvent, CommandRecord, CommandState, ForegroundInfo, ForkRequest, InterruptReply,
    ProcessInfo, SessionExecRequest, SessionExecResult, SessionExitEvent, SessionPatch,
    SessionRecord, SessionRequest, SessionState, SessionStats,
};
pub use terminal::{
    DEFAULT_COLS, DEFAULT_ROWS, ResizeRequest, TerminalClientFrame, TerminalCursor, TerminalFrame,
    TerminalRecord, TerminalRequest, TerminalRole, TerminalScreen, TerminalState,
};
pub use watch::{
    ChangesReply, ChangesRequest, ChangesStatus, FileChange, FileEvent, RescanEvent, RescanReason,
    WatchEndEvent, WatchEndReason, WatchReadyEvent,
};

/// The time type of the API; serialised as RFC 3339.
pub use jiff::Timestamp;
