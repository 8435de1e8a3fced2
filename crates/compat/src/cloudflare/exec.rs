//! Commands: one result, or a stream of a process underneath.

use axum::extract::Extension;
use axum::response::Response;
use sandshell_client::Client;
use sandshell_client::types::{
    Encoding, Env, ExecRequest, ProcessRequest, SessionExecRequest, Truncate,
};
use serde::Deserialize;
use serde_json::json;

use super::body::{Json, invalid};
use super::error::{Code, Fault};
use super::{process, session, success};
use crate::sse::events;

/// Most bytes of each stream in one answer.
const OUTPUT: u64 = 10 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Execute {
    pub(super) command: String,
    pub(super) session_id: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) env: Env,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    background: bool,
    pub(super) process_id: Option<String>,
}

impl Execute {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.command.trim().is_empty() {
            return Err(invalid("command", "Command cannot be empty"));
        }
        if self.timeout_ms == Some(0) {
            return Err(invalid("timeoutMs", "Timeout must be positive"));
        }
        Ok(())
    }
}

/// How a command ended, whether in a session or not.
struct Ended {
    exit_code: i32,
    stdout: String,
    stderr: String,
    duration_ms: u64,
    timed_out: bool,
}

pub(super) async fn execute(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Execute>,
) -> Result<Response, Fault> {
    asked.check()?;
    if asked.background {
        return process::begin(&sandbox, asked).await;
    }
    let ended = match session::named(asked.session_id.as_deref())? {
        None => alone(&sandbox, &asked).await?,
        Some(id) => {
            let request = SessionExecRequest {
                command: asked.command.clone(),
                timeout_ms: asked.timeout_ms,
                env: asked.env.clone(),
                cwd: asked.cwd.clone(),
                max_output_bytes: Some(OUTPUT),
                truncate: Truncate::Tail,
                encoding: Encoding::Utf8,
                ..SessionExecRequest::default()
            };
            let mut result = sandbox.session_exec(&id, &request).await;
            if session::made(&sandbox, &id, result.as_ref().err()).await? {
                result = sandbox.session_exec(&id, &request).await;
            }
            let result = result?;
            Ended {
                exit_code: result.exit_code,
                stdout: result.stdout,
                stderr: result.stderr,
                duration_ms: result.duration_ms,
                timed_out: result.timed_out,
            }
        }
    };
    if ended.timed_out {
        let limit = asked.timeout_ms.unwrap_or(ended.duration_ms);
        return Err(Fault::new(
            Code::CommandExecutionError,
            format!("Command timed out after {limit}ms"),
        )
        .context(json!({
            "command": asked.command,
            "exitCode": 124,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
        })));
    }
    Ok(success(json!({
        "success": ended.exit_code == 0,
        "exitCode": ended.exit_code,
        "stdout": ended.stdout,
        "stderr": ended.stderr,
        "command": asked.command,
        "duration": ended.duration_ms,
        "sessionId": asked.session_id,
    })))
}

/// Without a session.
async fn alone(sandbox: &Client, asked: &Execute) -> Result<Ended, Fault> {
    let request = ExecRequest {
        command: Some(asked.command.clone()),
        timeout_ms: asked.timeout_ms,
        env: asked.env.clone(),
        cwd: asked.cwd.clone(),
        max_output_bytes: Some(OUTPUT),
        truncate: Truncate::Tail,
        encoding: Encoding::Utf8,
        ..ExecRequest::default()
    };
    let result = sandbox.exec(&request).await?;
    Ok(Ended {
        exit_code: result.exit_code,
        stdout: result.stdout,
        stderr: result.stderr,
        duration_ms: result.duration_ms,
        timed_out: result.timed_out,
    })
}

/// The output of a command of ours.
pub(super) async fn plain(sandbox: &Client, command: &str) -> Result<String, Fault> {
    let request = ExecRequest {
        command: Some(command.to_owned()),
        encoding: Encoding::Utf8,
        ..ExecRequest::default()
    };
    Ok(sandbox.exec(&request).await?.stdout)
}

pub(super) async fn stream(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Execute>,
) -> Result<Response, Fault> {
    asked.check()?;
    let command = asked.command.clone();
    let record = started(&sandbox, asked).await?;
    let output = process::Output::of(&sandbox, &record.id).await?;
    Ok(events(|feed| async move {
        feed.tell(&json!({
            "type": "start",
            "command": command,
            "pid": record.pid,
            "processId": record.id,
            "timestamp": super::now(),
        }))
        .await?;
        output
            .pour(&feed, |stream, data| {
                json!({
                    "type": stream,
                    "data": data,
                    "command": command,
                    "timestamp": super::now(),
                })
            })
            .await?
            .tell(&feed, |exit_code| {
                json!({
                    "type": "complete",
                    "exitCode": exit_code,
                    "command": command,
                    "result": {"success": exit_code == 0, "exitCode": exit_code},
                    "timestamp": super::now(),
                })
            })
            .await
    }))
}

/// Starts a process from the state of the session.
pub(super) async fn started(
    sandbox: &Client,
    asked: Execute,
) -> Result<sandshell_client::types::ProcessRecord, Fault> {
    let id = asked.process_id.map(|id| id.parse()).transpose()?;
    let session = session::named(asked.session_id.as_deref())?;
    let request = ProcessRequest {
        command: Some(asked.command),
        id,
        session: session.clone(),
        timeout_ms: asked.timeout_ms,
        env: asked.env,
        cwd: asked.cwd,
        ..ProcessRequest::default()
    };
    let mut record = sandbox.create_process(&request).await;
    if let Some(id) = &session
        && session::made(sandbox, id, record.as_ref().err()).await?
    {
        record = sandbox.create_process(&request).await;
    }
    Ok(record?)
}
