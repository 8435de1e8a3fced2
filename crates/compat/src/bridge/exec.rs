//! Commands: their output as named events, then `exit` or `error`.
//!
//! ```text
//! POST exec ─┬─ no session ─► a process ──────────────┬─► stdout, stderr (base64) … exit
//!            └─ Session-Id ─► a command of a session ─┘                           └ error
//! ```
//!
//! Nobody else can reach such a command, so it ends with its reader.

use std::time::Duration;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use sandshell_client::types::{
    ErrorCode, KillRequest, OnDisconnect, OutputEvent, ProcessId, ProcessRequest,
    SessionExecRequest, SessionId, StreamName, TextEncoding,
};
use sandshell_client::{Client, ClientError, EventQuery, EventStream, OutputStreamEvent};
use serde::Deserialize;
use serde_json::json;

use super::body::{Json, session};
use super::error::{Code, Fault};
use super::sandbox::Named;
use super::workspace;
use crate::session;
use crate::sse::{Feed, Gone, events};
use crate::text::lost;

/// How long after the end of a command's time the stream stays open. The `OpenAI` Agents SDK gives up
/// five seconds after that time, or somewhat later, and only then calls it a timeout; an `error` would be a failure of the
/// transport to it.
const HELD_OPEN: Duration = Duration::from_secs(10);

/// Given to a command whose reader has gone, to end by itself.
const GRACE_MS: u64 = 1000;

#[derive(Deserialize)]
pub(super) struct Exec {
    argv: Vec<String>,
    timeout_ms: Option<f64>,
    cwd: Option<String>,
}

/// What was made of a request.
struct Command {
    argv: Vec<String>,
    timeout_ms: Option<u64>,
    cwd: Option<String>,
}

impl Exec {
    fn check(self) -> Result<Command, Fault> {
        if self.argv.is_empty() {
            return Err(Fault::invalid("argv must be a non-empty array"));
        }
        let timeout_ms = match self.timeout_ms {
            None => None,
            Some(time) if time > 0.0 => Some(Duration::try_from_secs_f64(time / 1000.0)),
            Some(_) => return Err(Fault::invalid("timeout_ms must be positive")),
        };
        let cwd = self.cwd.map(|cwd| {
            let found = workspace::resolve(cwd.as_bytes());
            let found = found.and_then(|path| String::from_utf8(path).ok());
            found.ok_or_else(|| Fault::outside("cwd"))
        });
        Ok(Command {
            argv: self.argv,
            // What is too long to be counted is no limit.
            timeout_ms: timeout_ms
                .and_then(Result::ok)
                .and_then(|time| u64::try_from(time.as_millis()).ok())
                .map(|time| time.max(1)),
            cwd: cwd.transpose()?,
        })
    }
}

pub(super) async fn exec(
    at: Named,
    headers: HeaderMap,
    Json(asked): Json<Exec>,
) -> Result<Response, Fault> {
    let session = session(&headers)?;
    let command = asked.check()?;
    let client = at.reach().await?.client;
    let program = command.argv.first().cloned().unwrap_or_default();
    let running = match session {
        Some(session) => in_session(&client, &session, command).await,
        None => alone(&client, command).await,
    };
    let running = match running {
        Ok(running) => running,
        // Their shell would say so, and go on.
        Err(error) if error.code() == Some(ErrorCode::ProgramNotFound) => {
            return Ok(never_ran(format!("{program}: command not found\n"), 127));
        }
        Err(error) if error.code() == Some(ErrorCode::ProgramNotExecutable) => {
            return Ok(never_ran(format!("{program}: cannot execute\n"), 126));
        }
        Err(error) => return Err(Fault::of(Code::ExecTransport, "exec")(error)),
    };
    Ok(events(|feed| async move { running.pour(&feed).await }))
}

/// A command on its way, which is ended when this is dropped before its end.
struct Running {
    output: EventStream,
    process: Option<Ending>,
}

struct Ending {
    sandbox: Client,
    process: ProcessId,
    over: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (sandbox, process) = (self.sandbox.clone(), self.process.clone());
        tokio::spawn(async move {
            let request = KillRequest {
                grace_ms: Some(GRACE_MS),
            };
            if let Err(error) = sandbox.kill_process(&process, &request).await {
                tracing::info!(%error, "a command without a reader was not ended");
            }
        });
    }
}

async fn alone(sandbox: &Client, command: Command) -> Result<Running, ClientError> {
    let request = ProcessRequest {
        argv: Some(command.argv),
        timeout_ms: command.timeout_ms,
        cwd: command.cwd,
        ..ProcessRequest::default()
    };
    let process = sandbox.create_process(&request).await?.id;
    let ending = Ending {
        sandbox: sandbox.clone(),
        process,
        over: false,
    };
    let query = EventQuery {
        from: None,
        follow: Some(true),
    };
    Ok(Running {
        output: sandbox.process_events(&ending.process, query).await?,
        process: Some(ending),
    })
}

async fn in_session(
    sandbox: &Client,
    id: &SessionId,
    command: Command,
) -> Result<Running, ClientError> {
    let words: Vec<String> = command.argv.iter().map(|word| quoted(word)).collect();
    let request = SessionExecRequest {
        command: words.join(" "),
        timeout_ms: command.timeout_ms,
        cwd: command.cwd,
        on_disconnect: OnDisconnect::Kill,
        ..SessionExecRequest::default()
    };
    let mut output = sandbox.session_exec_stream(id, &request).await;
    if session::made(sandbox, id, output.as_ref().err()).await? {
        output = sandbox.session_exec_stream(id, &request).await;
    }
    Ok(Running {
        output: output?,
        process: None,
    })
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Running {
    /// Tells all of it.
    async fn pour(mut self, feed: &Feed) -> Result<(), Gone> {
        loop {
            let fault = match self.output.next().await {
                Some(Ok(event)) => match event.event {
                    OutputStreamEvent::Output(output) => {
                        tell(feed, output).await?;
                        continue;
                    }
                    OutputStreamEvent::Exit(exit) => {
                        self.is_over();
                        if exit.timed_out {
                            tokio::time::sleep(HELD_OPEN).await;
                            let time = exit.duration_ms;
                            Fault::failed(Code::Exec, format!("timed out after {time} ms"))
                        } else if let Some(code) = exit.exit_code {
                            return feed.tell_named("exit", json!({"exit_code": code})).await;
                        } else {
                            Fault::failed(Code::Exec, "the command never ran")
                        }
                    }
                    // A result with a hole in it would be taken for whole.
                    OutputStreamEvent::Truncated(gap) => Fault::failed(Code::Exec, lost(gap.bytes)),
                    _ => continue,
                },
                Some(Err(error)) => Fault::of(Code::ExecTransport, "exec")(error),
                None => Fault::failed(Code::ExecTransport, "the stream ended before its command"),
            };
            return feed.tell_named("error", fault.body()).await;
        }
    }

    fn is_over(&mut self) {
        if let Some(process) = &mut self.process {
            process.over = true;
        }
    }
}

async fn tell(feed: &Feed, output: OutputEvent) -> Result<(), Gone> {
    let name = match output.stream {
        StreamName::Stdout | StreamName::LateStdout => "stdout",
        StreamName::Stderr | StreamName::LateStderr => "stderr",
    };
    let data = match output.encoding {
        TextEncoding::Base64 => output.data,
        TextEncoding::Utf8 => BASE64.encode(output.data),
    };
    feed.tell_named(name, data).await
}

fn never_ran(stderr: String, exit_code: i32) -> Response {
    events(|feed| async move {
        feed.tell_named("stderr", BASE64.encode(stderr)).await?;
        feed.tell_named("exit", json!({"exit_code": exit_code}))
            .await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        for (word, expected) in [
            ("ls", "ls"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME\n", "'$HOME\n'"),
            ("~", "'~'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
