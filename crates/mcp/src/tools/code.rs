//! Code in an interpreter that keeps its state.

use rmcp::model::ContentBlock;
use sandshell_client::Client;
use sandshell_types::{
    ContextId, ContextOutcome, ContextRequest, ContextState, ErrorCode, Language, RunReply,
    RunRequest, RunStatus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, context_id};
use crate::output::{MOST_WAIT_MS, Written, bounded, bytes_of, push_line};
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// How long code may run unless the caller says otherwise.
const USUAL_TIMEOUT_MS: u64 = 30_000;

/// Most bytes of pictures in an answer, as base64.
const PICTURES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum In {
    Python,
    Javascript,
    Typescript,
    Bash,
}

impl In {
    fn language(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::Javascript => Language::Javascript,
            Self::Typescript => Language::Typescript,
            Self::Bash => Language::Bash,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Typescript => "typescript",
            Self::Bash => "bash",
        }
    }
}

/// Arguments of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCode {
    /// The sandbox's id.
    sandbox: String,
    language: In,
    /// The code. The value of its last expression is in the answer.
    code: String,
    /// A name for the interpreter; the language's by default. It is made on its first use, and keeps
    /// variables and imports for the next call.
    context: Option<String>,
    /// Interrupt the code after this long; 30000 by default, 600000 at most.
    timeout_ms: Option<u64>,
    /// Most bytes of stdout and of stderr in the answer; 20000 by default, 500000 at most.
    max_output_bytes: Option<u64>,
}

/// What code wrote, gave and raised.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Run {
    /// `ok`, `error`, `interrupted` or `timed_out`.
    status: &'static str,
    /// Values, as text: of the last expression, and what was displayed.
    results: Vec<String>,
    /// What the code raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Raised>,
    stdout: String,
    stdout_encoding: Written,
    stderr: String,
    stderr_encoding: Written,
    /// Bytes of stdout and stderr that were left out of the middle. They are not kept.
    omitted_bytes: u64,
    /// The interpreter.
    context: String,
    /// Whether its variables and imports are still there.
    state_kept: bool,
    /// Pictures, as MIME type and base64.
    #[serde(skip)]
    pictures: Vec<(String, String)>,
    #[serde(skip)]
    dropped: u64,
}

/// An exception.
#[derive(Debug, Serialize, JsonSchema)]
struct Raised {
    name: String,
    message: String,
    /// Line by line.
    traceback: Vec<String>,
}

impl Answer for Run {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, data) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !data.is_empty() {
                push_line(&mut text, &format!("--- {name}\n{data}"));
            }
        }
        if self.omitted_bytes > 0 {
            text.push_str(&format!(
                "[{} bytes of output left out; let the code write them to a file, and read_file that]\n",
                self.omitted_bytes
            ));
        }
        for result in &self.results {
            push_line(&mut text, &format!("--- result\n{result}"));
        }
        if let Some(error) = &self.error {
            let trace = if error.traceback.is_empty() {
                format!("{}: {}", error.name, error.message)
            } else {
                error.traceback.join("\n")
            };
            push_line(&mut text, &format!("--- error\n{trace}"));
        }
        if self.dropped > 0 {
            text.push_str(&format!(
                "[{} pictures left out: too large]\n",
                self.dropped
            ));
        }
        text.push_str(&format!("[{}]", self.status));
        if !self.state_kept {
            text.push_str(" [the interpreter's state is lost]");
        }
        text
    }

    fn more(&self) -> Vec<ContentBlock> {
        let block =
            |(kind, data): &(String, String)| ContentBlock::image(data.clone(), kind.clone());
        self.pictures.iter().map(block).collect()
    }
}

impl Tool for RunCode {
    const NAME: &'static str = "run_code";
    const TITLE: &'static str = "Run code";
    const ABOUT: &'static str = "Run Python, JavaScript, TypeScript or bash code in an interpreter that \
        keeps its variables between calls, as a notebook does, and get output, the last value, pictures \
        and errors.";
    const EFFECT: Effect = Effect::Runs;
    const OPEN_WORLD: bool = true;
    type Output = Run;

    async fn run(self, call: &Call) -> Result<Run, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let id = context_id(self.context.as_deref().unwrap_or(self.language.name()))?;
        let timeout = bounded(
            "timeout_ms",
            self.timeout_ms,
            USUAL_TIMEOUT_MS,
            1..=MOST_WAIT_MS,
        )?;
        let request = RunRequest {
            code: self.code,
            timeout_ms: Some(timeout),
            max_output_bytes: Some(bytes_of(self.max_output_bytes)?),
            ..RunRequest::default()
        };
        prepare(&sandbox, &id, self.language).await?;
        let running = sandbox.run_code(&id, &request);
        let end = async || match sandbox.interrupt_context(&id).await {
            Ok(_) => "the code was interrupted",
            Err(_) => "the code may still run",
        };
        let reply = call.or_cancelled(running, end).await?;
        Ok(run_of(&id, reply))
    }
}

/// Makes the interpreter when there is none of that name, and a fresh one when it has ended.
async fn prepare(sandbox: &Client, id: &ContextId, wanted: In) -> Result<(), Refusal> {
    match sandbox.context(id).await {
        Ok(record) if record.language != wanted.language() => {
            let reason = format!("{id} is an interpreter of another language");
            Err(Refusal::argument("context", reason).hint("Give another name, or none."))
        }
        Ok(record) if record.state == ContextState::Ended => {
            Ok(sandbox.restart_context(id).await.map(drop)?)
        }
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::ContextNotFound) => {
            let request = ContextRequest {
                id: Some(id.clone()),
                language: wanted.language(),
                cwd: None,
                env: sandshell_types::Env::default(),
                user: None,
                session: None,
                timeout_ms: None,
                idle_timeout_ms: None,
                kernel: sandshell_types::KernelChoice::default(),
            };
            Ok(sandbox.create_context(&request).await.map(drop)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn run_of(id: &ContextId, reply: RunReply) -> Run {
    let mut pictures = Vec::new();
    let mut results = Vec::new();
    let mut dropped = 0;
    let mut size = 0;
    for result in reply.results {
        let mut shown = false;
        for (kind, data) in &result.data {
            let Some(data) = data.as_str().filter(|_| kind.starts_with("image/")) else {
                continue;
            };
            // Vector graphics are text, which models read as such.
            if kind == "image/svg+xml" {
                continue;
            }
            shown = true;
            size += data.len();
            if size <= PICTURES {
                pictures.push((kind.clone(), data.to_owned()));
            } else {
                dropped += 1;
            }
        }
        let text = result
            .data
            .get("text/plain")
            .or_else(|| result.data.values().next());
        if let Some(text) = text.filter(|_| !shown) {
            results.push(
                text.as_str()
                    .map_or_else(|| text.to_string(), str::to_owned),
            );
        }
    }
    Run {
        status: match reply.end.status {
            RunStatus::Ok => "ok",
            RunStatus::Error => "error",
            RunStatus::Interrupted => "interrupted",
            RunStatus::TimedOut => "timed_out",
        },
        results,
        error: reply.error.map(|error| Raised {
            name: error.name,
            message: error.value,
            traceback: error.traceback,
        }),
        omitted_bytes: reply
            .truncated
            .map_or(0, |some| some.stdout_bytes + some.stderr_bytes),
        stdout: reply.stdout,
        stdout_encoding: reply.stdout_encoding.into(),
        stderr: reply.stderr,
        stderr_encoding: reply.stderr_encoding.into(),
        context: id.to_string(),
        state_kept: reply.end.context == ContextOutcome::Kept,
        pictures,
        dropped,
    }
}
