//! Sessions: the same as ours, made when first named.

use axum::extract::Extension;
use axum::response::Response;
use sandshell_client::Client;
use sandshell_client::types::{Env, SessionId, SessionRequest};
use serde::Deserialize;
use serde_json::json;

use super::body::Json;
use super::error::{Code, Fault};
use super::success;
use crate::pages::all;
use crate::session::is_missing;
pub(super) use crate::session::{made, record};

/// The session of whoever names none.
const DEFAULT: &str = "default";

/// Named to have none.
const NONE: &str = "__DISABLE_SESSION__";

/// Which session a request is for; `None` for no session.
pub(super) fn named(id: Option<&str>) -> Result<Option<SessionId>, Fault> {
    match id {
        Some(NONE) => Ok(None),
        Some(id) => Ok(Some(id.parse()?)),
        None => Ok(Some(DEFAULT.parse()?)),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    id: Option<String>,
    #[serde(default)]
    env: Env,
    cwd: Option<String>,
    command_timeout_ms: Option<u64>,
}

pub(super) async fn create(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Create>,
) -> Result<Response, Fault> {
    let id: SessionId = match asked.id {
        Some(id) => id.parse()?,
        None => SessionId::generate(),
    };
    if !crate::session::is_free(&sandbox, &id).await? {
        let message = format!("Session '{id}' already exists");
        return Err(Fault::new(Code::SessionAlreadyExists, message)
            .context(json!({"sessionId": id, "containerPlacementId": null})));
    }
    let request = SessionRequest {
        id: Some(id.clone()),
        env: asked.env,
        cwd: asked.cwd,
        timeout_ms: asked.command_timeout_ms,
        ..SessionRequest::default()
    };
    let record = sandbox.create_session(&request).await?;
    Ok(success(json!({
        "id": id,
        "message": "Session created",
        "data": {"id": id, "cwd": record.cwd},
        "containerPlacementId": null,
    })))
}

pub(super) async fn list(Extension(sandbox): Extension<Client>) -> Result<Response, Fault> {
    let sandbox = &sandbox;
    let sessions = all(|page| async move { sandbox.list_sessions(&page).await }).await?;
    let ids: Vec<SessionId> = sessions.into_iter().map(|session| session.id).collect();
    Ok(success(json!({"data": ids})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delete {
    session_id: String,
}

pub(super) async fn delete(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Delete>,
) -> Result<Response, Fault> {
    let id: SessionId = asked.session_id.parse()?;
    match sandbox.delete_session(&id).await {
        Err(error) if is_missing(&error) => {
            let message = format!("Session '{id}' not found");
            return Err(Fault::new(Code::InternalError, message).context(json!({"sessionId": id})));
        }
        other => drop(other?),
    }
    Ok(success(json!({"sessionId": id})))
}
