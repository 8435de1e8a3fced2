//! Processes: started, read, written to and ended by their ids.

use std::collections::BTreeMap;

use sandshell_client::Client;
use sandshell_types::{
    CommandId, CommandState, IdError, KillRequest, LogCondition, PortCondition, ProcessId,
    ProcessRequest, ProcessState, SessionId, StreamName, WaitOutcome, WaitRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::commands::{set, wait};
use crate::call::{Call, process_id, session_id};
use crate::output::{MOST_WAIT_MS, Source, Stream, both, bounded, bytes_of};
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// Arguments of `start_process`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartProcess {
    /// The sandbox's id.
    sandbox: String,
    /// Text for bash, such as `python3 -m http.server 8000`.
    command: String,
    /// An id of your choice, such as `web`; the same call again gives the same process.
    id: Option<String>,
    /// Directory to start in; /workspace by default.
    cwd: Option<String>,
    /// Environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Start with the directory, variables and functions of this session.
    session: Option<String>,
    /// Keep the standard input open, for send_input.
    #[serde(default)]
    stdin_open: bool,
}

/// A process that was started.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Started {
    /// Its id, for read_output, send_input and kill_process.
    process_id: String,
    /// Whether it runs.
    running: bool,
}

impl Answer for Started {
    fn text(&self) -> String {
        let id = &self.process_id;
        if self.running {
            format!("process {id} runs; read_output process_id={id} shows what it writes")
        } else {
            format!("process {id} has ended; read_output process_id={id} shows what it wrote")
        }
    }
}

impl Tool for StartProcess {
    const NAME: &'static str = "start_process";
    const TITLE: &'static str = "Start a process";
    const ABOUT: &'static str = "Start a command in the background and return at once with its \
        process_id: for servers, watchers and long work. read_output shows what it writes and waits for \
        its end, a text or a port; kill_process ends it.";
    const EFFECT: Effect = Effect::Runs;
    const OPEN_WORLD: bool = true;
    type Output = Started;

    async fn run(self, call: &Call) -> Result<Started, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let id = self.id.map(|id| id.parse()).transpose();
        let request = ProcessRequest {
            command: Some(self.command),
            id: id.map_err(|error: IdError| Refusal::argument("id", error))?,
            cwd: self.cwd,
            env: set(self.env),
            session: self.session.as_deref().map(session_id).transpose()?,
            stdin_open: self.stdin_open,
            ..ProcessRequest::default()
        };
        let record = sandbox.create_process(&request).await?;
        Ok(Started {
            process_id: record.id.to_string(),
            running: record.state != ProcessState::Exited,
        })
    }
}

/// Arguments of `read_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOutput {
    /// The sandbox's id.
    sandbox: String,
    /// The process; or `session` and `command_id` for a session's command.
    process_id: Option<String>,
    /// The session of the command.
    session: Option<String>,
    /// The command's id, as run_in_session gave it.
    command_id: Option<String>,
    /// First byte of stdout to read; 0 by default, else the `next_offset` of the answer before.
    #[serde(default)]
    stdout_offset: u64,
    /// First byte of stderr to read; 0 by default.
    #[serde(default)]
    stderr_offset: u64,
    /// Only the last bytes of each stream, instead of those from an offset on.
    #[serde(default)]
    tail: bool,
    /// Most bytes of each stream in the answer; 20000 by default, 500000 at most.
    max_output_bytes: Option<u64>,
    /// Wait this long, at most, for the end of the process, or for what `until_text` or `until_port`
    /// says; 0 by default, 600000 at most. Only for a process.
    #[serde(default)]
    wait_ms: u64,
    /// Stop waiting once this text is in its output.
    until_text: Option<String>,
    /// Stop waiting once this TCP port answers.
    until_port: Option<u16>,
}

/// A part of what a process has written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Whether it still runs.
    running: bool,
    /// Its exit code; 128 + n when signal n ended it. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// What ended the wait: `exit`, `text`, `port` or `timeout`. Absent without a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_for: Option<Came>,
    stdout: Stream,
    stderr: Stream,
    #[serde(skip)]
    source: String,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Came {
    Exit,
    Text,
    Port,
    Timeout,
}

impl Answer for Output {
    fn text(&self) -> String {
        let how = format!("read_output {}", self.source);
        let mut text = self.stdout.text("stdout", &how);
        text.push_str(&self.stderr.text("stderr", &how));
        match self.waited_for {
            Some(Came::Text) => text.push_str("[the text is there] "),
            Some(Came::Port) => text.push_str("[the port answers] "),
            Some(Came::Timeout) => text.push_str("[wait_ms is over] "),
            Some(Came::Exit) | None => {}
        }
        text.push_str(&match (self.running, self.exit_code, &self.signal) {
            (true, ..) => format!(
                "[running; go on with stdout_offset={} stderr_offset={}]",
                self.stdout.next_offset, self.stderr.next_offset
            ),
            (false, _, Some(signal)) => format!("[ended by {signal}]"),
            (false, Some(code), None) => format!("[exit code {code}]"),
            (false, None, None) => "[it never ran]".to_owned(),
        });
        text
    }
}

/// The state of what is read.
struct State {
    running: bool,
    exit_code: Option<i32>,
    signal: Option<String>,
    waited_for: Option<Came>,
    stdout_bytes: u64,
    stderr_bytes: u64,
}

impl Tool for ReadOutput {
    const NAME: &'static str = "read_output";
    const TITLE: &'static str = "Read output";
    const ABOUT: &'static str = "Read what a process or a session's command has written, from an offset \
        on: the rest of a long output, or the news of one that runs. With wait_ms it first waits for the \
        end, for a text (until_text) or for a port (until_port), whichever comes first.";
    const EFFECT: Effect = Effect::Reads;
    type Output = Output;

    async fn run(self, call: &Call) -> Result<Output, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let most = bytes_of(self.max_output_bytes)?;
        let (source, named, state) = match (&self.process_id, &self.session, &self.command_id) {
            (Some(id), None, None) => {
                let id = process_id(id)?;
                let state = self.process(call, &sandbox, &id).await?;
                (
                    Source::Process(id.clone()),
                    format!("process_id={id}"),
                    state,
                )
            }
            (None, Some(session), Some(command)) => {
                let session = session_id(session)?;
                let command: CommandId = command
                    .parse()
                    .map_err(|error: IdError| Refusal::argument("command_id", error))?;
                let state = self.command(&sandbox, &session, &command).await?;
                let named = format!("session={session} command_id={command}");
                (Source::Command(session, command), named, state)
            }
            _ => {
                let reason = "give process_id, or session and command_id";
                return Err(Refusal::arguments(reason));
            }
        };
        let part = async |stream, offset: u64, total: u64| {
            let offset = if self.tail {
                total.saturating_sub(most)
            } else {
                offset
            };
            source.from(&sandbox, stream, offset, total, most).await
        };
        let (stdout, stderr) = both(
            part(StreamName::Stdout, self.stdout_offset, state.stdout_bytes),
            part(StreamName::Stderr, self.stderr_offset, state.stderr_bytes),
        )
        .await?;
        Ok(Output {
            running: state.running,
            exit_code: state.exit_code,
            signal: state.signal,
            waited_for: state.waited_for,
            stdout,
            stderr,
            source: named,
        })
    }
}

impl ReadOutput {
    /// Waits as asked for; then what is known of the process.
    async fn process(
        &self,
        call: &Call,
        sandbox: &Client,
        id: &ProcessId,
    ) -> Result<State, Refusal> {
        let wait_ms = bounded("wait_ms", Some(self.wait_ms), 0, 0..=MOST_WAIT_MS)?;
        let waits = wait_ms > 0;
        if !waits && (self.until_text.is_some() || self.until_port.is_some()) {
            let reason = "until_text and until_port need a time to wait";
            return Err(Refusal::argument("wait_ms", reason));
        }
        let (record, waited_for) = if waits {
            let until = WaitRequest {
                exit: None,
                log: self.until_text.clone().map(|pattern| LogCondition {
                    pattern,
                    ..LogCondition::default()
                }),
                port: self
                    .until_port
                    .map(|port| PortCondition { port, http: None }),
                timeout_ms: Some(wait_ms),
            };
            let waiting = wait(call, sandbox, id, &until);
            let end = async || "the process was left alone";
            let reply = call.or_cancelled(waiting, end).await?;
            let came = match reply.outcome {
                WaitOutcome::Exit => Came::Exit,
                WaitOutcome::Log => Came::Text,
                WaitOutcome::Port => Came::Port,
                WaitOutcome::Timeout => Came::Timeout,
            };
            (reply.process, Some(came))
        } else {
            (sandbox.process(id).await?, None)
        };
        Ok(State {
            running: record.state != ProcessState::Exited,
            exit_code: record.exit_code,
            signal: record.signal,
            waited_for,
            stdout_bytes: record.stdout_bytes,
            stderr_bytes: record.stderr_bytes,
        })
    }

    /// What is known of a session's command.
    async fn command(
        &self,
        sandbox: &Client,
        session: &SessionId,
        command: &CommandId,
    ) -> Result<State, Refusal> {
        if self.wait_ms > 0 || self.until_text.is_some() || self.until_port.is_some() {
            let reason =
                "only the end of a process can be waited for, not that of a session's command";
            return Err(Refusal::argument("wait_ms", reason)
                .hint("Give run_in_session a longer wait_ms, or use start_process with session."));
        }
        let record = sandbox.command(session, command).await?;
        Ok(State {
            running: matches!(record.state, CommandState::Queued | CommandState::Running),
            exit_code: record.exit_code,
            signal: record.signal,
            waited_for: None,
            stdout_bytes: record.stdout_bytes,
            stderr_bytes: record.stderr_bytes,
        })
    }
}

/// Arguments of `send_input`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendInput {
    /// The sandbox's id.
    sandbox: String,
    /// The process, started with `stdin_open`.
    process_id: String,
    /// Text to write; end it with a line feed where the program reads lines.
    #[serde(default)]
    text: String,
    /// End the standard input after it.
    #[serde(default)]
    close: bool,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sent {
    /// Bytes that were written now.
    bytes: u64,
    /// Whether the standard input was ended.
    closed: bool,
}

impl Answer for Sent {
    fn text(&self) -> String {
        let closed = if self.closed {
            "; the input has ended"
        } else {
            ""
        };
        format!("{} bytes were written{closed}", self.bytes)
    }
}

impl Tool for SendInput {
    const NAME: &'static str = "send_input";
    const TITLE: &'static str = "Send input to a process";
    const ABOUT: &'static str = "Write text to the standard input of a process that was started with \
        stdin_open, or end that input.";
    const EFFECT: Effect = Effect::Runs;
    type Output = Sent;

    async fn run(self, call: &Call) -> Result<Sent, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let id = process_id(&self.process_id)?;
        let bytes = self.text.len() as u64;
        if bytes > 0 {
            let write = sandbox.write_stdin(&id, None, self.text);
            let end = async || "part of the text may have been written";
            call.or_cancelled(write, end).await?;
        }
        if self.close {
            sandbox.close_stdin(&id).await?;
        }
        Ok(Sent {
            bytes,
            closed: self.close,
        })
    }
}

/// Arguments of `kill_process`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillProcess {
    /// The sandbox's id.
    sandbox: String,
    /// The process.
    process_id: String,
    /// Time between asking it to end (TERM) and ending it (KILL); 5000 by default, 60000 at most.
    grace_ms: Option<u64>,
}

/// What a kill did.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Killed {
    /// How many processes were ended, those that it had started included.
    killed: u32,
    /// What is still alive. None: all of it is gone.
    survivors: Vec<String>,
}

impl Answer for Killed {
    fn text(&self) -> String {
        if self.survivors.is_empty() {
            return format!(
                "{} processes were ended; nothing of it is left",
                self.killed
            );
        }
        format!("still alive: {}", self.survivors.join(", "))
    }
}

impl Tool for KillProcess {
    const NAME: &'static str = "kill_process";
    const TITLE: &'static str = "Kill a process";
    const ABOUT: &'static str = "End a process and everything it has started. Its output can still be \
        read.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = Killed;

    async fn run(self, call: &Call) -> Result<Killed, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let id = process_id(&self.process_id)?;
        let grace_ms = bounded("grace_ms", self.grace_ms, 5000, 0..=60_000)?;
        let request = KillRequest {
            grace_ms: Some(grace_ms),
        };
        let reply = sandbox.kill_process(&id, &request).await?;
        let survivor = |one: sandshell_types::Survivor| format!("{} ({})", one.command, one.pid);
        Ok(Killed {
            killed: reply.killed,
            survivors: reply.survivors.into_iter().map(survivor).collect(),
        })
    }
}
