//! The code interpreter, which has a port of its own: runs as lines of JSON, and contexts.
//!
//! A run whose reader goes away is interrupted: their clients end a run that takes too long by going.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header};
use jiff::Timestamp;
use sandshell_client::types::{
    ContextId, ContextRecord, ContextRequest, Encoded, Encoding, ErrorCode, Language, RunEvent,
    RunOutput, RunRequest,
};
use sandshell_client::{Client, RunEventStream};
use sandshell_compat::all;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::error::Fault;
use crate::json::Json;
use crate::path;
use crate::wire::Inside;

/// Lines under way to a client that does not read.
const WAITING: usize = 16;

pub(crate) fn router() -> Router {
    Router::new()
        .route("/health", get(|| async { "OK" }))
        .route("/execute", post(execute))
        .route("/contexts", get(list).post(create))
        .route("/contexts/{id}", delete(remove))
        .route("/contexts/{id}/restart", post(restart))
        .fallback(|| async { Fault::not_found("there is no such route of the code interpreter") })
}

#[derive(Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Create {
    language: Option<String>,
    cwd: Option<String>,
}

fn language_of(text: &str) -> Result<Language, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "python" | "python3" => Ok(Language::Python),
        "javascript" | "js" => Ok(Language::Javascript),
        "typescript" | "ts" => Ok(Language::Typescript),
        "bash" => Ok(Language::Bash),
        other => Err(Fault::invalid(format!(
            "{other:?} is not python, javascript, typescript or bash"
        ))),
    }
}

fn shown(record: &ContextRecord) -> Value {
    json!({"id": record.id, "language": record.language.as_str(), "cwd": record.cwd})
}

fn missing(id: &str) -> Fault {
    Fault::not_found(format!("Context {id} not found"))
}

fn id_of(text: &str) -> Result<ContextId, Fault> {
    text.parse().map_err(|_| missing(text))
}

async fn create(
    Extension(inside): Extension<Inside>,
    Json(asked): Json<Create>,
) -> Result<Response, Fault> {
    let language = language_of(asked.language.as_deref().unwrap_or("python"))?;
    let request = ContextRequest {
        cwd: asked.cwd.map(|cwd| path::of(&cwd, None)),
        ..ContextRequest::new(language)
    };
    let made = inside.sandbox.create_context(&request).await?;
    Ok(axum::Json(shown(&made)).into_response())
}

async fn list(Extension(inside): Extension<Inside>) -> Result<Response, Fault> {
    let sandbox = &inside.sandbox;
    let contexts = all(|page| async move { sandbox.list_contexts(&page).await }).await?;
    let contexts: Vec<Value> = contexts.iter().map(shown).collect();
    Ok(axum::Json(contexts).into_response())
}

async fn remove(
    Extension(inside): Extension<Inside>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let removed = inside.sandbox.delete_context(&id_of(&id)?).await;
    removed.map_err(|error| known(error, &id))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn restart(
    Extension(inside): Extension<Inside>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let record = inside.sandbox.restart_context(&id_of(&id)?).await;
    let record = record.map_err(|error| known(error, &id))?;
    Ok(axum::Json(shown(&record)).into_response())
}

fn known(error: sandshell_client::ClientError, id: &str) -> Fault {
    match error.code() {
        Some(ErrorCode::ContextNotFound) => missing(id),
        _ => error.into(),
    }
}

/// The context of a language for whoever names none, made when first used.
async fn default_of(sandbox: &Client, language: &str) -> Result<ContextId, Fault> {
    let language = language_of(language)?;
    let id: ContextId = format!("default-{}", language.as_str())
        .parse()
        .map_err(|_| missing(language.as_str()))?;
    if sandbox.context(&id).await.is_ok() {
        return Ok(id);
    }
    let request = ContextRequest {
        id: Some(id.clone()),
        ..ContextRequest::new(language)
    };
    match sandbox.create_context(&request).await {
        Ok(_) => Ok(id),
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(id),
        Err(error) => Err(error.into()),
    }
}

async fn execute(
    Extension(inside): Extension<Inside>,
    Json(asked): Json<Execute>,
) -> Result<Response, Fault> {
    let sandbox = inside.sandbox;
    let id = match &asked.context_id {
        Some(id) => id_of(id)?,
        None => default_of(&sandbox, asked.language.as_deref().unwrap_or("python")).await?,
    };
    let env = asked.env_vars.unwrap_or_default().into_iter();
    let request = RunRequest {
        code: asked.code,
        env: env.map(|(name, value)| (name, Some(value))).collect(),
        encoding: Encoding::Utf8,
        ..RunRequest::default()
    };
    let run = sandbox.run_code_stream(&id, &request).await;
    let mut run = run.map_err(|error| known(error, id.as_str()))?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut runs = false;
        let read = tokio::select! {
            read = pour(&mut run, &mut runs, &sender) => read,
            () = sender.closed() => false,
        };
        // What runs before its turn comes is another's.
        if !read
            && (runs || turn_of(&mut run).await)
            && let Err(error) = sandbox.interrupt_context(&id).await
        {
            tracing::debug!(%error, "a run that nobody waits for was not interrupted");
        }
    });
    let lines = stream::unfold(receiver, |mut receiver| async move {
        let line = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(line), receiver))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(lines)).into_response())
}

/// Waits for the turn of a run; false when it does not come.
async fn turn_of(run: &mut RunEventStream) -> bool {
    while let Some(Ok(event)) = run.next().await {
        if matches!(event, RunEvent::Started(_)) {
            return true;
        }
    }
    false
}

/// Sends the events of a run, and notes when its turn has come; false when nobody reads them.
async fn pour(run: &mut RunEventStream, runs: &mut bool, lines: &mpsc::Sender<Bytes>) -> bool {
    while let Some(event) = run.next().await {
        *runs |= matches!(event, Ok(RunEvent::Started(_)));
        let line = match event {
            Ok(event) => told(event),
            Err(error) => Some(json!({
                "type": "error",
                "name": "ExecutionError",
                "value": error.to_string(),
                "traceback": "",
            })),
        };
        let Some(line) = line else { continue };
        if lines.send(format!("{line}\n").into()).await.is_err() {
            return false;
        }
    }
    true
}

/// An event in their words; some of ours have none.
fn told(event: RunEvent) -> Option<Value> {
    let output = |name: &str, output: &RunOutput| {
        let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
        let now = Timestamp::now().as_nanosecond();
        json!({
            "type": name,
            "text": String::from_utf8_lossy(&bytes),
            "timestamp": i64::try_from(now).unwrap_or_default(),
        })
    };
    Some(match event {
        RunEvent::Started(run) => {
            json!({"type": "number_of_executions", "execution_count": run.execution_count})
        }
        RunEvent::Stdout(piece) => output("stdout", &piece),
        RunEvent::Stderr(piece) => output("stderr", &piece),
        RunEvent::Result(result) => {
            let mut fields = Map::new();
            let mut extra = Map::new();
            for (mime, data) in result.data {
                match field_of(&mime) {
                    Some(name) => fields.insert(name.to_owned(), data),
                    None => extra.insert(mime, data),
                };
            }
            if !extra.is_empty() {
                fields.insert("extra".to_owned(), extra.into());
            }
            fields.insert("type".to_owned(), "result".into());
            fields.insert("is_main_result".to_owned(), result.is_main.into());
            Value::Object(fields)
        }
        RunEvent::Error(error) => json!({
            "type": "error",
            "name": error.name,
            "value": error.value,
            "traceback": error.traceback.join("\n"),
        }),
        RunEvent::Truncated(_) | RunEvent::End(_) => return None,
    })
}

fn field_of(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "text/plain" => "text",
        "text/html" => "html",
        "text/markdown" => "markdown",
        "image/svg+xml" => "svg",
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "application/pdf" => "pdf",
        "text/latex" => "latex",
        "application/json" => "json",
        "application/javascript" => "javascript",
        _ => return None,
    })
}
