//! Sessions, by their ids.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use sandshell_client::types::{Env, SessionId, SessionRequest};
use serde::Deserialize;
use serde_json::json;

use super::body::{OptionalJson, named};
use super::error::{Code, Fault};
use super::sandbox::Named;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    id: Option<String>,
    #[serde(default)]
    env: Env,
    cwd: Option<String>,
    command_timeout_ms: Option<u64>,
}

pub(super) async fn create(
    at: Named,
    OptionalJson(asked): OptionalJson<Create>,
) -> Result<Response, Fault> {
    let failed = Fault::of(Code::Session, "session create");
    let id = match &asked.id {
        Some(id) => named(id)?,
        None => SessionId::generate(),
    };
    let client = at.reach().await?.client;
    let free = crate::session::is_free(&client, &id).await;
    if !free.map_err(&failed)? {
        let error = format!("session create failed: Session '{id}' already exists");
        return Err(Fault::failed(Code::Session, error));
    }
    let request = SessionRequest {
        id: Some(id),
        env: asked.env,
        cwd: asked.cwd,
        timeout_ms: asked.command_timeout_ms,
        ..SessionRequest::default()
    };
    let made = client.create_session(&request).await.map_err(&failed)?;
    Ok(axum::Json(json!({"id": made.id})).into_response())
}

pub(super) async fn delete(
    at: Named,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let id = named(&id)?;
    let client = at.reach().await?.client;
    let deleted = client.delete_session(&id).await;
    deleted.map_err(Fault::of(Code::Session, "session delete"))?;
    let deleted = json!({
        "success": true,
        "sessionId": id,
        "timestamp": jiff::Timestamp::now().to_string(),
    });
    Ok(axum::Json(deleted).into_response())
}
