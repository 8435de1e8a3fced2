//! The model: what there is, and what each step does to it.
//!
//! [`World::plan`] is a pure function from steps to acts. It knows the agent's promises and nothing of how
//! they are kept. After every step all is settled: what runs is known to run, what ends has ended; so
//! there is one next state, but for the few values where timing decides.

mod execs;
mod processes;
mod sessions;
mod terminals;

use sandshell_client::types::{CommandState, ErrorCode};

use self::processes::Process;
use self::sessions::Session;
use self::terminals::Terminal;
use super::act::{Act, Expected, Killed};
use super::script::Names;
use super::step::{At, Step};

/// How many names there are of each kind: few, so that steps meet.
const SESSIONS: u8 = 3;
const PROCESSES: u8 = 3;
const TERMINALS: u8 = 2;

/// Below this a step takes a name, whether there is something of that name or not.
const BY_NAME: u8 = 24;

/// How a tree is ended at once, by whatever the place has.
const AT_ONCE: &[&str] = &["cgroup_kill", "namespace_kill", "subreaper_walk"];

pub(super) struct World {
    /// Ids of this sequence begin with it.
    prefix: String,
    /// Its own directory.
    dir: String,
    marker: String,
    /// Where a session begins by default.
    cwd: String,
    /// Numbers commands, gates and ids.
    made: u32,
    acts: Vec<Act>,
    /// What is alive, the oldest first.
    sessions: Vec<Session>,
    processes: Vec<Process>,
    terminals: Vec<Terminal>,
    /// Execs whose children go on.
    execs: Vec<String>,
}

impl World {
    /// All calls of a sequence, to the last: at the end nothing of it is left.
    pub(super) fn plan(
        prefix: &str,
        dir: &str,
        marker: &str,
        cwd: &str,
        steps: &[Step],
    ) -> Vec<Act> {
        let mut world = Self {
            prefix: prefix.to_owned(),
            dir: dir.to_owned(),
            marker: marker.to_owned(),
            cwd: cwd.to_owned(),
            made: 0,
            acts: Vec::new(),
            sessions: Vec::new(),
            processes: Vec::new(),
            terminals: Vec::new(),
            execs: Vec::new(),
        };
        for step in steps {
            world.take(step);
        }
        world.list();
        while let Some(session) = world.sessions.first() {
            let id = session.id.clone();
            world.delete_session(&id);
        }
        while let Some(process) = world.processes.first() {
            let id = process.id().to_owned();
            world.delete_process(&id);
        }
        while let Some(terminal) = world.terminals.first() {
            let id = terminal.id().to_owned();
            world.delete_terminal(&id);
        }
        for id in std::mem::take(&mut world.execs) {
            world.acts.push(Act::DeleteProcess {
                id,
                expect: Ok(Killed {
                    methods: AT_ONCE,
                    count: 1..=1,
                }),
            });
        }
        world.list();
        world.acts
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Exec(exec) => self.exec(exec),
            Step::CreateSession { at, cwd, env } => self.create_session(*at, *cwd, env.as_deref()),
            Step::Run { at, text, streamed } => self.run(*at, text, *streamed),
            Step::Begin {
                at,
                block,
                change,
                kill,
            } => self.begin(*at, *block, change, *kill),
            Step::TimeOut(at) => self.time_out(*at),
            Step::RunWith { at, value, nowhere } => self.run_with(*at, value, *nowhere),
            Step::Interrupt(at) => self.interrupt(*at),
            Step::OpenGate(at) => self.open_gate(*at),
            Step::Disconnect { at, waiting } => self.disconnect(*at, *waiting),
            Step::KillShell(at) => self.kill_shell(*at),
            Step::Fork { from, to } => self.fork(*from, *to),
            Step::Patch { at, name, value } => self.patch(*at, *name, value.as_deref()),
            Step::LookAtSession(at) => self.look_at_session(*at),
            Step::History(at) => self.history(*at),
            Step::Reread {
                at,
                command,
                cut,
                events,
            } => self.reread(*at, *command, *cut, *events),
            Step::DeleteSession(at) => {
                let id = self.session_at(*at);
                self.delete_session(&id);
            }
            Step::StartProcess { at, program } => self.start_process(*at, program),
            Step::StartFromSession { at, session } => self.start_from_session(*at, *session),
            Step::Write { at, bytes, again } => self.write(*at, bytes, *again),
            Step::WriteTooFar(at) => self.write_too_far(*at),
            Step::CloseStdin(at) => self.close_stdin(*at),
            Step::Signal { at, signal, tree } => self.signal(*at, *signal, *tree),
            Step::Kill { at, grace } => self.kill(*at, *grace),
            Step::DeleteProcess(at) => {
                let id = self.process_at(*at);
                self.delete_process(&id);
            }
            Step::StartAnew { at, read } => self.start_anew(*at, *read),
            Step::Wait(at) => self.wait(*at),
            Step::LookAtProcess(at) => self.look_at_process(*at),
            Step::ReadProcess { at, cut, events } => self.read_process(*at, *cut, *events),
            Step::CreateTerminal(at) => self.create_terminal(*at),
            Step::Type { at, line } => self.type_line(*at, line),
            Step::EndInput { at, interrupt } => self.end_input(*at, *interrupt),
            Step::Resize { at, cols, rows } => self.resize(*at, *cols, *rows),
            Step::WatchTerminal { at, cut } => self.watch_terminal(*at, *cut),
            Step::Attach(at) => self.attach(*at),
            Step::Detach(at) => self.detach(*at),
            Step::DeleteTerminal(at) => {
                let id = self.terminal_at(*at);
                self.delete_terminal(&id);
            }
            Step::LookAtTerminal(at) => self.look_at_terminal(*at),
            Step::List => self.list(),
        }
    }

    fn list(&mut self) {
        self.acts.push(Act::List {
            sessions: self.sessions.iter().map(|s| s.id.clone()).collect(),
            processes: self.processes.iter().map(|p| p.id().to_owned()).collect(),
            terminals: self.terminals.iter().map(|t| t.id().to_owned()).collect(),
        });
    }

    /// An id of the sequence that nothing had before.
    fn next(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{}{kind}{}", self.prefix, self.made)
    }

    fn names(&mut self) -> Names {
        self.made += 1;
        Names {
            dir: self.dir.clone(),
            marker: self.marker.clone(),
            gate: format!("{}/g{}", self.dir, self.made),
        }
    }

    fn name(&self, kind: &str, at: At, count: u8) -> String {
        format!("{}{kind}{}", self.prefix, at.0 % count)
    }

    fn session_at(&self, at: At) -> String {
        match pick(at, &self.sessions) {
            Some(session) => session.id.clone(),
            None => self.name("s", at, SESSIONS),
        }
    }

    fn process_at(&self, at: At) -> String {
        match pick(at, &self.processes) {
            Some(process) => process.id().to_owned(),
            None => self.name("p", at, PROCESSES),
        }
    }

    fn terminal_at(&self, at: At) -> String {
        match pick(at, &self.terminals) {
            Some(terminal) => terminal.id().to_owned(),
            None => self.name("t", at, TERMINALS),
        }
    }

    fn session_index(&self, id: &str) -> Result<usize, ErrorCode> {
        let index = self.sessions.iter().position(|s| s.id == id);
        index.ok_or(ErrorCode::SessionNotFound)
    }

    fn process_index(&self, id: &str) -> Result<usize, ErrorCode> {
        let index = self.processes.iter().position(|p| p.id() == id);
        index.ok_or(ErrorCode::ProcessNotFound)
    }

    fn terminal_index(&self, id: &str) -> Result<usize, ErrorCode> {
        let index = self.terminals.iter().position(|t| t.id() == id);
        index.ok_or(ErrorCode::TerminalNotFound)
    }
}

fn pick<T>(at: At, alive: &[T]) -> Option<&T> {
    if at.0 < BY_NAME || alive.is_empty() {
        return None;
    }
    alive.get(usize::from(at.0) % alive.len())
}

/// A command that is over, or was dropped before it ran.
fn state_of(end: Option<&Expected>) -> CommandState {
    if end.is_some() {
        CommandState::Done
    } else {
        CommandState::Cancelled
    }
}

/// An offset into bytes of this length.
fn cut_at(cut: u8, len: usize) -> usize {
    len * usize::from(cut) / usize::from(u8::MAX)
}

/// The rest of each value; where there are several, all of each.
fn rest_of(values: &[Vec<u8>], cut: u8) -> (u64, Vec<Vec<u8>>) {
    match values {
        [value] => {
            let at = cut_at(cut, value.len());
            (
                at as u64,
                vec![value.get(at..).unwrap_or_default().to_vec()],
            )
        }
        several => (0, several.to_vec()),
    }
}
