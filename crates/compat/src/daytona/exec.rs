//! Commands and code with one result.

use std::collections::BTreeMap;

use axum::Json;
use http::StatusCode;
use sandshell_client::Client;
use sandshell_client::types::{
    ContextId, ContextRequest, Encoding, Env, ExecRequest, KernelChoice, Language, OnDisconnect,
    RunRequest, RunStatus,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::reach::Sandbox;

/// Both streams are one, as they came.
const AS_ONE: &str = "exec 2>&1; ";

/// How long a context that nobody could delete stays without a run.
const UNUSED_MS: u64 = 60_000;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Execute {
    command: String,
    cwd: Option<String>,
    envs: Option<BTreeMap<String, String>>,
    timeout: Option<i64>,
}

/// Variables to set.
pub(super) fn env_of(variables: Option<BTreeMap<String, String>>) -> Env {
    let variables = variables.unwrap_or_default().into_iter();
    variables.map(|(name, value)| (name, Some(value))).collect()
}

/// Seconds in milliseconds; 0 is no limit.
pub(super) fn limit_of(seconds: Option<i64>) -> Result<Option<u64>, Fault> {
    let seconds = u64::try_from(seconds.unwrap_or(0))
        .map_err(|_| Fault::invalid("timeout is less than 0"))?;
    Ok((seconds > 0).then(|| seconds.saturating_mul(1000)))
}

pub(super) async fn execute(Sandbox(sandbox): Sandbox, Given(asked): Given<Execute>) -> Shown {
    if asked.command.trim().is_empty() {
        return Err(Fault::invalid("command is empty"));
    }
    let request = ExecRequest {
        command: Some(format!("{AS_ONE}{}", asked.command)),
        cwd: asked.cwd.filter(|cwd| !cwd.is_empty()),
        env: env_of(asked.envs),
        timeout_ms: limit_of(asked.timeout)?,
        ..ExecRequest::default()
    };
    let (exit_code, result) = run(&sandbox, request).await?;
    Ok(Json(json!({"exitCode": exit_code, "result": result})))
}

/// The status and the output of a command, which ends with whoever asked for it.
async fn run(sandbox: &Client, request: ExecRequest) -> Result<(i32, String), Fault> {
    let request = ExecRequest {
        encoding: Encoding::Utf8,
        on_disconnect: OnDisconnect::Kill,
        ..request
    };
    let result = sandbox.exec(&request).await?;
    if result.timed_out {
        return Err(timed_out());
    }
    // What a shell says of text that it cannot read comes before the streams are one.
    Ok((result.exit_code, result.stdout + &result.stderr))
}

fn timed_out() -> Fault {
    Fault::new(
        StatusCode::REQUEST_TIMEOUT,
        "PROCESS_EXECUTION_TIMEOUT",
        "The command was ended by its timeout",
    )
}

#[derive(Deserialize)]
pub(super) struct Program {
    code: String,
    language: Option<String>,
    argv: Option<Vec<String>>,
    envs: Option<BTreeMap<String, String>>,
    timeout: Option<i64>,
}

pub(super) async fn code(Sandbox(sandbox): Sandbox, Given(asked): Given<Program>) -> Shown {
    let program = match asked.language.as_deref().unwrap_or("python") {
        "python" => "python3",
        "javascript" => "node",
        "typescript" => return typescript(&sandbox, asked).await,
        other => {
            let message = format!("{other:?} is not python, javascript or typescript");
            return Err(Fault::invalid(message));
        }
    };
    let mut argv = vec![
        "sh".to_owned(),
        "-c".to_owned(),
        format!("{AS_ONE}exec \"$0\" - \"$@\""),
        program.to_owned(),
    ];
    argv.extend(asked.argv.unwrap_or_default());
    let request = ExecRequest {
        argv: Some(argv),
        // Of any length, unlike an argument.
        stdin: Some(asked.code),
        env: env_of(asked.envs),
        timeout_ms: limit_of(asked.timeout)?,
        ..ExecRequest::default()
    };
    let (exit_code, result) = run(&sandbox, request).await?;
    Ok(Json(answer(exit_code, &result)))
}

fn answer(exit_code: i32, result: &str) -> Value {
    json!({"exitCode": exit_code, "result": result, "artifacts": {"charts": []}})
}

/// A context that ends with its one run, or with whoever asked for it.
struct OfOneRun {
    sandbox: Client,
    id: ContextId,
    over: bool,
}

impl OfOneRun {
    /// Makes one. Whoever asked may go while it is made: a task of its own waits for it, and leaves it to nobody.
    async fn make(sandbox: &Client, request: ContextRequest) -> Result<Self, Fault> {
        let sandbox = sandbox.clone();
        let making = tokio::spawn(async move {
            let id = sandbox.create_context(&request).await?.id;
            Ok(Self {
                sandbox,
                id,
                over: false,
            })
        });
        making.await.map_err(|_| not_made())?
    }

    async fn end(mut self) {
        delete(&self.sandbox, &self.id).await;
        self.over = true;
    }
}

fn not_made() -> Fault {
    let message = "The context of this run was not made";
    Fault::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL_SERVER_ERROR",
        message,
    )
}

impl Drop for OfOneRun {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (sandbox, id) = (self.sandbox.clone(), self.id.clone());
        tokio::spawn(async move { delete(&sandbox, &id).await });
    }
}

/// What came of the run counts, whatever comes of this.
async fn delete(sandbox: &Client, id: &ContextId) {
    if let Err(error) = sandbox.delete_context(id).await {
        tracing::info!(%error, "the context of one run was not deleted");
    }
}

/// In a code context of its own, where types are taken out.
async fn typescript(sandbox: &Client, asked: Program) -> Shown {
    if asked.argv.is_some_and(|argv| !argv.is_empty()) {
        return Err(Fault::invalid("TypeScript is run without arguments"));
    }
    let request = RunRequest {
        code: asked.code,
        timeout_ms: limit_of(asked.timeout)?,
        encoding: Encoding::Utf8,
        ..RunRequest::default()
    };
    let context = ContextRequest {
        env: env_of(asked.envs),
        idle_timeout_ms: Some(UNUSED_MS),
        kernel: KernelChoice::Builtin,
        ..ContextRequest::new(Language::Typescript)
    };
    let context = OfOneRun::make(sandbox, context).await?;
    let run = sandbox.run_code(&context.id, &request).await;
    context.end().await;
    let run = run?;
    if run.end.status == RunStatus::TimedOut {
        return Err(timed_out());
    }
    let mut result = run.stdout + &run.stderr;
    if let Some(error) = &run.error {
        result += &format!("{}\n", error.traceback.join("\n"));
    }
    let failed = i32::from(run.error.is_some());
    Ok(Json(answer(run.end.exit_code.unwrap_or(failed), &result)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    #[tokio::test]
    async fn a_context_that_nobody_waits_for_any_more_is_deleted() {
        let made = json!({
            "id": "left",
            "language": "typescript",
            "kernel": "builtin",
            "interpreter": "node",
            "state": "idle",
            "cwd": "/",
            "pid": 1,
            "execution_count": 0,
            "queue_length": 0,
            "restarts": 0,
            "created_at": "2026-01-01T00:00:00Z",
        });
        let mut server = Scripted::new([(201, made)]);
        let client = server.client.clone();
        let asked = Program {
            code: "1".to_owned(),
            language: None,
            argv: None,
            envs: None,
            timeout: None,
        };
        tokio::select! {
            biased;
            _ = typescript(&client, asked) => unreachable!("it has only begun"),
            () = std::future::ready(()) => {}
        }
        for expected in ["POST /v1/contexts", "DELETE /v1/contexts/left"] {
            assert_eq!(server.asked().await.as_deref(), Some(expected));
        }
    }
}
