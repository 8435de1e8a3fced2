//! The bridge API, which the `OpenAI` Agents SDK calls.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{Request, StatusCode};
use sandshell_client::Client;
use sandshell_client::types::Problem;
use tower::Service as _;

use crate::lease::Lease;

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
        Self(Router::new())
    }

    /// A refusal of our own, in this dialect's form.
    #[must_use]
    pub fn refuse(problem: Problem) -> Response {
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(problem)).into_response()
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
