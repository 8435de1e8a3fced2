//! `/v1/tokens`: for admins only.

use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sandshell_agent::parts::{ApiError, Json, PageQuery, Path, Query, page};
use sandshell_types::{List, TokenCreated, TokenRecord, TokenRequest};

use super::document::{AdminProblems, TokenChangeProblems, TokenProblems};
use super::{HubState, WithBy, WithToken};
use crate::error::HubError;
use crate::tokens::Token;

/// Make a token.
///
/// The token itself is in this answer and nowhere else: only its hash is kept.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "create_token", tag = "tokens",
    request_body(content = TokenRequest, description = "What it is to open."),
    responses(
        (status = 201, description = "The token.", body = TokenCreated, example = json!({
            "id": "tok_0f1e2d3c4b5a6978", "name": "ci", "scopes": ["create"],
            "created_at": "2026-01-01T00:00:00Z", "token": "sk_0123"
        })),
        TokenChangeProblems,
    )
)]
pub(crate) async fn create(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Json(request): Json<TokenRequest>,
) -> Result<Response, ApiError> {
    admin(&token)?;
    let created = hub.tokens.create(request, &by).await?;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// List tokens.
///
/// Oldest first, those that were revoked included.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "list_tokens", tag = "tokens",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<TokenRecord>, example = json!({"items": [{
            "id": "tok_admin", "name": "admin", "scopes": ["admin"], "created_at": "2026-01-01T00:00:00Z"
        }]})),
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(hub): HubState,
    Extension(token): WithToken,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<TokenRecord>>, ApiError> {
    admin(&token)?;
    let records = hub.tokens.records();
    page(records, &query, |record| &record.id, Clone::clone).map(axum::Json)
}

/// Look at a token.
#[utoipa::path(
    get, path = "/v1/tokens/{id}", operation_id = "get_token", tag = "tokens",
    params(("id" = String, Path, description = "The id of the token.")),
    responses(
        (status = 200, description = "The token, without its secret.", body = TokenRecord, example = json!({
            "id": "tok_admin", "name": "admin", "scopes": ["admin"], "created_at": "2026-01-01T00:00:00Z"
        })),
        TokenProblems,
    )
)]
pub(crate) async fn get(
    State(hub): HubState,
    Extension(token): WithToken,
    Path(id): Path<String>,
) -> Result<axum::Json<TokenRecord>, ApiError> {
    admin(&token)?;
    Ok(axum::Json(hub.tokens.get_record(&id)?))
}

/// Revoke a token.
///
/// It opens nothing any more; requests in progress go on. Sandboxes that were made with it stay.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "revoke_token", tag = "tokens",
    params(("id" = String, Path, description = "The id of the token.")),
    responses(
        (status = 200, description = "It is revoked.", body = TokenRecord, example = json!({
            "id": "tok_0f1e2d3c4b5a6978", "scopes": ["create"], "created_at": "2026-01-01T00:00:00Z",
            "revoked_at": "2026-01-02T00:00:00Z"
        })),
        TokenProblems,
    )
)]
pub(crate) async fn revoke(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(id): Path<String>,
) -> Result<axum::Json<TokenRecord>, ApiError> {
    admin(&token)?;
    Ok(axum::Json(hub.tokens.revoke(&id, &by).await?))
}

/// Refuses all but admins.
pub(super) fn admin(token: &Token) -> Result<(), HubError> {
    if token.is_admin() {
        return Ok(());
    }
    Err(HubError::Forbidden(
        "this needs a token with the scope `admin`",
    ))
}
