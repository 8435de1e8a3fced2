//! Terminals in the model: a program that answers each line, on a terminal that echoes what is typed.
//!
//! ```text
//! create ──► running ── end of input: exit 4; ^C: SIGINT ──► exited, its output kept
//!                       any ── delete ──► gone
//! ```

use sandshell_client::types::{ErrorCode, TerminalRequest};

use super::{World, cut_at};
use crate::model::act::{Act, Killed, TerminalFacts};
use crate::model::step::At;

const PROGRAM: &str = "echo go; while read -r line; do echo \"got $line\"; done; exit 4";

pub(super) struct Terminal {
    request: TerminalRequest,
    facts: TerminalFacts,
    attached: bool,
}

impl Terminal {
    pub(super) fn id(&self) -> &str {
        self.request.id.as_ref().map_or("", |id| id.as_str())
    }
}

impl World {
    pub(super) fn create_terminal(&mut self, at: At) {
        let id = self.name("t", at, super::TERMINALS);
        let request = TerminalRequest {
            id: Some(id.parse().unwrap()),
            command: Some(PROGRAM.to_owned()),
            ..TerminalRequest::default()
        };
        let fresh = self.terminal_index(&id).is_err();
        self.acts.push(Act::CreateTerminal {
            request: request.clone(),
            fresh,
            expect: Ok(()),
        });
        if !fresh {
            return;
        }
        let facts = TerminalFacts {
            output: b"go\r\n".to_vec(),
            exit: None,
            size: (request.cols, request.rows),
        };
        self.acts.push(Act::Watch {
            id,
            offset: 0,
            expect: Ok(facts.clone()),
        });
        self.terminals.push(Terminal {
            request,
            facts,
            attached: false,
        });
    }

    fn type_in(&mut self, at: At, bytes: &[u8], change: impl FnOnce(&mut TerminalFacts)) {
        let id = self.terminal_at(at);
        let Ok(index) = self.terminal_index(&id) else {
            self.acts.push(Act::Watch {
                id,
                offset: 0,
                expect: Err(ErrorCode::TerminalNotFound),
            });
            return;
        };
        let terminal = &mut self.terminals[index];
        if terminal.facts.exit.is_some() {
            return;
        }
        let at = terminal.facts.output.len() as u64;
        change(&mut terminal.facts);
        if terminal.facts.exit.is_some() {
            terminal.attached = false;
        }
        self.acts.push(Act::Type {
            id,
            bytes: bytes.to_vec(),
            at,
            expect: Ok(terminal.facts.clone()),
        });
    }

    pub(super) fn type_line(&mut self, at: At, line: &str) {
        self.type_in(at, format!("{line}\r").as_bytes(), |facts| {
            // Without its own end, as `read` leaves it.
            let read = line.trim_matches(' ');
            let said = format!("{line}\r\ngot {read}\r\n");
            facts.output.extend_from_slice(said.as_bytes());
        });
    }

    pub(super) fn end_input(&mut self, at: At, interrupt: bool) {
        let byte = if interrupt { 3 } else { 4 };
        self.type_in(at, &[byte], |facts| {
            if interrupt {
                facts.output.extend_from_slice(b"^C");
                facts.exit = Some((130, Some("SIGINT")));
            } else {
                facts.exit = Some((4, None));
            }
        });
    }

    pub(super) fn resize(&mut self, at: At, cols: u16, rows: u16) {
        let id = self.terminal_at(at);
        let expect = match self.terminal_index(&id) {
            Err(code) => Err(code),
            Ok(index) if self.terminals[index].facts.exit.is_some() => {
                Err(ErrorCode::TerminalEnded)
            }
            Ok(index) => {
                self.terminals[index].facts.size = (cols, rows);
                Ok(())
            }
        };
        self.acts.push(Act::Resize {
            id,
            cols,
            rows,
            expect,
        });
    }

    fn facts_at(&self, at: At) -> (String, Result<TerminalFacts, ErrorCode>) {
        let id = self.terminal_at(at);
        let index = self.terminal_index(&id);
        let facts = index.map(|index| self.terminals[index].facts.clone());
        (id, facts)
    }

    pub(super) fn watch_terminal(&mut self, at: At, cut: u8) {
        let (id, expect) = self.facts_at(at);
        let offset = expect
            .as_ref()
            .map_or(0, |facts| cut_at(cut, facts.output.len()));
        self.acts.push(Act::Watch {
            id,
            offset: offset as u64,
            expect,
        });
    }

    pub(super) fn look_at_terminal(&mut self, at: At) {
        let (id, expect) = self.facts_at(at);
        self.acts.push(Act::Terminal { id, expect });
    }

    /// Connects and stays.
    pub(super) fn attach(&mut self, at: At) {
        let (id, expect) = self.facts_at(at);
        let Ok(index) = self.terminal_index(&id) else {
            return;
        };
        let terminal = &mut self.terminals[index];
        if terminal.attached || terminal.facts.exit.is_some() {
            return;
        }
        terminal.attached = true;
        self.acts.push(Act::Attach {
            id,
            offset: terminal.facts.output.len() as u64,
            expect,
        });
    }

    pub(super) fn detach(&mut self, at: At) {
        let id = self.terminal_at(at);
        let Ok(index) = self.terminal_index(&id) else {
            return;
        };
        if std::mem::take(&mut self.terminals[index].attached) {
            self.acts.push(Act::Detach { id });
        }
    }

    pub(super) fn delete_terminal(&mut self, id: &str) {
        let index = self.terminal_index(id);
        let expect = index.map(|index| match self.terminals[index].facts.exit {
            Some(_) => Killed {
                methods: &["already_ended"],
                count: 0..=0,
            },
            None => Killed {
                methods: &["term", "cgroup_kill", "namespace_kill", "subreaper_walk"],
                count: 1..=1,
            },
        });
        self.acts.push(Act::DeleteTerminal {
            id: id.to_owned(),
            expect,
        });
        if let Ok(index) = index {
            self.terminals.remove(index);
        }
    }
}
