//! Sessions in the model.
//!
//! ```text
//!             run (ends by itself)
//!              ┌──┐
//! create ──► idle ◄─── interrupt, gate opened, client gone, shell killed ───┐
//! fork        │  ▲                                                          │
//!             │  └───────────── the last that waited has run ──────────┐    │
//!             └── begin ──► running, others wait in order of arrival ──┴────┘
//!  any ── delete ──► gone: the one that ran ended, those that waited never ran
//! ```
//!
//! While a command runs, the state is still the one from before it: that is what a fork gets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::types::{
    CommandState, Encoding, ErrorCode, OnDisconnect, SessionExecRequest, SessionRequest,
    StreamName, TextEncoding,
};

use super::{World, cut_at, rest_of, state_of};
use crate::model::act::{Act, Entry, Expected, Killed, SessionFacts};
use crate::model::script::{Block, Names, Ran, Shell, Text};
use crate::model::step::At;

/// Commands that wait at a time, in this model.
const WAITING: usize = 3;

pub(super) struct Session {
    pub(super) id: String,
    spec: SessionRequest,
    pub(super) shell: Shell,
    running: Option<Command>,
    waiting: Vec<Command>,
    /// Those that are over, and how; `None` for one that never ran.
    done: Vec<(Command, Option<Expected>)>,
    restores: u32,
    /// Children left behind, as long as their number is certain.
    children: Option<u32>,
    /// Commands that left a writer behind, and its gate.
    writers: Vec<(String, String)>,
    /// Whether a command has ended whose state may not be saved yet.
    unsaved: bool,
    /// Variables to change when the command that runs is over.
    patches: BTreeMap<u8, Option<Vec<u8>>>,
}

#[derive(Clone)]
struct Command {
    request: SessionExecRequest,
    body: Body,
    names: Names,
}

#[derive(Clone)]
enum Body {
    Text(Text),
    Block(Block, Text),
}

impl Command {
    fn id(&self) -> String {
        self.request
            .id
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }
}

/// How a command that did not end by itself came to its end.
#[derive(Clone, Copy)]
enum By {
    Gate,
    Interrupt,
    ShellKilled,
    Deleted,
}

impl Session {
    fn facts(&self) -> SessionFacts {
        SessionFacts {
            cwd: self.shell.cwd.clone(),
            foreground: self.running.as_ref().map(Command::id),
            waiting: self.waiting.len() as u32,
            restores: self.restores,
            processes: self.processes(),
        }
    }

    /// How many processes it has, its shell included, as far as that is certain.
    fn processes(&self) -> Option<u32> {
        let children = self.children.filter(|_| self.running.is_none())?;
        Some(children + 1)
    }

    fn ran(&mut self, ran: &Ran) -> Expected {
        self.children = self.children.map(|children| children + ran.children);
        if ran.after != "kept" {
            self.restores += 1;
        }
        Expected {
            exits: vec![(ran.code, ran.signal)],
            stdout: vec![ran.stdout.clone()],
            stderr: vec![ran.stderr.clone()],
            left: ran.held.clone(),
            cwd: self.shell.cwd.clone(),
            after: ran.after,
            ..Expected::exit(0)
        }
    }

    /// The end of the command that runs.
    fn block_ends(&mut self, block: Block, change: &Text, names: &Names, by: By) -> Expected {
        let mut end = Expected::exit(130);
        end.stdout = vec![b"go\n".to_vec()];
        match by {
            By::Gate => {
                change.run(&mut self.shell, names);
                self.shell.status = 5;
                end.exits = vec![(5, None)];
                end.stdout = vec![b"go\nopen\n".to_vec()];
                end.stderr = vec![b"end\n".to_vec()];
            }
            By::Interrupt => {
                change.run(&mut self.shell, names);
                self.shell.status = 130;
                end.interrupted = true;
                end.told = true;
                if block == Block::Substitution {
                    // Bash does not wait for it: it may still be about to end.
                    end.left = vec![0, 1];
                }
            }
            By::ShellKilled => {
                self.shell.status = 0;
                self.restores += 1;
                end.exits = vec![(137, Some("SIGKILL"))];
                end.after = "restored_before";
                // What the shell had started by then goes on, and keeps the streams.
                end.left = vec![0, 1, 2];
                self.children = None;
            }
            By::Deleted => {
                end.exits = vec![(137, Some("SIGKILL"))];
                end.after = "ended";
                end.left = vec![0, 1, 2];
            }
        }
        end.cwd.clone_from(&self.shell.cwd);
        end
    }

    fn apply_patches(&mut self) {
        for (name, value) in std::mem::take(&mut self.patches) {
            match value {
                Some(value) => self.shell.variables.insert(name, (value, true)),
                None => self.shell.variables.remove(&name),
            };
        }
    }
}

impl World {
    pub(super) fn create_session(&mut self, at: At, cwd: bool, env: Option<&[u8]>) {
        let id = self.name("s", at, super::SESSIONS);
        let mut spec = SessionRequest {
            id: Some(id.parse().unwrap()),
            cwd: cwd.then(|| "/usr".to_owned()),
            ..SessionRequest::default()
        };
        let mut shell = Shell::new(spec.cwd.as_deref().unwrap_or(&self.cwd));
        if let Some(value) = env {
            let value = String::from_utf8_lossy(value).into_owned();
            shell
                .variables
                .insert(0, (value.clone().into_bytes(), true));
            spec.env.insert("V0".to_owned(), Some(value));
        }
        let expect = self.make(&id, &spec, shell);
        self.acts.push(Act::CreateSession {
            request: spec,
            expect,
        });
    }

    pub(super) fn fork(&mut self, from: At, to: At) {
        let from = self.session_at(from);
        let to = self.name("s", to, super::SESSIONS);
        let expect = self.session_index(&from).and_then(|index| {
            let source = &self.sessions[index];
            let mut shell = source.shell.clone();
            shell.status = 0;
            let spec = SessionRequest {
                id: Some(to.parse().unwrap()),
                ..source.spec.clone()
            };
            self.make(&to, &spec, shell)
        });
        self.acts.push(Act::Fork { from, to, expect });
    }

    /// Makes it, unless there is one of that id.
    fn make(
        &mut self,
        id: &str,
        spec: &SessionRequest,
        shell: Shell,
    ) -> Result<SessionFacts, ErrorCode> {
        if let Ok(index) = self.session_index(id) {
            let there = &self.sessions[index];
            return if there.spec == *spec {
                Ok(SessionFacts {
                    processes: None,
                    ..there.facts()
                })
            } else {
                Err(ErrorCode::IdConflict)
            };
        }
        let session = Session {
            id: id.to_owned(),
            spec: spec.clone(),
            shell,
            running: None,
            waiting: Vec::new(),
            done: Vec::new(),
            restores: 0,
            children: Some(0),
            writers: Vec::new(),
            unsaved: false,
            patches: BTreeMap::new(),
        };
        // Only who asks for a session is told of its processes.
        let facts = SessionFacts {
            processes: None,
            ..session.facts()
        };
        self.sessions.push(session);
        Ok(facts)
    }

    pub(super) fn run(&mut self, at: At, text: &Text, streamed: bool) {
        let id = self.session_at(at);
        let names = self.names();
        let request = SessionExecRequest {
            command: text.text(&names),
            id: Some(self.next("c").parse().unwrap()),
            stdin: text.stdin().map(|bytes| BASE64.encode(bytes)),
            stdin_encoding: match text.stdin() {
                Some(_) => TextEncoding::Base64,
                None => TextEncoding::default(),
            },
            ..SessionExecRequest::default()
        };
        let command = Command {
            request: request.clone(),
            body: Body::Text(text.clone()),
            names,
        };
        let index = match self.session_index(&id) {
            Ok(index) if self.sessions[index].running.is_some() => {
                return self.queue(index, command);
            }
            index => index,
        };
        let expect = index.map(|index| self.run_now(index, command));
        self.acts.push(Act::Run {
            id,
            request,
            streamed,
            expect,
        });
    }

    fn run_now(&mut self, index: usize, command: Command) -> Expected {
        let session = &mut self.sessions[index];
        let Body::Text(text) = &command.body else {
            unreachable!("only a text ends by itself");
        };
        let ran = text.run(&mut session.shell, &command.names);
        if *text == Text::LeaveWriter {
            let gate = command.names.gate.clone();
            session.writers.push((command.id(), gate));
        }
        let end = session.ran(&ran);
        // What a shell was given is safe: the next would be given it again.
        session.unsaved = ran.after == "kept";
        session.done.push((command, Some(end.clone())));
        end
    }

    fn queue(&mut self, index: usize, command: Command) {
        let session = &mut self.sessions[index];
        if session.waiting.len() == WAITING {
            return;
        }
        self.acts.push(Act::Begin {
            id: session.id.clone(),
            request: command.request.clone(),
            runs: false,
            expect: Ok(()),
        });
        session.waiting.push(command);
    }

    pub(super) fn begin(&mut self, at: At, block: Block, change: &Text, kill: bool) {
        let id = self.session_at(at);
        let names = self.names();
        let request = SessionExecRequest {
            command: block.text(change, &names),
            id: Some(self.next("c").parse().unwrap()),
            on_disconnect: if kill {
                OnDisconnect::Kill
            } else {
                OnDisconnect::Continue
            },
            ..SessionExecRequest::default()
        };
        let command = Command {
            request: request.clone(),
            body: Body::Block(block, change.clone()),
            names,
        };
        let index = match self.session_index(&id) {
            Ok(index) if self.sessions[index].running.is_some() => {
                return self.queue(index, command);
            }
            index => index,
        };
        let expect = index.map(|index| self.sessions[index].running = Some(command));
        self.acts.push(Act::Begin {
            id,
            request,
            runs: true,
            expect,
        });
    }

    /// The command that runs is over; those that waited have their turn.
    fn settle(&mut self, index: usize, by: By) {
        let session = &mut self.sessions[index];
        let Some(command) = session.running.take() else {
            return;
        };
        if let Body::Block(block, change) = &command.body {
            let end = session.block_ends(*block, change, &command.names, by);
            session.apply_patches();
            self.finish(index, command, Some(end));
        }
        while let Some(session) = self.sessions.get_mut(index)
            && !session.waiting.is_empty()
        {
            let command = session.waiting.remove(0);
            if let Body::Block(..) = &command.body {
                self.acts.push(Act::UntilGo {
                    id: session.id.clone(),
                    command: command.id(),
                });
                session.running = Some(command);
                return;
            }
            let request = command.request.clone();
            let end = self.run_now(index, command);
            self.acts.push(Act::Finish {
                id: self.sessions[index].id.clone(),
                request,
                kept: true,
                expect: Some(end),
            });
        }
    }

    fn finish(&mut self, index: usize, command: Command, end: Option<Expected>) {
        let session = &mut self.sessions[index];
        self.acts.push(Act::Finish {
            id: session.id.clone(),
            request: command.request.clone(),
            kept: true,
            expect: end.clone(),
        });
        session.unsaved = end.as_ref().is_none_or(|end| end.after == "kept");
        session.done.push((command, end));
    }

    pub(super) fn time_out(&mut self, at: At) {
        let id = self.session_at(at);
        let request = SessionExecRequest {
            command: format!("echo go; sleep {}; echo never", self.marker),
            id: Some(self.next("c").parse().unwrap()),
            timeout_ms: Some(40),
            ..SessionExecRequest::default()
        };
        let names = self.names();
        let expect = match self.session_index(&id) {
            Ok(index) if self.sessions[index].running.is_some() => return,
            Ok(index) => {
                let session = &mut self.sessions[index];
                session.shell.status = 130;
                let end = Expected {
                    // It may have been over before it had begun.
                    stdout: vec![b"go\n".to_vec(), Vec::new()],
                    timed_out: true,
                    told: true,
                    cwd: session.shell.cwd.clone(),
                    ..Expected::exit(130)
                };
                let command = Command {
                    request: request.clone(),
                    body: Body::Text(Text::Show),
                    names,
                };
                session.unsaved = true;
                session.done.push((command, Some(end.clone())));
                Ok(end)
            }
            Err(code) => Err(code),
        };
        self.acts.push(Act::Run {
            id,
            request,
            streamed: false,
            expect,
        });
    }

    pub(super) fn run_with(&mut self, at: At, value: &[u8], nowhere: bool) {
        let id = self.session_at(at);
        let value = String::from_utf8_lossy(value).into_owned();
        let request = SessionExecRequest {
            command: "printf '%s|%s|%s' \"$?\" \"$PWD\" \"$V0\"".to_owned(),
            id: Some(self.next("c").parse().unwrap()),
            cwd: Some(if nowhere { "/nowhere" } else { "/usr" }.to_owned()),
            env: BTreeMap::from([("V0".to_owned(), Some(value.clone()))]),
            encoding: Encoding::Base64,
            ..SessionExecRequest::default()
        };
        let names = self.names();
        let expect = match self.session_index(&id) {
            Ok(index) if self.sessions[index].running.is_some() => return,
            Ok(_) if nowhere => Err(ErrorCode::InvalidCwd),
            Ok(index) => {
                let session = &mut self.sessions[index];
                let shown = format!("{}|/usr|{value}", session.shell.status);
                session.shell.status = 0;
                let end = Expected {
                    stdout: vec![shown.into_bytes()],
                    cwd: session.shell.cwd.clone(),
                    ..Expected::exit(0)
                };
                let command = Command {
                    request: request.clone(),
                    body: Body::Text(Text::Show),
                    names,
                };
                session.unsaved = true;
                session.done.push((command, Some(end.clone())));
                Ok(end)
            }
            Err(code) => Err(code),
        };
        self.acts.push(Act::Run {
            id,
            request,
            streamed: false,
            expect,
        });
    }

    pub(super) fn interrupt(&mut self, at: At) {
        let id = self.session_at(at);
        let index = self.session_index(&id);
        let expect = index.map(|index| match &self.sessions[index].running {
            Some(command) => {
                let methods = match &command.body {
                    Body::Block(block, _) => block.methods(),
                    Body::Text(_) => &["int"],
                };
                (Some(command.id()), methods)
            }
            None => (None, &["none"] as &[_]),
        });
        self.acts.push(Act::Interrupt { id, expect });
        if let Ok(index) = index {
            self.settle(index, By::Interrupt);
        }
    }

    /// Opens the gate of the command that runs, or of the oldest writer.
    pub(super) fn open_gate(&mut self, at: At) {
        let id = self.session_at(at);
        let Ok(index) = self.session_index(&id) else {
            return;
        };
        let session = &mut self.sessions[index];
        if let Some(command) = &session.running
            && let Body::Block(Block::Gate, _) = &command.body
        {
            let gate = command.names.gate.clone();
            self.acts.push(Act::Open { gate });
            return self.settle(index, By::Gate);
        }
        if session.writers.is_empty() {
            return;
        }
        let (command, gate) = session.writers.remove(0);
        session.children = session.children.map(|children| children - 1);
        self.acts.push(Act::Open { gate });
        self.acts.push(Act::CommandOutput {
            id,
            command,
            stream: StreamName::LateStdout,
            offset: 0,
            expect: Ok(vec![b"open\n".to_vec()]),
        });
    }

    pub(super) fn disconnect(&mut self, at: At, waiting: bool) {
        let id = self.session_at(at);
        let Ok(index) = self.session_index(&id) else {
            return;
        };
        let session = &mut self.sessions[index];
        let kills = |command: &Command| command.request.on_disconnect == OnDisconnect::Kill;
        if waiting {
            let Some(command) = session.waiting.last().cloned() else {
                return;
            };
            self.acts.push(Act::Disconnect {
                command: command.id(),
            });
            if kills(&command) {
                session.waiting.pop();
                self.finish(index, command, None);
            }
        } else if let Some(command) = &session.running {
            let kills = kills(command);
            self.acts.push(Act::Disconnect {
                command: command.id(),
            });
            if kills {
                self.settle(index, By::Interrupt);
            }
        }
    }

    pub(super) fn kill_shell(&mut self, at: At) {
        let id = self.session_at(at);
        let Ok(index) = self.session_index(&id) else {
            return;
        };
        let session = &mut self.sessions[index];
        let idle = session.running.is_none();
        // The state after a command is saved a moment after its end: a copy of it is given when it is.
        let copied = idle && std::mem::take(&mut session.unsaved);
        self.acts.push(Act::KillShell { id, copied });
        if !idle {
            return self.settle(index, By::ShellKilled);
        }
        let session = &mut self.sessions[index];
        session.restores += 1;
        session.shell.status = 0;
        // The session learns of it by itself; a command is served whether it has or not.
        let names = self.names();
        let command = Command {
            request: SessionExecRequest {
                command: Text::Show.text(&names),
                id: Some(self.next("c").parse().unwrap()),
                ..SessionExecRequest::default()
            },
            body: Body::Text(Text::Show),
            names,
        };
        let request = command.request.clone();
        let expect = Ok(self.run_now(index, command));
        self.acts.push(Act::Run {
            id: self.sessions[index].id.clone(),
            request,
            streamed: false,
            expect,
        });
    }

    pub(super) fn patch(&mut self, at: At, name: u8, value: Option<&[u8]>) {
        let id = self.session_at(at);
        let value = value.map(|value| String::from_utf8_lossy(value).into_owned());
        let expect = self.session_index(&id).map(|index| {
            let session = &mut self.sessions[index];
            session
                .patches
                .insert(name, value.clone().map(String::into_bytes));
            if session.running.is_none() {
                session.apply_patches();
            }
            SessionFacts {
                processes: None,
                ..session.facts()
            }
        });
        let env = (format!("V{name}"), value);
        self.acts.push(Act::Patch { id, env, expect });
    }

    pub(super) fn look_at_session(&mut self, at: At) {
        let id = self.session_at(at);
        let expect = self
            .session_index(&id)
            .map(|index| self.sessions[index].facts());
        self.acts.push(Act::Session { id, expect });
    }

    pub(super) fn history(&mut self, at: At) {
        let id = self.session_at(at);
        let expect = self.session_index(&id).map(|index| {
            let session = &self.sessions[index];
            let entry = |command: &Command, state, end: Option<&Expected>| Entry {
                id: command.id(),
                text: command.request.command.clone(),
                state,
                end: end.cloned(),
            };
            let done = session.done.iter();
            let mut entries: Vec<Entry> = done
                .map(|(command, end)| entry(command, state_of(end.as_ref()), end.as_ref()))
                .chain(
                    session
                        .running
                        .iter()
                        .map(|c| entry(c, CommandState::Running, None)),
                )
                .chain(
                    session
                        .waiting
                        .iter()
                        .map(|c| entry(c, CommandState::Queued, None)),
                )
                .collect();
            // In order of arrival: their numbers.
            entries.sort_by_key(|entry| {
                let digits = entry.id.rsplit('c').next().unwrap_or_default();
                digits.parse::<u32>().unwrap_or_default()
            });
            entries
        });
        self.acts.push(Act::History { id, expect });
    }

    pub(super) fn reread(&mut self, at: At, command: u8, cut: u8, events: bool) {
        let id = self.session_at(at);
        let Ok(index) = self.session_index(&id) else {
            self.acts.push(Act::CommandOutput {
                id,
                command: "c".to_owned(),
                stream: StreamName::Stdout,
                offset: 0,
                expect: Err(ErrorCode::SessionNotFound),
            });
            return;
        };
        let session = &self.sessions[index];
        let over: Vec<_> = session
            .done
            .iter()
            .filter(|(_, end)| end.is_some())
            .collect();
        let Some((command, Some(end))) = over.get(cut_at(command, over.len().saturating_sub(1)))
        else {
            self.acts.push(Act::CommandOutput {
                id,
                command: "c".to_owned(),
                stream: StreamName::Stdout,
                offset: 0,
                expect: Err(ErrorCode::CommandNotFound),
            });
            return;
        };
        let command = command.id();
        if events {
            self.acts.push(Act::CommandEvents {
                id,
                command,
                expect: Ok(end.clone()),
            });
            return;
        }
        let (stream, values) = if cut.is_multiple_of(2) || end.told {
            (StreamName::Stdout, &end.stdout)
        } else {
            (StreamName::Stderr, &end.stderr)
        };
        let (offset, rest) = rest_of(values, cut);
        self.acts.push(Act::CommandOutput {
            id,
            command,
            stream,
            offset,
            expect: Ok(rest),
        });
    }

    pub(super) fn delete_session(&mut self, id: &str) {
        let index = self.session_index(id);
        let processes = index
            .ok()
            .and_then(|index| self.sessions[index].processes());
        if let (Some(_), Ok(index)) = (processes, index) {
            // What was let go may not have got to its end; it is not to be counted as killed.
            let expect = Ok(self.sessions[index].facts());
            let id = id.to_owned();
            self.acts.push(Act::Session { id, expect });
        }
        let expect = index.map(|_| Killed {
            methods: &["term", "cgroup_kill", "namespace_kill", "subreaper_walk"],
            count: processes.map_or(1..=20, |processes| processes..=processes),
        });
        self.acts.push(Act::DeleteSession {
            id: id.to_owned(),
            expect,
        });
        let Ok(index) = index else { return };
        let mut session = self.sessions.remove(index);
        if let Some(command) = session.running.take()
            && let Body::Block(block, change) = &command.body
        {
            let end = session.block_ends(*block, change, &command.names, By::Deleted);
            self.acts.push(Act::Finish {
                id: session.id.clone(),
                request: command.request.clone(),
                kept: false,
                expect: Some(end),
            });
        }
        for command in session.waiting {
            self.acts.push(Act::Finish {
                id: session.id.clone(),
                request: command.request.clone(),
                kept: false,
                expect: None,
            });
        }
    }
}
