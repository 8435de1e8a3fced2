//! What the service says of itself.

use std::sync::OnceLock;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use sandshell_types::{API_VERSION, ErrorCode, Health, VersionInfo};

use super::AgentState;
use super::document::{self, ReadyProblems};
use super::explorer;
use crate::problem::ApiError;

/// Whether the process is alive.
///
/// For liveness probes; needs no token.
#[utoipa::path(
    get, path = "/healthz", operation_id = "health", tag = "service", security(()),
    responses((status = 200, description = "It is.", body = Health, example = json!({"status": "ok"})))
)]
pub async fn healthz() -> axum::Json<Health> {
    axum::Json(Health {
        status: "ok".to_owned(),
    })
}

/// Whether requests are taken.
///
/// For readiness probes; needs no token. 503 while the agent ends.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "service", security(()),
    responses(
        (status = 200, description = "They are.", body = Health, example = json!({"status": "ok"})),
        ReadyProblems,
    )
)]
pub(crate) async fn readyz(State(agent): AgentState) -> Result<axum::Json<Health>, ApiError> {
    if agent.shutdown.is_cancelled() {
        return Err(ApiError::new(
            ErrorCode::Unavailable,
            "the agent is shutting down",
        ));
    }
    Ok(healthz().await)
}

/// Version of the program and of the API.
///
/// Needs no token.
#[utoipa::path(
    get, path = "/version", operation_id = "version", tag = "service", security(()),
    responses((status = 200, description = "The versions.", body = VersionInfo,
        example = json!({"version": "0.1.0", "api": "v1"})))
)]
pub async fn version() -> axum::Json<VersionInfo> {
    axum::Json(VersionInfo {
        version: crate::VERSION.to_owned(),
        api: API_VERSION.to_owned(),
    })
}

/// This document.
///
/// The same as `sandshell openapi` prints. Like `/docs`, which shows it, it needs no token: it is part
/// of every copy of the program.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "service", security(()),
    responses(
        (status = 200, description = "OpenAPI 3.1.", content_type = "application/json",
            body = Object, example = json!({"openapi": "3.1.0"})),
        (status = 304, description = "The document that the client has (`If-None-Match`)."),
    )
)]
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    static TAG: OnceLock<HeaderValue> = OnceLock::new();
    let kind = HeaderValue::from_static("application/json");
    explorer::with_tag(&headers, document::served(), kind, &TAG)
}
