//! JSON of our own API: every request, and what comes back on sockets.

use sandshell_agent::fuzzing::body;
use sandshell_types::{
    BackupRequest, ChangesRequest, ChmodRequest, ContextRequest, CopyRequest, EnvPatch,
    ExecRequest, FindRequest, ForkRequest, GitAddRequest, GitBranchesRequest, GitCheckoutRequest,
    GitCloneRequest, GitCommitRequest, GitDiffRequest, GitLogRequest, GitPullRequest,
    GitPushRequest, GitStatusRequest, ImageRequest, KillRequest, MkdirRequest, MoveRequest,
    PortWaitRequest, PreviewRequest, Problem, ProcessRecord, ProcessRequest, RemoveRequest,
    ResizeRequest, RestoreRequest, RunEvent, RunRequest, SandboxEvent, SandboxPatch, SandboxRecord,
    SandboxSpec, SearchRequest, SessionExecRequest, SessionPatch, SessionRequest, SignalRequest,
    TerminalClientFrame, TerminalFrame, TerminalRequest, TicketRequest, TokenRequest, WaitRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::input::Input;

/// What is taken is the same when it is written and read again; what is refused is refused with its place.
fn check<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    let value = match body::<T>(bytes) {
        Ok(value) => value,
        Err(pointer) => {
            let pointer = pointer.unwrap_or_else(|| panic!("refused without a place"));
            assert!(pointer.is_empty() || pointer.starts_with('/'));
            return;
        }
    };
    let written = serde_json::to_vec(&value).unwrap();
    let again: T = serde_json::from_slice(&written).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&written));
    });
    let again = serde_json::to_vec(&again).unwrap();
    assert_eq!(again, written);
}

macro_rules! all {
    ($($body:ty),* $(,)?) => {
        const CHECKS: &[fn(&[u8])] = &[$(check::<$body>),*];
    };
}

all![
    BackupRequest,
    ChangesRequest,
    ChmodRequest,
    ContextRequest,
    CopyRequest,
    EnvPatch,
    ExecRequest,
    FindRequest,
    ForkRequest,
    GitAddRequest,
    GitBranchesRequest,
    GitCheckoutRequest,
    GitCloneRequest,
    GitCommitRequest,
    GitDiffRequest,
    GitLogRequest,
    GitPullRequest,
    GitPushRequest,
    GitStatusRequest,
    ImageRequest,
    KillRequest,
    MkdirRequest,
    MoveRequest,
    PortWaitRequest,
    PreviewRequest,
    Problem,
    ProcessRecord,
    ProcessRequest,
    RemoveRequest,
    ResizeRequest,
    RestoreRequest,
    RunEvent,
    RunRequest,
    SandboxEvent,
    SandboxPatch,
    SandboxRecord,
    SandboxSpec,
    SearchRequest,
    SessionExecRequest,
    SessionPatch,
    SessionRequest,
    SignalRequest,
    TerminalClientFrame,
    TerminalFrame,
    TerminalRequest,
    TicketRequest,
    TokenRequest,
    WaitRequest,
];

pub(crate) fn bodies(data: &[u8]) {
    let mut input = Input(data);
    let check = CHECKS[usize::from(input.byte()) % CHECKS.len()];
    check(input.0);
}
