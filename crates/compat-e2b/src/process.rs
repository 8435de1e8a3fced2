//! `process.Process`: commands and terminals, which both are processes here.
//!
//! A process is known by its pid or its tag. Of several that had the same pid, the one that runs is meant, or
//! the last one. What no client has read yet is kept, and comes first when one connects.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::types::{
    Encoded, Env, ExitEvent, KillRequest, ProcessId, ProcessRecord, ProcessRequest, ProcessState,
    SignalRequest, SignalScope, StreamName, TerminalRecord, TerminalState,
};
use sandshell_client::{Client, EventQuery, EventStream, OutputStreamEvent, ProcessFilter};
use sandshell_compat::all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Code, Fault};
use crate::known::Started;
use crate::path;
use crate::terminal;
use crate::wire::{Call, Feed, Inbox, before};

#[derive(Deserialize)]
pub(crate) struct Nothing {}

#[derive(Deserialize)]
pub(crate) struct Start {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) cmd: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) envs: BTreeMap<String, String>,
    pub(crate) cwd: Option<String>,
}

impl Config {
    pub(crate) fn argv(&self) -> Result<Vec<String>, Fault> {
        if self.cmd.is_empty() {
            return Err(Fault::invalid("there is no command"));
        }
        Ok([std::slice::from_ref(&self.cmd), &self.args].concat())
    }

    pub(crate) fn env(&self) -> Env {
        let set = |(name, value): (&String, &String)| (name.clone(), Some(value.clone()));
        self.envs.iter().map(set).collect()
    }

    pub(crate) fn directory(&self, user: Option<&str>) -> Option<String> {
        let cwd = self.cwd.as_deref().filter(|cwd| !cwd.is_empty())?;
        Some(path::of(cwd, user))
    }
}

#[derive(Deserialize)]
pub(crate) struct Pty {
    pub(crate) size: Option<Size>,
}

#[derive(Deserialize, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

#[derive(Deserialize)]
pub(crate) struct Selected {
    process: Selector,
}

#[derive(Deserialize)]
pub(crate) struct Selector {
    pid: Option<i32>,
    tag: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Update {
    process: Selector,
    pty: Option<Pty>,
}

#[derive(Deserialize)]
pub(crate) struct SendInput {
    process: Selector,
    input: Input,
}

#[derive(Deserialize)]
pub(crate) struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SendSignal {
    process: Selector,
    signal: String,
}

#[derive(Deserialize)]
pub(crate) struct StreamInput {
    start: Option<Selected>,
    data: Option<Data>,
}

#[derive(Deserialize)]
pub(crate) struct Data {
    input: Input,
}

/// What a selector leads to.
pub(crate) enum Found {
    Process(Box<ProcessRecord>),
    Terminal(Box<TerminalRecord>),
}

impl Found {
    fn pid(&self) -> i32 {
        match self {
            Self::Process(record) => record.pid,
            Self::Terminal(record) => record.pid,
        }
    }

    fn runs(&self) -> bool {
        match self {
            Self::Process(record) => record.state != ProcessState::Exited,
            Self::Terminal(record) => record.state == TerminalState::Running,
        }
    }

    fn started_at(&self) -> jiff::Timestamp {
        match self {
            Self::Process(record) => record.started_at,
            Self::Terminal(record) => record.started_at,
        }
    }

    fn is(&self, wanted: &Selector) -> bool {
        let tag = match self {
            Self::Process(record) => record.tag.as_deref(),
            Self::Terminal(record) => Some(record.id.as_str()),
        };
        match (wanted.pid, &wanted.tag) {
            (Some(pid), _) => self.pid() == pid,
            (None, Some(wanted)) => tag == Some(wanted),
            (None, None) => false,
        }
    }
}

/// All there are, of both kinds.
async fn programs(sandbox: &Client) -> Result<Vec<Found>, Fault> {
    let processes = all(|page| async move {
        let filter = ProcessFilter {
            page,
            ..ProcessFilter::default()
        };
        sandbox.list_processes(&filter).await
    });
    let processes = processes.await?.into_iter();
    let processes = processes.map(|one| Found::Process(Box::new(one)));
    let terminals = all(|page| async move { sandbox.list_terminals(&page).await }).await?;
    let terminals = terminals.into_iter();
    let terminals = terminals.map(|one| Found::Terminal(Box::new(one)));
    Ok(processes.chain(terminals).collect())
}

async fn find(call: &Call, wanted: &Selector) -> Result<Found, Fault> {
    if let Some(found) = remembered(call, wanted).await {
        return Ok(found);
    }
    let found = programs(&call.sandbox)
        .await?
        .into_iter()
        .filter(|one| one.is(wanted));
    let best = found.max_by_key(|one| (one.runs(), one.started_at()));
    best.ok_or_else(|| match (wanted.pid, &wanted.tag) {
        (Some(pid), _) => Fault::not_found(format!("process with pid {pid} not found")),
        (None, Some(tag)) => Fault::not_found(format!("process with tag {tag:?} not found")),
        (None, None) => Fault::invalid("a process is named by its pid or its tag"),
    })
}

/// What we started with this pid, if it still runs.
async fn remembered(call: &Call, wanted: &Selector) -> Option<Found> {
    let found = match call.known.get(&call.id, wanted.pid?)? {
        Started::Process(id) => Found::Process(Box::new(call.sandbox.process(&id).await.ok()?)),
        Started::Terminal(id) => Found::Terminal(Box::new(call.sandbox.terminal(&id).await.ok()?)),
    };
    (found.is(wanted) && found.runs()).then_some(found)
}

/// The same, if it runs.
async fn running(call: &Call, wanted: &Selector) -> Result<Found, Fault> {
    let found = find(call, wanted).await?;
    if found.runs() {
        return Ok(found);
    }
    Err(Fault::not_found(format!(
        "process with pid {} has ended",
        found.pid()
    )))
}

pub(crate) async fn list(call: Call, _: Nothing) -> Result<Value, Fault> {
    let shown = |one: Found| {
        let (argv, command, tag) = match &one {
            Found::Process(record) => (&record.argv, &record.command, record.tag.as_deref()),
            Found::Terminal(record) => (&record.argv, &record.command, None),
        };
        let (cmd, args) = match (argv.as_deref(), command) {
            (Some([cmd, args @ ..]), _) => (cmd.clone(), args.to_vec()),
            (_, Some(text)) => ("/bin/bash".to_owned(), vec!["-c".to_owned(), text.clone()]),
            _ => ("/bin/bash".to_owned(), Vec::new()),
        };
        let config = json!({"cmd": cmd, "args": args, "envs": {}});
        let mut process = json!({"config": config, "pid": one.pid()});
        if let Some(tag) = tag {
            process["tag"] = tag.into();
        }
        process
    };
    let running = programs(&call.sandbox)
        .await?
        .into_iter()
        .filter(Found::runs);
    let processes: Vec<Value> = running.map(shown).collect();
    Ok(json!({"processes": processes}))
}

pub(crate) async fn start(call: Call, asked: Start, feed: Feed) -> Result<(), Fault> {
    if let Some(pty) = asked.pty {
        return terminal::start(call, asked.process, pty, asked.tag, feed).await;
    }
    let user = call.user.as_deref();
    let request = ProcessRequest {
        argv: Some(asked.process.argv()?),
        cwd: asked.process.directory(user),
        env: asked.process.env(),
        tag: asked.tag,
        user: call.user.clone(),
        stdin_open: asked.stdin.unwrap_or(true),
        timeout_ms: call.timeout.map(|timeout| timeout.as_millis() as u64),
        ..ProcessRequest::default()
    };
    let record = call.sandbox.create_process(&request).await?;
    call.known
        .put(&call.id, record.pid, Started::Process(record.id.clone()));
    let output = output_of(&call.sandbox, &record.id).await?;
    pour(&call, &feed, record.pid, output).await
}

pub(crate) async fn connect(call: Call, asked: Selected, feed: Feed) -> Result<(), Fault> {
    let work = async {
        match find(&call, &asked.process).await? {
            Found::Process(record) => {
                let output = output_of(&call.sandbox, &record.id).await?;
                pour(&call, &feed, record.pid, output).await
            }
            Found::Terminal(record) => terminal::connect(&call, &record, &feed).await,
        }
    };
    before(call.deadline(), work).await
}

async fn output_of(sandbox: &Client, id: &ProcessId) -> Result<EventStream, Fault> {
    let query = EventQuery {
        from: None,
        follow: Some(true),
    };
    Ok(sandbox.process_events(id, query).await?)
}

pub(crate) fn started(pid: i32) -> Value {
    json!({"event": {"start": {"pid": pid}}})
}

pub(crate) fn alive() -> Value {
    json!({"event": {"keepalive": {}}})
}

/// Sends output until its end.
async fn pour(call: &Call, feed: &Feed, pid: i32, mut output: EventStream) -> Result<(), Fault> {
    feed.tell(&started(pid)).await?;
    let alive = alive();
    let mut told = false;
    loop {
        let event = match feed.wait(call.silence, &alive, output.next()).await? {
            Some(event) => event?.event,
            None => return Err(cut_off()),
        };
        match event {
            OutputStreamEvent::Output(piece) => {
                let bytes = Encoded::decode(&piece.data, piece.encoding).unwrap_or_default();
                let name = match piece.stream {
                    StreamName::Stdout | StreamName::LateStdout => "stdout",
                    StreamName::Stderr | StreamName::LateStderr => "stderr",
                };
                told = true;
                let data = json!({name: BASE64.encode(bytes)});
                feed.tell(&json!({"event": {"data": data}})).await?;
            }
            // Before the first piece it is older than what is kept; later the client was too slow.
            OutputStreamEvent::Truncated(gap) if told => {
                let message = format!("{} bytes of output are no longer kept", gap.bytes);
                return Err(Fault::new(Code::DataLoss, message));
            }
            OutputStreamEvent::Exit(exit) => return end(feed, &exit).await,
            _ => {}
        }
    }
}

/// The output ended and its process did not: the connection to the sandbox did.
pub(crate) fn cut_off() -> Fault {
    Fault::new(
        Code::Unavailable,
        "the connection to the sandbox ended before the stream completed",
    )
}

async fn end(feed: &Feed, exit: &ExitEvent) -> Result<(), Fault> {
    if exit.timed_out {
        return Err(Fault::new(
            Code::DeadlineExceeded,
            format!("the process was ended after {} ms", exit.duration_ms),
        ));
    }
    let code = exit.exit_code.unwrap_or(-1);
    feed.tell(&ended(code, exit.signal.as_deref())).await
}

/// How a process ended, in their words: one that a signal ended has no exit status.
pub(crate) fn ended(code: i32, signal: Option<&str>) -> Value {
    let (code, status) = match signal {
        Some(signal) => (-1, format!("signal: {}", signal_words(signal))),
        None => (code, format!("exit status {code}")),
    };
    let mut end = json!({"exitCode": code, "exited": signal.is_none(), "status": status});
    if code != 0 {
        end["error"] = status.into();
    }
    json!({"event": {"end": end}})
}

fn signal_words(name: &str) -> String {
    match name {
        "SIGKILL" => "killed".to_owned(),
        "SIGTERM" => "terminated".to_owned(),
        "SIGINT" => "interrupt".to_owned(),
        "SIGHUP" => "hangup".to_owned(),
        "SIGABRT" => "aborted".to_owned(),
        "SIGSEGV" => "segmentation fault".to_owned(),
        "SIGPIPE" => "broken pipe".to_owned(),
        other => other.trim_start_matches("SIG").to_ascii_lowercase(),
    }
}

pub(crate) async fn update(call: Call, asked: Update) -> Result<Value, Fault> {
    let size = asked.pty.and_then(|pty| pty.size);
    match running(&call, &asked.process).await? {
        Found::Terminal(record) => {
            if let Some(size) = size {
                let resized = call
                    .sandbox
                    .resize_terminal(&record.id, size.cols, size.rows);
                resized.await?;
            }
            Ok(json!({}))
        }
        Found::Process(_) if size.is_none() => Ok(json!({})),
        Found::Process(_) => Err(no_terminal()),
    }
}

fn no_terminal() -> Fault {
    Fault::new(Code::FailedPrecondition, "the process has no terminal")
}

/// What input is for.
enum Target {
    Process(ProcessId),
    Terminal(Box<terminal::Keys>),
}

impl Target {
    async fn of(call: &Call, wanted: &Selector) -> Result<Self, Fault> {
        Ok(match running(call, wanted).await? {
            Found::Process(record) => Self::Process(record.id),
            Found::Terminal(record) => {
                Self::Terminal(Box::new(terminal::Keys::of(&call.sandbox, &record).await?))
            }
        })
    }

    async fn take(&mut self, sandbox: &Client, input: Input) -> Result<(), Fault> {
        let decoded = |text: String| {
            BASE64
                .decode(text)
                .map_err(|_| Fault::invalid("the input is not base64"))
        };
        match (self, input) {
            (
                Self::Process(id),
                Input {
                    stdin: Some(text), ..
                },
            ) => {
                sandbox.write_stdin(id, None, decoded(text)?).await?;
                Ok(())
            }
            (
                Self::Terminal(keys),
                Input {
                    pty: Some(text), ..
                },
            ) => keys.type_in(decoded(text)?).await,
            (Self::Process(_), _) => Err(no_terminal()),
            (Self::Terminal(_), _) => Err(Fault::new(
                Code::FailedPrecondition,
                "the process has a terminal, which takes input for `pty`",
            )),
        }
    }

    /// Waits until all of it has been taken in.
    async fn done(self) -> Result<(), Fault> {
        match self {
            Self::Process(_) => Ok(()),
            Self::Terminal(keys) => keys.done().await,
        }
    }
}

pub(crate) async fn send_input(call: Call, asked: SendInput) -> Result<Value, Fault> {
    let mut target = Target::of(&call, &asked.process).await?;
    target.take(&call.sandbox, asked.input).await?;
    target.done().await?;
    Ok(json!({}))
}

pub(crate) async fn stream_input(
    call: Call,
    mut asked: Inbox<StreamInput>,
) -> Result<Value, Fault> {
    let mut target = None;
    while let Some(message) = asked.next().await? {
        if let Some(start) = message.start {
            target = Some(Target::of(&call, &start.process).await?);
        } else if let Some(data) = message.data {
            let first = || Fault::invalid("the first message names the process");
            let target = target.as_mut().ok_or_else(first)?;
            target.take(&call.sandbox, data.input).await?;
        }
    }
    if let Some(target) = target {
        target.done().await?;
    }
    Ok(json!({}))
}

pub(crate) async fn close_stdin(call: Call, asked: Selected) -> Result<Value, Fault> {
    match running(&call, &asked.process).await? {
        Found::Process(record) => {
            call.sandbox.close_stdin(&record.id).await?;
        }
        Found::Terminal(_) => {
            let message = "a terminal has no end of input; send it the character ^D";
            return Err(Fault::new(Code::FailedPrecondition, message));
        }
    }
    Ok(json!({}))
}

/// A kill ends the whole tree, and is answered when it is gone.
pub(crate) async fn send_signal(call: Call, asked: SendSignal) -> Result<Value, Fault> {
    let found = running(&call, &asked.process).await?;
    let name = match asked.signal.as_str() {
        "SIGNAL_SIGKILL" => "SIGKILL",
        "SIGNAL_SIGTERM" => "SIGTERM",
        other => return Err(Fault::invalid(format!("{other:?} is not a signal here"))),
    };
    match found {
        Found::Process(record) if name == "SIGKILL" => {
            let at_once = KillRequest { grace_ms: Some(0) };
            call.sandbox.kill_process(&record.id, &at_once).await?;
        }
        Found::Process(record) => {
            let request = SignalRequest {
                signal: name.to_owned(),
                scope: SignalScope::Tree,
            };
            call.sandbox.signal_process(&record.id, &request).await?;
        }
        Found::Terminal(record) => terminal::signal(&call.sandbox, &record, name).await?,
    }
    Ok(json!({}))
}
