//! `/v1/sessions`: persistent shells and their commands.

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use sandshell_exec::{CommandHandle, ExecError, SessionHandle};
use sandshell_types::{
    CommandEvent, CommandRecord, Encoding, ForkRequest, InterruptReply, KillReply, List,
    OnDisconnect, OutputEvent, SessionExecRequest, SessionExecResult, SessionExitEvent,
    SessionPatch, SessionRecord, SessionRequest, TruncatedEvent,
};

use super::document::events::event_union;
use super::document::{ChangeProblems, OutputProblems, ReadProblems, StartProblems};
use super::output::{self, Guard, OutputEvents, OutputQuery, RawBytes, Source};
use super::paging::{PageQuery, page};
use super::{AgentState, Answer, Nothing, OptionalTicket, created};
use crate::Agent;
use crate::extract::{Json, OptionalJson, Path, Query};
use crate::problem::ApiError;
use crate::server::to_the_end;
use crate::sse;
use sandshell_sys::task;

/// Create a session.
///
/// A shell that keeps its directory, variables, functions, aliases, options and traps from command to
/// command. Creating an existing id again gives the same session when the spec is the same.
#[utoipa::path(
    post, path = "/v1/sessions", operation_id = "create_session", tag = "sessions",
    request_body(content = Option<SessionRequest>, description = "May be left out: all has defaults.",
        example = json!({"id": "work", "cwd": "/tmp", "env": {"EDITOR": "true"}})),
    responses(
        (status = 201, description = "It was made.", body = SessionRecord, example = json!({
            "id": "work", "state": "idle", "cwd": "/tmp", "shell": "/bin/bash", "pid": 7,
            "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0
        })),
        (status = 200, description = "It was there already.", body = SessionRecord),
        StartProblems,
    )
)]
pub(crate) async fn create(
    State(agent): AgentState,
    OptionalJson(request): OptionalJson<SessionRequest>,
) -> Result<Response, ApiError> {
    let create = async move { agent.executor.create_session(request).await };
    let (session, now) = to_the_end(create).await??;
    Ok(created(now, session.record()))
}

/// List sessions, oldest first.
///
/// Those that live, and those that ended by themselves lately.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<SessionRecord>, example = json!({"items": []})),
        ReadProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<SessionRecord>>, ApiError> {
    page(
        agent.executor.sessions(),
        &query,
        |s| s.id().as_str(),
        SessionHandle::record,
    )
    .map(axum::Json)
}

/// Get a session, with what it uses and runs.
///
/// `foreground` is the command that runs now; `stats` counts what the session and its children use.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "get_session", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")),
    responses(
        (status = 200, description = "The session.", body = SessionRecord, example = json!({
            "id": "work", "state": "idle", "cwd": "/tmp", "shell": "/bin/bash", "pid": 7,
            "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0,
            "stats": {"processes": 1, "memory_bytes": 3_145_728, "cpu_ms": 4, "commands": 2}
        })),
        ReadProblems,
    )
)]
pub(crate) async fn get(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<SessionRecord>, ApiError> {
    Ok(axum::Json(
        agent.executor.session(&id)?.detailed_record().await,
    ))
}

/// Change a session.
///
/// Fields that are left out stay as they are. A variable set to null is unset.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}", operation_id = "update_session", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")),
    request_body(content = SessionPatch, description = "What is to change.",
        example = json!({"env": {"EDITOR": null}, "timeout_ms": 60_000})),
    responses(
        (status = 200, description = "The session.", body = SessionRecord, example = json!({
            "id": "work", "state": "idle", "cwd": "/tmp", "shell": "/bin/bash", "pid": 7,
            "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0
        })),
        ChangeProblems,
    )
)]
pub(crate) async fn patch(
    State(agent): AgentState,
    Path(id): Path<String>,
    Json(patch): Json<SessionPatch>,
) -> Result<axum::Json<SessionRecord>, ApiError> {
    let session = agent.executor.session(&id)?;
    Ok(axum::Json(
        to_the_end(async move { session.patch(patch).await }).await??,
    ))
}

/// End a session and all it runs.
///
/// When the answer comes its whole tree is gone, and the id is free again.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "delete_session", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")),
    responses(
        (status = 200, description = "It is gone.", body = KillReply,
            example = json!({"method": "cgroup_kill", "killed": 1, "survivors": []})),
        ReadProblems,
    )
)]
pub(crate) async fn end(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<KillReply>, ApiError> {
    let end = async move { agent.executor.end_session(&id).await };
    Ok(axum::Json(to_the_end(end).await??))
}

event_union! {
    /// A streamed exec in a session: `command` first, `exit` last.
    SessionExecEvents:
        "command" => CommandEvent, "output" => OutputEvent, "truncated" => TruncatedEvent,
        "exit" => SessionExitEvent;
}

/// Run a command in a session.
///
/// One at a time, in order of arrival. With `Accept: text/event-stream` the answer is live: first
/// `command` with the id, then `output` and `truncated`, at last `exit` with all of the result but
/// the output.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/exec", operation_id = "exec_in_session", tag = "sessions",
    params(
        ("id" = String, Path, description = "Id of the session."),
    ),
    request_body(content = SessionExecRequest, description = "What to run.",
        example = json!({"command": "cd /tmp && make", "timeout_ms": 60_000})),
    responses(
        (status = 200, description = "The result.", content(
            (SessionExecResult = "application/json", example = json!({
                "command_id": "cmd_0198c0de", "exit_code": 0, "stdout": "", "stderr": "",
                "stdout_encoding": "utf8", "stderr_encoding": "utf8", "duration_ms": 1,
                "timed_out": false, "interrupted": false, "left_running": 0, "cwd": "/tmp",
                "session_state": "kept"
            })),
            (SessionExecEvents = "text/event-stream", example = json!({
                "event": "command", "data": r#"{"command_id":"cmd_0198c0de"}"#
            })),
        )),
        StartProblems,
    )
)]
pub(crate) async fn exec(
    State(agent): AgentState,
    Path(id): Path<String>,
    headers: HeaderMap,
    ticket: OptionalTicket,
    Json(request): Json<SessionExecRequest>,
) -> Result<Response, ApiError> {
    let session = agent.executor.session(&id)?;
    let encoding = request.encoding;
    let kill = request.on_disconnect == OnDisconnect::Kill;
    let queue = async move {
        let (command, _) = session.exec(request)?;
        if let Some(Extension(ticket)) = ticket {
            ticket.answer(Answer::Command(command.clone(), encoding));
        }
        Ok::<_, ExecError>(InterruptGuard {
            command,
            armed: kill,
        })
    };
    let guard = to_the_end(queue).await??;
    result(
        &agent,
        guard.command.clone(),
        encoding,
        &headers,
        Some(guard),
    )
    .await
}

/// The result of a command, as JSON or as events from its start.
pub(super) async fn result(
    agent: &Agent,
    command: CommandHandle,
    encoding: Encoding,
    headers: &HeaderMap,
    guard: Option<InterruptGuard>,
) -> Result<Response, ApiError> {
    if sse::wanted(headers) {
        let event = CommandEvent {
            command_id: command.id().clone(),
        };
        let first = sse::event("command", None, &event)
            .map_err(|error| ApiError::internal("an event cannot be written", &error))?;
        let query = OutputQuery::with_encoding(encoding);
        let source = Source::CommandResult(command, encoding);
        return output::events(agent, source, 0, &query, Some(first), guard);
    }
    let result = command.result(encoding).await;
    let mut guard = guard;
    guard.over();
    Ok(axum::Json(result?).into_response())
}

/// Interrupts a command when its client goes away, if it asked for that.
pub(super) struct InterruptGuard {
    command: CommandHandle,
    armed: bool,
}

impl Guard for Option<InterruptGuard> {
    fn over(&mut self) {
        if let Some(guard) = self {
            guard.armed = false;
        }
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        if self.armed {
            let command = self.command.clone();
            task::spawn(async move { command.interrupt().await });
        }
    }
}

/// Interrupt the command that runs.
///
/// The answer comes when the command is really over. The session keeps its state.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interrupt", operation_id = "interrupt_session", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")),
    responses(
        (status = 200, description = "What it took.", body = InterruptReply, example = json!({
            "command_id": "cmd_0198c0de", "method": "int", "session": {
                "id": "work", "state": "idle", "cwd": "/tmp", "shell": "/bin/bash", "pid": 7,
                "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0
            }
        })),
        ChangeProblems,
    )
)]
pub(crate) async fn interrupt(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<InterruptReply>, ApiError> {
    let session = agent.executor.session(&id)?;
    Ok(axum::Json(
        to_the_end(async move { session.interrupt().await }).await??,
    ))
}

/// Make a session with a copy of this one's state.
///
/// Directory, variables, functions, aliases and options are copied; what runs is not.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/fork", operation_id = "fork_session", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session to copy.")),
    request_body(content = Option<ForkRequest>, description = "May be left out.",
        example = json!({"id": "copy"})),
    responses(
        (status = 201, description = "The new session.", body = SessionRecord, example = json!({
            "id": "copy", "state": "idle", "cwd": "/tmp", "shell": "/bin/bash", "pid": 9,
            "created_at": "2026-01-01T00:00:00Z", "queue_length": 0, "restores": 0
        })),
        (status = 200, description = "It was there already.", body = SessionRecord),
        StartProblems,
    )
)]
pub(crate) async fn fork(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(request): OptionalJson<ForkRequest>,
) -> Result<Response, ApiError> {
    let executor = agent.executor.clone();
    let (copy, now) =
        to_the_end(async move { executor.fork_session(&id, request).await }).await??;
    Ok(created(now, copy.record()))
}

/// List the commands of a session, oldest first.
///
/// Those that wait, the one that runs, and the last thousand that ended.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands", operation_id = "list_commands", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session."), PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<CommandRecord>, example = json!({"items": []})),
        ReadProblems,
    )
)]
pub(crate) async fn commands(
    State(agent): AgentState,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<CommandRecord>>, ApiError> {
    let commands = agent.executor.session(&id)?.commands();
    page(commands, &query, |c| c.id().as_str(), CommandHandle::record).map(axum::Json)
}

/// Get a command.
///
/// Its text, its state, and how it ended once it has.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands/{command_id}", operation_id = "get_command", tag = "sessions",
    params(
        ("id" = String, Path, description = "Id of the session."),
        ("command_id" = String, Path, description = "Id of the command."),
    ),
    responses(
        (status = 200, description = "The command.", body = CommandRecord, example = json!({
            "id": "cmd_0198c0de", "command": "make", "state": "running",
            "queued_at": "2026-01-01T00:00:00Z", "started_at": "2026-01-01T00:00:00Z",
            "timed_out": false, "interrupted": false, "stdout_bytes": 10, "stderr_bytes": 0,
            "late_bytes": 0
        })),
        ReadProblems,
    )
)]
pub(crate) async fn command(
    State(agent): AgentState,
    Path((id, command_id)): Path<(String, String)>,
) -> Result<axum::Json<CommandRecord>, ApiError> {
    Ok(axum::Json(
        agent.executor.session(&id)?.command(&command_id)?.record(),
    ))
}

/// Read the output of a command.
///
/// As for a process; also the late streams: what children left behind wrote after the end.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands/{command_id}/output",
    operation_id = "read_command_output", tag = "sessions",
    params(
        ("id" = String, Path, description = "Id of the session."),
        ("command_id" = String, Path, description = "Id of the command."),
        OutputQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes events after this one."),
    ),
    responses(
        (status = 200, description = "The output.", content(
            (RawBytes = "application/octet-stream", example = json!("hello\n")),
            (OutputEvents = "text/event-stream", example = json!({
                "event": "output", "id": "6",
                "data": r#"{"stream":"stderr","offset":0,"data":"oops\n","encoding":"utf8","at":"2026-01-01T00:00:00Z"}"#
            })),
        )),
        OutputProblems,
    )
)]
pub(crate) async fn command_output(
    State(agent): AgentState,
    Path((id, command_id)): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let command = agent.executor.session(&id)?.command(&command_id)?;
    output::respond(&agent, Source::Command(command), &query, &headers)
}
