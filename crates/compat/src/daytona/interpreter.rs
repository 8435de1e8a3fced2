//! Code contexts.
//!
//! ```text
//! ◄─ {code, contextId?, envs?, timeout?}
//! ─► {type: stdout|stderr, text}*  {type: error, name, value, traceback}?
//! ─► {type: control, text: completed}, then a close; of a run that took too long with a code of its own
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, Path};
use axum::response::Response;
use sandshell_client::types::{
    ContextId, ContextRecord, ContextRequest, ContextState, Encoding, ErrorCode, Language,
    RunEvent, RunRequest, RunStatus,
};
use sandshell_client::{Client, RunEventStream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::exec::{env_of, limit_of};
use super::log::{close, reason_of};
use super::reach::Sandbox;
use crate::lease::Lease;
use crate::pages::all;
use crate::text::lost;

/// The context of whoever names none. It is not among those that are listed.
const DEFAULT: &str = "default-python";

/// A run that took too long.
const TIMED_OUT: u16 = 4008;

/// How long a client may take to say what it wants to run.
const INTRODUCTION: Duration = Duration::from_secs(30);

/// The limit of a run that says nothing else, in seconds: that of theirs.
const LIMIT_S: i64 = 600;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Of {
    context: String,
}

#[derive(Deserialize)]
pub(super) struct Create {
    cwd: Option<String>,
    language: Option<String>,
}

fn missing(id: &str) -> Fault {
    Fault::missing(format!("Context {id} not found"))
}

fn shown(record: &ContextRecord) -> Value {
    json!({
        "id": record.id,
        "language": record.language,
        "cwd": record.cwd,
        "createdAt": record.created_at,
        "active": record.state != ContextState::Ended,
    })
}

pub(super) async fn create(Sandbox(sandbox): Sandbox, Given(asked): Given<Create>) -> Shown {
    let language = match asked.language.as_deref() {
        None | Some("" | "python") => Language::Python,
        Some("javascript") => Language::Javascript,
        Some("typescript") => Language::Typescript,
        Some(other) => {
            let message = format!("{other:?} is not python, javascript or typescript");
            return Err(Fault::invalid(message));
        }
    };
    let request = ContextRequest {
        cwd: asked.cwd.filter(|cwd| !cwd.is_empty()),
        ..ContextRequest::new(language)
    };
    Ok(Json(shown(&sandbox.create_context(&request).await?)))
}

pub(super) async fn list(Sandbox(sandbox): Sandbox) -> Shown {
    let client = &sandbox;
    let records = all(|page| async move { client.list_contexts(&page).await }).await?;
    let own = records.iter().filter(|one| one.id.as_str() != DEFAULT);
    let contexts: Vec<Value> = own.map(shown).collect();
    Ok(Json(json!({"contexts": contexts})))
}

pub(super) async fn delete(Sandbox(sandbox): Sandbox, Path(of): Path<Of>) -> Shown {
    if of.context == DEFAULT || of.context == "default" {
        return Err(Fault::invalid("The default context cannot be deleted"));
    }
    let id: ContextId = of.context.parse().map_err(|_| missing(&of.context))?;
    match sandbox.delete_context(&id).await {
        Err(error) if error.code() == Some(ErrorCode::ContextNotFound) => Err(missing(&of.context)),
        other => {
            other?;
            Ok(Json(json!({"message": "Context deleted"})))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    code: String,
    context_id: Option<String>,
    envs: Option<BTreeMap<String, String>>,
    timeout: Option<i64>,
}

pub(super) async fn execute(
    Sandbox(sandbox): Sandbox,
    Extension(lease): Extension<Lease>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Fault> {
    let upgraded = upgrade.on_upgrade(|socket| async move {
        lease.hold(serve(socket, &sandbox)).await;
    });
    Ok(upgraded)
}

async fn serve(mut socket: WebSocket, sandbox: &Client) {
    let asked = tokio::time::timeout(INTRODUCTION, asked(&mut socket)).await;
    let Ok(Some(asked)) = asked else {
        return;
    };
    let begun = match asked {
        Ok(run) => begin(sandbox, run).await,
        Err(fault) => Err(fault),
    };
    match begun {
        Ok((watched, events)) => pour(socket, watched, events).await,
        Err(fault) => close(socket, close_code::POLICY, reason_of(fault.message())).await,
    }
}

/// What is to be run; `None` when nobody says.
async fn asked(socket: &mut WebSocket) -> Option<Result<Run, Fault>> {
    loop {
        let said = match socket.recv().await?.ok()? {
            Message::Text(text) => bytes::Bytes::from(text),
            Message::Binary(bytes) => bytes,
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let read = serde_json::from_slice(&said);
        return Some(read.map_err(|error| Fault::invalid(error.to_string())));
    }
}

async fn begin(sandbox: &Client, asked: Run) -> Result<(Watched, RunEventStream), Fault> {
    let id = match &asked.context_id {
        Some(id) => id.parse().map_err(|_| missing(id))?,
        None => default_of(sandbox).await?,
    };
    let request = RunRequest {
        code: asked.code,
        timeout_ms: limit_of(asked.timeout.or(Some(LIMIT_S)))?,
        env: env_of(asked.envs),
        encoding: Encoding::Utf8,
        ..RunRequest::default()
    };
    match sandbox.run_code_stream(&id, &request).await {
        Err(error) if error.code() == Some(ErrorCode::ContextNotFound) => Err(missing(id.as_str())),
        other => {
            let watched = Watched {
                sandbox: sandbox.clone(),
                context: id,
                runs: false,
            };
            Ok((watched, other?))
        }
    }
}

/// The context of whoever names none, made when first used, and anew when it has ended.
async fn default_of(sandbox: &Client) -> Result<ContextId, Fault> {
    let id: ContextId = DEFAULT.parse()?;
    match sandbox.context(&id).await {
        Ok(record) if record.state == ContextState::Ended => {
            sandbox.restart_context(&id).await?;
            return Ok(id);
        }
        Ok(_) => return Ok(id),
        Err(error) if error.code() == Some(ErrorCode::ContextNotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let request = ContextRequest {
        id: Some(id.clone()),
        ..ContextRequest::new(Language::Python)
    };
    match sandbox.create_context(&request).await {
        // Somebody else made it meanwhile.
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(id),
        other => {
            other?;
            Ok(id)
        }
    }
}

/// A run that somebody looks at. One that is left alone while it runs is interrupted.
struct Watched {
    sandbox: Client,
    context: ContextId,
    runs: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.runs {
            return;
        }
        let (sandbox, context) = (self.sandbox.clone(), self.context.clone());
        tokio::spawn(async move {
            if let Err(error) = sandbox.interrupt_context(&context).await {
                tracing::debug!(%error, "a run was not interrupted");
            }
        });
    }
}

/// Tells what a run says.
async fn pour(mut socket: WebSocket, mut watched: Watched, mut events: RunEventStream) {
    let (code, reason) = loop {
        let event = tokio::select! {
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            event = events.next() => event,
        };
        let told = match event {
            Some(Ok(RunEvent::Started(_))) => {
                watched.runs = true;
                continue;
            }
            Some(Ok(RunEvent::Stdout(output))) => json!({"type": "stdout", "text": output.data}),
            Some(Ok(RunEvent::Stderr(output))) => json!({"type": "stderr", "text": output.data}),
            Some(Ok(RunEvent::Error(error))) => json!({
                "type": "error",
                "name": error.name,
                "value": error.value,
                "traceback": error.traceback.join("\n"),
            }),
            Some(Ok(RunEvent::End(end))) => {
                watched.runs = false;
                if end.status == RunStatus::TimedOut {
                    break (TIMED_OUT, "Execution timed out".to_owned());
                }
                let how = match end.status {
                    RunStatus::Interrupted => "interrupted",
                    _ => "completed",
                };
                let end = json!({"type": "control", "text": how});
                if socket.send(Message::text(end.to_string())).await.is_err() {
                    return;
                }
                break (close_code::NORMAL, String::new());
            }
            // An output with a hole in it would be taken for whole.
            Some(Ok(RunEvent::Truncated(gap))) => {
                let bytes = gap.stdout_bytes + gap.stderr_bytes;
                break (close_code::ERROR, lost(bytes));
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => break (close_code::ERROR, error.to_string()),
            None => break (close_code::ERROR, "The run ended without a word".to_owned()),
        };
        if socket.send(Message::text(told.to_string())).await.is_err() {
            return;
        }
    };
    // At once, not after the last words.
    drop(watched);
    close(socket, code, reason_of(&reason)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    #[tokio::test]
    async fn only_what_runs_is_interrupted() {
        let mut server = Scripted::new([]);
        let watched = |context: &str, runs| Watched {
            sandbox: server.client.clone(),
            context: context.parse().unwrap(),
            runs,
        };
        drop(watched("over", false));
        drop(watched("left", true));
        let asked = server.asked().await;
        assert_eq!(asked.as_deref(), Some("POST /v1/contexts/left/interrupt"));
    }
}
