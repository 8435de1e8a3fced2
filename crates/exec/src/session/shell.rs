//! A shell that takes commands: the process, the pipes to it, and its directory.
//!
//! Owns the conversation, not the queue or the record: it sends lines, reads messages, opens the
//! output of one command. Held ready by a pool, then owned by one session until it ends.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Uid;
use sandshell_isolate::protocol::Exit;
use sandshell_sys::{packet, procfs, reactor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::channel::{Channel, ChannelRoot};
use super::dialect::Dialect;
use super::snapshot::Snapshot;
use crate::ExecError;
use crate::host::{self, Host, Program, Running};
use crate::patience::Patience;
use crate::pool::Member;
use crate::process::Pump;
use crate::variables::StartedWith;

/// What the shell says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A command is over.
    Done { seq: u64, status: i32, cwd: String },
    /// The state after that command is saved.
    Saved { seq: u64 },
    /// It could not be.
    NotSaved { seq: u64 },
}

#[derive(Debug)]
pub(crate) struct Shell {
    pub(super) running: Running,
    pub(super) line: Line,
    pub(super) channel: Channel,
    pub(super) dialect: Dialect,
    pub(super) path: String,
    variables: StartedWith,
    /// Working directory it started in.
    pub(super) cwd: String,
}

/// The conversation with the shell.
#[derive(Debug)]
pub(super) struct Line {
    script: AsyncFd<OwnedFd>,
    answers: AsyncFd<OwnedFd>,
    incoming: Vec<u8>,
    /// The last whole state it saved, as the number of the command it belongs to.
    saved: Option<u64>,
    /// The last one it has tried to.
    tried: Option<u64>,
}

/// How long a line of ours may take, and how often again ([`Patience`]); a large state takes tens of
/// milliseconds.
const ANSWER: (Duration, u32) = (Duration::from_secs(10), 5);

/// The same for the first; a shell answers it within milliseconds.
const BOOT: (Duration, u32) = (Duration::from_secs(5), 11);

/// Why a shell did not answer.
enum Silence {
    Ended,
    Lasts,
}

impl Member for Shell {
    fn is_usable(&mut self) -> bool {
        self.variables.is_current() && self.running.is_alive()
    }
}

impl Drop for Shell {
    /// A shell never outlives its owner. Nor does its tree, unless someone else holds it: the
    /// session does, for children that a former shell left behind.
    fn drop(&mut self) {
        let live = self.running.live.clone();
        let _ = sandshell_sys::signal::send(&live.pidfd, 9);
        if Arc::strong_count(&live) <= 2
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { live.tree.kill(Duration::ZERO).await });
        }
    }
}

impl Shell {
    /// Starts a shell and waits until it is ready.
    pub(crate) async fn start(
        host: &Host,
        root: &Arc<ChannelRoot>,
        variables: StartedWith,
        mut program: Program,
    ) -> Result<Self, ExecError> {
        let system = |errno| ExecError::system("cannot make a shell's channel", errno);
        let path = program.name.clone();
        let dialect = Dialect::of(std::path::Path::new(&path));
        program.argv = dialect
            .arguments()
            .iter()
            .filter_map(|a| std::ffi::CString::new(*a).ok())
            .collect();
        let channel = Channel::new(root, dialect).map_err(system)?;
        let (script_theirs, script) = host::input_pipe()?;
        let (answers, answers_theirs) = host::output_pipe()?;
        if let Some(identity) = &program.identity {
            // The shell opens its script by name, which asks for the rights of its user.
            let owner = Some(Uid::from_raw(identity.uid));
            rustix::fs::fchown(&script_theirs, owner, None).map_err(system)?;
        }
        let dir = channel.directory().map_err(system)?;
        let [dir_fd, answers_fd, script_fd] = dialect.passed_fds();
        let mut fds = [
            (host.null(), 0),
            (host.null(), 1),
            (host.null(), 2),
            (dir.as_fd(), dir_fd),
            (answers_theirs.as_fd(), answers_fd),
            (script_theirs.as_fd(), script_fd),
        ];
        fds.sort_unstable_by_key(|(_, number)| *number);
        let watched = |fd, interest| {
            reactor::watch(fd, interest)
                .map_err(|error| ExecError::io("cannot watch a shell's pipes", &error))
        };
        let script = watched(script, Interest::WRITABLE)?;
        let answers = watched(answers, Interest::READABLE)?;
        let running = host.start_measured(&program, &fds).await?;
        let mut shell = Self {
            running,
            channel,
            dialect,
            path,
            variables,
            cwd: program.cwd.clone(),
            line: Line {
                script,
                answers,
                incoming: Vec::new(),
                saved: None,
                tried: None,
            },
        };
        let first = dialect.boot() + &dialect.snapshot(0);
        shell.line.send(&first).await.map_err(system)?;
        let reason = match shell.answer_in(0, BOOT).await {
            Ok((_, cwd)) => {
                if !cwd.is_empty() {
                    shell.cwd = cwd;
                }
                return Ok(shell);
            }
            Err(Silence::Ended) => "it ended before it took a command",
            Err(Silence::Lasts) => "it does not answer like a shell",
        };
        shell.running.live.tree.kill(Duration::ZERO).await;
        Err(ExecError::ShellNotUsable {
            shell: shell.path.clone(),
            reason: reason.to_owned(),
        })
    }

    /// Waits for a completion of ours: status and directory. `None` when the shell ended instead, or
    /// a trap of the user's holds it up for too long.
    pub(super) async fn answer(&mut self, wanted: u64) -> Option<(i32, String)> {
        self.answer_in(wanted, ANSWER).await.ok()
    }

    async fn answer_in(
        &mut self,
        wanted: u64,
        (each, again): (Duration, u32),
    ) -> Result<(i32, String), Silence> {
        let mut patience = Patience::with(&self.running.live.pidfd, each, again);
        loop {
            tokio::select! {
                biased;
                message = self.line.message() => match message {
                    Message::Done { seq, status, cwd } if seq == wanted => {
                        return Ok((status, cwd));
                    }
                    _ => {}
                },
                exit = &mut self.running.exit => {
                    // The owner waits for it, too.
                    let (again, exit_again) = oneshot::channel();
                    let _ = again.send(exit.unwrap_or(Exit::Signal(9)));
                    self.running.exit = exit_again;
                    return Err(Silence::Ended);
                }
                () = patience.over() => {
                    if patience.is_lost(&self.running.live.pidfd) {
                        return Err(Silence::Lasts);
                    }
                }
            }
        }
    }

    /// Whether it waits for something to happen.
    pub(super) fn is_asleep(&self) -> bool {
        procfs::pid_of(&self.running.live.pidfd)
            .unwrap_or_default()
            .and_then(|pid| procfs::stat(pid).unwrap_or_default())
            .is_some_and(|stat| stat.state == 'S')
    }

    /// What it has started and not reaped. Who cannot look for now takes none for a background child by this.
    pub(super) fn children(&self) -> HashSet<i32> {
        let pid = procfs::pid_of(&self.running.live.pidfd).unwrap_or_default();
        let children = pid.map(|pid| procfs::children(pid).unwrap_or_default());
        children.unwrap_or_default().into_iter().collect()
    }

    /// Opens the output of one command.
    pub(super) fn outputs(&self) -> Result<Pump, ExecError> {
        let (out, err) = self
            .channel
            .open_outputs()
            .map_err(|errno| ExecError::system("cannot open a command's output", errno))?;
        Pump::new(out, err)
    }

    /// The state after its last command, or before a command that did not end.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let file = if self.line.saved? % 2 == 0 {
            "s0"
        } else {
            "s1"
        };
        let state = Snapshot::parse(&self.channel.read(file).ok()?, self.dialect)?;
        Some(state.with_debug_trap(self.debug_trap()))
    }

    /// The user's DEBUG trap, which is tucked away while no command runs.
    pub(super) fn debug_trap(&self) -> Vec<u8> {
        if !self.channel.is_noted("d") {
            return Vec::new();
        }
        let mut noted = self.channel.read("d").unwrap_or_default();
        if Dialect::is_unwinding(&String::from_utf8_lossy(&noted)) {
            noted.clear();
        }
        noted
    }

    /// The state it saved while exiting.
    pub(super) fn exit_snapshot(&self) -> Option<Snapshot> {
        let state = Snapshot::parse(&self.channel.read("x").ok()?, self.dialect)?
            .with_debug_trap(self.debug_trap());
        match self.dialect {
            Dialect::Bash => {
                state.without_locals(&self.channel.read("y").ok()?, self.snapshot().as_ref())
            }
            Dialect::Posix => Some(state),
        }
    }
}

impl Line {
    /// Sends lines. They are short and the pipe is roomy, so this hardly ever waits.
    pub(super) async fn send(&self, lines: &str) -> Result<(), Errno> {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let sent = self
                .script
                .async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, rest)?))
                .await;
            match sent {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    other => return Err(other.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(())
    }

    /// The next message; waits for ever when the shell says nothing more.
    ///
    /// CANCEL SAFETY: what was read stays in `incoming`.
    pub(super) async fn message(&mut self) -> Message {
        loop {
            if let Some(message) = self.parse() {
                return message;
            }
            let mut buffer = [0; 1024];
            let read = match self.answers.readable().await {
                // Inside `try_io`, so that an edge between the read and the clearing is not lost.
                Ok(mut ready) => {
                    ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut buffer)?))
                }
                Err(error) => Ok(Err(error)),
            };
            match read {
                Ok(Ok(n @ 1..)) => {
                    self.incoming
                        .extend_from_slice(buffer.get(..n).unwrap_or_default());
                }
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // End of file: the shell is ending, its exit tells the rest.
                Ok(_) => return std::future::pending().await,
                Err(_would_block) => {}
            }
        }
    }

    /// After its end: takes in the messages it sent before.
    pub(super) fn last_words(&mut self) -> Vec<Message> {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = rustix::io::read(self.answers.get_ref(), &mut buffer) {
            self.incoming
                .extend_from_slice(buffer.get(..n).unwrap_or_default());
        }
        std::iter::from_fn(|| self.parse()).collect()
    }

    fn parse(&mut self) -> Option<Message> {
        let message = take_message(&mut self.incoming)?;
        match message {
            Message::Saved { seq } => {
                self.saved = Some(seq);
                self.tried = Some(seq);
            }
            Message::NotSaved { seq } => self.tried = Some(seq),
            Message::Done { .. } => {}
        }
        Some(message)
    }

    /// Looks for the next message for a moment instead of going to sleep, for when it is known to be
    /// on its way: sleeping and being woken would take longer.
    pub(super) fn linger(&self, time: Duration) {
        let until = std::time::Instant::now() + time;
        while packet::all_read(self.answers.get_ref()).unwrap_or(false)
            && std::time::Instant::now() < until
        {
            std::thread::yield_now();
        }
    }

    /// Whether the shell has taken every line we sent.
    pub(super) fn has_read_everything(&self) -> bool {
        packet::all_read(self.script.get_ref()).unwrap_or(false)
    }

    /// Number of the command whose state is saved.
    pub(super) fn saved(&self) -> Option<u64> {
        self.saved
    }

    /// Number of the command whose state it was last asked to save and is done with.
    pub(super) fn tried(&self) -> Option<u64> {
        self.tried
    }
}

/// Most bytes of a message. Its one part without a bound of its own is the working directory.
pub(crate) const MESSAGE_MAX: usize = 1 << 20;

/// Takes one whole message off what was read. Whatever is not one is skipped: a command can write to
/// this pipe only by going out of its way, and harms only its own session.
pub(crate) fn take_message(incoming: &mut Vec<u8>) -> Option<Message> {
    let mut used = 0;
    let message = loop {
        let rest = incoming.get(used..).unwrap_or_default();
        let fields: Vec<&[u8]> = rest.splitn(4, |b| *b == 0).collect();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let (message, length) = match fields.as_slice() {
            [[b's', seq @ ..], _, ..] => {
                let message = number(seq).map(|seq| Message::Saved { seq });
                (message, seq.len() + 2)
            }
            [[b'n', seq @ ..], _, ..] => {
                let message = number(seq).map(|seq| Message::NotSaved { seq });
                (message, seq.len() + 2)
            }
            [[b'd', seq @ ..], status, cwd, _] => {
                let message = number(seq).zip(number(status)).map(|(seq, status)| {
                    let cwd = String::from_utf8_lossy(cwd).into_owned();
                    Message::Done {
                        seq,
                        status: status as i32,
                        cwd,
                    }
                });
                (message, seq.len() + status.len() + cwd.len() + 4)
            }
            // The end of it is to come; in a flood it never does.
            [_] | [[b'd', ..], ..] => {
                if rest.len() > MESSAGE_MAX {
                    used = incoming.len();
                }
                break None;
            }
            [first, ..] => (None, first.len() + 1),
            [] => break None,
        };
        used += length;
        if message.is_some() {
            break message;
        }
    };
    incoming.drain(..used.min(incoming.len()));
    message
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_when_it_is_whole() {
        let mut incoming = b"junk\0n6\0d7\0".to_vec();
        let not_saved = Message::NotSaved { seq: 6 };
        assert_eq!(take_message(&mut incoming), Some(not_saved));
        assert_eq!(take_message(&mut incoming), None);
        incoming.extend_from_slice(b"130\0/a b\0s7\0d8");
        let done = Message::Done {
            seq: 7,
            status: 130,
            cwd: "/a b".to_owned(),
        };
        assert_eq!(take_message(&mut incoming), Some(done));
        assert_eq!(take_message(&mut incoming), Some(Message::Saved { seq: 7 }));
        assert_eq!(take_message(&mut incoming), None);
        assert_eq!(incoming, b"d8");
    }

    #[test]
    fn a_flood_is_not_kept() {
        for beginning in [&b""[..], b"d1\0", b"d1\x000\0"] {
            let mut incoming = beginning.to_vec();
            for _ in 0..2 * MESSAGE_MAX / 4096 {
                incoming.extend_from_slice(&[b'x'; 4096]);
                assert_eq!(take_message(&mut incoming), None);
                assert!(incoming.len() <= MESSAGE_MAX);
            }
        }
    }
}
