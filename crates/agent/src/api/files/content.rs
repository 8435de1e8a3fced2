//! `/v1/files/content`: bytes of a file, out and in.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use sandshell_files::{Content, Facts, Named, Wanted, WriteSpec, Written};
use sandshell_types::{ErrorCode, FileEntry, FileMode, SessionId, Timestamp};
use serde::Deserialize;

use super::conditions::{self, Conditions, Verdict, http_date};
use super::run;
use crate::Agent;
use crate::api::AgentState;
use crate::api::document::{FileContentProblems, FileWriteProblems};
use crate::api::output::RawBytes;
use crate::extract::{Query, next_data};
use crate::problem::ApiError;

/// A body up to this length is taken in before anything is done, and then written in one go.
const SMALL: u64 = 256 * 1024;

/// Query of a route that looks at one path.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContentQuery {
    /// The file.
    path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    path_base64: Option<String>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    user: Option<String>,
    /// Relative paths start at this session's directory, else at the sandbox's.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
}

/// Read a file.
///
/// The bytes of a regular file, streamed. `HEAD` gives the headers alone. A file that becomes
/// shorter while it is read breaks the answer off. Of several ranges none is taken: the whole file
/// comes.
#[utoipa::path(
    get, path = "/v1/files/content", operation_id = "read_file", tag = "files",
    params(
        ContentQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes: `bytes=0-99`, `bytes=100-`, `bytes=-50`."),
        ("If-Range" = Option<String>, Header, description = "Take the range only of this version (ETag or date)."),
        ("If-None-Match" = Option<String>, Header, description = "304 when the file has this ETag."),
        ("If-Modified-Since" = Option<String>, Header, description = "304 when the file has not changed since."),
        ("If-Match" = Option<String>, Header, description = "412 when the file does not have this ETag."),
        ("If-Unmodified-Since" = Option<String>, Header, description = "412 when the file has changed since."),
    ),
    responses(
        (status = 200, description = "All of it.", body = RawBytes, content_type = "application/octet-stream",
            headers(("ETag" = String, description = "Tells this content from any other."),
                    ("Last-Modified" = String, description = "When it was last changed.")),
            example = json!("hello\n")),
        (status = 206, description = "The range.", body = RawBytes, content_type = "application/octet-stream",
            headers(("Content-Range" = String, description = "Which bytes of how many."))),
        (status = 304, description = "It is what you have."),
        FileContentProblems,
    )
)]
pub(crate) async fn read(
    State(agent): AgentState,
    Query(query): Query<ContentQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let path = Named {
        field: "path",
        text: query.path.as_deref(),
        base64: query.path_base64.as_deref(),
        session: query.session.as_ref(),
    }
    .path(&agent.executor)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let conditions = Conditions::of(&headers);
    let decide = move |facts: &Facts| decide(&conditions, facts, &method);
    let content = run(&agent, &who, move |root| {
        sandshell_files::open(root, &path, decide)
    });
    let Content {
        head,
        length,
        first,
        rest,
    } = content.await?;
    let mut response = match head {
        Head::Refused(outside) => return Ok(*outside),
        Head::Good(response) => *response,
    };
    if let Some(length) = length {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = match rest {
        None => Body::from(first),
        Some(rest) => {
            let inside = agent.executor.inside().clone();
            let first = stream::iter([Ok(first)]);
            Body::from_stream(first.chain(sandshell_files::stream(inside, who, rest)))
        }
    };
    Ok(response)
}

/// The answer without its body.
enum Head {
    Good(Box<Response>),
    Refused(Box<Response>),
}

fn decide(conditions: &Conditions, facts: &Facts, method: &Method) -> Wanted<Head> {
    let mut response = Response::default();
    let headers = response.headers_mut();
    let octets = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, octets);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Whoever keeps it must ask whether it is still so.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    describe(headers, facts);
    match conditions.for_reading(facts) {
        Verdict::GoOn => {}
        Verdict::NotModified => {
            headers.remove(header::CONTENT_TYPE);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Wanted::Nothing(Head::Refused(Box::new(response)));
        }
        Verdict::Failed => {
            let mut refused = ApiError::new(
                ErrorCode::PreconditionFailed,
                "the file is not the version that was asked for",
            )
            .into_response();
            describe(refused.headers_mut(), facts);
            return Wanted::Nothing(Head::Refused(Box::new(refused)));
        }
    }
    if method == Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, facts.size.into());
        return Wanted::Nothing(Head::Good(Box::new(response)));
    }
    match conditions.bytes(facts) {
        conditions::Bytes::All => Wanted::All(Head::Good(Box::new(response))),
        conditions::Bytes::Part(range) => {
            let text = format!("bytes {}-{}/{}", range.start, range.end - 1, facts.size);
            insert(headers, header::CONTENT_RANGE, &text);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            Wanted::Part(Head::Good(Box::new(response)), range)
        }
        conditions::Bytes::Outside => {
            let mut refused = ApiError::new(
                ErrorCode::RangeNotSatisfiable,
                format!(
                    "the file has {} bytes, none of them in the range",
                    facts.size
                ),
            )
            .into_response();
            let text = format!("bytes */{}", facts.size);
            insert(refused.headers_mut(), header::CONTENT_RANGE, &text);
            Wanted::Nothing(Head::Refused(Box::new(refused)))
        }
    }
}

fn describe(headers: &mut HeaderMap, facts: &Facts) {
    insert(headers, header::ETAG, &facts.etag);
    if let Some(date) = http_date(facts.modified) {
        insert(headers, header::LAST_MODIFIED, &date);
    }
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Query of a write.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WriteQuery {
    /// The file. When a symbolic link is there, what it leads to is written.
    path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    path_base64: Option<String>,
    /// Make missing directories above it; true by default.
    parents: Option<bool>,
    /// Its permission bits in octal; by default those of the file that is there, else 0644.
    #[param(value_type = Option<String>)]
    mode: Option<FileMode>,
    /// Its time of modification (RFC 3339); now by default.
    #[param(value_type = Option<String>, format = DateTime)]
    modified_at: Option<Timestamp>,
    /// Answer only when file and directory are on the disk; false by default.
    durable: Option<bool>,
    /// Add to the end of the file that is there; false by default. Bytes of a broken-off request stay.
    append: Option<bool>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    user: Option<String>,
    /// Relative paths start at this session's directory, else at the sandbox's.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
}

/// Write a file.
///
/// The body becomes the file's content, in one step when it has arrived whole: whoever reads
/// meanwhile sees the old content or the new. A request that breaks off changes nothing.
#[utoipa::path(
    put, path = "/v1/files/content", operation_id = "write_file", tag = "files",
    params(
        WriteQuery,
        ("If-Match" = Option<String>, Header, description = "Only if the file has this ETag; `*`: only if there is one."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is none."),
        ("If-Unmodified-Since" = Option<String>, Header, description = "Only if it has not changed since."),
    ),
    request_body(content = RawBytes, content_type = "application/octet-stream",
        description = "The content, of any length.", example = json!("hello\n")),
    responses(
        (status = 201, description = "It was made.", body = FileEntry,
            headers(("ETag" = String, description = "Of the new content.")), example = json!({
            "name": "notes.txt", "path": "/workspace/notes.txt", "kind": "file", "size": 12, "mode": "0644",
            "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
            "modified_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "What was there was replaced.", body = FileEntry,
            headers(("ETag" = String, description = "Of the new content."))),
        FileWriteProblems,
    )
)]
pub(crate) async fn write(
    State(agent): AgentState,
    Query(query): Query<WriteQuery>,
    headers: HeaderMap,
    mut body: Body,
) -> Result<Response, ApiError> {
    let written = write_body(&agent, query, &headers, &mut body).await?;
    let status = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = (status, axum::Json(written.entry)).into_response();
    describe(response.headers_mut(), &written.facts);
    Ok(response)
}

async fn write_body(
    agent: &Agent,
    query: WriteQuery,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Written, ApiError> {
    if headers.contains_key(header::CONTENT_RANGE) {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "a part of a file cannot be written",
        )
        .hint("Send the whole file, or add to its end with append=true."));
    }
    let path = Named {
        field: "path",
        text: query.path.as_deref(),
        base64: query.path_base64.as_deref(),
        session: query.session.as_ref(),
    }
    .path(&agent.executor)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let conditions = Conditions::of(headers);
    let conditional = conditions.any_for_writing();
    let new_only = conditions.new_only();
    let append = query.append.unwrap_or(false);
    if append && query.modified_at.is_some() {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "bytes that are added are modified now",
        )
        .pointer("/modified_at"));
    }
    let small = body.size_hint().upper().is_some_and(|upper| upper <= SMALL);
    let spec = WriteSpec {
        path,
        parents: query.parents.unwrap_or(true),
        mode: query.mode,
        modified_at: query.modified_at,
        durable: query.durable.unwrap_or(false),
        append,
        new_only,
        condition: conditional.then(|| {
            let condition: sandshell_files::Condition =
                Arc::new(move |facts: Option<&Facts>| conditions.for_writing(facts));
            condition
        }),
        small: small && !headers.contains_key(header::EXPECT),
    };
    let pieces = std::pin::pin!(stream::try_unfold(body, |body| async move {
        let next = next_data(body).await?;
        Ok::<_, ApiError>(next.map(|data: Bytes| (data, body)))
    }));
    sandshell_files::write(agent.executor.inside(), &who, spec, pieces).await
}
