//! `/v1/backups`: saved directory trees.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use sandshell_files::{BackupError, PROGRESS_EVERY, Task};
use sandshell_types::{
    BackupProgress, BackupRecord, BackupRequest, List, Problem, RestoreReply, RestoreRequest,
};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::document::events::event_union;
use super::document::{BackupCreateProblems, BackupProblems, RestoreProblems};
use super::output::RawBytes;
use super::paging::{PageQuery, page};
use super::{AgentState, created};
use crate::Agent;
use crate::extract::{Json, OptionalJson, Path, Query};
use crate::problem::ApiError;
use crate::server::to_the_end;
use crate::sse;

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Size of the pieces in which an archive is given.
const PIECE: usize = 256 << 10;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::create, self::list;
        self::get, self::delete;
        self::content;
        self::restore;
    }
}

event_union! {
    /// The making of a backup: `backup` or `error` is the last.
    BackupEvents: "progress" => BackupProgress, "backup" => BackupRecord, "error" => Problem;
}

event_union! {
    /// A restore: `restored` or `error` is the last.
    RestoreEvents: "progress" => BackupProgress, "restored" => RestoreReply, "error" => Problem;
}

/// Make a backup.
///
/// Packs a directory into a zstd tar archive, and answers when it is complete. It is made to its end
/// when the client goes away; the same request again waits for it. With `Accept: text/event-stream`:
/// `progress` events, then `backup` with the record, or `error` with a problem.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "create_backup", tag = "backups",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = BackupRequest,
    responses(
        (status = 201, description = "It was made.", content(
            (BackupRecord = "application/json", example = json!({
                "id": "monday", "state": "ready", "path": "/workspace",
                "contents": {"files": 2, "directories": 1, "symlinks": 0, "bytes": 120, "skipped": 0},
                "size": 310, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "stored": true, "created_at": "2026-01-01T00:00:00Z"
            })),
        )),
        (status = 200, description = "It was there already; also any answer made of events.", content(
            (BackupRecord = "application/json"),
            (BackupEvents = "text/event-stream", example = json!({
                "event": "progress", "id": "1",
                "data": r#"{"stage":"packing","files":64,"bytes":4096,"archive_bytes":0}"#
            })),
        )),
        BackupCreateProblems,
    )
)]
pub(crate) async fn create(
    State(agent): AgentState,
    headers: HeaderMap,
    Json(request): Json<BackupRequest>,
) -> Result<Response, ApiError> {
    let (mut task, now) = agent.backups.create(request)?;
    if sse::wanted(&headers) {
        return Ok(events(&agent, task, "backup"));
    }
    Ok(created(now, task.outcome().await?))
}

/// List backups, oldest first.
///
/// Those that are being made too. Those whose time is over are not there any more.
#[utoipa::path(
    get, path = "/v1/backups", operation_id = "list_backups", tag = "backups",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<BackupRecord>, example = json!({"items": []})),
        BackupProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<BackupRecord>>, ApiError> {
    let records = agent.backups.list();
    page(records, &query, |record| record.id.as_str(), Clone::clone).map(axum::Json)
}

/// Get a backup's record.
///
/// While it is being made, the figures say how far it has come.
#[utoipa::path(
    get, path = "/v1/backups/{id}", operation_id = "get_backup", tag = "backups",
    params(("id" = String, Path, description = "Id of the backup.")),
    responses(
        (status = 200, description = "The backup.", body = BackupRecord, example = json!({
            "id": "monday", "state": "creating", "path": "/workspace",
            "contents": {"files": 64, "directories": 0, "symlinks": 0, "bytes": 4096, "skipped": 0},
            "size": 0, "stored": false, "created_at": "2026-01-01T00:00:00Z"
        })),
        BackupProblems,
    )
)]
pub(crate) async fn get(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<BackupRecord>, ApiError> {
    Ok(axum::Json(agent.backups.get(&id)?))
}

/// Get a backup's archive.
///
/// Only of a backup that is kept here (`stored`), and only once it is ready.
#[utoipa::path(
    get, path = "/v1/backups/{id}/content", operation_id = "get_backup_content", tag = "backups",
    params(("id" = String, Path, description = "Id of the backup.")),
    responses(
        (status = 200, description = "A zstd tar archive.", content(
            (RawBytes = "application/zstd", example = json!("(bytes of a tar archive, compressed)")),
        )),
        BackupProblems,
    )
)]
pub(crate) async fn content(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (record, file) = agent.backups.content(&id).await?;
    let body = stream::try_unfold(file, |mut file| async move {
        let mut piece = bytes::BytesMut::with_capacity(PIECE);
        let read = file.read_buf(&mut piece).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (piece.freeze(), file)))
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/zstd"),
        ),
        (header::CONTENT_LENGTH, record.size.into()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Delete a backup.
///
/// Record and archive are gone with the answer, and the id is free again. One that is being made is
/// abandoned. What was uploaded elsewhere stays there.
#[utoipa::path(
    delete, path = "/v1/backups/{id}", operation_id = "delete_backup", tag = "backups",
    params(("id" = String, Path, description = "Id of the backup.")),
    responses(
        (status = 200, description = "It is gone.", body = BackupRecord, example = json!({
            "id": "monday", "state": "ready", "path": "/workspace",
            "contents": {"files": 2, "directories": 1, "symlinks": 0, "bytes": 120, "skipped": 0},
            "size": 310, "stored": true, "created_at": "2026-01-01T00:00:00Z"
        })),
        BackupProblems,
    )
)]
pub(crate) async fn delete(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<BackupRecord>, ApiError> {
    let delete = async move { agent.backups.delete(&id).await };
    Ok(axum::Json(to_the_end(delete).await??))
}

/// Restore a backup.
///
/// The directory is replaced by what was saved, all of it or nothing: the archive is unpacked beside
/// the directory and checked against its SHA-256 before the two change places. With
/// `Accept: text/event-stream`: `progress` events, then `restored`, or `error` with a problem.
#[utoipa::path(
    post, path = "/v1/backups/{id}/restore", operation_id = "restore_backup", tag = "backups",
    params(
        ("id" = String, Path, description = "Id of the backup."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes."),
    ),
    request_body(content = Option<RestoreRequest>, description = "May be left out: restores to where it was made from."),
    responses(
        (status = 200, description = "It is restored.", content(
            (RestoreReply = "application/json", example = json!({
                "path": "/workspace",
                "contents": {"files": 2, "directories": 1, "symlinks": 0, "bytes": 120, "skipped": 0}
            })),
            (RestoreEvents = "text/event-stream", example = json!({
                "event": "progress", "id": "1",
                "data": r#"{"stage":"unpacking","files":64,"bytes":4096,"archive_bytes":0}"#
            })),
        )),
        RestoreProblems,
    )
)]
pub(crate) async fn restore(
    State(agent): AgentState,
    Path(id): Path<String>,
    headers: HeaderMap,
    OptionalJson(request): OptionalJson<RestoreRequest>,
) -> Result<Response, ApiError> {
    let mut task = agent.backups.restore(&id, request)?;
    if sse::wanted(&headers) {
        return Ok(events(&agent, task, "restored"));
    }
    Ok(axum::Json(task.outcome().await?).into_response())
}

/// The progress of a task as events, and its result as the last one.
struct Feed<T> {
    task: Task<T>,
    /// The name of the last event.
    last: &'static str,
    shutdown: CancellationToken,
    keep_alive: Interval,
    next_at: Instant,
    sent: u64,
}

fn events<T>(agent: &Agent, task: Task<T>, last: &'static str) -> Response
where
    T: Serialize + Clone + Send + Sync + 'static,
{
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let feed = Feed {
        task,
        last,
        shutdown: agent.shutdown.clone(),
        keep_alive,
        next_at: Instant::now(),
        sent: 0,
    };
    let start = stream::iter([Ok::<_, serde_json::Error>(sse::preamble())]);
    let rest = stream::try_unfold(Some(feed), |feed| async move {
        match feed {
            Some(feed) => feed.next().await,
            None => Ok(None),
        }
    });
    sse::response(Body::from_stream(futures_util::StreamExt::chain(
        start, rest,
    )))
}

impl<T: Serialize + Clone + Send + Sync> Feed<T> {
    async fn next(mut self) -> Result<Option<(Bytes, Option<Self>)>, serde_json::Error> {
        let mut waiting = self.task.clone();
        let progress = async {
            tokio::time::sleep_until(self.next_at).await;
            self.task.progressed().await
        };
        let progress: BackupProgress = tokio::select! {
            biased;
            outcome = waiting.outcome() => {
                return self.end(outcome).map(|event| Some((event, None)));
            }
            () = self.shutdown.cancelled() => return Ok(None),
            progress = progress => progress,
            _ = self.keep_alive.tick() => {
                let comment = Bytes::from_static(sse::KEEP_ALIVE.as_bytes());
                return Ok(Some((comment, Some(self))));
            }
        };
        self.next_at = Instant::now() + PROGRESS_EVERY;
        self.sent += 1;
        let event = sse::event("progress", Some(self.sent), &progress)?;
        Ok(Some((event, Some(self))))
    }

    fn end(&self, outcome: Result<T, BackupError>) -> Result<Bytes, serde_json::Error> {
        let id = Some(self.sent + 1);
        match outcome {
            Ok(value) => sse::event(self.last, id, &value),
            Err(error) => sse::event("error", id, &ApiError::from(error).into_problem()),
        }
    }
}
