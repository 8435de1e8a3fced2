//! Processes in the model.
//!
//! ```text
//! start ──► running ── its own end, a signal, a kill ──► exited (what it left behind goes on)
//!             │ ▲                                          │ kill: what it left is gone
//!        STOP │ │ CONT                                     ▼
//!             └─┘                  any ── delete ──► gone, and all of its tree
//! ```

use sandshell_client::types::{ErrorCode, ProcessRequest, ProcessState, SignalScope, StreamName};

use super::{AT_ONCE, World, rest_of};
use crate::model::act::{Act, Exit, Killed, ProcessFacts};
use crate::model::script::Text;
use crate::model::step::{At, Program, Signal};

/// What a tree is given to end by itself: far more than it takes, also on a machine that stands still for a while.
const GRACE_MS: u64 = 60_000;
/// The same for one that will not.
const SHORT_GRACE_MS: u64 = 30;

pub(super) struct Process {
    request: ProcessRequest,
    program: Program,
    exit: Option<Exit>,
    stopped: bool,
    stdin: Vec<u8>,
    stdin_open: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// How many others of its tree are alive, at least and at most.
    others: (u32, u32),
}

impl Process {
    pub(super) fn id(&self) -> &str {
        self.request.id.as_ref().map_or("", |id| id.as_str())
    }

    fn facts(&self) -> ProcessFacts {
        ProcessFacts {
            state: match self.exit {
                Some(_) => ProcessState::Exited,
                None => ProcessState::Running,
            },
            exits: self.exit.into_iter().collect(),
            stdout_bytes: vec![self.stdout.len() as u64],
            stderr_bytes: vec![self.stderr.len() as u64],
        }
    }

    fn alive(&self) -> (u32, u32) {
        let own = u32::from(self.exit.is_none());
        (self.others.0 + own, self.others.1 + own)
    }

    /// The end by a signal that all of the tree, or only the process, gets.
    fn ends_by(&mut self, signal: Signal, tree: bool) {
        if self.exit.is_none() {
            self.exit = Some(match signal {
                Signal::Term if self.program == Program::Polite => {
                    self.stdout.extend_from_slice(b"bye\n");
                    (7, None)
                }
                Signal::Hup => (129, Some("SIGHUP")),
                Signal::Int => (130, Some("SIGINT")),
                Signal::Usr1 => (138, Some("SIGUSR1")),
                Signal::Term => (143, Some("SIGTERM")),
                Signal::Kill | Signal::Stop | Signal::Cont => (137, Some("SIGKILL")),
            });
        }
        if tree {
            // They are gone some time after the process itself, whose end is all that is waited for.
            self.others.0 = 0;
        }
    }
}

impl World {
    pub(super) fn start_process(&mut self, at: At, program: &Program) {
        let id = self.name("p", at, super::PROCESSES);
        self.start_named(&id, program);
    }

    fn start_named(&mut self, id: &str, program: &Program) {
        let marker = &self.marker;
        let sleep = format!("sleep {marker}");
        let (command, stdout, others) = match program {
            Program::Write(writing) => (writing.text(true), writing.stdout.bytes(), (0, 0)),
            Program::Echo => (String::new(), Vec::new(), (0, 0)),
            Program::Sleep => (format!("echo go; exec {sleep}"), b"go\n".to_vec(), (0, 0)),
            Program::Tree => (
                format!(
                    "{sleep} & setsid {sleep} & (setsid {sleep} &); echo go; while :; do wait; done"
                ),
                b"go\n".to_vec(),
                (3, 3),
            ),
            Program::Deaf => (
                format!("trap '' TERM INT HUP USR1; echo go; while :; do {sleep}; done"),
                b"go\n".to_vec(),
                (0, 1),
            ),
            Program::Polite => (
                format!("trap 'echo bye; exit 7' TERM; {sleep} & echo go; while :; do wait; done"),
                b"go\n".to_vec(),
                (1, 1),
            ),
            Program::Leave => (
                format!("setsid {sleep} & echo left; exit 3"),
                b"left\n".to_vec(),
                (1, 1),
            ),
        };
        let echo = *program == Program::Echo;
        let request = ProcessRequest {
            id: Some(id.parse().unwrap()),
            command: (!echo).then_some(command),
            argv: echo.then(|| vec!["cat".to_owned()]),
            stdin_open: echo,
            ..ProcessRequest::default()
        };
        let exit = match program {
            Program::Write(writing) => Some((i32::from(writing.code), None)),
            Program::Leave => Some((3, None)),
            _ => None,
        };
        let stderr = match program {
            Program::Write(writing) => writing.stderr.bytes(),
            _ => Vec::new(),
        };
        self.start(Process {
            request,
            program: program.clone(),
            exit,
            stopped: false,
            stdin: Vec::new(),
            stdin_open: echo,
            stdout,
            stderr,
            others,
        });
    }

    pub(super) fn start_from_session(&mut self, at: At, session: At) {
        let id = self.name("p", at, super::PROCESSES);
        let session = self.session_at(session);
        let names = self.names();
        let request = ProcessRequest {
            id: Some(id.parse().unwrap()),
            command: Some(Text::Show.text(&names)),
            session: Some(session.parse().unwrap()),
            ..ProcessRequest::default()
        };
        let Ok(index) = self.session_index(&session) else {
            // One that is there is not compared with a session that is not.
            if self.process_index(&id).is_err() {
                self.acts.push(Act::StartProcess {
                    request,
                    fresh: true,
                    expect: Err(ErrorCode::SessionNotFound),
                });
            }
            return;
        };
        let mut shell = self.sessions[index].shell.clone();
        shell.status = 0;
        let shown = Text::Show.run(&mut shell, &names).stdout;
        self.start(Process {
            request,
            program: Program::Sleep,
            exit: Some((0, None)),
            stopped: false,
            stdin: Vec::new(),
            stdin_open: false,
            stdout: shown,
            stderr: Vec::new(),
            others: (0, 0),
        });
    }

    fn start(&mut self, process: Process) {
        let (id, request) = (process.id().to_owned(), process.request.clone());
        let (fresh, expect) = match self.process_index(&id) {
            Err(_) => (true, Ok(())),
            Ok(index) if self.processes[index].request == request => (false, Ok(())),
            Ok(_) => (false, Err(ErrorCode::IdConflict)),
        };
        self.acts.push(Act::StartProcess {
            request,
            fresh,
            expect,
        });
        if !fresh {
            return;
        }
        if process.exit.is_some() {
            self.acts.push(Act::Wait {
                id,
                ends: true,
                expect: Ok(process.facts()),
            });
        } else if !process.stdout.is_empty() {
            self.acts.push(Act::UntilOutput {
                id,
                stdout: process.stdout.clone(),
            });
        }
        self.processes.push(process);
    }

    /// Writes on, or once more what the last bytes were.
    pub(super) fn write(&mut self, at: At, bytes: &[u8], again: bool) {
        let id = self.process_at(at);
        let index = match self.process_index(&id) {
            Ok(index) => index,
            Err(code) => {
                self.acts.push(Act::Write {
                    id,
                    offset: None,
                    bytes: bytes.to_vec(),
                    expect: Err(code),
                });
                return;
            }
        };
        let process = &mut self.processes[index];
        if bytes.is_empty() {
            return;
        }
        let written = process.stdin.len() as u64;
        if process.exit.is_some() || !process.stdin_open {
            self.acts.push(Act::Write {
                id,
                offset: None,
                bytes: bytes.to_vec(),
                expect: Err(ErrorCode::StdinClosed),
            });
            return;
        }
        process.stdin.extend_from_slice(bytes);
        process.stdout.extend_from_slice(bytes);
        let total = process.stdin.len() as u64;
        let times = if again { 2 } else { 1 };
        for _ in 0..times {
            self.acts.push(Act::Write {
                id: id.clone(),
                offset: again.then_some(written),
                bytes: bytes.to_vec(),
                expect: Ok(total),
            });
        }
        self.acts.push(Act::UntilOutput {
            id,
            stdout: process.stdout.clone(),
        });
    }

    pub(super) fn write_too_far(&mut self, at: At) {
        let id = self.process_at(at);
        let expect = Err(match self.process_index(&id) {
            Ok(_) => ErrorCode::StdinOffset,
            Err(code) => code,
        });
        let offset = self
            .process_index(&id)
            .map_or(1, |index| self.processes[index].stdin.len() as u64 + 1);
        self.acts.push(Act::Write {
            id,
            offset: Some(offset),
            bytes: b"x".to_vec(),
            expect,
        });
    }

    pub(super) fn close_stdin(&mut self, at: At) {
        let id = self.process_at(at);
        let index = self.process_index(&id);
        let expect = index.map(|index| self.processes[index].stdin.len() as u64);
        self.acts.push(Act::CloseStdin {
            id: id.clone(),
            expect,
        });
        let Ok(index) = index else { return };
        let process = &mut self.processes[index];
        if process.program == Program::Echo && process.exit.is_none() {
            process.exit = Some((0, None));
            let expect = Ok(process.facts());
            self.acts.push(Act::Wait {
                id,
                ends: true,
                expect,
            });
        }
        process.stdin_open = false;
    }

    pub(super) fn signal(&mut self, at: At, signal: Signal, tree: bool) {
        let id = self.process_at(at);
        let name = match signal {
            Signal::Hup => "HUP",
            Signal::Int => "SIGINT",
            Signal::Usr1 => "10",
            Signal::Term => "SIGTERM",
            Signal::Kill => "KILL",
            Signal::Stop => "SIGSTOP",
            Signal::Cont => "SIGCONT",
        };
        let refuse = |world: &mut Self, code| {
            world.acts.push(Act::Signal {
                id: id.clone(),
                signal: name,
                scope: SignalScope::Process,
                expect: Err(code),
            });
        };
        let index = match self.process_index(&id) {
            Ok(index) => index,
            Err(code) => return refuse(self, code),
        };
        let process = &mut self.processes[index];
        if process.exit.is_some() {
            if process.others == (0, 0) {
                refuse(self, ErrorCode::ProcessEnded);
            }
            return;
        }
        // Children of a shell begin with SIGINT ignored, at a moment that is not known.
        let tree = tree && signal != Signal::Int;
        let stops = matches!(signal, Signal::Stop | Signal::Cont);
        if stops && (process.program != Program::Sleep || tree) {
            return;
        }
        // What a stopped process has been sent comes in an order of its own.
        if process.stopped && !stops && signal != Signal::Kill {
            return;
        }
        let (least, most) = if tree { process.alive() } else { (1, 1) };
        self.acts.push(Act::Signal {
            id: id.clone(),
            signal: name,
            scope: if tree {
                SignalScope::Tree
            } else {
                SignalScope::Process
            },
            expect: Ok(least..=most),
        });
        if stops {
            process.stopped = signal == Signal::Stop;
            return;
        }
        if process.program == Program::Deaf && signal != Signal::Kill {
            return;
        }
        process.ends_by(signal, tree);
        let expect = Ok(process.facts());
        self.acts.push(Act::Wait {
            id,
            ends: true,
            expect,
        });
    }

    pub(super) fn kill(&mut self, at: At, grace: bool) {
        let id = self.process_at(at);
        let index = match self.process_index(&id) {
            Ok(index) => index,
            Err(code) => {
                self.acts.push(Act::Kill {
                    id,
                    grace_ms: 0,
                    expect: Err(code),
                });
                return;
            }
        };
        let process = &mut self.processes[index];
        let deaf = process.program == Program::Deaf;
        let grace_ms = match (grace, deaf) {
            (false, _) => 0,
            (true, false) => GRACE_MS,
            (true, true) => SHORT_GRACE_MS,
        };
        let killed = process.killed(grace && !deaf);
        process.ends_by(
            if grace && !deaf {
                Signal::Term
            } else {
                Signal::Kill
            },
            true,
        );
        process.others = (0, 0);
        let facts = process.facts();
        self.acts.push(Act::Kill {
            id: id.clone(),
            grace_ms,
            expect: Ok(killed),
        });
        self.acts.push(Act::Process {
            id,
            expect: Ok(facts),
        });
    }

    pub(super) fn delete_process(&mut self, id: &str) {
        let index = self.process_index(id);
        let expect = index.map(|index| self.processes[index].killed(false));
        self.acts.push(Act::DeleteProcess {
            id: id.to_owned(),
            expect,
        });
        if let Ok(index) = index {
            self.processes.remove(index);
        }
    }

    pub(super) fn start_anew(&mut self, at: At, read: bool) {
        let id = self.process_at(at);
        let Ok(index) = self.process_index(&id) else {
            return self.delete_process(&id);
        };
        let former = &self.processes[index];
        let (program, stdout) = (former.program.clone(), former.stdout.clone());
        if former.request.session.is_some() {
            return;
        }
        if read {
            self.acts.push(Act::OpenOutput { id: id.clone() });
        }
        self.delete_process(&id);
        self.start_named(&id, &program);
        if read {
            self.acts.push(Act::RestOfOutput { id, expect: stdout });
        }
    }

    pub(super) fn wait(&mut self, at: At) {
        let id = self.process_at(at);
        let index = self.process_index(&id);
        let expect = index.map(|index| self.processes[index].facts());
        let ends = !matches!(&expect, Ok(facts) if facts.state == ProcessState::Running);
        self.acts.push(Act::Wait { id, ends, expect });
    }

    pub(super) fn look_at_process(&mut self, at: At) {
        let id = self.process_at(at);
        let expect = self
            .process_index(&id)
            .map(|index| self.processes[index].facts());
        self.acts.push(Act::Process { id, expect });
    }

    pub(super) fn read_process(&mut self, at: At, cut: u8, events: bool) {
        let id = self.process_at(at);
        let index = match self.process_index(&id) {
            Ok(index) => index,
            Err(code) => {
                self.acts.push(Act::Output {
                    id,
                    stream: StreamName::Stdout,
                    offset: 0,
                    follow: false,
                    expect: Err(code),
                });
                return;
            }
        };
        let process = &self.processes[index];
        if events {
            self.acts.push(Act::Events {
                id,
                facts: Ok(process.facts()),
                stdout: vec![process.stdout.clone()],
                stderr: vec![process.stderr.clone()],
            });
            return;
        }
        let (stream, bytes) = if cut.is_multiple_of(2) {
            (StreamName::Stdout, &process.stdout)
        } else {
            (StreamName::Stderr, &process.stderr)
        };
        let (offset, rest) = rest_of(std::slice::from_ref(bytes), cut);
        self.acts.push(Act::Output {
            id,
            stream,
            offset,
            follow: process.exit.is_some(),
            expect: Ok(rest),
        });
    }
}

impl Process {
    /// What a kill will say.
    fn killed(&self, gently: bool) -> Killed {
        let (least, most) = self.alive();
        Killed {
            methods: match (least, most) {
                (_, 0) => &["already_ended"],
                (0, _) if gently => &["already_ended", "term"],
                (0, _) => &[
                    "already_ended",
                    "term",
                    "cgroup_kill",
                    "namespace_kill",
                    "subreaper_walk",
                ],
                _ if gently => &["term"],
                _ => AT_ONCE,
            },
            count: least..=most,
        }
    }
}
