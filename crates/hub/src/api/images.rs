//! `/v1/images`: root file systems by name. Those who may make sandboxes see them; admins change them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sandshell_agent::parts::{ApiError, Json, PageQuery, Path, Query, next_data, page};
use sandshell_files::inlet;
use sandshell_sys::task;
use sandshell_types::{ErrorCode, ImageName, ImageRecord, ImageRequest, List, SandboxId};
use tokio_util::sync::CancellationToken;

use super::document::{ImageImportProblems, ImageProblems, ImageRemoveProblems};
use super::tokens::admin;
use super::{HubState, WithBy, WithToken};
use crate::Hub;
use crate::audit;
use crate::error::HubError;
use crate::images::{self, ImageError, Imported};
use crate::sandbox::By;
use crate::store::Change;
use crate::tokens::Token;

/// How long an upload may stand still.
const STALLED: Duration = Duration::from_secs(20);

/// Bytes that are no text.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "the document alone needs it")]
struct TarBytes(Vec<u8>);

/// Import an image.
///
/// The body is a tar archive, plain or compressed with gzip or zstd: the root itself, as `docker export`
/// writes it, or layers, as `docker save` and the OCI layout have them. It is streamed to the disk; the
/// answer comes when all of it is there and right, and before that nothing has the name. An image of the
/// same name is replaced, unless a sandbox is made of it. For admins.
#[utoipa::path(
    put, path = "/v1/images/{name}", operation_id = "import_image", tag = "images",
    params(("name" = ImageName, Path, description = "Its name from then on.")),
    request_body(content = TarBytes, content_type = "application/x-tar",
        description = "The archive.", example = json!("(bytes of a tar archive)")),
    responses(
        (status = 201, description = "The image.", body = ImageRecord, example = json!({
            "name": "alpine", "size_bytes": 8_300_000, "files": 520, "skipped": 0,
            "config": {"env": {"PATH": "/usr/bin:/bin"}, "cmd": ["/bin/sh"]},
            "created_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "The image, in place of another.", body = ImageRecord),
        ImageImportProblems,
    )
)]
pub(crate) async fn import(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(name): Path<String>,
    mut body: Body,
) -> Result<Response, ApiError> {
    admin(&token)?;
    let name = name_of(&name)?;
    let (feeder, input) = inlet();
    let add = add(&hub, name, &by, move |at, stop| {
        images::import(input, at, stop)
    });
    // Dropped with the handler when the client goes away, which breaks the input off.
    let feed = async {
        loop {
            // Others wait for their turn.
            let data = tokio::time::timeout(STALLED, next_data(&mut body)).await;
            let data = data.map_err(|_| {
                let detail = format!("no bytes came for {} seconds", STALLED.as_secs());
                ApiError::new(ErrorCode::InvalidRequest, detail)
            })?;
            let Some(data) = data? else { break };
            if !feeder.feed(data).await {
                return Ok(());
            }
        }
        feeder.end().await;
        Ok::<_, ApiError>(())
    };
    let feed = async {
        tokio::select! {
            fed = feed => fed,
            () = hub.tunnels.shutdown.cancelled() => Err(HubError::Ending.into()),
        }
    };
    let (added, fed) = tokio::join!(add, feed);
    fed?;
    added
}

/// Make an image of a directory.
///
/// A directory of the hub's machine, which is copied: without what is mounted below it, device nodes,
/// FIFOs and sockets. For admins.
#[utoipa::path(
    post, path = "/v1/images", operation_id = "create_image", tag = "images",
    request_body(content = ImageRequest, description = "Which directory, and its name."),
    responses(
        (status = 201, description = "The image.", body = ImageRecord, example = json!({
            "name": "debian", "size_bytes": 120_000_000, "files": 9000, "skipped": 4, "config": {},
            "created_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "The image, in place of another.", body = ImageRecord),
        ImageImportProblems,
    )
)]
pub(crate) async fn create(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Json(request): Json<ImageRequest>,
) -> Result<Response, ApiError> {
    admin(&token)?;
    let wrong = |detail: String| HubError::invalid("/directory", detail);
    let directory = PathBuf::from(&request.directory);
    if !directory.is_absolute() || request.directory.contains('\0') {
        return Err(wrong("the path is not absolute".to_owned()).into());
    }
    let found = tokio::fs::canonicalize(&directory).await;
    let directory = found.map_err(|error| wrong(format!("it cannot be used: {error}")))?;
    let there = tokio::fs::metadata(&directory).await;
    if !there.is_ok_and(|there| there.is_dir()) {
        return Err(wrong("it is no directory".to_owned()).into());
    }
    if images::is_of_kernel(&directory) {
        let detail = "it lies in a file system of the kernel's own, whose files are none";
        return Err(wrong(detail.to_owned()).into());
    }
    if hub.images.lies_in(&directory) {
        return Err(wrong("the hub's own directory lies in it".to_owned()).into());
    }
    add(&hub, request.name, &by, move |at, stop| {
        images::copy_directory(&directory, at, stop)
    })
    .await
}

/// Makes an image where that may block, and writes down what came of it, by a task that goes on to its end.
/// The work itself is broken off when the caller is; until then it has its turn.
async fn add(
    hub: &Arc<Hub>,
    name: ImageName,
    by: &By,
    make: impl FnOnce(&std::path::Path, &CancellationToken) -> Result<Imported, ImageError>
    + Send
    + 'static,
) -> Result<Response, ApiError> {
    let stop = hub.tunnels.shutdown.child_token();
    let _broken_off = stop.clone().drop_guard();
    let entry = audit::entry("image.import", by, name.as_str());
    let (images, user) = (Arc::clone(&hub.images), user_of(hub, name.as_str()));
    let hub = Arc::clone(hub);
    let work = async move {
        let turn = tokio::select! {
            turn = hub.images.turn() => turn,
            () = stop.cancelled() => None,
        };
        let work = move || {
            let Some(_turn) = turn else {
                return Err(ImageError::BrokenOff.into());
            };
            images.add(&name, user, |at| make(at, &stop))
        };
        let added = tokio::task::spawn_blocking(work).await;
        noted(&hub, entry, added).await
    };
    let added = task::spawn(work).await;
    let added = added.map_err(|error| ApiError::internal("a task of the hub failed", &error))?;
    let (record, fresh) = added?;
    let status = if fresh {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, axum::Json(record)).into_response())
}

/// Writes down what was tried, and what came of it.
async fn noted<T>(
    hub: &Hub,
    mut entry: sandshell_types::AuditEntry,
    outcome: Result<Result<T, HubError>, tokio::task::JoinError>,
) -> Result<T, ApiError> {
    let outcome =
        outcome.map_err(|error| ApiError::internal("a task of the hub failed", &error))?;
    if let Err(error) = &outcome {
        error.code().as_str().clone_into(&mut entry.outcome);
        entry.detail = Some(error.to_string());
    }
    let written = hub.registry.store().apply(vec![Change::Audit(entry)]).await;
    if let Err(error) = written {
        tracing::error!(%error, "a change of images is not in the audit log");
    }
    Ok(outcome?)
}

/// Looks for a sandbox that is made of an image.
fn user_of(hub: &Arc<Hub>, name: &str) -> impl Fn() -> Option<SandboxId> + Send + 'static {
    let (registry, name) = (Arc::clone(&hub.registry), name.to_owned());
    move || {
        let all = registry.all_live();
        let uses = |image: Option<String>| image.as_deref() == Some(name.as_str());
        let user = all.iter().find(|one| uses(one.record().spec.image));
        user.map(|sandbox| sandbox.id().clone())
    }
}

/// List images.
///
/// By name.
#[utoipa::path(
    get, path = "/v1/images", operation_id = "list_images", tag = "images",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<ImageRecord>, example = json!({"items": [{
            "name": "alpine", "size_bytes": 8_300_000, "files": 520, "skipped": 0, "config": {},
            "created_at": "2026-01-01T00:00:00Z"
        }]})),
        ImageProblems,
    )
)]
pub(crate) async fn list(
    State(hub): HubState,
    Extension(token): WithToken,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<ImageRecord>>, ApiError> {
    may_see(&token)?;
    let records = hub.images.records();
    page(records, &query, |record| record.name.as_str(), Clone::clone).map(axum::Json)
}

/// Look at an image.
#[utoipa::path(
    get, path = "/v1/images/{name}", operation_id = "get_image", tag = "images",
    params(("name" = ImageName, Path, description = "The image.")),
    responses(
        (status = 200, description = "The image.", body = ImageRecord, example = json!({
            "name": "alpine", "size_bytes": 8_300_000, "files": 520, "skipped": 0, "config": {},
            "created_at": "2026-01-01T00:00:00Z"
        })),
        ImageProblems,
    )
)]
pub(crate) async fn get(
    State(hub): HubState,
    Extension(token): WithToken,
    Path(name): Path<String>,
) -> Result<axum::Json<ImageRecord>, ApiError> {
    may_see(&token)?;
    Ok(axum::Json(hub.images.find(&name)?))
}

/// Remove an image.
///
/// Refused while a sandbox is made of it. For admins.
#[utoipa::path(
    delete, path = "/v1/images/{name}", operation_id = "remove_image", tag = "images",
    params(("name" = ImageName, Path, description = "The image.")),
    responses(
        (status = 200, description = "The image that was.", body = ImageRecord, example = json!({
            "name": "alpine", "size_bytes": 8_300_000, "files": 520, "skipped": 0, "config": {},
            "created_at": "2026-01-01T00:00:00Z"
        })),
        ImageRemoveProblems,
    )
)]
pub(crate) async fn remove(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(name): Path<String>,
) -> Result<axum::Json<ImageRecord>, ApiError> {
    admin(&token)?;
    let entry = audit::entry("image.remove", &by, &name);
    let (images, user) = (Arc::clone(&hub.images), user_of(&hub, &name));
    let work = move || images.remove(&name, user);
    let removed = tokio::task::spawn_blocking(work).await;
    noted(&hub, entry, removed).await.map(axum::Json)
}

fn name_of(name: &str) -> Result<ImageName, HubError> {
    name.parse()
        .map_err(|error: sandshell_types::ImageNameError| {
            HubError::invalid("/name", error.to_string())
        })
}

fn may_see(token: &Token) -> Result<(), HubError> {
    if token.may_create() {
        return Ok(());
    }
    Err(HubError::Forbidden("this token may not make sandboxes"))
}
