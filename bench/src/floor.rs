//! The floor: what the machine itself takes, with nothing of ours in between.
//!
//! Programs are started by `sandshell_sys::spawn` (clone3 with `CLONE_VM | CLONE_VFORK`), which is
//! the cheapest way there is, from this process while it has one thread and few descriptors. Their
//! environment is the one the agent gives.

use std::ffi::CString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandshell_sys::spawn::{SpawnPlan, spawn};

use crate::measure::{Pace, Run, repeat};
use crate::report::Report;

pub(crate) const BASH: &str = "bash -c true, vfork, pipes";
pub(crate) const TRUE: &str = "/bin/true, vfork";
const SECTION: &str = "floor";
const TRUE_PIPES: &str = "/bin/true, vfork, pipes";
const BASH_STD: &str = "bash -c true, std::process";
const PIPE: &str = "echo in a bash behind a pipe";
const BASH_PACED: &str = "bash -c true, vfork, pipes, 100/s";
const PIPE_PACED: &str = "echo in a bash behind a pipe, 20/s";

/// What the agent gives to every command of root.
const ENVIRONMENT: [(&str, &str); 6] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/root"),
    ("USER", "root"),
    ("LOGNAME", "root"),
    ("SHELL", "/bin/bash"),
    ("LANG", "C.UTF-8"),
];

/// One run of every row of the floor.
pub(crate) fn run(report: &mut Report, count: usize) -> Result<()> {
    let bash = Program::bash()?;
    let program = Program::new("/bin/true", &["true"])?;
    let rows: [(&str, Run); 7] = [
        (BASH, repeat(count, || bash.run_with_pipes())?),
        (BASH_PACED, paced(count / 2, 100, || bash.run_with_pipes())?),
        (BASH_STD, repeat(count, run_by_std)?),
        (TRUE, repeat(count, || program.run())?),
        (TRUE_PIPES, repeat(count, || program.run_with_pipes())?),
        (PIPE, pipe_round_trips(|once| repeat(count, once))?),
        (
            PIPE_PACED,
            pipe_round_trips(|once| paced(count / 10, 20, once))?,
        ),
    ];
    for (name, run) in rows {
        report.add_run(SECTION, name, run);
    }
    Ok(())
}

/// The same after a pause: what a machine that has gone idle in between takes.
fn paced(count: usize, per_second: u32, mut once: impl FnMut() -> Result<()>) -> Result<Run> {
    let mut pace = Pace::per_second(per_second);
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = pace.tick_blocking();
        once()?;
        samples.push(start.elapsed());
    }
    Ok(Run::of(&samples))
}

pub(crate) struct Program {
    path: [CString; 1],
    argv: Vec<CString>,
    env: Vec<CString>,
    null: OwnedFd,
}

impl Program {
    /// `bash -c true`.
    pub(crate) fn bash() -> Result<Self> {
        Self::new("/bin/bash", &["bash", "-c", "true"])
    }

    fn new(path: &str, argv: &[&str]) -> Result<Self> {
        let env = ENVIRONMENT
            .iter()
            .map(|(key, value)| CString::new(format!("{key}={value}")));
        Ok(Self {
            path: [CString::new(path)?],
            argv: argv
                .iter()
                .map(|word| CString::new(*word))
                .collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            null: std::fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")?
                .into(),
        })
    }

    fn run(&self) -> Result<()> {
        self.start(&self.null, &self.null)
            .and_then(|pidfd| wait(&pidfd))
    }

    pub(crate) fn run_with_pipes(&self) -> Result<()> {
        let (out, out_there) = pipe_with(PipeFlags::CLOEXEC)?;
        let (err, err_there) = pipe_with(PipeFlags::CLOEXEC)?;
        let pidfd = self.start(&out_there, &err_there)?;
        drop((out_there, err_there));
        read_to_end(out, err)?;
        wait(&pidfd)
    }

    fn start(&self, stdout: &OwnedFd, stderr: &OwnedFd) -> Result<OwnedFd> {
        let plan = SpawnPlan {
            programs: &self.path,
            argv: &self.argv,
            env: &self.env,
            cwd: Some(c"/"),
            fds: &[
                (self.null.as_fd(), 0),
                (stdout.as_fd(), 1),
                (stderr.as_fd(), 2),
            ],
            identity: None,
            rights: None,
            rlimits: &[],
            namespaces: 0,
            cgroup: None,
            join: &[],
            avoid_clone3: false,
            controlling_terminal: false,
        };
        Ok(spawn(&plan)?.pidfd)
    }
}

/// Reads both pipes until nobody can write to them any more.
fn read_to_end(out: OwnedFd, err: OwnedFd) -> Result<()> {
    let mut buffer = [0; 4096];
    let mut open = vec![out, err];
    while !open.is_empty() {
        let mut polled: Vec<_> = open
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        poll(&mut polled, None)?;
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        let mut failure = None;
        open.retain(|fd| {
            !ready.next().unwrap_or(false)
                || match rustix::io::read(fd, &mut buffer) {
                    Ok(count) => count > 0,
                    Err(error) => {
                        failure = Some(error);
                        false
                    }
                }
        });
        if let Some(error) = failure {
            return Err(error.into());
        }
    }
    Ok(())
}

fn wait(pidfd: &OwnedFd) -> Result<()> {
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
    let code = status.and_then(|status| status.exit_status());
    ensure!(code == Some(0), "the program ended with {code:?}");
    Ok(())
}

/// The same by the standard library, to show that the floor is no straw man.
fn run_by_std() -> Result<()> {
    let output = Command::new("/bin/bash")
        .args(["-c", "true"])
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "bash ended with {:?}",
        output.status
    );
    Ok(())
}

fn pipe_round_trips(
    measure: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<Run>,
) -> Result<Run> {
    let mut repl = Repl::start()?;
    measure(&mut || repl.once())
}

/// A persistent bash without any of our promises: a line in, a line out.
pub(crate) struct Repl {
    child: Child,
    /// Present until it is dropped: its end is bash's.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Repl {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-s"])
            .env_clear()
            .envs(ENVIRONMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().context("stdout is piped")?),
            child,
            line: String::new(),
        })
    }

    pub(crate) fn once(&mut self) -> Result<()> {
        let input = self.input.as_mut().context("stdin is piped")?;
        input.write_all(b"echo ok\n")?;
        self.line.clear();
        self.output.read_line(&mut self.line)?;
        ensure!(self.line == "ok\n", "bash answered {:?}", self.line);
        Ok(())
    }
}

impl Drop for Repl {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
