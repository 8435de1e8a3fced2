//! One command of a session: its record, its output, its end.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sandshell_isolate::protocol::Exit;
use sandshell_types::{
    CommandId, CommandRecord, CommandState, Encoded, Encoding, ExitEvent, SessionExecRequest,
    SessionExecResult, Truncated,
};
use tokio::sync::{mpsc, watch};

use super::Control;
use crate::ExecError;
use crate::output::{OutputLog, Stream};
use crate::process::{exit_code, signal_name};

/// A command; cheap to clone.
#[derive(Debug, Clone)]
pub struct CommandHandle(Arc<Command>);

#[derive(Debug)]
struct Command {
    id: CommandId,
    request: SessionExecRequest,
    max_bytes: u64,
    log: OutputLog,
    late: OnceLock<OutputLog>,
    facts: Mutex<Facts>,
    over: watch::Sender<bool>,
    session: mpsc::Sender<Control>,
}

#[derive(Debug)]
struct Facts {
    state: CommandState,
    queued_at: Timestamp,
    started_at: Option<Timestamp>,
    started: Option<Instant>,
    ended_at: Option<Timestamp>,
    outcome: Option<Outcome>,
    /// Why nothing of it was run.
    refused: Option<Refusal>,
}

/// Why a command was not given to the shell.
#[derive(Debug, Clone)]
enum Refusal {
    /// It cannot be run in the directory that it asked for.
    Cwd(String),
    /// We lack something for it.
    Lack(String),
}

/// What became of the session when a command was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionAfter {
    Kept,
    Restored,
    RestoredBefore,
    Ended,
}

impl SessionAfter {
    fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Restored => "restored",
            Self::RestoredBefore => "restored_before",
            Self::Ended => "ended",
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) exit: Exit,
    pub(super) timed_out: bool,
    pub(super) oom: bool,
    pub(super) interrupted: bool,
    pub(super) left_running: u32,
    pub(super) cwd: String,
    pub(super) session: SessionAfter,
    pub(super) duration: Duration,
}

impl CommandHandle {
    pub(super) fn new(
        id: CommandId,
        request: SessionExecRequest,
        max_bytes: u64,
        log: OutputLog,
        session: mpsc::Sender<Control>,
    ) -> Self {
        Self(Arc::new(Command {
            id,
            request,
            max_bytes,
            log,
            late: OnceLock::new(),
            facts: Mutex::new(Facts {
                state: CommandState::Queued,
                queued_at: Timestamp::now(),
                started_at: None,
                started: None,
                ended_at: None,
                outcome: None,
                refused: None,
            }),
            over: watch::Sender::new(false),
            session,
        }))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its id.
    pub fn id(&self) -> &CommandId {
        &self.0.id
    }

    pub(super) fn request(&self) -> &SessionExecRequest {
        &self.0.request
    }

    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Everything it wrote while it ran.
    pub fn log(&self) -> &OutputLog {
        &self.0.log
    }

    /// What children left behind wrote after its end, if any.
    pub fn late_log(&self) -> Option<OutputLog> {
        self.0.late.get().cloned()
    }

    pub(super) fn late_log_or(&self, make: impl FnOnce() -> OutputLog) -> OutputLog {
        self.0.late.get_or_init(make).clone()
    }

    /// What is known of it now.
    pub fn record(&self) -> CommandRecord {
        let facts = self.facts();
        let outcome = facts.outcome.as_ref();
        let late = self.0.late.get();
        CommandRecord {
            id: self.0.id.clone(),
            command: self.0.request.command.clone(),
            state: facts.state,
            queued_at: facts.queued_at,
            started_at: facts.started_at,
            ended_at: facts.ended_at,
            exit_code: outcome.map(|o| exit_code(o.exit)),
            signal: outcome.and_then(|o| signal_name(o.exit)),
            timed_out: outcome.is_some_and(|o| o.timed_out),
            oom: outcome.is_some_and(|o| o.oom),
            interrupted: outcome.is_some_and(|o| o.interrupted),
            duration_ms: outcome.map(|o| o.duration.as_millis() as u64),
            stdout_bytes: self.0.log.len(Stream::Stdout),
            stderr_bytes: self.0.log.len(Stream::Stderr),
            late_bytes: late.map_or(0, |l| l.len(Stream::Stdout) + l.len(Stream::Stderr)),
            cwd: outcome.map(|o| o.cwd.clone()),
        }
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.facts().started_at
    }

    /// Resolves when it is over and its output is complete, or when it was dropped.
    pub async fn done(&self) {
        let mut over = self.0.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }

    /// How it ended, once it has.
    pub fn exit_event(&self) -> Option<ExitEvent> {
        let facts = self.facts();
        if facts.state == CommandState::Cancelled {
            return Some(ExitEvent {
                exit_code: None,
                signal: None,
                timed_out: false,
                oom: false,
                cwd: None,
                duration_ms: 0,
            });
        }
        let outcome = facts.outcome.as_ref()?;
        Some(ExitEvent {
            exit_code: Some(exit_code(outcome.exit)),
            signal: signal_name(outcome.exit),
            timed_out: outcome.timed_out,
            oom: outcome.oom,
            cwd: Some(outcome.cwd.clone()),
            duration_ms: outcome.duration.as_millis() as u64,
        })
    }

    /// Its result, once it is over.
    pub async fn result(&self, encoding: Encoding) -> Result<SessionExecResult, ExecError> {
        self.done().await;
        match self.facts().refused.clone() {
            None => {}
            Some(Refusal::Cwd(path)) => {
                let reason = "it does not exist or cannot be entered".to_owned();
                return Err(ExecError::Cwd { path, reason });
            }
            Some(Refusal::Lack(detail)) => return Err(ExecError::Unavailable { detail }),
        }
        let outcome = self
            .facts()
            .outcome
            .clone()
            .ok_or_else(|| ExecError::CommandDropped {
                id: self.0.id.to_string(),
            })?;
        let (max, truncate) = (self.0.max_bytes, self.0.request.truncate);
        let stdout = self.0.log.excerpt(Stream::Stdout, max, truncate).await?;
        let stderr = self.0.log.excerpt(Stream::Stderr, max, truncate).await?;
        let truncated = (stdout.omitted > 0 || stderr.omitted > 0).then_some(Truncated {
            stdout_bytes: stdout.omitted,
            stderr_bytes: stderr.omitted,
        });
        let stdout = Encoded::new(stdout.bytes, encoding);
        let stderr = Encoded::new(stderr.bytes, encoding);
        Ok(SessionExecResult {
            command_id: self.0.id.clone(),
            exit_code: exit_code(outcome.exit),
            signal: signal_name(outcome.exit),
            stdout: stdout.data,
            stderr: stderr.data,
            stdout_encoding: stdout.encoding,
            stderr_encoding: stderr.encoding,
            duration_ms: outcome.duration.as_millis() as u64,
            timed_out: outcome.timed_out,
            oom: outcome.oom,
            interrupted: outcome.interrupted,
            truncated,
            left_running: outcome.left_running,
            cwd: outcome.cwd,
            session_state: outcome.session.as_str().to_owned(),
        })
    }

    /// Interrupts it if it runs, drops it if it waits.
    pub async fn interrupt(&self) {
        if self.cancel() {
            return;
        }
        let wish = Control::Interrupt {
            only: Some(self.0.id.clone()),
            reply: None,
        };
        // A session that is gone has no command to interrupt.
        let _ = self.0.session.send(wish).await;
    }

    /// Drops it because of what stands in its way: nothing of it ran.
    pub(super) fn refuse(&self, why: ExecError) {
        {
            let mut facts = self.facts();
            facts.refused = Some(match why {
                ExecError::Cwd { path, .. } => Refusal::Cwd(path),
                other => Refusal::Lack(other.to_string()),
            });
            facts.state = CommandState::Queued;
        }
        self.cancel();
    }

    /// Drops it if it still waits.
    pub(super) fn cancel(&self) -> bool {
        let mut facts = self.facts();
        if facts.state != CommandState::Queued {
            return false;
        }
        facts.state = CommandState::Cancelled;
        facts.ended_at = Some(Timestamp::now());
        drop(facts);
        self.0.log.end();
        self.0.over.send_replace(true);
        true
    }

    /// Whether it still waits for its turn.
    pub(super) fn is_waiting(&self) -> bool {
        self.facts().state == CommandState::Queued
    }

    /// Marks it as running; `false` when it was dropped meanwhile.
    pub(super) fn begin(&self) -> bool {
        let mut facts = self.facts();
        if facts.state != CommandState::Queued {
            return false;
        }
        facts.state = CommandState::Running;
        facts.started_at = Some(Timestamp::now());
        facts.started = Some(Instant::now());
        true
    }

    /// Publishes its end.
    pub(super) fn finish(&self, mut outcome: Outcome) {
        {
            let mut facts = self.facts();
            outcome.duration = facts.started.map(|s| s.elapsed()).unwrap_or_default();
            facts.state = CommandState::Done;
            facts.ended_at = Some(Timestamp::now());
            facts.outcome = Some(outcome);
        }
        self.0.log.end();
        self.0.over.send_replace(true);
    }
}
