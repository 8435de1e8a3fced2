//! `GET /v1/audit`: who did what.

use axum::extract::{Extension, State};
use sandshell_agent::parts::{ApiError, Query};
use sandshell_types::{AuditEntry, List};
use serde::Deserialize;

use super::document::AdminProblems;
use super::tokens::admin;
use super::{HubState, WithToken};
use crate::error::HubError;
use crate::store::AuditQuery;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Query of the log.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// Most items in the page: 1 to 1000, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<u64>,
    /// Only what was done to this sandbox or token.
    target: Option<String>,
    /// Only this action, such as `sandbox.create`.
    action: Option<String>,
}

/// Read the audit log.
///
/// Newest first: what was done to sandboxes and tokens, by which token, and what came of it. The last
/// 100,000 entries are kept.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit", tag = "audit",
    params(LogQuery),
    responses(
        (status = 200, description = "A page.", body = List<AuditEntry>, example = json!({"items": [{
            "id": 7, "at": "2026-01-01T00:00:00Z", "action": "sandbox.create", "token": "tok_admin",
            "target": "build-1", "outcome": "ok", "request_id": "req_0123456789ab00000001"
        }]})),
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(hub): HubState,
    Extension(token): WithToken,
    Query(query): Query<LogQuery>,
) -> Result<axum::Json<List<AuditEntry>>, ApiError> {
    admin(&token)?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let detail = format!("a page has 1 to {MAX_LIMIT} items, not {limit}");
        return Err(HubError::invalid("/limit", detail).into());
    }
    let asked = AuditQuery {
        before: query.cursor,
        target: query.target,
        action: query.action,
        limit: limit + 1,
    };
    let store = hub.registry.store();
    let mut items = store.audit(asked).await.map_err(HubError::from)?;
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more);
    let next_cursor = last.map(|entry| entry.id.to_string());
    Ok(axum::Json(List { items, next_cursor }))
}
