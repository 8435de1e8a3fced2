//! Code contexts.

use axum::extract::{Extension, Path};
use axum::response::Response;
use sandshell_client::Client;
use sandshell_client::types::{
    ContextId, ContextRequest, Encoded, Encoding, Env, ErrorCode, Language, RunEvent, RunRequest,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::{Json, invalid};
use super::error::{Code, Fault};
use super::success;
use crate::pages::all;
use crate::sse::events;
use crate::text::lost;

#[derive(Deserialize)]
pub(super) struct Create {
    #[serde(default = "python")]
    language: String,
    cwd: Option<String>,
    #[serde(default, alias = "envVars")]
    env_vars: Option<Env>,
    #[serde(default)]
    timeout: Option<u64>,
}

fn python() -> String {
    "python".to_owned()
}

fn language_of(text: &str) -> Result<Language, Fault> {
    match text {
        "python" => Ok(Language::Python),
        "javascript" => Ok(Language::Javascript),
        "typescript" => Ok(Language::Typescript),
        other => Err(invalid(
            "language",
            &format!("{other:?} is not python, javascript or typescript"),
        )),
    }
}

/// One that is not installed has a code of its own.
fn installed(error: sandshell_client::ClientError, language: Language) -> Fault {
    if error.code() == Some(ErrorCode::InterpreterNotFound) && language != Language::Python {
        return Fault::new(Code::JavascriptNotAvailable, error.to_string());
    }
    error.into()
}

pub(super) async fn create(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Create>,
) -> Result<Response, Fault> {
    let language = language_of(&asked.language)?;
    let request = ContextRequest {
        cwd: asked.cwd,
        env: asked.env_vars.unwrap_or_default(),
        timeout_ms: asked.timeout,
        ..ContextRequest::new(language)
    };
    let made = sandbox.create_context(&request).await;
    let made = made.map_err(|error| installed(error, language))?;
    Ok(success(json!({
        "contextId": made.id,
        "language": asked.language,
        "cwd": made.cwd,
    })))
}

pub(super) async fn list(Extension(sandbox): Extension<Client>) -> Result<Response, Fault> {
    let sandbox = &sandbox;
    let found = all(|page| async move { sandbox.list_contexts(&page).await }).await?;
    let shown = found.iter();
    let shown = shown.map(|one| json!({"id": one.id, "language": one.language, "cwd": one.cwd}));
    Ok(success(json!({"contexts": shown.collect::<Vec<_>>()})))
}

fn missing(id: &str) -> Fault {
    Fault::new(Code::ContextNotFound, format!("Context {id} not found"))
        .context(json!({"contextId": id}))
}

pub(super) async fn delete(
    Extension(sandbox): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let known: ContextId = id.parse().map_err(|_| missing(&id))?;
    match sandbox.delete_context(&known).await {
        Err(error) if error.status() == Some(404) => Err(missing(&id)),
        other => {
            other?;
            Ok(success(json!({"contextId": id})))
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Execute {
    context_id: Option<String>,
    code: String,
    language: Option<String>,
    timeout_ms: Option<u64>,
}

pub(super) async fn execute(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Execute>,
) -> Result<Response, Fault> {
    let id: ContextId = match &asked.context_id {
        Some(id) => id.parse().map_err(|_| missing(id))?,
        None => default_of(&sandbox, asked.language.as_deref().unwrap_or("python")).await?,
    };
    let request = RunRequest {
        code: asked.code,
        timeout_ms: asked.timeout_ms,
        env: Env::default(),
        max_output_bytes: None,
        encoding: Encoding::Utf8,
    };
    let mut run = match sandbox.run_code_stream(&id, &request).await {
        Err(error) if error.status() == Some(404) => return Err(missing(id.as_str())),
        other => other?,
    };
    Ok(events(|feed| async move {
        while let Some(event) = run.next().await {
            let failure = match event {
                // An output with a hole in it would be taken for whole.
                Ok(RunEvent::Truncated(gap)) => lost(gap.stdout_bytes + gap.stderr_bytes),
                Ok(event) => {
                    if let Some(shown) = shown(event) {
                        feed.tell(&shown).await?;
                    }
                    continue;
                }
                Err(error) => error.to_string(),
            };
            let failed = json!({
                "type": "error",
                "ename": "ExecutionError",
                "evalue": failure,
                "traceback": [],
            });
            return feed.tell(&failed).await;
        }
        Ok(())
    }))
}

/// The context of a language for whoever names none, made when first used.
async fn default_of(sandbox: &Client, language: &str) -> Result<ContextId, Fault> {
    let kind = language_of(language)?;
    let id: ContextId = format!("default-{language}").parse()?;
    if sandbox.context(&id).await.is_ok() {
        return Ok(id);
    }
    match sandbox
        .create_context(&ContextRequest {
            id: Some(id.clone()),
            ..ContextRequest::new(kind)
        })
        .await
    {
        Ok(_) => Ok(id),
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(id),
        Err(error) => Err(installed(error, kind)),
    }
}

/// An event in their words; some of ours have none.
fn shown(event: RunEvent) -> Option<Value> {
    let text = |output: &sandshell_client::types::RunOutput| {
        let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Some(match event {
        RunEvent::Stdout(output) => {
            json!({"type": "stdout", "text": text(&output), "timestamp": super::now()})
        }
        RunEvent::Stderr(output) => {
            json!({"type": "stderr", "text": text(&output), "timestamp": super::now()})
        }
        RunEvent::Result(result) => {
            let mut fields = Map::new();
            fields.insert("type".to_owned(), "result".into());
            for (mime, data) in result.data {
                if let Some(name) = field_of(&mime) {
                    fields.insert(name.to_owned(), data);
                }
            }
            fields.insert("metadata".to_owned(), json!({}));
            Value::Object(fields)
        }
        RunEvent::Error(error) => json!({
            "type": "error",
            "ename": error.name,
            "evalue": error.value,
            "traceback": error.traceback,
        }),
        RunEvent::End(end) => {
            json!({"type": "execution_complete", "execution_count": end.execution_count})
        }
        _ => return None,
    })
}

fn field_of(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "text/plain" => "text",
        "text/html" => "html",
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/svg+xml" => "svg",
        "text/latex" => "latex",
        "text/markdown" => "markdown",
        "application/javascript" => "javascript",
        "application/json" => "json",
        _ => return None,
    })
}
