//! Stateless execs in the model: each begins and ends by itself.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::types::{
    ErrorCode, ExecRequest, OnDisconnect, ProcessRequest, ProcessState, TextEncoding, Truncate,
};

use super::{AT_ONCE, World};
use crate::model::act::{Act, Expected, Killed, ProcessFacts};
use crate::model::script::{Output, Writing};
use crate::model::step::Exec;

/// A text for a shell.
fn text(command: String) -> ExecRequest {
    ExecRequest {
        command: Some(command),
        ..ExecRequest::default()
    }
}

fn written(writing: &Writing) -> Expected {
    Expected {
        stdout: vec![writing.stdout.bytes()],
        stderr: vec![writing.stderr.bytes()],
        ..Expected::exit(i32::from(writing.code))
    }
}

impl World {
    pub(super) fn exec(&mut self, exec: &Exec) {
        let marker = self.marker.clone();
        let (request, expect) = match exec {
            Exec::Text(writing) => (text(writing.text(true)), Ok(written(writing))),
            Exec::Fresh(writing, value) => {
                let value = String::from_utf8_lossy(value).into_owned();
                let mut stdout = format!("/usr|{value}|").into_bytes();
                stdout.extend(writing.stdout.bytes());
                let request = ExecRequest {
                    cwd: Some("/usr".to_owned()),
                    env: BTreeMap::from([("V0".to_owned(), Some(value))]),
                    ..text(format!(
                        "printf '%s|%s|' \"$PWD\" \"$V0\"; {}",
                        writing.text(true)
                    ))
                };
                let expect = Expected {
                    stdout: vec![stdout],
                    ..written(writing)
                };
                (request, Ok(expect))
            }
            Exec::Cut { lines, max, tail } => cut(*lines, *max, *tail),
            Exec::Stdin(bytes) => {
                let request = ExecRequest {
                    argv: Some(vec!["cat".to_owned()]),
                    stdin: Some(BASE64.encode(bytes)),
                    stdin_encoding: TextEncoding::Base64,
                    ..ExecRequest::default()
                };
                let expect = Expected {
                    stdout: vec![bytes.clone()],
                    ..Expected::exit(0)
                };
                (request, Ok(expect))
            }
            Exec::Leave { own_session } => {
                let setsid = if *own_session { "setsid " } else { "" };
                let id = self.next("e");
                let request = ExecRequest {
                    id: Some(id.parse().unwrap()),
                    ..text(format!("{setsid}sleep {marker} & echo left; exit 4"))
                };
                self.execs.push(id);
                let expect = Expected {
                    stdout: vec![b"left\n".to_vec()],
                    left: vec![1],
                    ..Expected::exit(4)
                };
                (request, Ok(expect))
            }
            Exec::TimesOut => {
                let request = ExecRequest {
                    timeout_ms: Some(40),
                    ..text(format!("echo go; sleep {marker}; echo never"))
                };
                let expect = Expected {
                    exits: vec![(143, Some("SIGTERM"))],
                    // It may have been over before it had begun.
                    stdout: vec![b"go\n".to_vec(), Vec::new()],
                    timed_out: true,
                    ..Expected::exit(0)
                };
                (request, Ok(expect))
            }
            Exec::Signalled => {
                let expect = Expected {
                    exits: vec![(137, Some("SIGKILL"))],
                    stdout: vec![b"bye\n".to_vec()],
                    ..Expected::exit(0)
                };
                (
                    text("echo bye; kill -KILL $$; echo no".to_owned()),
                    Ok(expect),
                )
            }
            Exec::NoProgram => {
                let request = ExecRequest {
                    argv: Some(vec!["/nowhere/program".to_owned()]),
                    ..ExecRequest::default()
                };
                (request, Err(ErrorCode::ProgramNotFound))
            }
            Exec::NoDirectory => {
                let request = ExecRequest {
                    cwd: Some("/nowhere".to_owned()),
                    ..text("echo no".to_owned())
                };
                (request, Err(ErrorCode::InvalidCwd))
            }
            Exec::Again(writing) => return self.again(writing),
            Exec::Abandoned { kill } => return self.abandon(*kill),
        };
        self.acts.push(Act::Exec { request, expect });
    }

    /// Writes a line to a file, so that a second run would show.
    fn again(&mut self, writing: &Writing) {
        let id = self.next("e");
        let file = self.names().gate;
        let text = |command| ExecRequest {
            id: Some(id.parse().unwrap()),
            ..text(command)
        };
        let request = text(format!("echo ran >>{file}; {}", writing.text(true)));
        for _ in 0..2 {
            self.acts.push(Act::Exec {
                request: request.clone(),
                expect: Ok(written(writing)),
            });
        }
        self.acts.push(Act::Exec {
            request: text("echo other".to_owned()),
            expect: Err(ErrorCode::IdConflict),
        });
        // A process is something else, though it be of the same text.
        self.acts.push(Act::StartProcess {
            request: ProcessRequest {
                id: request.id.clone(),
                command: request.command.clone(),
                ..ProcessRequest::default()
            },
            fresh: false,
            expect: Err(ErrorCode::IdConflict),
        });
        self.acts.push(Act::Exec {
            request: self::text(format!("cat {file}")),
            expect: Ok(Expected {
                stdout: vec![b"ran\n".to_vec()],
                ..Expected::exit(0)
            }),
        });
        let facts = ProcessFacts {
            state: ProcessState::Exited,
            exits: vec![(i32::from(writing.code), None)],
            stdout_bytes: vec![writing.stdout.bytes().len() as u64],
            stderr_bytes: vec![writing.stderr.bytes().len() as u64],
        };
        self.acts.push(Act::Process {
            id,
            expect: Ok(facts),
        });
    }

    fn abandon(&mut self, kill: bool) {
        let id = self.next("e");
        let gate = self.names().gate;
        let request = ExecRequest {
            id: Some(id.parse().unwrap()),
            on_disconnect: if kill {
                OnDisconnect::Kill
            } else {
                OnDisconnect::Continue
            },
            ..text(format!(
                "echo go >{gate}; sleep {}; echo never",
                self.marker
            ))
        };
        self.acts.push(Act::Abandon { request, gate });
        if !kill {
            self.acts.push(Act::Kill {
                id: id.clone(),
                grace_ms: 0,
                expect: Ok(Killed {
                    methods: AT_ONCE,
                    count: 1..=2,
                }),
            });
        }
        let exits = if kill {
            vec![(137, Some("SIGKILL")), (143, Some("SIGTERM"))]
        } else {
            vec![(137, Some("SIGKILL"))]
        };
        self.acts.push(Act::Wait {
            id,
            ends: true,
            expect: Ok(ProcessFacts {
                state: ProcessState::Exited,
                exits,
                stdout_bytes: vec![0],
                // Bash may tell of the program that was ended before itself.
                stderr_bytes: Vec::new(),
            }),
        });
    }
}

/// A result that takes only part of the output; ASCII, so that no character lies across a cut.
fn cut(lines: u32, max: u64, tail: bool) -> (ExecRequest, Result<Expected, ErrorCode>) {
    let all = Output::Lines(lines).bytes();
    let kept = usize::try_from(max).unwrap_or(usize::MAX).min(all.len());
    let omitted = (all.len() - kept) as u64;
    let part = if tail {
        all[..kept].to_vec()
    } else {
        all[all.len() - kept..].to_vec()
    };
    let request = ExecRequest {
        max_output_bytes: Some(max),
        truncate: if tail { Truncate::Tail } else { Truncate::Head },
        ..text(format!("seq 1 {lines}"))
    };
    let expect = Expected {
        stdout: vec![part],
        omitted: (omitted > 0).then_some((omitted, 0)),
        ..Expected::exit(0)
    };
    (request, Ok(expect))
}
