//! `/v1/sandboxes/{sandbox}/ports/{port}/preview`: names for ports.

use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sandshell_agent::parts::{ApiError, OptionalJson, Path};
use sandshell_types::{PortUnexposed, Preview, PreviewRequest, SandboxId};

use super::document::PreviewProblems;
use super::{HubState, WithBy, WithToken};
use crate::error::HubError;

/// Give a port a name of its own.
///
/// The URL opens this port, and nothing else, to whoever has it, until it expires; HTTP and `WebSocket`,
/// with the server at the root of its own origin. Needs a hub with `--preview-domain`. Nothing need
/// listen yet. Names are signed and not kept: each call makes another, and they are revoked together.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/ports/{port}/preview", operation_id = "create_preview", tag = "ports",
    params(
        ("sandbox" = SandboxId, Path, description = "The sandbox."),
        ("port" = u16, Path, description = "The TCP port.", minimum = 1),
    ),
    request_body(content = Option<PreviewRequest>, description = "May be left out: an hour."),
    responses(
        (status = 201, description = "The name.", body = Preview, example = json!({
            "port": 8000, "url": "http://8000-build-1-ac3mfz2uegymhh7k.preview.example.org/",
            "expires_at": "2026-01-01T01:00:00Z"
        })),
        PreviewProblems,
    )
)]
pub(crate) async fn create(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path((id, port)): Path<(String, u16)>,
    OptionalJson(request): OptionalJson<PreviewRequest>,
) -> Result<Response, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    check(port)?;
    let made = hub.previews.create(&sandbox, port, request.ttl_ms, &by);
    Ok((StatusCode::CREATED, axum::Json(made.await?)).into_response())
}

/// Revoke the names of a port.
///
/// None of them opens it any more. Requests and upgraded connections in progress go on.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{sandbox}/ports/{port}/preview", operation_id = "revoke_previews", tag = "ports",
    params(
        ("sandbox" = SandboxId, Path, description = "The sandbox."),
        ("port" = u16, Path, description = "The TCP port.", minimum = 1),
    ),
    responses(
        (status = 200, description = "It has no names.", body = PortUnexposed,
            example = json!({"port": 8000, "was_exposed": true})),
        PreviewProblems,
    )
)]
pub(crate) async fn revoke(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path((id, port)): Path<(String, u16)>,
) -> Result<axum::Json<PortUnexposed>, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    check(port)?;
    let was_exposed = hub.previews.revoke(&sandbox, port, &by).await?;
    Ok(axum::Json(PortUnexposed { port, was_exposed }))
}

fn check(port: u16) -> Result<(), HubError> {
    if port == 0 {
        return Err(HubError::invalid(
            "/port",
            "a port is a number from 1 to 65535",
        ));
    }
    Ok(())
}
