//! A bash that has started, reads nothing yet, and becomes `bash -c TEXT` when told the text.
//!
//! It is spawned like any process, with its own pipes and its own tree, so that from the moment it
//! is told its text it *is* the process of the exec. It waits in `read` on a pipe (the gate); the
//! text comes in a memfd, which bash reads in blocks where it would read a pipe byte by byte.
//!
//! What differs from a fresh `bash -c`: /proc/PID/cmdline; and the shell stays the parent of the
//! last program instead of becoming it. Texts that might not parse are not given to it (see
//! `crate::shell_text`), because the message of a syntax error would differ.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use sandshell_types::Env;

use super::Member;
use crate::ExecError;
use crate::host::{self, Host, Program, Running};
use crate::process::Pump;
use crate::variables::StartedWith;

const GATE_FD: i32 = 30;
const TEXT_FD: i32 = 31;

/// Waits, takes the text into the variable where `bash -c` has it too, closes what is ours, and
/// sets what a waiting shell has worn: the clock and `$_`.
///
/// One line, because the line numbers of the text count from the line of its `eval`.
const BOOT: &str = "read -rn1 -u30 BASH_EXECUTION_STRING;\
IFS= read -rd '' -u31 BASH_EXECUTION_STRING;\
exec 30<&- 31<&-;\
SECONDS=0;\
: bash;\
eval -- \"$BASH_EXECUTION_STRING\"";

/// A waiting shell.
#[derive(Debug)]
pub(crate) struct ExecShell {
    pub(crate) program: Program,
    pub(crate) running: Running,
    pub(crate) pump: Pump,
    gate: OwnedFd,
    variables: StartedWith,
    /// Shared with the shell, offset included: where it stands is how far it was read.
    pub(crate) text: OwnedFd,
}

impl Member for ExecShell {
    fn is_usable(&mut self) -> bool {
        self.variables.is_current() && self.running.is_alive()
    }
}

impl ExecShell {
    /// Starts one with the default user, directory and environment.
    pub(crate) async fn start(host: &Host) -> Result<Self, ExecError> {
        let system = |errno| ExecError::system("cannot make a waiting shell", errno);
        let variables = host.variables.now();
        let (out, out_theirs) = host::output_pipe()?;
        let (err, err_theirs) = host::output_pipe()?;
        let (gate_theirs, gate) = pipe_with(PipeFlags::CLOEXEC).map_err(system)?;
        let text = memfd_create("command", MemfdFlags::CLOEXEC).map_err(system)?;
        let argv = ["bash".to_owned(), "-c".to_owned(), BOOT.to_owned()];
        let mut program = host.program(&argv, &host.account, None, &Env::new(), None)?;
        let shell = host.shell(None)?;
        program.paths = std::ffi::CString::new(shell.as_os_str().as_encoded_bytes())
            .into_iter()
            .collect();
        let fds = [
            (host.null(), 0),
            (out_theirs.as_fd(), 1),
            (err_theirs.as_fd(), 2),
            (gate_theirs.as_fd(), GATE_FD),
            (text.as_fd(), TEXT_FD),
        ];
        let pump = Pump::new(out, err)?;
        let running = host.start(&program, &fds).await?;
        Ok(Self {
            program,
            running,
            pump,
            gate,
            variables,
            text,
        })
    }

    /// Tells it its text. From here on it is the process of the exec. False when it has ended meanwhile.
    pub(crate) fn tell(&self, text: &str) -> Result<bool, ExecError> {
        let system = |errno| ExecError::system("cannot reach a waiting shell", errno);
        // The shell's offset in the shared description must stay at the start: write by position.
        let mut written = 0;
        while let Some(rest) = text.as_bytes().get(written..)
            && !rest.is_empty()
        {
            written += retry_on_intr(|| rustix::io::pwrite(&self.text, rest, written as u64))
                .map_err(system)?;
        }
        match retry_on_intr(|| rustix::io::write(&self.gate, b"x")) {
            Ok(_) => Ok(true),
            Err(Errno::PIPE) => Ok(false),
            Err(errno) => Err(system(errno)),
        }
    }
}
