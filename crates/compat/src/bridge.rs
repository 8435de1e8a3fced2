//! The bridge API of Cloudflare's Sandbox SDK, which the `OpenAI` Agents SDK calls.
//!
//! Owns that API's words: `/v1/sandbox/…` with `{error, code}` for failures and named events for output.
//! Bytes are exact, a timeout ends the command with all it started, and nothing is read into memory as a
//! whole.
//!
//! - A sandbox that is named but not there is made, as theirs is: a client that resumes from a snapshot
//!   counts on it.
//! - Without `Session-Id` a command has no state but the files; with it, the state of that session,
//!   which is made when it is first named.
//! - Files and working directories are those of `/workspace`, by the text of their paths. That is a rule
//!   of the API and no wall: the walls are the sandbox's.

mod archive;
mod body;
mod error;
mod exec;
mod file;
mod pool;
mod pty;
mod sandbox;
mod session;
mod tunnel;
pub(crate) mod workspace;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use http::{Request, header};
use sandshell_client::Client;
use sandshell_client::types::Problem;
use serde_json::json;
use tower::Service as _;

use crate::lease::Lease;
use error::Fault;

/// The document of what is served.
const DOCUMENT: &str = include_str!("bridge/openapi.json");

/// Answers requests of the dialect.
#[derive(Debug, Clone)]
pub struct Bridge(Router);

impl Default for Bridge {
    fn default() -> Self {
        Self::new()
    }
}

impl Bridge {
    /// What answers with the rights of any caller.
    #[must_use]
    pub fn new() -> Self {
        let router = Router::new()
            .route("/health", get(|| async { Self::health() }))
            .route("/v1/openapi.json", get(document))
            .route("/v1/pool/stats", get(pool::stats))
            .route("/v1/pool/prime", post(pool::prime))
            .route("/v1/pool/shutdown-prewarmed", post(pool::shut_down))
            .route("/v1/sandbox", post(sandbox::create))
            .route("/v1/sandbox/{id}", delete(sandbox::destroy))
            .route("/v1/sandbox/{id}/running", get(sandbox::running))
            .route("/v1/sandbox/{id}/exec", post(exec::exec))
            .route(
                "/v1/sandbox/{id}/file/",
                get(file::nothing).put(file::nothing),
            )
            .route(
                "/v1/sandbox/{id}/file/{*path}",
                get(file::read).put(file::write),
            )
            .route("/v1/sandbox/{id}/pty", get(pty::connect))
            .route("/v1/sandbox/{id}/persist", post(archive::persist))
            .route("/v1/sandbox/{id}/hydrate", post(archive::hydrate))
            .route("/v1/sandbox/{id}/mount", post(sandbox::mount))
            .route("/v1/sandbox/{id}/unmount", post(sandbox::unmount))
            .route("/v1/sandbox/{id}/session", post(session::create))
            .route("/v1/sandbox/{id}/session/{sid}", delete(session::delete))
            .route(
                "/v1/sandbox/{id}/tunnel/{port}",
                post(tunnel::open).delete(tunnel::close),
            )
            .fallback(|| async { Fault::missing("there is no such route") })
            .method_not_allowed_fallback(|| async { Fault::method() });
        Self(router)
    }

    /// Says that it is served; to anyone.
    #[must_use]
    pub fn health() -> Response {
        axum::Json(json!({"ok": true})).into_response()
    }

    /// A refusal of our own, in this dialect's form.
    #[must_use]
    pub fn refuse(problem: Problem) -> Response {
        Fault::from(problem).into_response()
    }

    /// Answers a request for the hub that this client reaches. What becomes a socket keeps the lease.
    pub async fn answer(&self, hub: Client, lease: Lease, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(hub);
        request.extensions_mut().insert(lease);
        match self.0.clone().call(request).await {
            Ok(response) => response,
        }
    }
}

async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}
