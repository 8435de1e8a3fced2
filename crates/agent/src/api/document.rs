//! The `OpenAPI` document, made from the route table.
//!
//! Owns what is said once for all routes: the title, the token, which problems a route can give, what
//! the edge adds to each (`complete`), and how streams of events are described (`events`). The tests
//! beside it name each route that leaves something unsaid.

pub(crate) mod complete;
pub(super) mod events;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use sandshell_types::{ErrorCode, Problem, TerminalClientFrame, TerminalFrame};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder,
    SecurityRequirement,
};
use utoipa::{IntoResponses, PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::Agent;

/// The name of the token in the document.
const TOKEN: &str = "token";

/// The router and the document of a table.
pub(super) fn assemble(table: Vec<UtoipaMethodRouter<Arc<Agent>>>) -> OpenApiRouter<Arc<Agent>> {
    table
        .into_iter()
        .fold(OpenApiRouter::with_openapi(base()), OpenApiRouter::routes)
}

fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Sandshell agent")
        .version(crate::VERSION)
        .description(Some(
            "The API of one sandbox: exec, processes, sessions, terminals, code contexts, files (content, \
             changes, search, watches, archives), backups, git, ports, and the sandbox's environment, events \
             and figures. Failures are RFC 9457 problem documents with a stable `code`. Every POST takes an \
             `Idempotency-Key`.",
        ))
        .build();
    let mut components = Components::new();
    components.add_security_scheme(
        TOKEN,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    // Not bodies of any route, but of every failure and of a terminal's connection.
    add_schema::<Problem>(&mut components);
    add_schema::<ErrorCode>(&mut components);
    add_schema::<TerminalFrame>(&mut components);
    add_schema::<TerminalClientFrame>(&mut components);
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<&str, [&str; 0], &str>(
            TOKEN,
            [],
        )]))
        .build()
}

fn add_schema<T: ToSchema + PartialSchema>(components: &mut Components) {
    let mut more = Vec::new();
    T::schemas(&mut more);
    components
        .schemas
        .insert(T::name().into_owned(), T::schema());
    components.schemas.extend(more);
}

/// The document.
fn document() -> OpenApi {
    let mut document = assemble(super::table()).into_openapi();
    complete::complete(&mut document);
    document
}

/// The document as pretty JSON.
pub fn openapi_json() -> String {
    document().to_pretty_json().unwrap_or_default()
}

/// The document as it is served, made once.
pub(super) fn served() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED
        .get_or_init(|| document().to_json().unwrap_or_default().into())
        .clone()
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
