//! Sessions: persistent shells whose state carries over from command to command.
//!
//! Each session has one owner task ([`owner`]), which alone talks to the shell. Commands wait in a
//! bounded queue and run one at a time in order of arrival; wishes that must not wait (interrupt,
//! end, snapshot) travel on a second channel that the owner reads even while a command runs.
//!
//! ```text
//! exec ──► queue ──► owner ◄──► shell (real bash; two pipes + directory of FIFOs, see `dialect`)
//! interrupt, end, fork, patch ──► owner          │ exit, crash, lost completion
//!                                   └── restore ◄┘ from the state it saved
//! ```

mod channel;
mod command;
pub(crate) mod dialect;
mod interrupt;
mod owner;
mod queue;
pub(crate) mod shell;
pub(crate) mod snapshot;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use sandshell_sys::procfs;
use sandshell_types::{
    CommandId, CommandState, Encoded, Env, ForegroundInfo, Happening, InterruptReply, KillReply,
    Limits, ProcessInfo, SessionExecRequest, SessionId, SessionPatch, SessionRecord,
    SessionRequest, SessionState, SessionStats,
};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use channel::ChannelRoot;
pub use command::CommandHandle;
pub(crate) use interrupt::foreground;
pub(crate) use shell::Shell;
pub(crate) use snapshot::Snapshot;

use self::queue::{Queue, Refused};
use crate::ExecError;
use crate::fence::{self, Fence};
use crate::host::{self, Host, Live, check_variable};
use crate::output::{LogLimits, OutputLog};
use crate::pool::Pool;
use crate::process::kill_all;
use crate::registry::{Entry, Registry, first_difference};

/// How long an end waits for the owner before the shell is taken away from it.
const END_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) type Sessions = Registry<SessionId, SessionHandle>;

/// A session; cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionHandle(Arc<Session>);

#[derive(Debug)]
pub(super) struct Session {
    id: SessionId,
    spec: SessionRequest,
    /// The groups that limit its shells and all they start.
    fence: Option<Arc<Fence>>,
    host: Arc<Host>,
    sessions: Weak<Sessions>,
    queue: Queue,
    controls: mpsc::Sender<Control>,
    facts: Mutex<Facts>,
    /// Commands by age, the oldest first.
    history: Mutex<VecDeque<CommandHandle>>,
    ended: watch::Sender<Option<String>>,
}

#[derive(Debug)]
pub(super) struct Facts {
    state: SessionState,
    cwd: String,
    shell: String,
    degraded: &'static [&'static str],
    pid: i32,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    restores: u32,
    commands: u64,
    foreground: Option<CommandHandle>,
    /// Children the shell had before the command that runs.
    background: HashSet<i32>,
    settings: Settings,
    limits: Option<Limits>,
    /// The present shell, and former ones whose children still run.
    trees: Vec<Arc<Live>>,
}

/// What a patch can change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    timeout: Option<Duration>,
    max_output_bytes: u64,
    idle_timeout: Option<Duration>,
}

/// A wish that waits behind no command.
#[derive(Debug)]
pub(super) enum Control {
    /// End the command that runs; a particular one, or whichever it is.
    Interrupt {
        only: Option<CommandId>,
        reply: Option<oneshot::Sender<(Option<CommandId>, &'static str)>>,
    },
    /// The state now, or before the command that runs.
    Snapshot {
        reply: oneshot::Sender<Option<Snapshot>>,
    },
    /// Variables to change before the next command.
    Environment { changes: Env },
    /// End the session.
    End {
        reason: String,
        reply: oneshot::Sender<KillReply>,
    },
}

impl Entry for SessionHandle {
    type Spec = SessionRequest;
    fn spec(&self) -> &SessionRequest {
        &self.0.spec
    }
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a session is made from.
pub(crate) struct Birth {
    pub(crate) id: SessionId,
    pub(crate) spec: SessionRequest,
    pub(crate) fence: Option<Arc<Fence>>,
    pub(crate) shell: Shell,
    pub(crate) root: Arc<ChannelRoot>,
    pub(crate) pool: Arc<Pool<Shell>>,
    /// State to begin with, for a fork.
    pub(crate) state: Option<Snapshot>,
}

impl SessionHandle {
    /// Prepares the shell and starts the owner task.
    pub(crate) async fn begin(
        host: Arc<Host>,
        sessions: Weak<Sessions>,
        birth: Birth,
    ) -> Result<Self, ExecError> {
        let spec = birth.spec;
        let queue = Queue::new(host.config.session_queue);
        // Wishes are small and answered at once; a full channel makes callers wait, not fail.
        let (controls, controls_receiver) = mpsc::channel(64);
        let settings = Settings {
            timeout: spec.timeout_ms.map(Duration::from_millis),
            max_output_bytes: spec
                .max_output_bytes
                .unwrap_or(host.config.exec_output_bytes),
            idle_timeout: spec.idle_timeout_ms.map(Duration::from_millis),
        };
        let session = Arc::new(Session {
            id: birth.id,
            fence: birth.fence,
            host,
            sessions,
            queue,
            controls,
            facts: Mutex::new(Facts {
                state: SessionState::Idle,
                cwd: birth.shell.cwd.clone(),
                shell: birth.shell.path.clone(),
                degraded: birth.shell.dialect.losses(),
                pid: birth.shell.running.pid,
                created_at: Timestamp::now(),
                last_used_at: None,
                restores: 0,
                commands: 0,
                foreground: None,
                background: HashSet::new(),
                settings,
                limits: spec.limits.clone(),
                trees: vec![birth.shell.running.live.clone()],
            }),
            history: Mutex::new(VecDeque::new()),
            ended: watch::Sender::new(None),
            spec,
        });
        owner::begin(
            session.clone(),
            owner::Start {
                shell: birth.shell,
                root: birth.root,
                pool: birth.pool,
                state: birth.state,
                controls: controls_receiver,
            },
        )
        .await?;
        session.host.events.publish(Happening::SessionCreated {
            session: session.id.clone(),
        });
        Ok(Self(session))
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    pub(crate) fn request(&self) -> &SessionRequest {
        &self.0.spec
    }

    /// What is known of it now, without figures.
    pub fn record(&self) -> SessionRecord {
        let s = &self.0;
        let facts = s.facts();
        SessionRecord {
            id: s.id.clone(),
            state: facts.state,
            cwd: facts.cwd.clone(),
            shell: facts.shell.clone(),
            degraded: facts.degraded.iter().map(|l| (*l).to_owned()).collect(),
            pid: facts.pid,
            limits: facts.limits.clone(),
            private_processes: s.spec.private_processes,
            created_at: facts.created_at,
            last_used_at: facts.last_used_at,
            queue_length: s.queue.len() as u32,
            restores: facts.restores,
            foreground: facts.foreground.as_ref().map(|command| ForegroundInfo {
                command_id: command.id().clone(),
                command: command.request().command.clone(),
                started_at: command.started_at().unwrap_or(facts.created_at),
                processes: Vec::new(),
            }),
            stats: None,
        }
    }

    /// The same with what runs in the foreground and what it all uses.
    pub async fn detailed_record(&self) -> SessionRecord {
        let session = self.0.clone();
        let mut record = self.record();
        // Reads a few files of /proc for each process, so not on the runtime thread.
        let figures = tokio::task::spawn_blocking(move || session.figures()).await;
        if let Ok((stats, processes)) = figures {
            record.stats = Some(stats);
            if let Some(foreground) = &mut record.foreground {
                foreground.processes = processes;
            }
        }
        record
    }

    /// Queues a command. The same id with the same request gives the same command.
    pub fn exec(&self, request: SessionExecRequest) -> Result<(CommandHandle, bool), ExecError> {
        let s = &self.0;
        check_request(&request)?;
        self.check_alive()?;
        let id = request.id.clone().unwrap_or_else(CommandId::generate);
        let max_bytes = request
            .max_output_bytes
            .unwrap_or(s.facts().settings.max_output_bytes);
        let command = {
            let mut history = s.history();
            if request.id.is_some()
                && let Some(existing) = history.iter().find(|c| *c.id() == id)
            {
                return match first_difference(existing.request(), &request) {
                    None => Ok((existing.clone(), false)),
                    Some(field) => Err(ExecError::IdConflict {
                        id: id.to_string(),
                        field,
                    }),
                };
            }
            let log = s.log(&format!("{}.{id}", s.id), max_bytes);
            let command = CommandHandle::new(id, request, max_bytes, log, s.controls.clone());
            // Into the history and the queue under one lock, so that both have one order.
            s.queue.push(command.clone()).map_err(|why| match why {
                Refused::Full { limit } => ExecError::QueueFull { limit },
                Refused::Closed => s.ended_error(),
            })?;
            history.push_back(command.clone());
            forget_old(&mut history, s.host.config.finished_records);
            command
        };
        Ok((command, true))
    }

    /// Interrupts the command that runs; answers when it is over.
    pub async fn interrupt(&self) -> Result<InterruptReply, ExecError> {
        let (reply, answer) = oneshot::channel();
        self.wish(Control::Interrupt {
            only: None,
            reply: Some(reply),
        })
        .await?;
        let (command_id, method) = answer.await.map_err(|_| self.0.ended_error())?;
        Ok(InterruptReply {
            command_id,
            method: method.to_owned(),
            session: self.record(),
        })
    }

    /// Its shell's tree, and those of former shells in which something still lives.
    pub(crate) fn trees(&self) -> Vec<Arc<Live>> {
        self.0.facts().trees.clone()
    }

    /// The state now, or before the command that runs.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, ExecError> {
        let (reply, answer) = oneshot::channel();
        self.wish(Control::Snapshot { reply }).await?;
        answer
            .await
            .map_err(|_| self.0.ended_error())?
            .ok_or_else(|| {
                ExecError::internal("the shell has not saved its state, so it cannot be copied")
            })
    }

    /// Changes environment and settings.
    pub async fn patch(&self, patch: SessionPatch) -> Result<SessionRecord, ExecError> {
        self.check_alive()?;
        check_environment(&patch.env)?;
        if let Some(limits) = &patch.limits {
            self.0.change_limits(limits)?;
        }
        {
            let settings = &mut self.0.facts().settings;
            if let Some(ms) = patch.timeout_ms {
                settings.timeout = Some(Duration::from_millis(ms));
            }
            if let Some(bytes) = patch.max_output_bytes {
                settings.max_output_bytes = bytes;
            }
            if let Some(ms) = patch.idle_timeout_ms {
                settings.idle_timeout = Some(Duration::from_millis(ms));
            }
        }
        // Sent even when empty: it makes the owner look at the new idle timeout.
        self.wish(Control::Environment { changes: patch.env })
            .await?;
        Ok(self.record())
    }

    /// Ends the session and everything it started.
    pub(crate) async fn end(&self, reason: &str) -> KillReply {
        let (reply, answer) = oneshot::channel();
        let wish = Control::End {
            reason: reason.to_owned(),
            reply,
        };
        let ended = || KillReply {
            method: "already_ended".to_owned(),
            killed: 0,
            survivors: Vec::new(),
        };
        if self.0.controls.send(wish).await.is_err() {
            return ended();
        }
        let mut answer = answer;
        tokio::select! {
            reply = &mut answer => return reply.unwrap_or_else(|_| ended()),
            () = tokio::time::sleep(END_PATIENCE) => {}
        }
        // The owner waits for a shell that does not answer: without the shell it does not.
        let trees = self.0.facts().trees.clone();
        let killed = kill_all(trees, Duration::ZERO).await;
        match answer.await {
            Ok(reply) if reply.killed > 0 => reply,
            _ => killed,
        }
    }

    /// Its history, the oldest first.
    pub fn commands(&self) -> Vec<CommandHandle> {
        self.0.history().iter().cloned().collect()
    }

    /// One command of its history.
    pub fn command(&self, id: &str) -> Result<CommandHandle, ExecError> {
        let history = self.0.history();
        history
            .iter()
            .find(|command| command.id().as_str() == id)
            .cloned()
            .ok_or_else(|| ExecError::CommandNotFound { id: id.to_owned() })
    }

    fn check_alive(&self) -> Result<(), ExecError> {
        if self.0.ended.borrow().is_some() {
            Err(self.0.ended_error())
        } else {
            Ok(())
        }
    }

    async fn wish(&self, control: Control) -> Result<(), ExecError> {
        self.0
            .controls
            .send(control)
            .await
            .map_err(|_| self.0.ended_error())
    }
}

impl Session {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, VecDeque<CommandHandle>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended_error(&self) -> ExecError {
        let reason = self
            .ended
            .borrow()
            .clone()
            .unwrap_or_else(|| "it is ending".to_owned());
        ExecError::SessionEnded {
            id: self.id.to_string(),
            reason,
        }
    }

    fn log(&self, name: &str, keep_head: u64) -> OutputLog {
        let cap = self.host.config.log_bytes;
        self.host.output_log(name, LogLimits { cap, keep_head })
    }

    /// Sets limits of what runs and of what is started later.
    fn change_limits(&self, limits: &Limits) -> Result<(), ExecError> {
        fence::check(Some(limits), self.host.nursery.controllers())?;
        if fence::needed(Some(limits)) && self.fence.is_none() {
            return Err(ExecError::LimitUnavailable {
                pointer: "/limits".to_owned(),
                detail:
                    "memory_bytes, cpus and pids can be changed only of a session that was made \
                         with one of them"
                        .to_owned(),
            });
        }
        let trees = self.facts().trees.clone();
        host::change_rlimits(limits, &trees)?;
        if let Some(fence) = &self.fence {
            fence.change(limits)?;
        }
        let mut facts = self.facts();
        let known = facts.limits.get_or_insert_default();
        known.memory_bytes = limits.memory_bytes.or(known.memory_bytes);
        known.cpus = limits.cpus.or(known.cpus);
        known.pids = limits.pids.or(known.pids);
        known.open_files = limits.open_files.or(known.open_files);
        known.file_bytes = limits.file_bytes.or(known.file_bytes);
        known.cpu_seconds = limits.cpu_seconds.or(known.cpu_seconds);
        Ok(())
    }

    /// What its processes use, and which of them the shell waits for.
    fn figures(&self) -> (SessionStats, Vec<ProcessInfo>) {
        let (trees, commands, background) = {
            let facts = self.facts();
            (
                facts.trees.clone(),
                facts.commands,
                facts.background.clone(),
            )
        };
        let alive = |live: &Arc<Live>| live.tree.alive().unwrap_or_default();
        let pids: Vec<i32> = trees.iter().flat_map(alive).collect();
        let resident: u64 = pids
            .iter()
            .filter_map(|pid| procfs::stat(*pid).unwrap_or_default())
            .map(|s| s.resident_pages)
            .sum();
        let stats = SessionStats {
            processes: pids.len() as u32,
            memory_bytes: resident * procfs::page_size(),
            cpu_ms: trees.iter().map(|live| live.tree.cpu_ms()).sum(),
            commands,
        };
        let shell = trees
            .last()
            .and_then(|live| procfs::pid_of(&live.pidfd).unwrap_or_default());
        let foreground = shell.map(|shell| foreground(shell, &background));
        let processes = foreground
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| {
                let state = procfs::stat(pid).unwrap_or_default()?.state.to_string();
                Some(ProcessInfo {
                    pid,
                    command: procfs::command_line(pid),
                    state,
                })
            })
            .collect();
        (stats, processes)
    }
}

/// Forgets finished commands beyond the limit, the oldest first, never one that someone holds.
fn forget_old(history: &mut VecDeque<CommandHandle>, keep: usize) {
    while history.len() > keep.max(1) {
        let finished = |c: &CommandHandle| {
            !c.is_held()
                && matches!(
                    c.record().state,
                    CommandState::Done | CommandState::Cancelled
                )
        };
        // The oldest is nearly always free to go; a held one is looked past.
        let Some(at) = history.iter().position(finished) else {
            return;
        };
        history.remove(at);
    }
}

fn check_request(request: &SessionExecRequest) -> Result<(), ExecError> {
    if request.command.contains('\0') {
        return Err(ExecError::invalid(
            "/command",
            "a command contains no NUL byte",
        ));
    }
    if request
        .cwd
        .as_ref()
        .is_some_and(|cwd| cwd.is_empty() || cwd.contains('\0'))
    {
        return Err(ExecError::invalid(
            "/cwd",
            "a directory has a name without NUL bytes",
        ));
    }
    if let Some(stdin) = &request.stdin
        && Encoded::decode(stdin, request.stdin_encoding).is_none()
    {
        return Err(ExecError::invalid("/stdin", "stdin is not valid base64"));
    }
    check_environment(&request.env)
}

/// A shell can hold only variables whose names are identifiers.
pub(crate) fn check_environment(env: &Env) -> Result<(), ExecError> {
    for (name, value) in env {
        check_variable(name, value.as_deref())?;
        let identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !identifier {
            return Err(ExecError::invalid(
                &format!("/env/{}", name.replace('~', "~0").replace('/', "~1")),
                "a shell variable is named by letters, digits and '_', not starting with a digit",
            ));
        }
    }
    Ok(())
}
