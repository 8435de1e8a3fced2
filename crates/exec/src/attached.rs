//! A program that another crate drives over descriptors of its own, such as a code interpreter.
//!
//! Started by init in a tree of its own like everything else, with its output in two pipes and
//! whatever other descriptors its driver hands over. Owns the program's life: signals, its end, the
//! end of its tree. Does not own what is said on the descriptors, nor a record: the driver keeps one.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sandshell_sys::{procfs, signal, task};
use sandshell_types::{Env, KillReply, ProcessRequest};
use tokio::sync::watch;

use crate::host::{Host, Live};
use crate::patience::Patience;
use crate::process::{Pump, exit_code, signal_name};
use crate::session::foreground;
use crate::{ExecError, Executor, host};

/// What is to be started.
#[derive(Debug, Default)]
pub struct AttachRequest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it starts; the session's or the sandbox's directory when absent.
    pub cwd: Option<String>,
    /// Changes to its environment.
    pub env: Env,
    /// Who it runs as.
    pub user: Option<String>,
    /// The session whose state (directory, environment, umask) it starts from.
    pub session: Option<String>,
    /// Descriptors it gets besides its streams, with their numbers there. 31 is taken when it starts
    /// from a session.
    pub files: Vec<(Arc<OwnedFd>, i32)>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit status as a shell would show it.
    pub exit_code: i32,
    /// Name of the signal that killed it.
    pub signal: Option<String>,
}

/// Which members of a tree a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The program alone.
    Program,
    /// What it started and may be waiting for, but not the program.
    Children,
}

/// A running program. Dropping it ends its whole tree.
#[derive(Debug)]
pub struct Attached {
    /// Its pid.
    pub pid: i32,
    live: Arc<Live>,
    ended: watch::Receiver<Option<Ended>>,
    over: bool,
}

impl Attached {
    /// Resolves when the program has ended.
    ///
    /// CANCEL SAFETY: may be dropped and called again.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let known = ended.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or(Ended {
            exit_code: 137,
            signal: Some("SIGKILL".to_owned()),
        })
    }

    /// How it ended, when it has.
    pub fn has_ended(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }

    /// Gives it its time, and as much again at most so many times ([`Patience`]).
    pub fn patience(&self, each: Duration, again: u32) -> Patience {
        Patience::with(&self.live.pidfd, each, again)
    }

    /// Whether the time it was given was all.
    pub fn is_lost(&self, patience: &mut Patience) -> bool {
        patience.is_lost(&self.live.pidfd)
    }

    /// Sends a signal; what is gone already is no failure.
    pub fn signal(&self, target: Target, number: i32) {
        match target {
            Target::Program => {
                let _ = signal::send(&self.live.pidfd, number);
            }
            Target::Children => {
                // Who cannot be seen for now is not told.
                let program = procfs::pid_of(&self.live.pidfd).unwrap_or_default();
                let children = program.map(|pid| foreground(pid, &HashSet::new()));
                for pid in children.unwrap_or_default() {
                    if let Ok(pinned) = procfs::pin(pid) {
                        let _ = signal::send(&pinned, number);
                    }
                }
            }
        }
    }

    /// TERM, grace, KILL for the whole tree. Returns when it is gone, or says what is not.
    pub async fn kill(mut self, grace: Duration) -> KillReply {
        self.over = true;
        let reply = self.live.tree.kill(grace).await;
        if reply.survivors.is_empty() {
            self.ended().await;
        }
        reply
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.over && tokio::runtime::Handle::try_current().is_ok() {
            let live = self.live.clone();
            task::spawn(async move { live.tree.kill(Duration::ZERO).await });
        }
    }
}

impl Executor {
    /// Starts a program for a driver, with the pump of its two output pipes.
    pub async fn attach(&self, request: AttachRequest) -> Result<(Attached, Pump), ExecError> {
        let host = self.host();
        let AttachRequest {
            argv,
            cwd,
            env,
            user,
            session,
            files,
        } = request;
        let mut program = if session.is_some() {
            let spec = ProcessRequest {
                command: Some(exec_text(&argv)),
                cwd,
                env,
                user,
                session: session.map(TryFrom::try_from).transpose().map_err(
                    |error: sandshell_types::IdError| {
                        ExecError::invalid("/session", error.to_string())
                    },
                )?,
                ..ProcessRequest::default()
            };
            self.settle_program(&spec).await?
        } else {
            let account = host.account(user.as_deref())?;
            host.program(&argv, &account, cwd.as_deref(), &env, None)?
        };
        program.files.extend(files);
        start(host, &program).await
    }

    /// The environment that a program of the default user is started with now.
    pub fn command_environment(&self) -> std::collections::BTreeMap<String, String> {
        let host = self.host();
        host.environment(&host.account)
    }
}

async fn start(host: &Host, program: &host::Program) -> Result<(Attached, Pump), ExecError> {
    let (out, out_theirs) = host::output_pipe()?;
    let (err, err_theirs) = host::output_pipe()?;
    let fds = [
        (host.null(), 0),
        (out_theirs.as_fd(), 1),
        (err_theirs.as_fd(), 2),
    ];
    let pump = Pump::new(out, err)?;
    let running = host.start(program, &fds).await?;
    let (tell, ended) = watch::channel(None);
    task::spawn(async move {
        // Init gone means that everything is.
        let exit = running
            .exit
            .await
            .unwrap_or(sandshell_isolate::protocol::Exit::Signal(9));
        let _ = tell.send(Some(Ended {
            exit_code: exit_code(exit),
            signal: signal_name(exit),
        }));
    });
    let attached = Attached {
        pid: running.pid,
        live: running.live,
        ended,
        over: false,
    };
    Ok((attached, pump))
}

/// A text that makes a shell become this program.
fn exec_text(argv: &[String]) -> String {
    let words: Vec<String> = argv
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    format!("exec {}", words.join(" "))
}

/// A file without a name that holds these bytes for good, to be handed to programs.
pub fn sealed_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, ExecError> {
    let system = |errno| ExecError::system("cannot make a file in memory", errno);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(name, flags).map_err(system)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = rustix::io::write(&file, rest).map_err(system)?;
        rest = rest.get(n..).unwrap_or_default();
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals).map_err(system)?;
    Ok(file)
}
