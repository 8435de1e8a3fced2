//! The `OpenAPI` document, made from the route table.
//!
//! Owns what is said once for all routes: the title, the token, and which problems a route can give.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use sandshell_types::{
    BackupProgress, CommandEvent, ErrorCode, ExitEvent, Problem, SearchSummary, SessionExitEvent,
    TruncatedEvent,
};
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
            "The API of one sandbox: exec, processes and sessions. Failures are RFC 9457 problem \
             documents with a stable `code`. Every POST takes an `Idempotency-Key`.",
        ))
        .build();
    let mut components = Components::new();
    components.add_security_scheme(
        TOKEN,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    // Not bodies of any route, but of problems and events.
    add_schema::<Problem>(&mut components);
    add_schema::<ErrorCode>(&mut components);
    add_schema::<TruncatedEvent>(&mut components);
    add_schema::<ExitEvent>(&mut components);
    add_schema::<CommandEvent>(&mut components);
    add_schema::<SessionExitEvent>(&mut components);
    add_schema::<SearchSummary>(&mut components);
    add_schema::<BackupProgress>(&mut components);
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
    assemble(super::table()).into_openapi()
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
        ProgramNotFound ProgramNotExecutable LimitReached Internal Unavailable;
    /// Of routes that change something.
    ChangeProblems: InvalidRequest Unauthorized ProcessNotFound SessionNotFound IdempotencyConflict
        ProcessEnded StdinClosed StdinOffset SessionEnded BodyTooLarge UnsupportedMediaType
        LimitReached Internal Unavailable;
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

fn responses(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
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
#[path = "document_tests.rs"]
mod tests;
