//! What the hub says of itself, and tickets.

use std::sync::OnceLock;

use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue};
use sandshell_agent::parts::{self, ApiError, Exposition, Json, with_tag};
use sandshell_types::{Health, TicketReply, TicketRequest};

use super::document::{AdminProblems, ReadyProblems, TicketProblems};
use super::tokens::admin;
use super::{HubState, WithToken, served};
use crate::error::HubError;

/// Make a ticket for a stream of a sandbox.
///
/// Browsers cannot send the token with an `EventSource` or a WebSocket. A ticket in the query does
/// instead: it opens one GET of exactly this path, with any query, as a stream of events or a
/// WebSocket, once, within 30 seconds.
#[utoipa::path(
    post, path = "/v1/tickets", operation_id = "create_ticket", tag = "service",
    request_body(content = TicketRequest, description = "What it is to open.",
        example = json!({"path": "/v1/sandboxes/build-1/processes/web/output"})),
    responses(
        (status = 201, description = "The ticket.", body = TicketReply, example = json!({
            "ticket": "tk_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
            "url": "/v1/sandboxes/build-1/events?ticket=tk_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
            "expires_at": "2026-01-01T00:00:30Z"
        })),
        TicketProblems,
    )
)]
pub(crate) async fn tickets(
    State(hub): HubState,
    Extension(token): WithToken,
    Json(request): Json<TicketRequest>,
) -> Result<Response, ApiError> {
    let path = request.path;
    let invalid = |detail: &str| {
        HubError::invalid("/path", detail)
            .hint("Send the path alone, such as /v1/sandboxes/ID/events; the query may be any.")
    };
    let below = path.strip_prefix("/v1/sandboxes/");
    let sandbox = below.and_then(|rest| Some(rest.split_once('/')?.0));
    let sandbox = sandbox.ok_or_else(|| invalid("the path is not one below a sandbox"))?;
    if path.contains(['?', '#']) || path.parse::<http::Uri>().is_err() {
        return Err(invalid("the path has a query, or characters that must be encoded").into());
    }
    hub.registry.live(sandbox, &token)?;
    hub.tickets.give(&path, token.ended().clone())
}

/// Whether requests are taken.
///
/// For readiness probes; needs no token. 503 while the hub ends.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "service", security(()),
    responses(
        (status = 200, description = "They are.", body = Health, example = json!({"status": "ok"})),
        ReadyProblems,
    )
)]
pub(crate) async fn readyz(State(hub): HubState) -> Result<axum::Json<Health>, ApiError> {
    if hub.tunnels.shutdown.is_cancelled() {
        return Err(HubError::Ending.into());
    }
    Ok(parts::healthz().await)
}

/// This document.
///
/// The hub's own routes, and those of every sandbox below it. Needs no token.
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
    with_tag(&headers, served(), kind, &TAG)
}

/// The explorer of this API, a page for browsers.
///
/// Needs no token; requests sent from it take the token that is pasted there.
#[utoipa::path(
    get, path = "/docs", operation_id = "explorer", tag = "service", security(()),
    responses(
        (status = 200, description = "The page.", content_type = "text/html",
            body = String, example = json!("<!doctype html>…")),
        (status = 304, description = "The page that the client has (`If-None-Match`)."),
    )
)]
pub(crate) async fn docs(headers: HeaderMap) -> Response {
    parts::docs(headers).await
}

/// Figures of the hub, for Prometheus.
///
/// Requests by route, method and status, what is open now, and how many sandboxes there are. Needs an
/// admin's token: give it to Prometheus as `authorization.credentials`.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "service",
    responses(
        (status = 200, description = "The figures, in the text form 0.0.4.", content_type = "text/plain",
            body = String, example = json!(
                "# HELP sandshell_http_connections Connections that are open.\n\
                 # TYPE sandshell_http_connections gauge\nsandshell_http_connections 1\n")),
        AdminProblems,
    )
)]
pub(crate) async fn metrics(
    State(hub): HubState,
    Extension(token): WithToken,
) -> Result<Response, ApiError> {
    admin(&token)?;
    let mut text = Exposition::of_this_program();
    hub.metrics.write(&mut text);
    hub.registry.figures().write(&hub.registry, &mut text);
    Ok(text.into_response())
}
