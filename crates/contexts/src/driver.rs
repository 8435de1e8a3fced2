//! The built-in drivers: an interpreter of the sandbox that runs our source and talks to us on a
//! socket, with its output in two pipes.
//!
//! ```text
//!  start ─ hello ─► waiting ─ init ─ ready ─► idle ── run ──► busy ── done ──► idle
//!                                                               │ stop: interrupt in stages
//!                                                               └── killed, or ended by itself
//! ```
//!
//! The driver flushes what the code wrote before it sends a message, and a message is taken in only
//! after the pipes have been emptied: so values and output keep their order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use sandshell_exec::output::{OutputLog, Stream};
use sandshell_exec::{AttachRequest, Attached, Ended, ExecError, Executor, Pump};
use sandshell_sys::task;
use sandshell_types::{ContextRequest, KernelChoice, KillReply, RunError, RunResult, RunStatus};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use crate::ContextError;
use crate::frames::Frames;
use crate::javascript;
use crate::kernel::{Finished, KernelFacts, Wake};
use crate::language::Interpreter;
use crate::run::{RunHandle, Stop};
use crate::stages::{self, Stopping};

/// Where the driver finds what it was given. Below 16, because Node keeps such from its children (and
/// has no other way to be told), and above what scripts use.
const SOURCE_FD: i32 = 12;
const INTERRUPT_FD: i32 = 13;
const CONTROL_FD: i32 = 14;

/// How long an interpreter may take to say hello. A cold disk and a busy machine need seconds.
const HELLO: Duration = Duration::from_mins(1);

/// How long the last messages of an interpreter that has ended may take.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// TERM to KILL for an interpreter that is not needed any more.
const END_GRACE: Duration = Duration::from_millis(100);

/// An interpreter with our driver in it.
#[derive(Debug)]
pub(crate) struct DriverKernel {
    interpreter: Interpreter,
    program: Attached,
    pump: Pump,
    frames: Frames,
    /// Single bytes, for what must be heard while code runs.
    interrupts: UnixStream,
    version: String,
    cwd: String,
    typescript: bool,
}

/// The sealed files with the drivers' sources, made once.
#[derive(Debug)]
pub(crate) struct Sources {
    python: Arc<OwnedFd>,
    node: Arc<OwnedFd>,
}

impl Sources {
    pub(crate) fn new() -> Result<Self, ExecError> {
        let file = |interpreter: Interpreter| {
            sandshell_exec::sealed_file("driver", interpreter.source().as_bytes()).map(Arc::new)
        };
        Ok(Self {
            python: file(Interpreter::Python)?,
            node: file(Interpreter::Node)?,
        })
    }

    fn of(&self, interpreter: Interpreter) -> Arc<OwnedFd> {
        match interpreter {
            Interpreter::Python => self.python.clone(),
            Interpreter::Node => self.node.clone(),
        }
    }
}

impl DriverKernel {
    /// Starts an interpreter and waits for its hello.
    pub(crate) async fn start(
        executor: &Executor,
        sources: &Sources,
        interpreter: Interpreter,
        spec: Option<&ContextRequest>,
    ) -> Result<Self, ContextError> {
        let (control, control_theirs) = pair()?;
        let (interrupts, interrupts_theirs) = pair()?;
        let mut request = AttachRequest {
            argv: interpreter.argv(),
            files: vec![
                (sources.of(interpreter), SOURCE_FD),
                (Arc::new(interrupts_theirs), INTERRUPT_FD),
                (Arc::new(control_theirs), CONTROL_FD),
            ],
            ..AttachRequest::default()
        };
        if let Some(spec) = spec {
            request.cwd.clone_from(&spec.cwd);
            request.env.clone_from(&spec.env);
            request.user.clone_from(&spec.user);
            request.session = spec.session.as_ref().map(ToString::to_string);
        }
        let cwd = executor.absolute(
            std::path::Path::new(request.cwd.as_deref().unwrap_or("")),
            request.session.as_deref(),
        )?;
        let (program, pump) = executor
            .attach(request)
            .await
            .map_err(|error| match error {
                ExecError::ProgramNotFound { .. } => interpreter.missing(),
                other => other.into(),
            })?;
        let mut kernel = Self {
            interpreter,
            program,
            pump,
            frames: Frames::new(control),
            interrupts,
            version: String::new(),
            cwd: cwd.to_string_lossy().trim_end_matches('/').to_owned(),
            typescript: false,
        };
        if kernel.cwd.is_empty() {
            "/".clone_into(&mut kernel.cwd);
        }
        kernel.hello(executor).await?;
        Ok(kernel)
    }

    async fn hello(&mut self, executor: &Executor) -> Result<(), ContextError> {
        let log = executor.output_log(&format!("hello-{}", self.program.pid), crate::context::LOG);
        let mut over = std::pin::pin!(task::own_time(HELLO));
        let reason = loop {
            tokio::select! {
                message = self.frames.next() => {
                    if let Ok(message) = message {
                        if let [kind, version] = message.as_slice() && kind == "hello" {
                            self.version.clone_from(version);
                            return Ok(());
                        }
                        break "it said something else".to_owned();
                    }
                    tokio::select! {
                        ended = self.program.ended() => {
                            if ended.exit_code == 127 {
                                return Err(self.interpreter.missing());
                            }
                            break said(&ended);
                        }
                        () = &mut over => break "it closed its channel".to_owned(),
                    }
                }
                stream = self.pump.ready() => self.pump.transfer(stream, &log).await,
                () = &mut over => {
                    break format!("it did not answer within {} s", HELLO.as_secs());
                }
            }
        };
        self.pump.drain(&log).await;
        let excerpt = log
            .excerpt(Stream::Stderr, 2000, sandshell_types::Truncate::Head)
            .await;
        let text = excerpt.map(|excerpt| excerpt.bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        Err(ContextError::start(if text.is_empty() {
            reason
        } else {
            format!("{reason}: {text}")
        }))
    }

    /// Makes an interpreter that was held ready start where the context is to.
    pub(crate) async fn enter(&mut self, cwd: &str) -> Result<(), ContextError> {
        let gone = |_| ContextError::start("it ended");
        self.frames.send(&["init", cwd]).await.map_err(gone)?;
        let answer = self.frames.next().await.map_err(gone)?;
        match answer.as_slice() {
            [ready] if ready == "ready" => {
                cwd.clone_into(&mut self.cwd);
                Ok(())
            }
            [_, reason] => Err(ContextError::from(ExecError::Cwd {
                path: cwd.to_owned(),
                reason: reason.clone(),
            })),
            _ => Err(ContextError::start("it said something else")),
        }
    }

    pub(crate) fn speaking_typescript(mut self, typescript: bool) -> Self {
        self.typescript = typescript;
        self
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.program.has_ended().is_none()
    }

    pub(crate) fn facts(&self) -> KernelFacts {
        KernelFacts {
            kind: KernelChoice::Builtin,
            interpreter: self.version.clone(),
            pid: self.program.pid,
            cwd: self.cwd.clone(),
        }
    }

    pub(crate) async fn wake(&mut self) -> Wake {
        tokio::select! {
            stream = self.pump.ready() => Wake::Output(stream),
            ended = self.program.ended() => Wake::Ended(said(&ended)),
        }
    }

    pub(crate) async fn transfer(&mut self, stream: Stream, log: &OutputLog) {
        self.pump.transfer(stream, log).await;
    }

    pub(crate) async fn run(&mut self, run: &RunHandle, log: &OutputLog) -> Finished {
        let request = run.request();
        let code = match self.interpreter {
            Interpreter::Python => Ok(request.code.clone()),
            Interpreter::Node => javascript::prepare(&request.code, self.typescript).await,
        };
        let code = match code {
            Ok(code) => code,
            Err(error) => {
                run.add_error(error);
                return Finished::kept(RunStatus::Error);
            }
        };
        let mut words = vec!["run", &code];
        for (name, value) in &request.env {
            words.push(name);
            words.push(if value.is_some() { "1" } else { "0" });
            words.push(value.as_deref().unwrap_or_default());
        }
        if self.frames.send(&words).await.is_err() {
            return self.lost(run, log, None).await;
        }
        self.attend(run, log).await
    }

    /// Takes in all that comes until the run is over.
    async fn attend(&mut self, run: &RunHandle, log: &OutputLog) -> Finished {
        let mut stopping = Stopping::of(run);
        loop {
            tokio::select! {
                // Output comes last: a flood of it must not keep us from the rest.
                biased;
                () = stopping.ask(&self.program) => self.interrupt().await,
                message = self.frames.next() => match message {
                    Ok(message) => {
                        self.pump.drain(log).await;
                        let waits = matches!(
                            message.as_slice(),
                            [kind, is_main, ..] if is_main == "0" && (kind == "data" || kind == "dropped")
                        );
                        if let Some(status) = take_in(run, message) {
                            return Finished::kept(stopping.reason().map_or(status, Finished::status_of));
                        }
                        // A byte each, into a socket that is as good as empty.
                        if waits && self.interrupts.write_all(b"g").await.is_err() {
                            return self.lost(run, log, stopping.reason()).await;
                        }
                    }
                    // It ends, or has closed what is ours: it cannot be used any more.
                    Err(_) => return self.lost(run, log, stopping.reason()).await,
                },
                // A child may have the channel too, so its end alone does not tell.
                _ = self.program.ended() => return self.lost(run, log, stopping.reason()).await,
                stream = self.pump.ready() => self.pump.transfer(stream, log).await,
            }
        }
    }

    async fn interrupt(&mut self) {
        match self.interpreter {
            Interpreter::Python => stages::ask_by_signal(&self.program),
            // One byte into an empty socket does not wait.
            Interpreter::Node => {
                let _ = self.interrupts.write_all(b"i").await;
            }
        }
    }

    /// The interpreter is gone, or out of reach and therefore killed.
    async fn lost(&mut self, run: &RunHandle, log: &OutputLog, stopped: Option<Stop>) -> Finished {
        let ended = end_of(&self.program).await;
        self.pump.drain(log).await;
        // What it said last has arrived already, unless a child holds the channel and is silent.
        while let Ok(Ok(message)) = tokio::time::timeout(LAST_WORDS, self.frames.next()).await {
            let _ = take_in(run, message);
        }
        Finished::lost(run, &ended, stopped)
    }

    pub(crate) async fn end(self) -> KillReply {
        self.program.kill(END_GRACE).await
    }
}

/// Waits a moment for the end of an interpreter that seems to be gone, then brings it about.
pub(crate) async fn end_of(program: &Attached) -> Ended {
    if let Ok(ended) = tokio::time::timeout(Duration::from_secs(1), program.ended()).await {
        return ended;
    }
    stages::kill(program);
    program.ended().await
}

/// Takes a message of a run in; the status when it was the last one.
fn take_in(run: &RunHandle, message: Vec<String>) -> Option<RunStatus> {
    let mut words = message.into_iter();
    match words.next().as_deref() {
        Some("data") => {
            let is_main = words.next().as_deref() == Some("1");
            let mut data = BTreeMap::new();
            while let (Some(mime), Some(text)) = (words.next(), words.next()) {
                data.insert(mime.clone(), value_of(&mime, text));
            }
            run.add_result(RunResult { is_main, data });
            None
        }
        Some("dropped") => {
            run.drop_result();
            None
        }
        Some("error") => {
            run.add_error(RunError {
                name: words.next().unwrap_or_default(),
                value: words.next().unwrap_or_default(),
                traceback: words.collect(),
            });
            None
        }
        Some("done") => Some(if words.next().as_deref() == Some("ok") {
            RunStatus::Ok
        } else {
            RunStatus::Error
        }),
        _ => None,
    }
}

/// JSON stays JSON; everything else is text.
pub(crate) fn value_of(mime: &str, text: String) -> Value {
    if mime == "application/json" || mime.ends_with("+json") {
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    } else {
        Value::String(text)
    }
}

pub(crate) fn said(ended: &Ended) -> String {
    match &ended.signal {
        Some(signal) => format!("the interpreter was killed by {signal}"),
        None => format!("the interpreter exited with status {}", ended.exit_code),
    }
}

/// A socket pair: ours, and the other end for the interpreter.
fn pair() -> Result<(UnixStream, OwnedFd), ContextError> {
    let made = StdStream::pair().and_then(|(ours, theirs)| {
        ours.set_nonblocking(true)?;
        Ok((UnixStream::from_std(ours)?, OwnedFd::from(theirs)))
    });
    made.map_err(|error| ContextError::start(format!("cannot make a socket: {error}")))
}
