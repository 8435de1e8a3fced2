//! `POST /v1/exec`: one command in, its result out.

use std::time::Duration;

use axum::extract::{Extension, State};
use sandshell_exec::{ExecError, ProcessHandle};
use sandshell_types::{Encoding, ExecRequest, ExecResult, OnDisconnect};

use super::document::StartProblems;
use super::{AgentState, Answer, OptionalTicket};
use crate::extract::Json;
use crate::problem::ApiError;
use crate::server::to_the_end;
use sandshell_sys::task;

/// Time between TERM and KILL when the client is gone; the same as the default of a kill.
const GRACE: Duration = Duration::from_secs(5);

/// Run a command and get its result.
///
/// Every call starts clean. The answer comes when the command ends, with all its output; children it
/// leaves behind keep running. A non-zero exit is a result, not an error. Repeating the call with the
/// same `id` and spec, or the same `Idempotency-Key`, gives the same result without running it again.
#[utoipa::path(
    post, path = "/v1/exec", operation_id = "exec", tag = "exec",
    request_body(content = ExecRequest, description = "What to run.",
        example = json!({"command": "echo hello; echo oops >&2", "timeout_ms": 10_000})),
    responses(
        (status = 200, description = "The result.", body = ExecResult, example = json!({
            "id": "proc_0198c0de", "exit_code": 0, "stdout": "hello\n", "stderr": "oops\n",
            "stdout_encoding": "utf8", "stderr_encoding": "utf8", "duration_ms": 3,
            "timed_out": false, "left_running": 0
        })),
        StartProblems,
    )
)]
pub(crate) async fn exec(
    State(agent): AgentState,
    ticket: OptionalTicket,
    Json(request): Json<ExecRequest>,
) -> Result<axum::Json<ExecResult>, ApiError> {
    let encoding = request.encoding;
    let kill = request.on_disconnect == OnDisconnect::Kill;
    // Started wholly or not at all, whatever the client does meanwhile. The guard is made in there,
    // so that a client that goes away during the start is noticed too.
    let start = async move {
        let (process, _) = agent.executor.exec(request).await?;
        if let Some(Extension(ticket)) = ticket {
            ticket.answer(Answer::Exec(process.clone(), encoding));
        }
        Ok::<_, ExecError>(KillGuard {
            process,
            armed: kill,
        })
    };
    let mut guard = to_the_end(start).await??;
    let answer = result(&guard.process, encoding).await;
    guard.armed = false;
    answer
}

/// The result, once there is one.
pub(super) async fn result(
    process: &ProcessHandle,
    encoding: Encoding,
) -> Result<axum::Json<ExecResult>, ApiError> {
    Ok(axum::Json(process.exec_result(encoding).await?))
}

/// Kills a process when its client goes away, if it asked for that.
struct KillGuard {
    process: ProcessHandle,
    armed: bool,
}

impl Drop for KillGuard {
    fn drop(&mut self) {
        if self.armed {
            let process = self.process.clone();
            task::spawn(async move { process.kill(GRACE).await });
        }
    }
}
