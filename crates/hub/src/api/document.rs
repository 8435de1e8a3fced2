//! The hub's `OpenAPI` document: its own routes, and the agent's below each sandbox.
//!
//! Made by the tests, as the agent's is; the binary has the file.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::body::Bytes;
use sandshell_agent::parts::{compact, responses, unpack};
use sandshell_types::ErrorCode;
use utoipa::IntoResponses;
use utoipa::openapi::RefOr;

/// The document as pretty JSON.
pub fn openapi_json() -> String {
    unpack(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/document.json.gz"
    )))
}

/// The document as it is served, made once.
pub(crate) fn served() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED
        .get_or_init(|| compact(&openapi_json()).into())
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
    /// Of the making of a sandbox.
    CreateProblems: InvalidRequest Unauthorized Forbidden ImageNotFound IdConflict IdempotencyConflict BodyTooLarge
        UnsupportedMediaType IsolationUnavailable LimitReached Internal Unavailable;
    /// Of routes that look at sandboxes.
    ReadProblems: InvalidRequest Unauthorized SandboxNotFound Internal;
    /// Of routes that change one.
    SandboxChangeProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitReached Internal Unavailable;
    /// Of routes that look at images.
    ImageProblems: InvalidRequest Unauthorized Forbidden ImageNotFound Internal;
    /// Of the removal of one.
    ImageRemoveProblems: InvalidRequest Unauthorized Forbidden ImageNotFound ImageInUse Internal;
    /// Of the making of one.
    ImageImportProblems: InvalidRequest Unauthorized Forbidden ImageInUse IdempotencyConflict
        BodyTooLarge UnsupportedMediaType InvalidImage LimitReached Internal NoSpace;
    /// Of a change of a sandbox's spec.
    SandboxPatchProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitUnavailable LimitReached Internal
        Unavailable;
    /// Of routes for admins.
    AdminProblems: InvalidRequest Unauthorized Forbidden Internal;
    /// Of routes about one token.
    TokenProblems: InvalidRequest Unauthorized Forbidden TokenNotFound Internal;
    /// Of the making of a token.
    TokenChangeProblems: InvalidRequest Unauthorized Forbidden IdempotencyConflict BodyTooLarge
        UnsupportedMediaType LimitReached Internal;
    /// Of the making of a ticket.
    TicketProblems: InvalidRequest Unauthorized SandboxNotFound SandboxGone BodyTooLarge
        UnsupportedMediaType LimitReached;
    /// Of routes about previews.
    PreviewProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitReached Internal Unavailable;
    /// Of the readiness probe.
    ReadyProblems: Unavailable;
}

#[cfg(test)]
mod made;
#[cfg(test)]
mod tests;
