//! Bash contexts: a session of the executor, so that all its promises hold here too.

use sandshell_exec::{ExecError, Executor, SessionHandle};
use sandshell_types::{
    ContextOutcome, ContextRequest, Encoding, KernelChoice, KillReply, RunError, RunStatus,
    SessionExecRequest, SessionPatch, SessionRequest,
};

use crate::ContextError;
use crate::kernel::{Finished, KernelFacts, already_ended};
use crate::run::{RunHandle, Stop};

/// A session that belongs to a context.
#[derive(Debug)]
pub(crate) struct BashKernel {
    executor: Executor,
    session: SessionHandle,
}

impl BashKernel {
    pub(crate) async fn start(
        executor: &Executor,
        spec: &ContextRequest,
    ) -> Result<Self, ContextError> {
        if !executor.has_bash() {
            return Err(ContextError::InterpreterNotFound {
                what: "bash".to_owned(),
                hint: "Install it in the sandbox: `apt-get install bash` (Debian, Ubuntu), `apk add bash` (Alpine) or `dnf install bash` (Fedora).".to_owned(),
            });
        }
        let session = if let Some(source) = &spec.session {
            let fork = sandshell_types::ForkRequest { id: None };
            let session = executor.fork_session(source.as_str(), fork).await?.0;
            prepare(&session, spec).await?;
            session
        } else {
            let request = SessionRequest {
                cwd: spec.cwd.clone(),
                env: spec.env.clone(),
                user: spec.user.clone(),
                ..SessionRequest::default()
            };
            executor.create_session(request).await?.0
        };
        Ok(Self {
            executor: executor.clone(),
            session,
        })
    }

    pub(crate) fn facts(&self) -> KernelFacts {
        let record = self.session.record();
        KernelFacts {
            kind: KernelChoice::Builtin,
            interpreter: record.shell,
            pid: record.pid,
            cwd: record.cwd,
        }
    }

    pub(crate) async fn run(&mut self, run: &RunHandle, count: u64) -> Finished {
        let request = run.request();
        let command = SessionExecRequest {
            command: request.code.clone(),
            env: request.env.clone(),
            ..SessionExecRequest::default()
        };
        let command = match self.session.exec(command) {
            Ok((command, _)) => command,
            Err(error) => return Finished::ended(run, error.to_string()),
        };
        run.start(command.log().clone(), count);
        let mut stops = run.stops();
        let mut stopped: Option<Stop> = None;
        loop {
            tokio::select! {
                () = command.done() => break,
                Ok(()) = stops.changed() => {
                    let wanted = *stops.borrow();
                    stopped = stopped.or(wanted);
                    if wanted == Some(Stop::Discard) {
                        let _ = self.executor.end_session(self.session.id().as_str()).await;
                    } else {
                        command.interrupt().await;
                    }
                }
            }
        }
        let result = command.result(Encoding::Base64).await;
        let (code, state) = match &result {
            Ok(result) => (Some(result.exit_code), result.session_state.as_str()),
            Err(_) => (None, "ended"),
        };
        if state == "ended" {
            return match stopped {
                Some(stop) => Finished {
                    status: Finished::status_of(stop),
                    outcome: ContextOutcome::Lost,
                    reason: Some("the shell was ended".to_owned()),
                    exit_code: code,
                },
                None => Finished::ended(run, "the shell has ended".to_owned()),
            };
        }
        let mut finished = match (stopped, code) {
            (Some(stop), _) => Finished::kept(Finished::status_of(stop)),
            (None, Some(0)) => Finished::kept(RunStatus::Ok),
            (None, code) => {
                let value = code.unwrap_or(-1).to_string();
                run.add_error(RunError {
                    name: "ExitStatus".to_owned(),
                    traceback: vec![format!("ExitStatus: {value}")],
                    value,
                });
                Finished::kept(RunStatus::Error)
            }
        };
        finished.exit_code = code;
        finished
    }

    pub(crate) async fn end(self) -> KillReply {
        let ended = self.executor.end_session(self.session.id().as_str()).await;
        // A session that is not known any more has ended with all it started.
        ended.unwrap_or_else(|_| already_ended())
    }
}

/// What a spec changes on top of a session's state.
async fn prepare(session: &SessionHandle, spec: &ContextRequest) -> Result<(), ContextError> {
    let patch = SessionPatch {
        env: spec.env.clone(),
        ..SessionPatch::default()
    };
    session.patch(patch).await?;
    if let Some(cwd) = &spec.cwd {
        let enter = SessionExecRequest {
            command: format!("builtin cd -- '{}'", cwd.replace('\'', "'\\''")),
            ..SessionExecRequest::default()
        };
        let result = session.exec(enter)?.0.result(Encoding::Utf8).await?;
        if result.exit_code != 0 {
            let reason = result.stderr.trim().to_owned();
            let path = cwd.clone();
            return Err(ExecError::Cwd { path, reason }.into());
        }
    }
    Ok(())
}
