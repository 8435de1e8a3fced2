//! `/v1/processes`: background processes.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use sandshell_exec::ProcessHandle;
use sandshell_types::{
    KillReply, KillRequest, List, ProcessKind, ProcessRecord, ProcessRequest, SessionId,
    SignalReply, SignalRequest, StdinReply, WaitReply, WaitRequest,
};
use serde::Deserialize;

use super::document::{ChangeProblems, OutputProblems, ReadProblems, StartProblems};
use super::output::{self, OutputEvents, OutputQuery, RawBytes, Source};
use super::paging::{PageQuery, page};
use super::{AgentState, Nothing, created};
use crate::extract::{Json, OptionalJson, Path, Query, next_data};
use crate::problem::ApiError;
use crate::server::to_the_end;

/// Time between TERM and KILL when none is given.
const GRACE: Duration = Duration::from_secs(5);

/// Start a process.
///
/// It runs on after the answer; its output, signals and end are under its id. Starting an existing
/// id again gives the same process when the spec is the same.
#[utoipa::path(
    post, path = "/v1/processes", operation_id = "start_process", tag = "processes",
    request_body(content = ProcessRequest, description = "What to run.", example = json!({
        "id": "web", "command": "python3 -m http.server 8000", "restart": {"mode": "on_failure"}
    })),
    responses(
        (status = 201, description = "It was started.", body = ProcessRecord, example = json!({
            "id": "web", "pid": 12, "state": "running", "kind": "process",
            "command": "python3 -m http.server 8000", "started_at": "2026-01-01T00:00:00Z",
            "timed_out": false, "restarts": 0, "stdout_bytes": 0, "stderr_bytes": 0
        })),
        (status = 200, description = "It was there already.", body = ProcessRecord),
        StartProblems,
    )
)]
pub(crate) async fn start(
    State(agent): AgentState,
    Json(request): Json<ProcessRequest>,
) -> Result<Response, ApiError> {
    let start = async move { agent.executor.start_process(request).await };
    let (process, now) = to_the_end(start).await??;
    Ok(created(now, process.record()))
}

/// Query of the list of processes.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProcessQuery {
    /// Which kind; `process` by default.
    #[param(inline)]
    kind: Option<ProcessKind>,
    /// Only those started from this session.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Most items in the page: 1 to 1000, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// List processes, oldest first.
///
/// Those that run and those that ended lately. Execs are listed only with `kind=exec`.
#[utoipa::path(
    get, path = "/v1/processes", operation_id = "list_processes", tag = "processes",
    params(ProcessQuery),
    responses(
        (status = 200, description = "A page.", body = List<ProcessRecord>, example = json!({"items": []})),
        ReadProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<ProcessQuery>,
) -> Result<axum::Json<List<ProcessRecord>>, ApiError> {
    let kind = query.kind.unwrap_or(ProcessKind::Process);
    let wanted = agent.executor.processes().into_iter().filter(|process| {
        process.kind() == kind
            && query
                .session
                .as_ref()
                .is_none_or(|id| process.record().session.as_ref() == Some(id))
    });
    let asked = PageQuery {
        limit: query.limit,
        cursor: query.cursor,
    };
    page(wanted, &asked, |p| p.id().as_str(), ProcessHandle::record).map(axum::Json)
}

/// Get a process.
///
/// Its state, and how it ended once it has. The record of an ended one is kept for a while.
#[utoipa::path(
    get, path = "/v1/processes/{id}", operation_id = "get_process", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    responses(
        (status = 200, description = "The process.", body = ProcessRecord, example = json!({
            "id": "web", "pid": 12, "state": "exited", "kind": "process",
            "command": "python3 -m http.server 8000", "started_at": "2026-01-01T00:00:00Z",
            "ended_at": "2026-01-01T00:01:00Z", "exit_code": 143, "signal": "SIGTERM",
            "timed_out": false, "restarts": 0, "stdout_bytes": 120, "stderr_bytes": 0
        })),
        ReadProblems,
    )
)]
pub(crate) async fn get(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<ProcessRecord>, ApiError> {
    Ok(axum::Json(agent.executor.process(&id)?.record()))
}

/// Kill a process and forget it.
///
/// The whole tree is killed at once, without grace. Afterwards the id is free again.
#[utoipa::path(
    delete, path = "/v1/processes/{id}", operation_id = "delete_process", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    responses(
        (status = 200, description = "It is gone.", body = KillReply,
            example = json!({"method": "cgroup_kill", "killed": 3, "survivors": []})),
        ReadProblems,
    )
)]
pub(crate) async fn forget(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<KillReply>, ApiError> {
    let forget = async move { agent.executor.forget_process(&id).await };
    Ok(axum::Json(to_the_end(forget).await??))
}

/// Read the output of a process.
///
/// Raw bytes of one stream, or with `Accept: text/event-stream` events of both in order of arrival:
/// `output`, `truncated` and, at the end of the process, `exit`. The `id` of an event resumes after
/// it. An event may come twice after a resume; its stream and offset tell.
#[utoipa::path(
    get, path = "/v1/processes/{id}/output", operation_id = "read_process_output", tag = "processes",
    params(
        ("id" = String, Path, description = "Id of the process."),
        OutputQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes events after this one."),
    ),
    responses(
        (status = 200, description = "The output.", content(
            (RawBytes = "application/octet-stream", example = json!("hello\n")),
            (OutputEvents = "text/event-stream", example = json!({
                "event": "output", "id": "6",
                "data": r#"{"stream":"stdout","offset":0,"data":"hello\n","encoding":"utf8","at":"2026-01-01T00:00:00Z"}"#
            })),
        )),
        OutputProblems,
    )
)]
pub(crate) async fn output(
    State(agent): AgentState,
    Path(id): Path<String>,
    Query(query): Query<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let process = agent.executor.process(&id)?;
    output::respond(&agent, Source::Process(process), &query, &headers)
}

/// Query of a stdin write.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StdinQuery {
    /// Bytes accepted before this write. A wrong one is refused, which makes a retry safe.
    offset: Option<u64>,
}

/// Write to the standard input.
///
/// The body is passed on as it arrives, without a limit; the answer comes when the last byte is
/// taken.
#[utoipa::path(
    post, path = "/v1/processes/{id}/stdin", operation_id = "write_stdin", tag = "processes",
    params(("id" = String, Path, description = "Id of the process."), StdinQuery),
    request_body(content = RawBytes, content_type = "application/octet-stream",
        description = "The bytes.", example = json!("hello\n")),
    responses(
        (status = 200, description = "All bytes are taken.", body = StdinReply, example = json!({"offset": 6})),
        ChangeProblems,
    )
)]
pub(crate) async fn write_stdin(
    State(agent): AgentState,
    Path(id): Path<String>,
    Query(query): Query<StdinQuery>,
    mut body: Body,
) -> Result<axum::Json<StdinReply>, ApiError> {
    let process = agent.executor.process(&id)?;
    let offset = feed(&process, query.offset, &mut body).await?;
    Ok(axum::Json(StdinReply { offset }))
}

/// Writes a body piece by piece; each piece says where it belongs, so that a repeat is known as one.
async fn feed(
    process: &ProcessHandle,
    start: Option<u64>,
    body: &mut Body,
) -> Result<u64, ApiError> {
    let first = next_data(body).await?.unwrap_or_else(Bytes::new);
    let mut next = start.map(|offset| offset + first.len() as u64);
    let mut offset = process.write_stdin(start, first).await?;
    while let Some(data) = next_data(body).await? {
        let length = data.len() as u64;
        offset = process.write_stdin(next, data).await?;
        next = next.map(|at| at + length);
    }
    Ok(offset)
}

/// Close the standard input.
///
/// The process reads an end of file after all that was written. Closing twice is no error.
#[utoipa::path(
    post, path = "/v1/processes/{id}/stdin/close", operation_id = "close_stdin", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    responses(
        (status = 200, description = "The process reads an end of file.", body = StdinReply,
            example = json!({"offset": 6})),
        ChangeProblems,
    )
)]
pub(crate) async fn close_stdin(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<StdinReply>, ApiError> {
    let offset = agent.executor.process(&id)?.close_stdin().await?;
    Ok(axum::Json(StdinReply { offset }))
}

/// Send a signal.
///
/// Any signal by name or number, to the process, its group or its whole tree.
#[utoipa::path(
    post, path = "/v1/processes/{id}/signal", operation_id = "signal_process", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    request_body(content = SignalRequest, description = "Which signal, and to whom.",
        example = json!({"signal": "HUP", "scope": "process"})),
    responses(
        (status = 200, description = "It was sent.", body = SignalReply, example = json!({"signalled": 1})),
        ChangeProblems,
    )
)]
pub(crate) async fn signal(
    State(agent): AgentState,
    Path(id): Path<String>,
    Json(request): Json<SignalRequest>,
) -> Result<axum::Json<SignalReply>, ApiError> {
    Ok(axum::Json(agent.executor.process(&id)?.signal(&request)?))
}

/// End a process and all that descends from it.
///
/// TERM, the grace time, then KILL. When the answer comes, the tree is gone; what could not be ended
/// is named. The record stays.
#[utoipa::path(
    post, path = "/v1/processes/{id}/kill", operation_id = "kill_process", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    request_body(content = Option<KillRequest>, description = "May be left out.",
        example = json!({"grace_ms": 2000})),
    responses(
        (status = 200, description = "How it was done.", body = KillReply,
            example = json!({"method": "term", "killed": 1, "survivors": []})),
        ChangeProblems,
    )
)]
pub(crate) async fn kill(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(request): OptionalJson<KillRequest>,
) -> Result<axum::Json<KillReply>, ApiError> {
    let process = agent.executor.process(&id)?;
    let grace = request.grace_ms.map_or(GRACE, Duration::from_millis);
    Ok(axum::Json(
        to_the_end(async move { process.kill(grace).await }).await?,
    ))
}

/// Wait for the end, a line of output, or a port.
///
/// The answer says which came first. A timeout is an answer too (`timed_out`), and a process that ends
/// before its line or port comes is one as well.
#[utoipa::path(
    post, path = "/v1/processes/{id}/wait", operation_id = "wait_for_process", tag = "processes",
    params(("id" = String, Path, description = "Id of the process.")),
    request_body(content = Option<WaitRequest>, description = "May be left out: waits for the end.",
        example = json!({"log": {"pattern": "listening on"}, "timeout_ms": 30_000})),
    responses(
        (status = 200, description = "What came first, a timeout included.", body = WaitReply, example = json!({
            "outcome": "log", "timed_out": false, "line": "listening on 8000", "process": {
                "id": "web", "pid": 12, "state": "running", "kind": "process",
                "started_at": "2026-01-01T00:00:00Z", "timed_out": false, "restarts": 0,
                "stdout_bytes": 18, "stderr_bytes": 0
            }
        })),
        ChangeProblems,
    )
)]
pub(crate) async fn wait(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(request): OptionalJson<WaitRequest>,
) -> Result<axum::Json<WaitReply>, ApiError> {
    Ok(axum::Json(
        agent.executor.process(&id)?.wait(request).await?,
    ))
}
