//! `/v1/files` and `/v1/files/stat`: what is there.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use sandshell_files::{ListSpec, Listing, Named, StatSpec};
use sandshell_types::{ErrorCode, FileEntry, List, SessionId};
use serde::Deserialize;

use super::run;
use crate::api::AgentState;
use crate::api::document::FileReadProblems;
use crate::extract::Query;
use crate::problem::ApiError;

const DEFAULT_LIMIT: usize = 1000;
const MAX_LIMIT: usize = 10_000;
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Query of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The directory; the one relative paths start at by default.
    path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    path_base64: Option<String>,
    /// Also what is in its directories; false by default. Symbolic links are not followed.
    recursive: Option<bool>,
    /// Also names that begin with a dot; true by default.
    hidden: Option<bool>,
    /// Most items in the page: 1 to 10000, 1000 by default.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    user: Option<String>,
    /// Relative paths start at this session's directory, else at the sandbox's.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
}

/// List a directory.
///
/// In the order of the names' bytes; what is in a directory comes right after it. With `Accept:
/// application/x-ndjson` all entries come in one stream, one on each line, without pages.
#[utoipa::path(
    get, path = "/v1/files", operation_id = "list_files", tag = "files",
    params(ListQuery),
    responses(
        (status = 200, description = "A page, or all entries in lines.", content(
            (List<FileEntry> = "application/json", example = json!({"items": [{
                "name": "notes.txt", "path": "/workspace/notes.txt", "kind": "file", "size": 12,
                "mode": "0644", "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
                "modified_at": "2026-01-01T00:00:00Z"
            }]})),
            (FileEntry = "application/x-ndjson", example = json!({
                "name": "notes.txt", "path": "/workspace/notes.txt", "kind": "file", "size": 12,
                "mode": "0644", "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
                "modified_at": "2026-01-01T00:00:00Z"
            })),
        )),
        FileReadProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let here = query.path.is_none() && query.path_base64.is_none();
    let path = Named {
        field: "path",
        text: query.path.as_deref().or(here.then_some(".")),
        base64: query.path_base64.as_deref(),
        session: query.session.as_ref(),
    }
    .path(&agent.executor)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let spec = ListSpec {
        path,
        recursive: query.recursive.unwrap_or(false),
        hidden: query.hidden.unwrap_or(true),
    };
    if wants_lines(&headers) {
        let paged = query.limit.map(|_| "/limit");
        if let Some(pointer) = paged.or(query.cursor.as_ref().map(|_| "/cursor")) {
            let detail = "a list in lines has no pages";
            return Err(ApiError::new(ErrorCode::InvalidRequest, detail).pointer(pointer));
        }
        let listing = run(&agent, &who, move |root| Listing::open(root, spec)).await?;
        let inside = agent.executor.inside().clone();
        let body = Body::from_stream(sandshell_files::stream(inside, who, listing));
        return Ok(([(header::CONTENT_TYPE, LINES)], body).into_response());
    }
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let detail = format!("a page has 1 to {MAX_LIMIT} items, not {limit}");
        return Err(ApiError::new(ErrorCode::InvalidRequest, detail).pointer("/limit"));
    }
    let page: List<FileEntry> = run(&agent, &who, move |root| {
        sandshell_files::page(root, spec, limit, query.cursor.as_deref())
    })
    .await?;
    Ok(axum::Json(page).into_response())
}

fn wants_lines(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .flat_map(|accept| accept.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("application/x-ndjson"))
}

/// Query of a look at one path.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatQuery {
    /// The path.
    path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    path_base64: Option<String>,
    /// Follow a symbolic link at its end; true by default.
    follow: Option<bool>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    user: Option<String>,
    /// Relative paths start at this session's directory, else at the sandbox's.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
}

/// Look at one path.
///
/// What it is, its size, owner and times. A symbolic link is followed unless `follow` is false.
#[utoipa::path(
    get, path = "/v1/files/stat", operation_id = "stat_file", tag = "files",
    params(StatQuery),
    responses(
        (status = 200, description = "What is there.", body = FileEntry, example = json!({
            "name": "latest", "path": "/workspace/latest", "kind": "symlink", "size": 9, "mode": "0777",
            "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
            "modified_at": "2026-01-01T00:00:00Z", "link_target": "notes.txt"
        })),
        FileReadProblems,
    )
)]
pub(crate) async fn stat(
    State(agent): AgentState,
    Query(query): Query<StatQuery>,
) -> Result<axum::Json<FileEntry>, ApiError> {
    let path = Named {
        field: "path",
        text: query.path.as_deref(),
        base64: query.path_base64.as_deref(),
        session: query.session.as_ref(),
    }
    .path(&agent.executor)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let spec = StatSpec {
        path,
        follow: query.follow.unwrap_or(true),
    };
    let entry = run(&agent, &who, move |root| sandshell_files::stat(root, &spec)).await?;
    Ok(axum::Json(entry))
}
