//! `POST /v1/tickets`: a word for the query, for browsers.

use axum::extract::State;
use axum::response::Response;
use sandshell_types::{ErrorCode, TicketReply, TicketRequest};

use super::AgentState;
use super::document::TicketProblems;
use super::routes;
use crate::extract::Json;
use crate::problem::ApiError;

/// Make a ticket for a stream.
///
/// Browsers cannot send the token with an `EventSource` or a WebSocket. A ticket in the query does
/// instead: it opens one GET of exactly this path, with any query, as a stream of events or a
/// WebSocket, once, within 30 seconds. An `EventSource` that connects again needs a fresh one.
#[utoipa::path(
    post, path = "/v1/tickets", operation_id = "create_ticket", tag = "service",
    request_body(content = TicketRequest, description = "What it is to open.",
        example = json!({"path": "/v1/processes/web/output"})),
    responses(
        (status = 201, description = "The ticket.", body = TicketReply, example = json!({
            "ticket": "tk_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
            "url": "/v1/processes/web/output?ticket=tk_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
            "expires_at": "2026-01-01T00:00:30Z"
        })),
        TicketProblems,
    )
)]
pub(crate) async fn create(
    State(agent): AgentState,
    Json(request): Json<TicketRequest>,
) -> Result<Response, ApiError> {
    check(&request.path)?;
    agent.tickets.give(&request.path, ())
}

fn check(path: &str) -> Result<(), ApiError> {
    let invalid = |detail: &str| {
        Err(ApiError::new(ErrorCode::InvalidRequest, detail)
            .pointer("/path")
            .hint("Send the path alone, such as /v1/processes/web/output; the query may be any."))
    };
    if !path.starts_with("/v1/") {
        return invalid("the path must start with /v1/");
    }
    if path.contains(['?', '#']) {
        return invalid("the path has a query or a fragment");
    }
    if path.parse::<http::Uri>().is_err() {
        return invalid("the path has characters that must be percent-encoded");
    }
    if !routes::own().can_stream(path) {
        return invalid("nothing is streamed at this path, and a ticket opens streams only");
    }
    Ok(())
}
