//! Jupyter kernels, through their own protocol.
//!
//! ```text
//!  agent ── shell (DEALER): execute_request ──►  kernel      sockets in a directory of its own,
//!        ◄─ execute_reply                                    which only its user can enter
//!        ◄─ iopub (SUB): stream, results, status
//!        ── control (DEALER): interrupt_request ─►           for kernels that want it so
//! ```
//!
//! A run is over when both its reply and its `idle` are there: only then has all output come.

mod directory;
pub(crate) mod message;
mod spec;
pub(crate) mod zmtp;

use std::path::Path;
use std::time::Duration;

use sandshell_exec::output::{OutputLog, Stream};
use sandshell_exec::{AttachRequest, Attached, ExecError, Executor, Pump};
use sandshell_sys::task;
use sandshell_types::{
    ContextRequest, KernelChoice, KillReply, Language, RunError, RunResult, RunStatus,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ContextError;
use crate::driver::{end_of, said};
use crate::kernel::{Finished, KernelFacts, Wake};
use crate::run::RunHandle;
use crate::stages::{self, Stopping};
pub(crate) use directory::Directories;
use directory::Directory;
use message::{Message, Sealer};
pub(crate) use spec::KernelSpec;
use zmtp::{Kind, Socket};

/// How long a kernel may take to start: ipykernel on a busy machine takes several seconds.
const START: Duration = Duration::from_mins(1);

/// Pause between two looks for a socket that the kernel has yet to make. Clients of `ZeroMQ` connect
/// again and again in the same way: a kernel gives no sign when it listens.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// After this a request without any sign on iopub is sent again: the subscription came too late.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// TERM to KILL for a kernel that is not needed any more.
const END_GRACE: Duration = Duration::from_millis(200);

/// The names of the sockets behind the common part, which Jupyter calls ports.
const SHELL: u32 = 1;
const IOPUB: u32 = 2;
const STDIN: u32 = 3;
const CONTROL: u32 = 4;
const HEARTBEAT: u32 = 5;

/// The file that tells a kernel where its sockets are to be.
const CONNECTION: &str = "connection.json";

/// A kernel that runs.
#[derive(Debug)]
pub(crate) struct JupyterKernel {
    program: Attached,
    pump: Pump,
    /// What the kernel itself writes, apart from the code: kept for nobody.
    own_output: OutputLog,
    shell: Socket,
    iopub: Socket,
    control: Socket,
    sealer: Sealer,
    by_message: bool,
    is_python: bool,
    directory: Directory,
    name: String,
    cwd: String,
    /// What came between runs and waits to be moved.
    between: Option<(Stream, String)>,
}

impl JupyterKernel {
    /// Starts a kernel and waits until it answers.
    pub(crate) async fn start(
        executor: &Executor,
        directories: &Directories,
        spec: &ContextRequest,
        kernel: KernelSpec,
    ) -> Result<Self, ContextError> {
        let key = sandshell_types::ContextId::generate().to_string();
        let directory = directories.make(executor, spec.user.as_deref()).await?;
        let connection = json!({
            "transport": "ipc", "ip": directory.path().join("s").to_string_lossy(), "key": key,
            "signature_scheme": "hmac-sha256", "shell_port": SHELL, "iopub_port": IOPUB,
            "stdin_port": STDIN, "control_port": CONTROL, "hb_port": HEARTBEAT,
            "kernel_name": "",
        });
        let written = directory.write(CONNECTION, connection.to_string()).await;
        let started = match written {
            Ok(()) => Self::start_in(executor, spec, &kernel, directory, key).await,
            Err(error) => Err((directory, error)),
        };
        match started {
            Ok(kernel) => Ok(kernel),
            Err((directory, error)) => {
                directory.remove().await;
                Err(error)
            }
        }
    }

    async fn start_in(
        executor: &Executor,
        spec: &ContextRequest,
        kernel: &KernelSpec,
        directory: Directory,
        key: String,
    ) -> Result<Self, (Directory, ContextError)> {
        let file = directory.path().join(CONNECTION);
        let argv = kernel
            .argv
            .iter()
            .map(|word| word.replace("{connection_file}", &file.to_string_lossy()));
        let mut env = spec.env.clone();
        for (name, value) in &kernel.env {
            env.entry(name.clone()).or_insert(Some(value.clone()));
        }
        let session = spec.session.as_ref().map(ToString::to_string);
        let cwd = executor.absolute(
            Path::new(spec.cwd.as_deref().unwrap_or("")),
            session.as_deref(),
        );
        let request = AttachRequest {
            argv: argv.collect(),
            cwd: spec.cwd.clone(),
            env,
            user: spec.user.clone(),
            session,
            files: Vec::new(),
        };
        let (cwd, (program, mut pump)) = match (cwd, executor.attach(request).await) {
            (Ok(cwd), Ok(started)) => (cwd, started),
            (Err(error), _) | (_, Err(error)) => {
                let error = match error {
                    ExecError::ProgramNotFound { .. } | ExecError::ProgramNotExecutable { .. } => {
                        ContextError::start(format!("{error}, as its kernel.json wants it"))
                    }
                    other => other.into(),
                };
                return Err((directory, error));
            }
        };
        let own_output =
            executor.output_log(&format!("kernel-{}", program.pid), crate::context::LOG);
        let sockets = connect_all(&directory, &program, &mut pump, &own_output).await;
        let Ok((shell, iopub, control)) = sockets else {
            let text = own_output
                .excerpt(Stream::Stderr, 2000, sandshell_types::Truncate::Head)
                .await
                .map(|excerpt| String::from_utf8_lossy(&excerpt.bytes).trim().to_owned());
            let reason = format!(
                "the Jupyter kernel does not answer: {}",
                text.unwrap_or_default()
            );
            program.kill(END_GRACE).await;
            return Err((directory, ContextError::start(reason)));
        };
        let mut started = Self {
            program,
            pump,
            own_output,
            shell,
            iopub,
            control,
            sealer: Sealer::new(key, format!("{:x}", std::process::id())),
            by_message: kernel.interrupts_by_message(),
            is_python: spec.language == Language::Python,
            directory,
            name: kernel.display_name.clone(),
            cwd: cwd.to_string_lossy().into_owned(),
            between: None,
        };
        match started.say_hello().await {
            Ok(()) => Ok(started),
            Err(error) => {
                let Self {
                    directory, program, ..
                } = started;
                program.kill(END_GRACE).await;
                Err((directory, error))
            }
        }
    }

    /// Asks who it is, until both the reply and a sign on iopub are there.
    async fn say_hello(&mut self) -> Result<(), ContextError> {
        let mut over = std::pin::pin!(task::own_time(START));
        let (mut answered, mut heard) = (false, false);
        let gone = |_| ContextError::start("the kernel closed its channel");
        self.ask("kernel_info_request", &json!({}))
            .await
            .map_err(gone)?;
        let mut again = Instant::now() + ASK_AGAIN;
        while !(answered && heard) {
            tokio::select! {
                frames = self.shell.next() => {
                    let message = self.sealer.open(&frames.map_err(gone)?);
                    if let Some(message) = message && message.kind == "kernel_info_reply" {
                        answered = true;
                        let language = &message.content["language_info"];
                        if let (Some(name), Some(version)) = (language["name"].as_str(), language["version"].as_str()) {
                            self.name = format!("{} ({name} {version})", self.name);
                        }
                    }
                }
                frames = self.iopub.next() => heard = frames.map_err(gone).map(|_| true)?,
                stream = self.pump.ready() => self.pump.transfer(stream, &self.own_output).await,
                ended = self.program.ended() => return Err(ContextError::start(said(&ended))),
                () = tokio::time::sleep_until(again), if answered => {
                    again = Instant::now() + ASK_AGAIN;
                    self.ask("kernel_info_request", &json!({})).await.map_err(gone)?;
                }
                () = &mut over => {
                    return Err(ContextError::start("the kernel does not answer"));
                }
            }
        }
        Ok(())
    }

    async fn ask(&mut self, kind: &str, content: &Value) -> std::io::Result<String> {
        let (frames, id) = self.sealer.seal(kind, content);
        self.shell.send(&frames).await?;
        Ok(id)
    }

    pub(crate) fn facts(&self) -> KernelFacts {
        KernelFacts {
            kind: KernelChoice::Jupyter,
            interpreter: self.name.clone(),
            pid: self.program.pid,
            cwd: self.cwd.clone(),
        }
    }

    pub(crate) async fn wake(&mut self) -> Wake {
        loop {
            tokio::select! {
                frames = self.iopub.next() => match frames {
                    Ok(frames) => {
                        if let Some(piece) = self.sealer.open(&frames).as_ref().and_then(output) {
                            let stream = piece.0;
                            self.between = Some(piece);
                            return Wake::Output(stream);
                        }
                    }
                    Err(_) => return Wake::Ended(said(&end_of(&self.program).await)),
                },
                // Replies of runs that were given up.
                frames = self.shell.next() => if frames.is_err() {
                    return Wake::Ended(said(&end_of(&self.program).await));
                },
                stream = self.pump.ready() => self.pump.transfer(stream, &self.own_output).await,
                ended = self.program.ended() => return Wake::Ended(said(&ended)),
            }
        }
    }

    pub(crate) async fn transfer(&mut self, log: &OutputLog) {
        if let Some((stream, text)) = self.between.take() {
            log.append(stream, text.as_bytes()).await;
        }
    }

    pub(crate) async fn run(&mut self, run: &RunHandle, log: &OutputLog) -> Finished {
        let request = run.request();
        if !request.env.is_empty() && !self.is_python {
            run.add_error(RunError {
                name: "NotSupported".to_owned(),
                value: "this Jupyter kernel cannot change its environment for one run".to_owned(),
                traceback: Vec::new(),
            });
            return Finished::kept(RunStatus::Error);
        }
        let changes = environment_code(&request.env);
        if let Some((set, _)) = &changes {
            let quiet = self.quietly(set).await;
            if quiet.is_err() {
                return Finished::lost(run, &end_of(&self.program).await, None);
            }
        }
        let content = json!({
            "code": request.code, "silent": false, "store_history": true,
            "user_expressions": {}, "allow_stdin": false, "stop_on_error": false,
        });
        let Ok(id) = self.ask("execute_request", &content).await else {
            return Finished::lost(run, &end_of(&self.program).await, None);
        };
        let finished = self.attend(run, log, &id).await;
        if let Some((_, unset)) = &changes
            && finished.reason.is_none()
        {
            let _ = self.quietly(unset).await;
        }
        finished
    }

    /// Sends code whose effects are ours, not the user's.
    async fn quietly(&mut self, code: &str) -> std::io::Result<()> {
        let content = json!({
            "code": code, "silent": true, "store_history": false,
            "user_expressions": {}, "allow_stdin": false, "stop_on_error": false,
        });
        self.ask("execute_request", &content).await.map(|_| ())
    }

    async fn attend(&mut self, run: &RunHandle, log: &OutputLog, id: &str) -> Finished {
        let mut stopping = Stopping::of(run);
        let (mut status, mut idle, mut reported) = (None, false, false);
        while status.is_none() || !idle {
            tokio::select! {
                biased;
                () = stopping.ask(&self.program) => self.interrupt().await,
                ended = self.program.ended() => return Finished::lost(run, &ended, stopping.reason()),
                frames = self.iopub.next() => {
                    let Ok(frames) = frames else {
                        return Finished::lost(run, &end_of(&self.program).await, stopping.reason());
                    };
                    if let Some(message) = self.sealer.open(&frames) {
                        if let Some((stream, text)) = output(&message) {
                            log.append(stream, text.as_bytes()).await;
                        } else if message.parent == id {
                            idle |= message.content["execution_state"] == "idle";
                            reported |= take_in(run, &message);
                        }
                    }
                }
                frames = self.shell.next() => {
                    let Ok(frames) = frames else {
                        return Finished::lost(run, &end_of(&self.program).await, stopping.reason());
                    };
                    let message = self.sealer.open(&frames);
                    if let Some(message) = message && message.parent == id && message.kind == "execute_reply" {
                        let ok = message.content["status"] == "ok";
                        status = Some(if ok { RunStatus::Ok } else { RunStatus::Error });
                        if !ok && !reported {
                            reported = true;
                            run.add_error(error_of(&message.content));
                        }
                    }
                }
                stream = self.pump.ready() => self.pump.transfer(stream, &self.own_output).await,
            }
        }
        let status = status.unwrap_or(RunStatus::Error);
        Finished::kept(stopping.reason().map_or(status, Finished::status_of))
    }

    async fn interrupt(&mut self) {
        if self.by_message {
            let (frames, _) = self.sealer.seal("interrupt_request", &json!({}));
            let _ = self.control.send(&frames).await;
        } else {
            stages::ask_by_signal(&self.program);
        }
    }

    pub(crate) async fn end(self) -> KillReply {
        let reply = self.program.kill(END_GRACE).await;
        self.directory.remove().await;
        reply
    }
}

async fn connect(directory: &Directory, number: u32, kind: Kind) -> Option<Socket> {
    let stream = directory.connect(&format!("s-{number}")).await?;
    Socket::open(stream, kind).await.ok()
}

/// Connects as soon as the kernel listens.
async fn connect_all(
    directory: &Directory,
    program: &Attached,
    pump: &mut Pump,
    own_output: &OutputLog,
) -> Result<(Socket, Socket, Socket), ()> {
    let mut over = std::pin::pin!(task::own_time(START));
    let connecting = async {
        loop {
            if let Some(shell) = connect(directory, SHELL, Kind::Dealer).await
                && let Some(iopub) = connect(directory, IOPUB, Kind::Subscriber).await
                && let Some(control) = connect(directory, CONTROL, Kind::Dealer).await
            {
                return (shell, iopub, control);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let mut connecting = std::pin::pin!(connecting);
    loop {
        tokio::select! {
            sockets = &mut connecting => return Ok(sockets),
            stream = pump.ready() => pump.transfer(stream, own_output).await,
            _ = program.ended() => {
                pump.drain(own_output).await;
                return Err(());
            }
            () = &mut over => return Err(()),
        }
    }
}

/// The output a message brings.
fn output(message: &Message) -> Option<(Stream, String)> {
    if message.kind != "stream" {
        return None;
    }
    let stream = match message.content["name"].as_str()? {
        "stderr" => Stream::Stderr,
        _ => Stream::Stdout,
    };
    Some((stream, message.content["text"].as_str()?.to_owned()))
}

/// Takes a value or error in. Says whether it was an error.
fn take_in(run: &RunHandle, message: &Message) -> bool {
    match message.kind.as_str() {
        "execute_result" | "display_data" | "update_display_data" => {
            let data = message.content["data"].as_object();
            let data = data.into_iter().flatten();
            run.add_result(RunResult {
                is_main: message.kind == "execute_result",
                data: data
                    .map(|(mime, value)| (mime.clone(), value.clone()))
                    .collect(),
            });
            false
        }
        "error" => {
            run.add_error(error_of(&message.content));
            true
        }
        _ => false,
    }
}

fn error_of(content: &Value) -> RunError {
    let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
    let traceback = content["traceback"].as_array().into_iter().flatten();
    RunError {
        name: text("ename"),
        value: text("evalue"),
        traceback: traceback
            .filter_map(Value::as_str)
            .flat_map(|part| plain(part).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect(),
    }
}

/// A text without the colours of a terminal.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\x1b' {
            plain.push(c);
        } else if rest.next() == Some('[') {
            // Up to the letter that ends the sequence.
            rest.find(|c| ('\x40'..='\x7e').contains(c));
        }
    }
    plain
}

/// Python that changes the environment, and Python that changes it back. Leaves no name behind.
fn environment_code(env: &sandshell_types::Env) -> Option<(String, String)> {
    if env.is_empty() {
        return None;
    }
    // JSON strings and null are Python once null is None.
    let pairs: Vec<String> = env
        .iter()
        .map(|(name, value)| {
            let value = value
                .as_ref()
                .map_or("None".to_owned(), |v| json!(v).to_string());
            format!("{}: {value}", json!(name))
        })
        .collect();
    let set = format!(
        "(lambda os, new: (setattr(os, '_before_run', {{k: os.environ.get(k) for k in new}}), \
         [os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v) for k, v in new.items()]))\
         (__import__('os'), {{{}}})",
        pairs.join(", ")
    );
    let unset = "(lambda os: ([os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v) \
                 for k, v in os._before_run.items()], delattr(os, '_before_run')))(__import__('os'))";
    Some((set, unset.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go() {
        assert_eq!(
            plain("\x1b[0;31mZero\x1b[0m: \x1b[1;32m1\x1b[0m"),
            "Zero: 1"
        );
        assert_eq!(plain("é\x1b"), "é");
    }
}
