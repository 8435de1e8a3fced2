//! `/v1/files/find` and `/v1/files/search`: files by name, and lines in files.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::HeaderMap;
use sandshell_files::{FileError, Find, Named, Search, Stop};
use sandshell_sys::task;
use sandshell_types::{
    FindReply, FindRequest, Problem, SearchMatch, SearchReply, SearchRequest, SearchSummary,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::AgentState;
use super::document::SearchProblems;
use super::document::events::event_union;
use crate::Agent;
use crate::extract::Json;
use crate::problem::ApiError;
use crate::sse;

/// Time for a call that does not say.
const TIME: Duration = Duration::from_mins(1);

/// Matches that may wait for their reader; with its context each may have some MiB.
const WAITING: usize = 8;

/// Finds, searches and archives at a time; further ones wait. Fewer than there are inside threads, so
/// that slow clients of these do not keep short calls waiting.
pub(super) static LONG_WORK: Semaphore = Semaphore::const_new(32);

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::find;
        self::search;
    }
}

/// What ends the work, and what ends it when it is dropped.
fn stop_with_client(agent: &Agent, timeout_ms: Option<u64>) -> (Stop, DropGuard) {
    let cancelled = agent.shutdown.child_token();
    let time = timeout_ms.map_or(TIME, Duration::from_millis);
    let stop = Stop::new(cancelled.clone(), Some(time));
    (stop, CancellationToken::drop_guard(cancelled))
}

/// Find files by name.
///
/// Walks a directory without following links and answers with the entries whose names or paths match
/// one of the globs.
#[utoipa::path(
    post, path = "/v1/files/find", operation_id = "find_files", tag = "files",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = FindRequest,
    responses(
        (status = 200, description = "What was found.", body = FindReply, example = json!({
            "items": [{"name": "main.rs", "path": "/src/main.rs", "kind": "file", "size": 120,
                "mode": "0644", "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
                "modified_at": "2026-01-01T00:00:00Z"}],
            "truncated": false, "timed_out": false, "unreadable": 0
        })),
        SearchProblems,
    )
)]
pub(crate) async fn find(
    State(agent): AgentState,
    Json(request): Json<FindRequest>,
) -> Result<axum::Json<FindReply>, ApiError> {
    let who = agent.executor.who(request.user.as_deref())?;
    let start = Named {
        field: "path",
        text: request.path.as_deref(),
        base64: request.path_base64.as_deref(),
        session: request.session.as_ref(),
    }
    .path(&agent.executor)?;
    let find = Find::new(start, &request)?;
    let _slot = LONG_WORK.acquire().await;
    let (stop, _guard) = stop_with_client(&agent, request.timeout_ms);
    let found = agent
        .executor
        .inside()
        .run(&who, move |root| find.run(root, &stop));
    Ok(axum::Json(found.await.map_err(FileError::from)??))
}

event_union! {
    /// A search: its matches as they are found, then `done` or `error`.
    SearchEvents: "match" => SearchMatch, "done" => SearchSummary, "error" => Problem;
}

/// Search in files.
///
/// Matches a pattern against every line of the files below a directory, by default without those that
/// .gitignore files exclude, hidden ones and binary ones. With `Accept: text/event-stream` each match
/// is an event as soon as it is found, and `done` with the summary is the last.
#[utoipa::path(
    post, path = "/v1/files/search", operation_id = "search_files", tag = "files",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = SearchRequest,
    responses(
        (status = 200, description = "What was found.", content(
            (SearchReply = "application/json", example = json!({
                "matches": [{"path": "/src/main.rs", "line": 1, "offset": 0,
                    "spans": [{"start": 0, "end": 7}], "text": "fn main() {", "text_encoding": "utf8"}],
                "summary": {"matched_lines": 1, "matched_files": 1, "searched_files": 1,
                    "binary_files": 0, "large_files": 0, "unreadable": 0, "truncated": false,
                    "timed_out": false}
            })),
            (SearchEvents = "text/event-stream", example = json!({
                "event": "match", "id": "1",
                "data": r#"{"path":"/src/main.rs","line":1,"offset":0,"spans":[{"start":0,"end":7}],"text":"fn main() {","text_encoding":"utf8"}"#
            })),
        )),
        SearchProblems,
    )
)]
pub(crate) async fn search(
    State(agent): AgentState,
    headers: HeaderMap,
    Json(request): Json<SearchRequest>,
) -> Result<Response, ApiError> {
    let who = agent.executor.who(request.user.as_deref())?;
    let start = Named {
        field: "path",
        text: request.path.as_deref(),
        base64: request.path_base64.as_deref(),
        session: request.session.as_ref(),
    }
    .path(&agent.executor)?;
    let search = Search::new(start, &request)?;
    let slot = LONG_WORK.acquire().await;
    let (stop, guard) = stop_with_client(&agent, request.timeout_ms);
    let streamed = sse::wanted(&headers);
    let room = search.room(streamed);
    let (found, mut matches) = mpsc::channel(WAITING);
    let inside = agent.executor.inside().clone();
    let work = task::spawn(async move {
        let job = inside.run(&who, move |root| search.run(root, &stop, found, room));
        let done = job.await.map_err(FileError::from)?;
        drop(slot);
        done
    });
    if streamed {
        // The first event, or the failure that comes instead of one, decides the answer.
        if let Some(first) = matches.recv().await {
            return Ok(events(Some(first), matches, work, guard));
        }
        let summary = finished(work).await?;
        let done = stream::iter([Ok(sse::preamble()), sse::event("done", Some(0), &summary)]);
        return Ok(sse::response(Body::from_stream(done)));
    }
    let mut reply = SearchReply::default();
    while let Some(found) = matches.recv().await {
        reply.matches.push(found);
    }
    reply.summary = finished(work).await?;
    drop(guard);
    Ok(axum::Json(reply).into_response())
}

type Work = JoinHandle<Result<SearchSummary, FileError>>;

async fn finished(work: Work) -> Result<SearchSummary, ApiError> {
    let done = work
        .await
        .map_err(|error| ApiError::internal("a search broke off", &error))?;
    Ok(done?)
}

/// The matches as events, and the summary or the failure as the last one.
fn events(
    first: Option<SearchMatch>,
    matches: mpsc::Receiver<SearchMatch>,
    work: Work,
    guard: DropGuard,
) -> Response {
    let start = stream::iter([Ok::<_, serde_json::Error>(sse::preamble())]);
    let state = Some((first, matches, work, guard, 0_u64));
    let rest = stream::try_unfold(state, |state| async move {
        let Some((first, mut matches, work, guard, sent)) = state else {
            return Ok(None);
        };
        let found = match first {
            Some(first) => Some(first),
            None => matches.recv().await,
        };
        let (event, state): (Bytes, _) = match found {
            Some(found) => {
                let event = sse::event("match", Some(sent + 1), &found)?;
                (event, Some((None, matches, work, guard, sent + 1)))
            }
            None => match finished(work).await {
                Ok(summary) => (sse::event("done", Some(sent), &summary)?, None),
                Err(error) => (sse::event("error", None, &error.into_problem())?, None),
            },
        };
        Ok(Some((event, state)))
    });
    let body = futures_util::StreamExt::chain(start, rest);
    sse::response(Body::from_stream(body))
}
