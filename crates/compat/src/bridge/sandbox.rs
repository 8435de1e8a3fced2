//! Sandboxes: their making and end, and which one a request is for.

use axum::extract::{Extension, FromRequestParts};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::request::Parts;
use sandshell_client::Client;
use sandshell_client::types::{ErrorCode, SandboxId, SandboxSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Json;
use super::error::{Code, Fault};

/// The sandbox in the path of a request, by its id alone.
pub(super) struct Named {
    hub: Client,
    id: SandboxId,
}

/// The same, which lives.
pub(super) struct Sandbox {
    pub(super) hub: Client,
    pub(super) id: SandboxId,
    /// Reaches it.
    pub(super) client: Client,
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        // The rest of the path need not be text.
        let id = parts.uri.path().split('/').nth(3).unwrap_or_default();
        let wrong = |_| Fault::invalid("Invalid sandbox ID format");
        let hub = parts.extensions.get::<Client>().cloned();
        Ok(Self {
            id: id.parse().map_err(wrong)?,
            hub: hub.ok_or_else(|| Fault::failed(Code::Pool, "there is no hub"))?,
        })
    }
}

impl Named {
    /// Looks for it; one that is not there is made. To be asked for when the rest of a request is good.
    pub(super) async fn reach(self) -> Result<Sandbox, Fault> {
        let Self { hub, id } = self;
        let lives = match hub.get_sandbox(&id).await {
            Ok(record) => !record.state.is_over(),
            Err(error) if error.code() == Some(ErrorCode::SandboxNotFound) => false,
            Err(error) => return Err(Fault::of(Code::Pool, "the sandbox")(error)),
        };
        if !lives {
            make(&hub, Some(id.clone())).await?;
        }
        let client = hub.sandbox(&id);
        Ok(Sandbox { hub, id, client })
    }
}

/// Makes a sandbox as the hub makes them by default.
async fn make(hub: &Client, id: Option<SandboxId>) -> Result<SandboxId, Fault> {
    let named = id.is_some();
    let spec = SandboxSpec {
        id,
        ..SandboxSpec::default()
    };
    match hub.create_sandbox(&spec).await {
        Ok(record) => Ok(record.id),
        // It is another's, or this token is for other sandboxes: to this one there is none.
        Err(error)
            if named
                && matches!(
                    error.code(),
                    Some(ErrorCode::IdConflict | ErrorCode::Forbidden)
                ) =>
        {
            Err(Fault::missing("there is no such sandbox"))
        }
        Err(error) => Err(Fault::of(Code::Pool, "the sandbox")(error)),
    }
}

pub(super) async fn create(Extension(hub): Extension<Client>) -> Result<Response, Fault> {
    let id = make(&hub, None).await?;
    Ok(axum::Json(json!({"id": id})).into_response())
}

/// One that is not there is destroyed already.
pub(super) async fn destroy(Named { hub, id }: Named) -> Result<StatusCode, Fault> {
    match hub.destroy_sandbox(&id).await {
        Err(error)
            if !matches!(
                error.code(),
                Some(ErrorCode::SandboxNotFound | ErrorCode::SandboxGone)
            ) =>
        {
            Err(Fault::of(Code::Pool, "the end of the sandbox")(error))
        }
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

/// Whether it answers. It is not made for the question.
pub(super) async fn running(Named { hub, id }: Named) -> Response {
    let running = hub.sandbox(&id).environment().await.is_ok();
    axum::Json(json!({"running": running})).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mount {
    mount_path: String,
    options: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unmount {
    mount_path: String,
}

pub(super) async fn mount(_: Named, Json(asked): Json<Mount>) -> Result<Response, Fault> {
    absolute(&asked.mount_path)?;
    let endpoint = asked.options.get("endpoint");
    if endpoint.is_some_and(|endpoint| !endpoint.is_string()) {
        return Err(Fault::invalid(
            "options.endpoint must be a string when provided",
        ));
    }
    Err(Fault::failed(
        Code::Mount,
        "mount failed: buckets are not mounted here; hydrate the workspace, or write the files into it",
    ))
}

pub(super) async fn unmount(_: Named, Json(asked): Json<Unmount>) -> Result<Response, Fault> {
    absolute(&asked.mount_path)?;
    let path = asked.mount_path;
    Err(Fault::failed(
        Code::Unmount,
        format!("unmount failed: there is no bucket at {path}"),
    ))
}

fn absolute(path: &str) -> Result<(), Fault> {
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Fault::invalid(
        "mountPath must be an absolute path (start with /)",
    ))
}
