//! Terminals: programs on a pseudo-terminal of their own, with a screen model and many viewers.
//!
//! Each terminal has one owner task ([`owner`]), which alone reads and writes the master. All output
//! goes into an output log, as for a process; viewers ([`viewer`]) read it at their own pace, so a
//! slow one holds up nobody. The [`screen`] follows the same bytes, so that a viewer can begin, or
//! begin again, with a picture instead of the past.
//!
//! ```text
//!  create ─► running ── reaped, master drained ──► exited ──► (record kept, leftovers die out)
//!               │ destroy: the whole tree is killed  ▲
//!               └────────────────────────────────────┘
//! ```
//!
//! Invariants: the picture and its offset belong together; an exit is told after the last byte; what
//! viewers do not read is never gathered for them.

mod owner;
mod recording;
pub(crate) mod screen;
mod viewer;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use sandshell_isolate::protocol::Exit;
use sandshell_sys::{
    pty::{self, Pty},
    task,
};
use sandshell_types::{
    Env, Happening, KillReply, ProcessRequest, ResizeRequest, TerminalId, TerminalRecord,
    TerminalRequest, TerminalScreen, TerminalState,
};
use tokio::sync::{mpsc, watch};

pub use recording::Recording;
pub use screen::{MAX_COLS, MAX_ROWS, SCROLLBACK};
pub use viewer::{Redraw, View, Viewer};

use crate::ExecError;
use crate::events::Events;
use crate::host::{Host, Live, Program};
use crate::inside::Who;
use crate::output::{LogLimits, OutputLog, Stream};
use crate::process::{exit_code, kill_all, signal_name};
use crate::registry::{Entry, Registry};
use screen::Screen;

/// Most bytes of output kept for each terminal; the agent's own bound wins when it is smaller.
const LOG_BYTES: u64 = 32 << 20;

/// Inputs that wait for the program to read; further ones wait at their sender.
const INPUTS: usize = 16;

/// Size changes remembered for replays and recordings.
const SIZES: usize = 1000;

/// What programs take the terminal for.
const TERM: &str = "xterm-256color";

/// Terminals that run at a time.
pub const MAX_TERMINALS: usize = 256;

/// Clients connected to one terminal at a time.
pub const MAX_VIEWERS: u32 = 128;

pub(crate) type Terminals = Registry<TerminalId, TerminalHandle>;

/// A terminal; cheap to clone.
#[derive(Debug, Clone)]
pub struct TerminalHandle(Arc<Terminal>);

#[derive(Debug)]
struct Terminal {
    id: TerminalId,
    spec: TerminalRequest,
    log: OutputLog,
    model: Mutex<Model>,
    facts: Mutex<Facts>,
    events: Events,
    input: mpsc::Sender<Bytes>,
    /// Counts size changes, so that viewers hear of them.
    resized: watch::Sender<u64>,
    over: watch::Sender<bool>,
    viewers: AtomicU32,
    /// Clients that answer what programs ask.
    answering: AtomicU32,
}

/// The screen, and what of the output it shows.
#[derive(Debug)]
struct Model {
    screen: Screen,
    /// Bytes of output in the screen.
    offset: u64,
    sizes: VecDeque<SizeChange>,
    /// Changes that were forgotten, so that each keeps its number.
    sizes_gone: u64,
    /// The master, for its size; absent after the end.
    master: Option<OwnedFd>,
}

/// From this offset on the terminal has this size.
#[derive(Debug, Clone, Copy)]
struct SizeChange {
    offset: u64,
    cols: u16,
    rows: u16,
    at: Timestamp,
}

#[derive(Debug)]
struct Facts {
    pid: i32,
    state: TerminalState,
    /// Absent once the whole tree is gone.
    live: Option<Arc<Live>>,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    exit: Option<Exit>,
}

impl Entry for TerminalHandle {
    type Spec = TerminalRequest;
    fn spec(&self) -> &TerminalRequest {
        &self.0.spec
    }
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Refuses sizes that no terminal has.
pub(crate) fn check_size(cols: u16, rows: u16) -> Result<(), ExecError> {
    let wrong = |pointer: &str, what: &str, max: u16, is: u16| {
        ExecError::invalid(
            pointer,
            format!("a terminal has 1 to {max} {what}, not {is}"),
        )
    };
    if !(1..=MAX_COLS).contains(&cols) {
        return Err(wrong("/cols", "columns", MAX_COLS, cols));
    }
    if !(1..=MAX_ROWS).contains(&rows) {
        return Err(wrong("/rows", "rows", MAX_ROWS, rows));
    }
    Ok(())
}

/// The program a spec asks for: a shell as at a login, a text for one, or any other.
pub(crate) fn program(host: &Host, spec: &TerminalRequest) -> Result<Program, ExecError> {
    check_size(spec.cols, spec.rows)?;
    let mut env = Env::from([("TERM".to_owned(), Some(TERM.to_owned()))]);
    env.extend(spec.env.clone());
    let text = match (&spec.command, &spec.argv) {
        (Some(_), Some(_)) => {
            return Err(ExecError::invalid(
                "/argv",
                "only one of `command` and `argv` can be given",
            ));
        }
        (None, Some(argv)) => {
            let account = host.account(spec.user.as_deref())?;
            return host.program(argv, &account, spec.cwd.as_deref(), &env, None);
        }
        (Some(text), None) if text.contains('\0') => {
            return Err(ExecError::invalid(
                "/command",
                "a command contains no NUL byte",
            ));
        }
        (text, None) => text.as_deref(),
    };
    let run = ProcessRequest {
        cwd: spec.cwd.clone(),
        env,
        user: spec.user.clone(),
        ..ProcessRequest::default()
    };
    let mut program = host.command(text.unwrap_or_default(), &run)?;
    if text.is_none() {
        program.argv.truncate(1);
        program.argv.push(c"-l".to_owned());
    }
    Ok(program)
}

impl TerminalHandle {
    /// Starts a program on a terminal of its own.
    pub(crate) async fn begin(
        host: Arc<Host>,
        terminals: Weak<Terminals>,
        id: TerminalId,
        spec: TerminalRequest,
        program: Program,
    ) -> Result<Self, ExecError> {
        let system = |errno| ExecError::system("cannot open a terminal", errno);
        let (cols, rows) = (spec.cols, spec.rows);
        let who = Who(program.identity.clone());
        let opened = host.inside.run(&who, move |root| {
            pty::open(root.open_terminal()?, cols, rows)
        });
        let opened = opened.await;
        let Pty { master, slave } = opened.map_err(ExecError::from)?.map_err(system)?;
        let for_size = master
            .try_clone()
            .map_err(|error| ExecError::io("cannot make a terminal", &error))?;
        let screen =
            Screen::new(cols, rows).map_err(|e| ExecError::invalid("/cols", e.to_string()))?;
        let ends = owner::Ends::new(master, slave)
            .map_err(|error| ExecError::io("cannot watch a terminal", &error))?;
        let running = host.start_on_terminal(&program, ends.slave()).await?;
        let limits = LogLimits {
            cap: LOG_BYTES.min(host.config.log_bytes),
            keep_head: 0,
        };
        let now = Timestamp::now();
        let (input, inputs) = mpsc::channel(INPUTS);
        let terminal = Arc::new(Terminal {
            log: host.output_log(id.as_str(), limits),
            id,
            spec,
            model: Mutex::new(Model {
                screen,
                offset: 0,
                sizes: VecDeque::new(),
                sizes_gone: 0,
                master: Some(for_size),
            }),
            facts: Mutex::new(Facts {
                pid: running.pid,
                state: TerminalState::Running,
                live: Some(running.live.clone()),
                started_at: now,
                ended_at: None,
                exit: None,
            }),
            events: host.events.clone(),
            input,
            resized: watch::Sender::new(0),
            over: watch::Sender::new(false),
            viewers: AtomicU32::new(0),
            answering: AtomicU32::new(0),
        });
        terminal.events.publish(Happening::TerminalCreated {
            terminal: terminal.id.clone(),
        });
        task::spawn(owner::run(
            terminals,
            terminal.clone(),
            running,
            ends,
            inputs,
        ));
        Ok(Self(terminal))
    }

    /// Its id.
    pub fn id(&self) -> &TerminalId {
        &self.0.id
    }

    /// What is known of it now.
    pub fn record(&self) -> TerminalRecord {
        let t = &self.0;
        let (title, (cols, rows)) = {
            let model = t.model();
            (model.screen.title().map(str::to_owned), model.screen.size())
        };
        let facts = t.facts();
        TerminalRecord {
            id: t.id.clone(),
            pid: facts.pid,
            state: facts.state,
            command: t.spec.command.clone(),
            argv: t.spec.argv.clone(),
            cols,
            rows,
            title,
            output_bytes: t.log.len(Stream::Stdout),
            viewers: t.viewers.load(Ordering::Relaxed),
            started_at: facts.started_at,
            ended_at: facts.ended_at,
            exit_code: facts.exit.map(exit_code),
            signal: facts.exit.and_then(signal_name),
        }
    }

    /// Whether its program runs.
    pub fn is_running(&self) -> bool {
        self.0.facts().state == TerminalState::Running
    }

    /// What is on its screen, and so many of the lines that scrolled away.
    pub fn screen(&self, scrollback: Option<usize>) -> TerminalScreen {
        let state = self.0.facts().state;
        let model = self.0.model();
        let screen = &model.screen;
        let (cols, rows) = screen.size();
        TerminalScreen {
            text: screen.text(),
            cursor: screen.cursor(),
            title: screen.title().map(str::to_owned),
            cols,
            rows,
            alternate: screen.is_alternate(),
            offset: model.offset,
            state,
            scrollback: scrollback.map(|most| screen.scrollback(most)),
        }
    }

    /// What draws its screen on another terminal of the same size.
    pub fn redraw(&self) -> Bytes {
        self.0.model().screen.redraw().into()
    }

    /// Changes its size.
    pub fn resize(&self, size: ResizeRequest) -> Result<(), ExecError> {
        let ResizeRequest { cols, rows } = size;
        check_size(cols, rows)?;
        let mut model = self.0.model();
        let master = model.master.as_ref().ok_or_else(|| self.gone())?;
        if model.screen.size() == (cols, rows) {
            return Ok(());
        }
        pty::resize(master, cols, rows)
            .map_err(|errno| ExecError::system("cannot resize a terminal", errno))?;
        model.screen.resize(cols, rows);
        let change = SizeChange {
            offset: model.offset,
            cols,
            rows,
            at: Timestamp::now(),
        };
        model.sizes.push_back(change);
        if model.sizes.len() > SIZES {
            model.sizes.pop_front();
            model.sizes_gone += 1;
        }
        let count = model.sizes_gone + model.sizes.len() as u64;
        drop(model);
        self.0.resized.send_replace(count);
        Ok(())
    }

    /// Types. Waits while the program has not read what was typed before.
    ///
    /// CANCEL SAFETY: a dropped call typed nothing.
    pub async fn type_in(&self, bytes: Bytes) -> Result<(), ExecError> {
        self.0.input.send(bytes).await.map_err(|_| self.gone())
    }

    /// Connects: from an offset of the output, or with a picture of the screen.
    pub fn connect(&self, offset: Option<u64>, answers: bool) -> Result<Viewer, ExecError> {
        Viewer::new(self.clone(), offset, answers)
    }

    /// Its past as an asciicast.
    pub fn recording(&self) -> Result<Recording, ExecError> {
        Recording::new(self)
    }

    /// Resolves when its program has ended and all its output is in the log.
    pub async fn ended(&self) {
        let mut over = self.0.over.subscribe();
        // An error would mean that the sender is gone, which we hold.
        let _ = over.wait_for(|over| *over).await;
    }

    /// TERM, grace, KILL for everything that was started on it.
    pub(crate) async fn kill(&self, grace: Duration) -> KillReply {
        let tree: Vec<Arc<Live>> = self.0.facts().live.iter().cloned().collect();
        let reply = kill_all(tree, grace).await;
        if reply.survivors.is_empty() {
            self.ended().await;
        }
        reply
    }

    fn gone(&self) -> ExecError {
        ExecError::TerminalEnded {
            id: self.0.id.to_string(),
        }
    }
}

impl Terminal {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
