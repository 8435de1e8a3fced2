//! Commands: run once in a clean shell, or one after the other in a session that keeps its state.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use sandshell_client::{Client, ClientError, EventQuery, OutputStreamEvent};
use sandshell_types::{
    CommandId, ErrorCode, KillRequest, ProcessId, ProcessRecord, ProcessRequest, ProcessState,
    SessionExecRequest, SessionExecResult, SessionId, SessionRequest, StreamName, WaitReply,
    WaitRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, session_id};
use crate::output::{Source, Stream, both, bytes_of, wait_of};
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// The session of a caller that names none.
const USUAL_SESSION: &str = "main";

/// Time between TERM and KILL for what a cancelled call has started.
const GRACE_MS: u64 = 1000;

/// What became of a command.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Outcome {
    /// Whether it still runs. Then `read_output` reads on and waits, by the ids below.
    running: bool,
    /// Its exit code; 128 + n when signal n ended it. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// Whether `timeout_ms` ended it.
    timed_out: bool,
    /// Whether memory was used up.
    out_of_memory: bool,
    stdout: Stream,
    stderr: Stream,
    /// The id of its process, for `read_output` and `kill_process`.
    #[serde(skip_serializing_if = "Option::is_none")]
    process_id: Option<String>,
    /// The session it ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Its id in the session, for `read_output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_id: Option<String>,
    /// The session's working directory after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// The session's state after it: `kept`; or `restored`, when the shell ended and another took over;
    /// or `restored_before`, when that one has the state from before this command; or `ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_state: Option<String>,
}

impl Outcome {
    fn of_process(record: &ProcessRecord, stdout: Stream, stderr: Stream) -> Self {
        Self {
            running: record.state != ProcessState::Exited,
            exit_code: record.exit_code,
            signal: record.signal.clone(),
            timed_out: record.timed_out,
            out_of_memory: record.oom,
            stdout,
            stderr,
            process_id: Some(record.id.to_string()),
            session: None,
            command_id: None,
            cwd: None,
            session_state: None,
        }
    }

    /// How `read_output` is told which output is meant.
    fn source(&self) -> String {
        match (&self.process_id, &self.session, &self.command_id) {
            (Some(id), ..) => format!("process_id={id}"),
            (None, Some(session), Some(command)) => {
                format!("session={session} command_id={command}")
            }
            _ => String::new(),
        }
    }
}

impl Answer for Outcome {
    fn text(&self) -> String {
        let source = self.source();
        let how = format!("read_output {source}");
        let mut text = self.stdout.text("stdout", &how);
        text.push_str(&self.stderr.text("stderr", &how));
        let end = match (self.running, self.exit_code, &self.signal) {
            (true, ..) => format!(
                "[still running: read_output {source} stdout_offset={} stderr_offset={} reads on]",
                self.stdout.next_offset, self.stderr.next_offset
            ),
            (false, _, Some(signal)) => format!("[ended by {signal}]"),
            (false, Some(code), None) => format!("[exit code {code}]"),
            (false, None, None) => "[ended]".to_owned(),
        };
        text.push_str(&end);
        for (holds, note) in [
            (self.timed_out, " [timeout_ms was over]"),
            (self.out_of_memory, " [memory was used up]"),
        ] {
            if holds {
                text.push_str(note);
            }
        }
        if let Some(state) = self
            .session_state
            .as_deref()
            .filter(|state| *state != "kept")
        {
            text.push_str(&format!(" [session: {state}]"));
        }
        text
    }
}

/// Arguments of `run_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    /// The sandbox's id.
    sandbox: String,
    /// Text for bash, such as `make test 2>&1 | tail -n 50`.
    command: String,
    /// Directory to start in; /workspace by default.
    cwd: Option<String>,
    /// Environment variables for this command.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Text for the standard input, which then ends.
    stdin: Option<String>,
    /// How long to wait for its end; 30000 by default, 600000 at most. What still runs then goes on, and
    /// the answer has its `process_id`.
    wait_ms: Option<u64>,
    /// End it after this long. Never by default.
    timeout_ms: Option<u64>,
    /// Most bytes of each stream in the answer; 20000 by default, 500000 at most. Head and tail are kept.
    max_output_bytes: Option<u64>,
}

impl Tool for RunCommand {
    const NAME: &'static str = "run_command";
    const TITLE: &'static str = "Run a command";
    const ABOUT: &'static str = "Run one shell command in a clean shell and get its exit code and output. \
        Nothing is kept for the next command: use run_in_session where cd, variables or functions \
        matter, start_process for servers. A command that takes longer than wait_ms goes on, and its \
        process_id comes back instead of an exit code.";
    const EFFECT: Effect = Effect::Runs;
    const OPEN_WORLD: bool = true;
    type Output = Outcome;

    async fn run(self, call: &Call) -> Result<Outcome, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let most = bytes_of(self.max_output_bytes)?;
        let wait_ms = wait_of(self.wait_ms)?;
        let request = ProcessRequest {
            command: Some(self.command),
            cwd: self.cwd,
            env: set(self.env),
            stdin: self.stdin,
            timeout_ms: self.timeout_ms,
            ..ProcessRequest::default()
        };
        let id = sandbox.create_process(&request).await?.id;
        let until = WaitRequest {
            timeout_ms: Some(wait_ms),
            ..WaitRequest::default()
        };
        let waiting = wait(call, &sandbox, &id, &until);
        let end = async || {
            let grace = KillRequest {
                grace_ms: Some(GRACE_MS),
            };
            match sandbox.kill_process(&id, &grace).await {
                Ok(_) => "the command was ended",
                Err(_) => "the command may still run",
            }
        };
        let record = call.or_cancelled(waiting, end).await?.process;
        let source = Source::Process(id);
        let (stdout, stderr) = excerpts(&sandbox, &source, most, &record).await?;
        Ok(Outcome::of_process(&record, stdout, stderr))
    }
}

/// Both streams of a process, cut.
async fn excerpts(
    sandbox: &Client,
    source: &Source,
    most: u64,
    record: &ProcessRecord,
) -> Result<(Stream, Stream), ClientError> {
    both(
        source.excerpt(sandbox, StreamName::Stdout, record.stdout_bytes, most),
        source.excerpt(sandbox, StreamName::Stderr, record.stderr_bytes, most),
    )
    .await
}

/// Waits for something of a process; a client that asked for it is told meanwhile what it writes.
pub(super) async fn wait(
    call: &Call,
    sandbox: &Client,
    id: &ProcessId,
    until: &WaitRequest,
) -> Result<WaitReply, ClientError> {
    let mut waiting = pin!(sandbox.wait_process(id, until));
    let Some(progress) = &call.progress else {
        return waiting.await;
    };
    let telling = async {
        let follow = EventQuery {
            from: None,
            follow: Some(true),
        };
        // What cannot be told is not worth a failure: the wait goes on.
        let Ok(mut events) = sandbox.process_events(id, follow).await else {
            return;
        };
        let mut told = progress.start();
        let mut bytes = 0;
        while let Some(Ok(event)) = events.next().await {
            if let OutputStreamEvent::Output(piece) = event.event {
                bytes += piece.data.len() as u64;
                told.say(bytes, &piece.data).await;
            }
        }
    };
    tokio::select! {
        reply = &mut waiting => return reply,
        () = telling => {}
    }
    waiting.await
}

pub(super) fn set(env: BTreeMap<String, String>) -> sandshell_types::Env {
    env.into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect()
}

/// Arguments of `run_in_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunInSession {
    /// The sandbox's id.
    sandbox: String,
    /// Text for bash.
    command: String,
    /// A name for the session, `main` by default. It is made on its first use; different names are
    /// independent shells.
    session: Option<String>,
    /// Text for the standard input, which then ends.
    stdin: Option<String>,
    /// How long to wait for its end; 30000 by default, 600000 at most. What still runs then goes on, and
    /// the answer has its `command_id`.
    wait_ms: Option<u64>,
    /// Interrupt it after this long; the session keeps its state. Never by default.
    timeout_ms: Option<u64>,
    /// Most bytes of each stream in the answer; 20000 by default, 500000 at most. Head and tail are kept.
    max_output_bytes: Option<u64>,
}

impl Tool for RunInSession {
    const NAME: &'static str = "run_in_session";
    const TITLE: &'static str = "Run a command in a session";
    const ABOUT: &'static str = "Run a shell command in a session: working directory, variables, \
        functions, aliases and options stay for the next command of that session, as in a terminal. \
        Commands of one session run one after the other. interrupt_session ends one that takes too \
        long, and keeps the state.";
    const EFFECT: Effect = Effect::Runs;
    const OPEN_WORLD: bool = true;
    type Output = Outcome;

    async fn run(self, call: &Call) -> Result<Outcome, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let session = session_id(self.session.as_deref().unwrap_or(USUAL_SESSION))?;
        let most = bytes_of(self.max_output_bytes)?;
        let wait = Duration::from_millis(wait_of(self.wait_ms)?);
        let id = CommandId::generate();
        let request = SessionExecRequest {
            command: self.command,
            id: Some(id.clone()),
            stdin: self.stdin,
            timeout_ms: self.timeout_ms,
            // The exact bytes are read by offset where there are more.
            max_output_bytes: Some(most),
            ..SessionExecRequest::default()
        };
        // In a task of its own: what is not over in time goes on, its session's making included.
        let running = {
            let (sandbox, session) = (sandbox.clone(), session.clone());
            tokio::spawn(async move { in_session(&sandbox, &session, &request).await })
        };
        let working = async {
            match tokio::time::timeout(wait, running).await {
                Ok(Ok(result)) => result.map(Some),
                // It is not over, or a panic has ended it: then its record tells.
                Ok(Err(_)) | Err(_) => Ok(None),
            }
        };
        let end = async || match end_command(&sandbox, &session, &id).await {
            Ok(true) => "the command was interrupted",
            Ok(false) => "the command was not running; one that waits for its turn still gets it",
            Err(_) => "the command may still run",
        };
        match call.or_cancelled(working, end).await? {
            Some(result) => finished(&sandbox, session, result, most).await,
            None => unfinished(&sandbox, session, id, most).await,
        }
    }
}

/// Runs a command in a session, which is made when there is none of that name.
async fn in_session(
    sandbox: &Client,
    session: &SessionId,
    request: &SessionExecRequest,
) -> Result<SessionExecResult, ClientError> {
    match sandbox.session_exec(session, request).await {
        Err(error) if error.code() == Some(ErrorCode::SessionNotFound) => {
            let fresh = SessionRequest {
                id: Some(session.clone()),
                ..SessionRequest::default()
            };
            sandbox.create_session(&fresh).await?;
            sandbox.session_exec(session, request).await
        }
        other => other,
    }
}

/// Interrupts the command if it is the one that runs.
async fn end_command(
    sandbox: &Client,
    session: &SessionId,
    command: &CommandId,
) -> Result<bool, ClientError> {
    let foreground = sandbox.session(session).await?.foreground;
    let runs = foreground.is_some_and(|running| running.command_id == *command);
    if runs {
        sandbox.interrupt_session(session).await?;
    }
    Ok(runs)
}

async fn finished(
    sandbox: &Client,
    session: SessionId,
    result: SessionExecResult,
    most: u64,
) -> Result<Outcome, Refusal> {
    let source = Source::Command(session.clone(), result.command_id.clone());
    let part = async |stream, data: &str, encoding, omitted: u64| {
        let bytes = sandshell_types::Encoded::decode(data, encoding).unwrap_or_default();
        if omitted == 0 {
            return Ok(Stream::whole(bytes));
        }
        let total = bytes.len() as u64 + omitted;
        source.excerpt(sandbox, stream, total, most).await
    };
    let omitted = result.truncated;
    let (out, err) = omitted.map_or((0, 0), |some| (some.stdout_bytes, some.stderr_bytes));
    let (stdout, stderr) = both(
        part(
            StreamName::Stdout,
            &result.stdout,
            result.stdout_encoding,
            out,
        ),
        part(
            StreamName::Stderr,
            &result.stderr,
            result.stderr_encoding,
            err,
        ),
    )
    .await?;
    Ok(Outcome {
        running: false,
        exit_code: Some(result.exit_code),
        signal: result.signal,
        timed_out: result.timed_out,
        out_of_memory: result.oom,
        stdout,
        stderr,
        process_id: None,
        session: Some(session.to_string()),
        command_id: Some(result.command_id.to_string()),
        cwd: Some(result.cwd),
        session_state: Some(result.session_state),
    })
}

/// A command that goes on, with what it has written so far.
async fn unfinished(
    sandbox: &Client,
    session: SessionId,
    id: CommandId,
    most: u64,
) -> Result<Outcome, Refusal> {
    let record = sandbox.command(&session, &id).await?;
    let source = Source::Command(session.clone(), id);
    let (stdout, stderr) = both(
        source.excerpt(sandbox, StreamName::Stdout, record.stdout_bytes, most),
        source.excerpt(sandbox, StreamName::Stderr, record.stderr_bytes, most),
    )
    .await?;
    Ok(Outcome {
        // It may have ended while its output was read.
        running: record.ended_at.is_none(),
        exit_code: record.exit_code,
        signal: record.signal,
        timed_out: record.timed_out,
        out_of_memory: record.oom,
        stdout,
        stderr,
        process_id: None,
        session: Some(session.to_string()),
        command_id: Some(record.id.to_string()),
        cwd: record.cwd,
        session_state: None,
    })
}

/// Arguments of `interrupt_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InterruptSession {
    /// The sandbox's id.
    sandbox: String,
    /// The session's name, `main` by default.
    session: Option<String>,
}

/// What an interrupt did.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Interrupted {
    session: String,
    /// The command that was ended. Absent when none ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_id: Option<String>,
    /// The session's working directory.
    cwd: String,
}

impl Answer for Interrupted {
    fn text(&self) -> String {
        match &self.command_id {
            Some(id) => format!(
                "command {id} was interrupted; session {} goes on",
                self.session
            ),
            None => format!("no command ran in session {}", self.session),
        }
    }
}

impl Tool for InterruptSession {
    const NAME: &'static str = "interrupt_session";
    const TITLE: &'static str = "Interrupt a session";
    const ABOUT: &'static str = "End the command that runs in a session, as Ctrl-C would. The answer comes \
        when it is really over; the session keeps its state.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = Interrupted;

    async fn run(self, call: &Call) -> Result<Interrupted, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let session = session_id(self.session.as_deref().unwrap_or(USUAL_SESSION))?;
        let reply = sandbox.interrupt_session(&session).await?;
        Ok(Interrupted {
            session: session.to_string(),
            command_id: reply.command_id.map(|id| id.to_string()),
            cwd: reply.session.cwd,
        })
    }
}
