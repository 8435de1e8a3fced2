//! `/v1/files/{mkdir,move,copy,remove,chmod}`: changes to what is there.
//!
//! Each is one job on the inside; it goes on to its end when the client goes away.

use axum::extract::State;
use axum::response::Response;
use sandshell_files::{ChmodSpec, CopySpec, MkdirSpec, MoveSpec, Named, RemoveSpec};
use sandshell_types::{
    ChmodReply, ChmodRequest, CopyReply, CopyRequest, FileEntry, MkdirRequest, MoveRequest,
    RemoveReply, RemoveRequest,
};

use super::run;
use crate::api::document::FileChangeProblems;
use crate::api::{AgentState, created};
use crate::extract::Json;
use crate::problem::ApiError;

/// The path of a request, in the field that is called so.
macro_rules! path_of {
    ($agent:expr, $request:expr, $field:ident, $base64:ident) => {
        Named {
            field: stringify!($field),
            text: $request.$field.as_deref(),
            base64: $request.$base64.as_deref(),
            session: $request.session.as_ref(),
        }
        .path(&$agent.executor)
    };
}

/// Make a directory.
///
/// With what is missing above it, unless `parents` is false.
#[utoipa::path(
    post, path = "/v1/files/mkdir", operation_id = "make_directory", tag = "files",
    request_body = MkdirRequest,
    responses(
        (status = 201, description = "It was made.", body = FileEntry, example = json!({
            "name": "b", "path": "/workspace/a/b", "kind": "directory", "size": 4096, "mode": "0755",
            "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
            "modified_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "It was there already, and `exist_ok` was given.", body = FileEntry),
        FileChangeProblems,
    )
)]
pub(crate) async fn mkdir(
    State(agent): AgentState,
    Json(request): Json<MkdirRequest>,
) -> Result<Response, ApiError> {
    let spec = MkdirSpec {
        path: path_of!(&agent, request, path, path_base64)?,
        parents: request.parents.unwrap_or(true),
        exist_ok: request.exist_ok,
        mode: request.mode,
    };
    let who = agent.executor.who(request.user.as_deref())?;
    let (entry, made) = run(&agent, &who, move |root| {
        sandshell_files::mkdir(root, &spec)
    })
    .await?;
    Ok(created(made, entry))
}

/// Move or rename.
///
/// In one step within a file system; between two by a copy that appears whole, then a removal.
#[utoipa::path(
    post, path = "/v1/files/move", operation_id = "move_file", tag = "files",
    request_body = MoveRequest,
    responses(
        (status = 200, description = "What is at its new path.", body = FileEntry, example = json!({
            "name": "b", "path": "/workspace/b", "kind": "file", "size": 12, "mode": "0644",
            "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
            "modified_at": "2026-01-01T00:00:00Z"
        })),
        FileChangeProblems,
    )
)]
pub(crate) async fn rename(
    State(agent): AgentState,
    Json(request): Json<MoveRequest>,
) -> Result<axum::Json<FileEntry>, ApiError> {
    let spec = MoveSpec {
        from: path_of!(&agent, request, from, from_base64)?,
        to: path_of!(&agent, request, to, to_base64)?,
        overwrite: request.overwrite,
        parents: request.parents.unwrap_or(true),
    };
    let who = agent.executor.who(request.user.as_deref())?;
    let entry = run(&agent, &who, move |root| {
        sandshell_files::rename(root, &spec)
    })
    .await?;
    Ok(axum::Json(entry))
}

/// Copy a file or a tree.
///
/// The copy appears whole or not at all. It keeps permission bits (without set-id), times of
/// modification and symbolic links, and belongs to the user of the call.
#[utoipa::path(
    post, path = "/v1/files/copy", operation_id = "copy_file", tag = "files",
    request_body = CopyRequest,
    responses(
        (status = 200, description = "What was copied.", body = CopyReply, example = json!({
            "entry": {
                "name": "b", "path": "/workspace/b", "kind": "directory", "size": 4096, "mode": "0755",
                "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
                "modified_at": "2026-01-01T00:00:00Z"
            },
            "copied": 3, "bytes": 12
        })),
        FileChangeProblems,
    )
)]
pub(crate) async fn copy(
    State(agent): AgentState,
    Json(request): Json<CopyRequest>,
) -> Result<axum::Json<CopyReply>, ApiError> {
    let spec = CopySpec {
        from: path_of!(&agent, request, from, from_base64)?,
        to: path_of!(&agent, request, to, to_base64)?,
        recursive: request.recursive,
        overwrite: request.overwrite,
        parents: request.parents.unwrap_or(true),
    };
    let who = agent.executor.who(request.user.as_deref())?;
    let copied = run(&agent, &who, move |root| sandshell_files::copy(root, &spec)).await?;
    Ok(axum::Json(CopyReply {
        entry: copied.entry,
        copied: copied.copied,
        bytes: copied.bytes,
    }))
}

/// Remove.
///
/// A directory that is not empty needs `recursive`. Symbolic links are removed, never followed; the
/// root cannot be removed.
#[utoipa::path(
    post, path = "/v1/files/remove", operation_id = "remove_file", tag = "files",
    request_body = RemoveRequest,
    responses(
        (status = 200, description = "It is gone.", body = RemoveReply, example = json!({"removed": 3})),
        FileChangeProblems,
    )
)]
pub(crate) async fn remove(
    State(agent): AgentState,
    Json(request): Json<RemoveRequest>,
) -> Result<axum::Json<RemoveReply>, ApiError> {
    let spec = RemoveSpec {
        path: path_of!(&agent, request, path, path_base64)?,
        recursive: request.recursive,
        missing_ok: request.missing_ok,
    };
    let who = agent.executor.who(request.user.as_deref())?;
    let removed = run(&agent, &who, move |root| {
        sandshell_files::remove(root, &spec)
    })
    .await?;
    Ok(axum::Json(RemoveReply { removed }))
}

/// Change permission bits.
///
/// Of one path, or with `recursive` of all below it too. Symbolic links below it are left alone.
#[utoipa::path(
    post, path = "/v1/files/chmod", operation_id = "change_mode", tag = "files",
    request_body = ChmodRequest,
    responses(
        (status = 200, description = "They are changed.", body = ChmodReply, example = json!({"changed": 1})),
        FileChangeProblems,
    )
)]
pub(crate) async fn chmod(
    State(agent): AgentState,
    Json(request): Json<ChmodRequest>,
) -> Result<axum::Json<ChmodReply>, ApiError> {
    let spec = ChmodSpec {
        path: path_of!(&agent, request, path, path_base64)?,
        mode: request.mode,
        recursive: request.recursive,
    };
    let who = agent.executor.who(request.user.as_deref())?;
    let changed = run(&agent, &who, move |root| {
        sandshell_files::chmod(root, &spec)
    })
    .await?;
    Ok(axum::Json(ChmodReply { changed }))
}
