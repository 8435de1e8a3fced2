//! The calls that a sequence comes to, each with what the model expects of its answer.
//!
//! An act is complete: it needs nothing that an earlier answer said. Printed, a list of acts is a list of
//! calls that a person can make.

use std::fmt;
use std::ops::RangeInclusive;

use sandshell_client::types::{
    CommandState, ErrorCode, ExecRequest, ProcessRequest, ProcessState, SessionExecRequest,
    SessionRequest, SignalScope, StreamName, TerminalRequest,
};
use serde_json::{Value, json};

/// An answer, or the code of a refusal.
pub(super) type Answer<T> = Result<T, ErrorCode>;

/// How a process ends: its exit code, and the signal that ended it.
pub(super) type Exit = (i32, Option<&'static str>);

/// The end of a command. Where timing decides, there are several values, each of them allowed.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) exits: Vec<Exit>,
    pub(super) stdout: Vec<Vec<u8>>,
    pub(super) stderr: Vec<Vec<u8>>,
    pub(super) timed_out: bool,
    pub(super) interrupted: bool,
    /// Whether bash may have told, on stderr, of a program that SIGINT did not end in time.
    pub(super) told: bool,
    /// `left_running`.
    pub(super) left: Vec<u32>,
    /// Bytes left out of the two streams.
    pub(super) omitted: Option<(u64, u64)>,
    /// The session's directory and what became of its shell; not those of an exec.
    pub(super) cwd: String,
    pub(super) after: &'static str,
}

impl Expected {
    pub(super) fn exit(code: i32) -> Self {
        Self {
            exits: vec![(code, None)],
            stdout: vec![Vec::new()],
            stderr: vec![Vec::new()],
            timed_out: false,
            interrupted: false,
            told: false,
            left: vec![0],
            omitted: None,
            cwd: String::new(),
            after: "kept",
        }
    }
}

/// What a session's record says.
#[derive(Debug, Clone)]
pub(super) struct SessionFacts {
    pub(super) cwd: String,
    pub(super) foreground: Option<String>,
    pub(super) waiting: u32,
    pub(super) restores: u32,
    /// Processes, when nothing runs in the foreground.
    pub(super) processes: Option<u32>,
}

/// What a process's record says.
#[derive(Debug, Clone)]
pub(super) struct ProcessFacts {
    pub(super) state: ProcessState,
    pub(super) exits: Vec<Exit>,
    pub(super) stdout_bytes: Vec<u64>,
    pub(super) stderr_bytes: Vec<u64>,
}

/// What a kill says.
#[derive(Debug, Clone)]
pub(super) struct Killed {
    pub(super) methods: &'static [&'static str],
    pub(super) count: RangeInclusive<u32>,
}

/// An entry of a session's history.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) state: CommandState,
    /// Of one that is done.
    pub(super) end: Option<Expected>,
}

#[derive(Debug, Clone)]
pub(super) enum Act {
    Exec {
        request: ExecRequest,
        expect: Answer<Expected>,
    },
    /// Sends it, and goes away when it is known to run: when it has written to its gate.
    Abandon {
        request: ExecRequest,
        gate: String,
    },
    CreateSession {
        request: SessionRequest,
        expect: Answer<SessionFacts>,
    },
    Fork {
        from: String,
        to: String,
        expect: Answer<SessionFacts>,
    },
    Session {
        id: String,
        expect: Answer<SessionFacts>,
    },
    Run {
        id: String,
        request: SessionExecRequest,
        streamed: bool,
        expect: Answer<Expected>,
    },
    /// Opens the stream of a command and keeps it; reads `go` of one that runs at once.
    Begin {
        id: String,
        request: SessionExecRequest,
        runs: bool,
        expect: Answer<()>,
    },
    /// The turn of a waiting command has come.
    UntilGo {
        id: String,
        command: String,
    },
    /// Reads the stream of a command to its end, with a new one if the client went away. `None`: it never ran.
    Finish {
        id: String,
        request: SessionExecRequest,
        kept: bool,
        expect: Option<Expected>,
    },
    Disconnect {
        command: String,
    },
    Interrupt {
        id: String,
        expect: Answer<(Option<String>, &'static [&'static str])>,
    },
    /// Kills its shell, once its state is copied where that is asked for.
    KillShell {
        id: String,
        copied: bool,
    },
    Patch {
        id: String,
        env: (String, Option<String>),
        expect: Answer<SessionFacts>,
    },
    History {
        id: String,
        expect: Answer<Vec<Entry>>,
    },
    CommandOutput {
        id: String,
        command: String,
        stream: StreamName,
        offset: u64,
        expect: Answer<Vec<Vec<u8>>>,
    },
    CommandEvents {
        id: String,
        command: String,
        expect: Answer<Expected>,
    },
    /// Writes `open` to a gate.
    Open {
        gate: String,
    },
    DeleteSession {
        id: String,
        expect: Answer<Killed>,
    },

    StartProcess {
        request: ProcessRequest,
        fresh: bool,
        expect: Answer<()>,
    },
    UntilOutput {
        id: String,
        stdout: Vec<u8>,
    },
    Process {
        id: String,
        expect: Answer<ProcessFacts>,
    },
    Write {
        id: String,
        offset: Option<u64>,
        bytes: Vec<u8>,
        expect: Answer<u64>,
    },
    CloseStdin {
        id: String,
        expect: Answer<u64>,
    },
    Signal {
        id: String,
        signal: &'static str,
        scope: SignalScope,
        expect: Answer<RangeInclusive<u32>>,
    },
    Kill {
        id: String,
        grace_ms: u64,
        expect: Answer<Killed>,
    },
    DeleteProcess {
        id: String,
        expect: Answer<Killed>,
    },
    /// Begins to read the output of a process, and keeps the connection.
    OpenOutput {
        id: String,
    },
    /// Reads what was begun, to its end.
    RestOfOutput {
        id: String,
        expect: Vec<u8>,
    },
    /// Waits for the end, or 1 ms where there is none to be.
    Wait {
        id: String,
        ends: bool,
        expect: Answer<ProcessFacts>,
    },
    Output {
        id: String,
        stream: StreamName,
        offset: u64,
        follow: bool,
        expect: Answer<Vec<Vec<u8>>>,
    },
    /// Reads events, goes away after the first, and goes on after it.
    Events {
        id: String,
        facts: Answer<ProcessFacts>,
        stdout: Vec<Vec<u8>>,
        stderr: Vec<Vec<u8>>,
    },

    CreateTerminal {
        request: TerminalRequest,
        fresh: bool,
        expect: Answer<()>,
    },
    Terminal {
        id: String,
        expect: Answer<TerminalFacts>,
    },
    Resize {
        id: String,
        cols: u16,
        rows: u16,
        expect: Answer<()>,
    },
    /// Connects, if nobody is, and types; reads until all of the output has come.
    Type {
        id: String,
        bytes: Vec<u8>,
        at: u64,
        expect: Answer<TerminalFacts>,
    },
    Watch {
        id: String,
        offset: u64,
        expect: Answer<TerminalFacts>,
    },
    Attach {
        id: String,
        offset: u64,
        expect: Answer<TerminalFacts>,
    },
    Detach {
        id: String,
    },
    DeleteTerminal {
        id: String,
        expect: Answer<Killed>,
    },

    /// Ids of what there is, the oldest first.
    List {
        sessions: Vec<String>,
        processes: Vec<String>,
        terminals: Vec<String>,
    },
}

/// What is known of a terminal.
#[derive(Debug, Clone)]
pub(super) struct TerminalFacts {
    pub(super) output: Vec<u8>,
    pub(super) exit: Option<Exit>,
    pub(super) size: (u16, u16),
}

impl Act {
    /// The call: method and path, and the body of those that have one.
    fn call(&self) -> (String, Value) {
        let session = |id: &String, rest: &str| format!("/v1/sessions/{id}{rest}");
        let process = |id: &String, rest: &str| format!("/v1/processes/{id}{rest}");
        let terminal = |id: &String, rest: &str| format!("/v1/terminals/{id}{rest}");
        let none = Value::Null;
        match self {
            Self::Exec { request, .. } => ("POST /v1/exec".into(), json!(request)),
            Self::Abandon { request, gate } => (
                format!("POST /v1/exec, and go away when {gate} was written to"),
                json!(request),
            ),
            Self::CreateSession { request, .. } => ("POST /v1/sessions".into(), json!(request)),
            Self::Fork { from, to, .. } => (
                format!("POST {}", session(from, "/fork")),
                json!({ "id": to }),
            ),
            Self::Session { id, .. } => (format!("GET {}", session(id, "")), none),
            Self::Run {
                id,
                request,
                streamed,
                ..
            } => {
                let how = if *streamed { " (events)" } else { "" };
                (
                    format!("POST {}{how}", session(id, "/exec")),
                    json!(request),
                )
            }
            Self::Begin {
                id, request, runs, ..
            } => {
                let until = if *runs {
                    "read `go`"
                } else {
                    "read that it waits"
                };
                (
                    format!("POST {} (events), {until}", session(id, "/exec")),
                    json!(request),
                )
            }
            Self::UntilGo { command, .. } => (format!("read `go` of {command}"), none),
            Self::Finish { request, .. } => {
                let id = request.id.as_ref().map_or("?", |id| id.as_str());
                (format!("read the events of {id} to the end"), none)
            }
            Self::Disconnect { command } => (format!("drop the connection of {command}"), none),
            Self::Interrupt { id, .. } => (format!("POST {}", session(id, "/interrupt")), none),
            Self::KillShell { id, copied } => {
                let first = if *copied {
                    "start a process from it, then "
                } else {
                    ""
                };
                (format!("{first}kill -KILL the shell of {id}"), none)
            }
            Self::Patch {
                id,
                env: (name, value),
                ..
            } => (
                format!("PATCH {}", session(id, "")),
                json!({"env": {name: value}}),
            ),
            Self::History { id, .. } => (format!("GET {}", session(id, "/commands")), none),
            Self::CommandOutput {
                id,
                command,
                stream,
                offset,
                ..
            } => {
                let rest = format!("/commands/{command}/output?stream={stream:?}&offset={offset}");
                (format!("GET {}", session(id, &rest)), none)
            }
            Self::CommandEvents { id, command, .. } => {
                let rest = format!("/commands/{command}/output");
                (format!("GET {} (events)", session(id, &rest)), none)
            }
            Self::Open { gate } => (format!("exec: echo open >{gate}"), none),
            Self::DeleteSession { id, .. } => (format!("DELETE {}", session(id, "")), none),
            Self::StartProcess { request, .. } => ("POST /v1/processes".into(), json!(request)),
            Self::UntilOutput { id, stdout } => {
                (format!("read {} bytes of {id}", stdout.len()), none)
            }
            Self::Process { id, .. } => (format!("GET {}", process(id, "")), none),
            Self::Write {
                id, offset, bytes, ..
            } => {
                let at = offset.map_or(String::new(), |offset| format!("?offset={offset}"));
                let rest = format!("/stdin{at}, {} bytes", bytes.len());
                (format!("POST {}", process(id, &rest)), none)
            }
            Self::CloseStdin { id, .. } => (format!("POST {}", process(id, "/stdin/close")), none),
            Self::Signal {
                id, signal, scope, ..
            } => (
                format!("POST {}", process(id, "/signal")),
                json!({"signal": signal, "scope": scope}),
            ),
            Self::Kill { id, grace_ms, .. } => (
                format!("POST {}", process(id, "/kill")),
                json!({ "grace_ms": grace_ms }),
            ),
            Self::DeleteProcess { id, .. } => (format!("DELETE {}", process(id, "")), none),
            Self::OpenOutput { id } => (
                format!("GET {}", process(id, "/output?follow=true, wait")),
                none,
            ),
            Self::RestOfOutput { id, .. } => (format!("read on in the first output of {id}"), none),
            Self::Wait { id, ends, .. } => (
                format!("POST {}", process(id, "/wait")),
                if *ends {
                    none
                } else {
                    json!({"timeout_ms": 1})
                },
            ),
            Self::Output {
                id,
                stream,
                offset,
                follow,
                ..
            } => {
                let rest = format!("/output?stream={stream:?}&offset={offset}&follow={follow}");
                (format!("GET {}", process(id, &rest)), none)
            }
            Self::Events { id, .. } => (
                format!("GET {} (events, in two parts)", process(id, "/output")),
                none,
            ),
            Self::CreateTerminal { request, .. } => ("POST /v1/terminals".into(), json!(request)),
            Self::Terminal { id, .. } => (format!("GET {}", terminal(id, "")), none),
            Self::Resize { id, cols, rows, .. } => (
                format!("POST {}", terminal(id, "/resize")),
                json!({"cols": cols, "rows": rows}),
            ),
            Self::Type { id, bytes, .. } => (
                format!("type {:?} at {id}", String::from_utf8_lossy(bytes)),
                none,
            ),
            Self::Watch { id, offset, .. } => {
                let rest = format!("/connect?offset={offset}&role=viewer");
                (format!("GET {}", terminal(id, &rest)), none)
            }
            Self::Attach { id, offset, .. } => {
                let rest = format!("/connect?offset={offset}");
                (format!("GET {}, stay", terminal(id, &rest)), none)
            }
            Self::Detach { id } => (format!("leave {id}"), none),
            Self::DeleteTerminal { id, .. } => (format!("DELETE {}", terminal(id, "")), none),
            Self::List { .. } => (
                "GET /v1/sessions, /v1/processes, /v1/terminals".into(),
                none,
            ),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, body) = self.call();
        f.write_str(&line)?;
        if body.is_null() {
            return Ok(());
        }
        let body = body.to_string();
        // A long value says nothing more after its beginning.
        let shown: String = body.chars().take(600).collect();
        write!(f, " {shown}")?;
        if shown.len() < body.len() {
            write!(f, "… ({} characters)", body.len())?;
        }
        Ok(())
    }
}
