//! `/v1/files/watch` and `/v1/files/changes`: what changes below a path.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use sandshell_files::Named;
use sandshell_files::watch::{Told, Watch, WatchReader, WatchSpec, split_globs};
use sandshell_types::{
    ChangesReply, ChangesRequest, FileEvent, RescanEvent, SessionId, WatchEndEvent, WatchReadyEvent,
};
use serde::Deserialize;

use super::AgentState;
use super::document::WatchProblems;
use super::document::events::event_union;
use crate::Agent;
use crate::extract::{Json, Query};
use crate::problem::ApiError;
use crate::server::to_the_end;
use crate::sse;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::watch;
        self::changes;
    }
}

/// Query of a watch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WatchQuery {
    /// What to watch: a directory or a file.
    path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    path_base64: Option<String>,
    /// Also everything below. True by default.
    recursive: Option<bool>,
    /// Only files that match one of these globs, separated by commas.
    include: Option<String>,
    /// Nothing that matches one of these globs, nor anything below it.
    exclude: Option<String>,
    /// The `id` of the last event seen, or the version of an earlier answer. The header
    /// `Last-Event-ID` wins.
    from: Option<u64>,
    /// Relative paths start at this session's directory.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    user: Option<String>,
}

event_union! {
    /// A watch: `ready` first, then the changes; after `end` there is nothing more.
    WatchEvents:
        "ready" => WatchReadyEvent, "created" => FileEvent, "modified" => FileEvent,
        "removed" => FileEvent, "moved" => FileEvent, "attributes" => FileEvent,
        "rescan" => RescanEvent, "end" => WatchEndEvent;
}

/// Watch files.
///
/// Events: `ready` when every change is told from now on; `created`, `modified`, `removed`, `moved`,
/// `attributes`; `rescan` when some changes are missing and the directory is to be listed again; `end`
/// when what is watched is gone. The watch outlives the connection for 10 minutes, so that the same
/// request with the `id` of the last event goes on after it.
#[utoipa::path(
    get, path = "/v1/files/watch", operation_id = "watch_files", tag = "files",
    params(
        WatchQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes events after this one."),
    ),
    responses(
        (status = 200, description = "The events.", content(
            (WatchEvents = "text/event-stream", example = json!({
                "event": "moved", "id": "1767225600000012",
                "data": r#"{"change":"moved","path":"/workspace/b","from":"/workspace/a","directory":false,"at":"2026-01-01T00:00:00Z"}"#
            })),
        )),
        WatchProblems,
    )
)]
pub(crate) async fn watch(
    State(agent): AgentState,
    Query(query): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let from = sse::resume_from(&headers, query.from)?;
    let globs = |text: Option<String>| text.map(|text| split_globs(&text)).unwrap_or_default();
    let asked = ChangesRequest {
        path: query.path,
        path_base64: query.path_base64,
        recursive: query.recursive,
        include: globs(query.include),
        exclude: globs(query.exclude),
        since: None,
        session: query.session,
        user: query.user,
    };
    let (ready, reader) = open(&agent, asked).await?.reader(from);
    let first = sse::event("ready", Some(ready.version), &ready)
        .map_err(|error| ApiError::internal("an event cannot be written", &error))?;
    Ok(sse::live(first, reader, agent.shutdown.clone()))
}

/// Has anything changed since a version?
///
/// Everything that ended before the request is in the answer. The first question begins a watch, which
/// is kept for 10 minutes after the last one; a version of a watch that is gone gets `rescan`.
#[utoipa::path(
    post, path = "/v1/files/changes", operation_id = "check_changes", tag = "files",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = ChangesRequest,
    responses(
        (status = 200, description = "Whether something changed.", body = ChangesReply,
            example = json!({"status": "unchanged", "version": 1_767_225_600_000_012_u64})),
        WatchProblems,
    )
)]
pub(crate) async fn changes(
    State(agent): AgentState,
    Json(request): Json<ChangesRequest>,
) -> Result<axum::Json<ChangesReply>, ApiError> {
    let since = request.since;
    let watch = open(&agent, request).await?;
    Ok(axum::Json(watch.changes(since).await))
}

async fn open(agent: &Agent, asked: ChangesRequest) -> Result<Watch, ApiError> {
    let path = Named {
        field: "path",
        text: asked.path.as_deref(),
        base64: asked.path_base64.as_deref(),
        session: asked.session.as_ref(),
    }
    .path(&agent.executor)?;
    let spec = WatchSpec {
        path,
        recursive: asked.recursive.unwrap_or(true),
        include: asked.include,
        exclude: asked.exclude,
        user: asked.user,
    };
    // A client that leaves meanwhile leaves no half-made watch behind.
    let watches = agent.watches.clone();
    Ok(to_the_end(async move { watches.open(spec).await }).await??)
}

impl sse::Source for WatchReader {
    async fn next(&mut self) -> Option<Bytes> {
        let mut text = Vec::new();
        for (version, told) in WatchReader::next(self).await {
            let event = match &*told {
                Told::Change(event) => sse::event(event.change.as_str(), Some(version), event),
                Told::Rescan(reason) => {
                    let event = RescanEvent { reason: *reason };
                    sse::event("rescan", Some(version), &event)
                }
                Told::End(event) => sse::event("end", Some(version), event),
            };
            // A number or a text can always be written.
            text.extend_from_slice(&event.ok()?);
        }
        (!text.is_empty()).then(|| text.into())
    }
}
