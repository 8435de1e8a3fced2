//! The `OpenAPI` document, made from the route table.
//!
//! It is made by the tests, which compare it with `openapi/agent-v1.json` or write that file anew
//! (`make gen`); the binary has the file.
//!
//! Owns what is said once for all routes: the title, the token, which problems a route can give, what
//! the edge adds to each (`complete`), and how streams of events are described (`events`). The tests
//! beside it name each route that leaves something unsaid.

pub(crate) mod complete;
pub(super) mod events;
#[cfg(test)]
mod made;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use axum::body::Bytes;
use sandshell_types::{ErrorCode, Problem};
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

/// The document as pretty JSON.
pub fn openapi_json() -> String {
    unpack(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/document.json.gz"
    )))
}

/// The document as it is served.
pub(super) fn served() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED
        .get_or_init(|| compact(&openapi_json()).into())
        .clone()
}

/// A document that was embedded.
pub fn unpack(small: &[u8]) -> String {
    let mut text = String::new();
    if let Err(error) = flate2::read::GzDecoder::new(small).read_to_string(&mut text) {
        tracing::error!(%error, "the embedded document is broken");
    }
    text.truncate(text.trim_end().len());
    text
}

/// JSON without the space between its tokens.
pub fn compact(pretty: &str) -> String {
    let (mut within, mut escaped) = (false, false);
    let kept = pretty.chars().filter(|c| {
        if within {
            within = escaped || *c != '"';
            escaped = !escaped && *c == '\\';
            return true;
        }
        within = *c == '"';
        !c.is_ascii_whitespace()
    });
    kept.collect()
}

/// A set of problems that a group of routes can give.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident: $($code:ident)*;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                responses(&[$(ErrorCode::$code),*])
            }
        }
    )*};
}

problems! {
    /// Of routes that look.
    ReadProblems: InvalidRequest Unauthorized NotFound ProcessNotFound SessionNotFound CommandNotFound
        MethodNotAllowed Internal;
    /// Of routes that give output.
    OutputProblems: InvalidRequest Unauthorized ProcessNotFound SessionNotFound CommandNotFound
        OffsetGone Internal;
    /// Of routes that start something.
    StartProblems: InvalidRequest InvalidCwd UserNotFound Unauthorized Forbidden SessionNotFound
        IdConflict IdempotencyConflict SessionEnded BodyTooLarge UnsupportedMediaType
        ProgramNotFound ProgramNotExecutable IsolationUnavailable LimitUnavailable LimitReached
        Internal Unavailable;
    /// Of routes that change something.
    ChangeProblems: InvalidRequest Unauthorized ProcessNotFound SessionNotFound IdempotencyConflict
        ProcessEnded StdinClosed StdinOffset SessionEnded BodyTooLarge UnsupportedMediaType
        LimitUnavailable LimitReached Internal Unavailable;
    /// Of the making of tickets.
    TicketProblems: InvalidRequest BodyTooLarge UnsupportedMediaType LimitReached;
    /// Of routes that run git.
    GitProblems: InvalidRequest UserNotFound Unauthorized Forbidden PermissionDenied SessionNotFound
        IdempotencyConflict FileExists GitConflict SessionEnded BodyTooLarge UnsupportedMediaType
        ProgramNotFound ProgramNotExecutable NotADirectory TooManyLinks NameTooLong GitFailed
        GitAuth GitNotFound Internal GitNetwork Unavailable TimedOut NoSpace;
    /// Of routes about ports.
    PortProblems: InvalidRequest Unauthorized Forbidden IdempotencyConflict BodyTooLarge
        UnsupportedMediaType LimitReached Internal Unavailable;
    /// Of the proxy itself.
    ProxyProblems: InvalidRequest Unauthorized Forbidden NotFound PortNotFound LimitReached Internal
        PortUnreachable;
    /// Of routes that look at a terminal.
    TerminalReadProblems: InvalidRequest Unauthorized TerminalNotFound MethodNotAllowed Internal;
    /// Of routes that start a terminal.
    TerminalStartProblems: InvalidRequest InvalidCwd UserNotFound Unauthorized Forbidden IdConflict
        IdempotencyConflict BodyTooLarge UnsupportedMediaType ProgramNotFound ProgramNotExecutable
        LimitReached Internal Unavailable;
    /// Of routes that change a terminal.
    TerminalChangeProblems: InvalidRequest Unauthorized TerminalNotFound IdempotencyConflict
        TerminalEnded BodyTooLarge UnsupportedMediaType Internal Unavailable;
    /// Of the route that connects to a terminal.
    TerminalConnectProblems: InvalidRequest Unauthorized TerminalNotFound LimitReached Internal;
    /// Of routes that watch files.
    WatchProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied FileNotFound
        SessionNotFound IdempotencyConflict BodyTooLarge UnsupportedMediaType NotADirectory
        NotARegularFile TooManyLinks NameTooLong LimitReached Internal Unavailable;
    /// Of routes that look at the sandbox as a whole.
    SandboxProblems: InvalidRequest Unauthorized Internal;
    /// Of routes that change it.
    SandboxChangeProblems: InvalidRequest Unauthorized BodyTooLarge UnsupportedMediaType Internal;
    /// Of routes that look at code contexts.
    ContextReadProblems: InvalidRequest Unauthorized NotFound ContextNotFound MethodNotAllowed Internal;
    /// Of routes that start code contexts.
    ContextStartProblems: InvalidRequest InvalidCwd UserNotFound Unauthorized Forbidden SessionNotFound
        IdConflict IdempotencyConflict SessionEnded BodyTooLarge UnsupportedMediaType
        InterpreterNotFound ProgramNotExecutable LimitReached Internal Unavailable;
    /// Of routes that use code contexts.
    ContextProblems: InvalidRequest InvalidCwd Unauthorized ContextNotFound IdempotencyConflict
        ContextBusy ContextEnded BodyTooLarge UnsupportedMediaType InterpreterNotFound
        LimitReached Internal Unavailable;
    /// Of routes that look at files.
    FileReadProblems: InvalidRequest UserNotFound Unauthorized Forbidden PermissionDenied
        FileNotFound SessionNotFound NotADirectory IsADirectory NotARegularFile TooManyLinks
        NameTooLong Internal Unavailable;
    /// Of routes that give the content of a file.
    FileContentProblems: InvalidRequest UserNotFound Unauthorized Forbidden PermissionDenied
        FileNotFound SessionNotFound PreconditionFailed RangeNotSatisfiable NotADirectory
        IsADirectory NotARegularFile TooManyLinks NameTooLong Internal Unavailable;
    /// Of routes that write a file.
    FileWriteProblems: InvalidRequest UserNotFound Unauthorized Forbidden PermissionDenied
        FileNotFound SessionNotFound FileExists PreconditionFailed NotADirectory IsADirectory
        NotARegularFile TooManyLinks NameTooLong Internal Unavailable NoSpace;
    /// Of routes that change files.
    FileChangeProblems: InvalidRequest UserNotFound Unauthorized Forbidden PermissionDenied
        FileNotFound SessionNotFound FileExists DirectoryNotEmpty IdempotencyConflict BodyTooLarge
        UnsupportedMediaType NotADirectory IsADirectory NotARegularFile TooManyLinks NameTooLong
        LimitReached Internal Unavailable NoSpace;
    /// Of routes that look for files, or in them.
    SearchProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied SessionNotFound
        FileNotFound IdempotencyConflict BodyTooLarge UnsupportedMediaType NotADirectory
        NotARegularFile TooManyLinks NameTooLong Internal Unavailable;
    /// Of routes that give an archive.
    PackProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied SessionNotFound
        FileNotFound NotADirectory NotARegularFile TooManyLinks NameTooLong Internal Unavailable;
    /// Of routes that take an archive.
    UnpackProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied SessionNotFound
        FileNotFound FileExists NotADirectory IsADirectory NotARegularFile TooManyLinks NameTooLong
        InvalidArchive Internal Unavailable NoSpace;
    /// Of routes that look at backups.
    BackupProblems: InvalidRequest Unauthorized BackupNotFound Internal Unavailable;
    /// Of the route that makes a backup.
    BackupCreateProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied SessionNotFound
        FileNotFound IdConflict IdempotencyConflict BodyTooLarge UnsupportedMediaType NotADirectory
        NotARegularFile TooManyLinks NameTooLong InvalidArchive LimitReached Internal StorageFailed
        Unavailable NoSpace;
    /// Of the route that restores a backup.
    RestoreProblems: InvalidRequest UserNotFound Unauthorized PermissionDenied SessionNotFound
        FileNotFound BackupNotFound FileExists IdempotencyConflict BodyTooLarge UnsupportedMediaType
        NotADirectory IsADirectory NotARegularFile TooManyLinks NameTooLong InvalidArchive Internal
        StorageFailed Unavailable NoSpace;
    /// Of the readiness probe.
    ReadyProblems: Unavailable;
}

/// How failures with these codes are described, by their status.
pub fn responses(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(*code);
    }
    let response = |codes: Vec<ErrorCode>| {
        let text: Vec<String> = codes
            .iter()
            .map(|code| format!("`{}`: {}.", code.as_str(), code.title()))
            .collect();
        let example = codes.first().and_then(|code| {
            let mut problem = Problem::new(*code, code.title());
            "req_0123456789ab00000001".clone_into(&mut problem.request_id);
            serde_json::to_value(problem).ok()
        });
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("Problem")))
            .example(example)
            .build();
        let response = ResponseBuilder::new()
            .description(text.join(" "))
            .content("application/problem+json", content)
            .build();
        RefOr::T(response)
    };
    by_status
        .into_iter()
        .map(|(status, codes)| (status.to_string(), response(codes)))
        .collect()
}

#[cfg(test)]
mod tests;
