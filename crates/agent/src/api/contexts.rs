//! `/v1/contexts`: code interpreters that keep their state.

mod events;

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use sandshell_contexts::{ContextError, ContextHandle, RunHandle};
use sandshell_types::{
    ContextInterruptReply, ContextRecord, ContextRequest, Encoding, KillReply, List, RunEnd,
    RunError, RunOutput, RunReply, RunRequest, RunResult, RunStarted, Truncated,
};

use super::document::events::event_union;
use super::document::{ContextProblems, ContextReadProblems, ContextStartProblems};
use super::paging::{PageQuery, page};
use super::{AgentState, Answer, Nothing, OptionalTicket, created};
use crate::Agent;
use crate::extract::{Json, OptionalJson, Path, Query};
use crate::problem::ApiError;
use crate::server::to_the_end;
use crate::sse;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::create, self::list;
        self::get, self::delete;
        self::run;
        self::interrupt;
        self::restart;
    }
}

/// Create a code context.
///
/// An interpreter that keeps variables, functions and imports from run to run. Creating an existing
/// id again gives the same context when the spec is the same.
#[utoipa::path(
    post, path = "/v1/contexts", operation_id = "create_context", tag = "contexts",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = ContextRequest,
    responses(
        (status = 201, description = "It was made.", body = ContextRecord, example = json!({
            "id": "calc", "language": "python", "kernel": "builtin", "interpreter": "Python 3.11.2",
            "state": "idle", "cwd": "/", "pid": 12, "execution_count": 0, "queue_length": 0,
            "restarts": 0, "created_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "It was there already.", body = ContextRecord),
        ContextStartProblems,
    )
)]
pub(crate) async fn create(
    State(agent): AgentState,
    Json(request): Json<ContextRequest>,
) -> Result<Response, ApiError> {
    let create = async move { agent.contexts.create(request).await };
    let (context, now) = to_the_end(create).await??;
    Ok(created(now, context.record()))
}

/// List code contexts, oldest first.
///
/// Those whose interpreter has ended stay listed until they are deleted.
#[utoipa::path(
    get, path = "/v1/contexts", operation_id = "list_contexts", tag = "contexts",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<ContextRecord>, example = json!({"items": []})),
        ContextReadProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<ContextRecord>>, ApiError> {
    page(
        agent.contexts.all(),
        &query,
        |context| context.id().as_str(),
        ContextHandle::record,
    )
    .map(axum::Json)
}

/// Get a code context.
///
/// Its state, its interpreter, and how many runs wait.
#[utoipa::path(
    get, path = "/v1/contexts/{id}", operation_id = "get_context", tag = "contexts",
    params(("id" = String, Path, description = "Id of the context.")),
    responses(
        (status = 200, description = "The context.", body = ContextRecord, example = json!({
            "id": "calc", "language": "python", "kernel": "builtin", "interpreter": "Python 3.11.2",
            "state": "busy", "cwd": "/", "pid": 12, "execution_count": 3, "queue_length": 1,
            "restarts": 0, "created_at": "2026-01-01T00:00:00Z"
        })),
        ContextReadProblems,
    )
)]
pub(crate) async fn get(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<ContextRecord>, ApiError> {
    Ok(axum::Json(agent.contexts.get(&id)?.record()))
}

/// End a code context and all it started.
///
/// Answers when nothing of it is left. Runs in it end as interrupted.
#[utoipa::path(
    delete, path = "/v1/contexts/{id}", operation_id = "delete_context", tag = "contexts",
    params(("id" = String, Path, description = "Id of the context.")),
    responses(
        (status = 200, description = "It is gone.", body = KillReply,
            example = json!({"method": "cgroup_kill", "killed": 1, "survivors": []})),
        ContextReadProblems,
    )
)]
pub(crate) async fn delete(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<KillReply>, ApiError> {
    let delete = async move { agent.contexts.delete(&id).await };
    Ok(axum::Json(to_the_end(delete).await??))
}

event_union! {
    /// A run: `started` when its turn has come, `end` always last.
    RunEvents:
        "started" => RunStarted, "stdout" => RunOutput, "stderr" => RunOutput,
        "truncated" => Truncated, "result" => RunResult, "error" => RunError, "end" => RunEnd;
}

/// Run code in a context.
///
/// One run at a time, in order of arrival. With `Accept: text/event-stream` the answer is live:
/// `started`, then `stdout`, `stderr`, `truncated`, `result` and `error` as they come, at last `end`.
/// Else it comes when the run is over. The run goes on when its client goes away.
#[utoipa::path(
    post, path = "/v1/contexts/{id}/run", operation_id = "run_code", tag = "contexts",
    params(
        ("id" = String, Path, description = "Id of the context."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes."),
    ),
    request_body = RunRequest,
    responses(
        (status = 200, description = "The run.", content(
            (RunReply = "application/json", example = json!({
                "run_id": "run_1", "stdout": "", "stdout_encoding": "utf8", "stderr": "",
                "stderr_encoding": "utf8",
                "results": [{"is_main": true, "data": {"text/plain": "21"}}],
                "status": "ok", "execution_count": 1, "duration_ms": 1, "context": "kept"
            })),
            (RunEvents = "text/event-stream", example = json!({
                "event": "result", "id": "2", "data": r#"{"is_main":true,"data":{"text/plain":"21"}}"#
            })),
        )),
        ContextProblems,
    )
)]
pub(crate) async fn run(
    State(agent): AgentState,
    Path(id): Path<String>,
    headers: HeaderMap,
    ticket: OptionalTicket,
    Json(request): Json<RunRequest>,
) -> Result<Response, ApiError> {
    let context = agent.contexts.get(&id)?;
    let encoding = request.encoding;
    let queue = async move {
        let run = context.run(request)?;
        if let Some(Extension(ticket)) = ticket {
            ticket.answer(Answer::Run(run.clone(), encoding));
        }
        Ok::<_, ContextError>(run)
    };
    let run = to_the_end(queue).await??;
    answer(&agent, &run, encoding, &headers).await
}

/// A run, as JSON or as events from its start.
pub(super) async fn answer(
    agent: &Agent,
    run: &RunHandle,
    encoding: Encoding,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    if sse::wanted(headers) {
        return Ok(events::events(agent, run, encoding));
    }
    Ok(axum::Json(run.reply().await?).into_response())
}

/// Interrupt the run of a context.
///
/// The answer comes when the run is really over, and says whether the state was kept. Runs that wait
/// are not touched.
#[utoipa::path(
    post, path = "/v1/contexts/{id}/interrupt", operation_id = "interrupt_context", tag = "contexts",
    params(("id" = String, Path, description = "Id of the context.")),
    responses(
        (status = 200, description = "What became of it.", body = ContextInterruptReply, example = json!({
            "run_id": "run_3", "outcome": "kept", "context": {
                "id": "calc", "language": "python", "kernel": "builtin",
                "interpreter": "Python 3.11.2", "state": "idle", "cwd": "/", "pid": 12,
                "execution_count": 3, "queue_length": 0, "restarts": 0,
                "created_at": "2026-01-01T00:00:00Z"
            }
        })),
        ContextProblems,
    )
)]
pub(crate) async fn interrupt(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<ContextInterruptReply>, ApiError> {
    let context = agent.contexts.get(&id)?;
    let interrupt = async move { context.interrupt().await };
    Ok(axum::Json(to_the_end(interrupt).await?))
}

/// Restart a context.
///
/// A fresh interpreter takes the place of the present one, with all its state gone. The present run
/// and those that wait end as interrupted.
#[utoipa::path(
    post, path = "/v1/contexts/{id}/restart", operation_id = "restart_context", tag = "contexts",
    params(("id" = String, Path, description = "Id of the context.")),
    responses(
        (status = 200, description = "The context with its fresh interpreter.", body = ContextRecord,
            example = json!({
                "id": "calc", "language": "python", "kernel": "builtin",
                "interpreter": "Python 3.11.2", "state": "idle", "cwd": "/", "pid": 14,
                "execution_count": 0, "queue_length": 0, "restarts": 1,
                "created_at": "2026-01-01T00:00:00Z"
            })),
        ContextProblems,
    )
)]
pub(crate) async fn restart(
    State(agent): AgentState,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<ContextRecord>, ApiError> {
    let context = agent.contexts.get(&id)?;
    let restart = async move { context.restart().await };
    Ok(axum::Json(to_the_end(restart).await??))
}
