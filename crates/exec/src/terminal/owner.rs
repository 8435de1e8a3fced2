//! The owner task of a terminal: moves bytes between the master, the log and the screen.
//!
//! Nothing in here waits for a viewer. Typing goes on while the program floods its output, and
//! output while the program does not read what was typed.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use jiff::Timestamp;
use rustix::io::Errno;
use sandshell_isolate::protocol::Exit;
use sandshell_sys::reactor;
use sandshell_types::{Happening, TerminalState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::{Terminal, Terminals};
use crate::host::Running;
use crate::output::Stream;

/// What one read takes at most; the kernel gives a page at a time.
const READ_SIZE: usize = 16 << 10;

/// How much the screen is fed before the clock is looked at.
const SLICE: usize = 512;

/// How long the screen is fed before others get their turn. Some sequences of a few bytes change a
/// whole screen.
const TURN: Duration = Duration::from_millis(2);

/// Most bytes that can be on their way in the kernel when a program ends; more than these were
/// written by what it left behind.
const IN_FLIGHT: usize = 256 << 10;

/// A program that has left so much unread gets no more answers.
const UNREAD_MAX: usize = 64 << 10;

/// Both ends of the pseudo-terminal.
pub(super) struct Ends {
    master: AsyncFd<OwnedFd>,
    /// Held while the program lives: were the last slave closed, reading would fail until a program
    /// opened it again.
    slave: OwnedFd,
}

impl Ends {
    pub(super) fn new(master: OwnedFd, slave: OwnedFd) -> std::io::Result<Self> {
        let master = reactor::watch(master, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { master, slave })
    }

    pub(super) fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }
}

/// The owner task.
pub(super) async fn run(
    terminals: Weak<Terminals>,
    terminal: Arc<Terminal>,
    mut running: Running,
    ends: Ends,
    mut inputs: mpsc::Receiver<Bytes>,
) {
    let live = running.live.clone();
    let exit = attend(&terminal, &mut running, &ends.master, &mut inputs).await;
    drain(&terminal, &ends.master).await;
    inputs.close();
    // What it left behind on this terminal is hung up on.
    terminal.model().master = None;
    let Ends { master, slave } = ends;
    drop((master, slave));
    {
        let mut facts = terminal.facts();
        facts.state = TerminalState::Exited;
        facts.exit = Some(exit);
        facts.ended_at = Some(Timestamp::now());
    }
    terminal.log.end();
    terminal.over.send_replace(true);
    terminal.events.publish(Happening::TerminalEnded {
        terminal: terminal.id.clone(),
        exit_code: match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        },
    });
    if !live.tree.is_empty() {
        live.tree.empty().await;
    }
    terminal.facts().live = None;
    let id = terminal.id.clone();
    drop((terminal, live, running));
    if let Some(terminals) = terminals.upgrade() {
        terminals.finished(id.as_str());
    }
}

/// Moves bytes both ways until the program has ended.
async fn attend(
    terminal: &Terminal,
    running: &mut Running,
    master: &AsyncFd<OwnedFd>,
    inputs: &mut mpsc::Receiver<Bytes>,
) -> Exit {
    let mut buffer = vec![0; READ_SIZE];
    let mut typed = Bytes::new();
    let mut hung_up = false;
    loop {
        tokio::select! {
            // Init gone means that everything is; SIGKILL is the truth.
            exit = &mut running.exit => return exit.unwrap_or(Exit::Signal(9)),
            ready = master.readable(), if !hung_up => {
                let Ok(mut ready) = ready else {
                    hung_up = true;
                    continue;
                };
                let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut buffer)?));
                match read {
                    Ok(Ok(n)) if n > 0 => {
                        let answers = take_output(terminal, buffer.get(..n).unwrap_or_default()).await;
                        if !answers.is_empty() && typed.len() < UNREAD_MAX {
                            typed = [typed.as_ref(), &answers].concat().into();
                        }
                    }
                    // Interrupted is asked again at once, because it is still ready.
                    Ok(Err(error)) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                    // Hung up on by its session's end: the exit is on its way.
                    Ok(_) => hung_up = true,
                    Err(_would_block) => {}
                }
            }
            ready = master.writable(), if !typed.is_empty() => {
                let Ok(mut ready) = ready else {
                    typed.clear();
                    continue;
                };
                match ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), &typed)?)) {
                    Ok(Ok(n)) => typed.advance(n.min(typed.len())),
                    Ok(Err(error)) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                    // Nobody is there to read it.
                    Ok(Err(_)) => typed.clear(),
                    Err(_would_block) => {}
                }
            }
            input = inputs.recv(), if typed.is_empty() => {
                typed = input.unwrap_or_default();
            }
        }
    }
}

/// All the program wrote before its end. Reading without waiting is exact here: the kernel hands
/// over everything written before it says that there is nothing.
async fn drain(terminal: &Terminal, master: &AsyncFd<OwnedFd>) {
    let mut buffer = vec![0; READ_SIZE];
    let mut drained = 0;
    while drained < IN_FLIGHT {
        match rustix::io::read(master.get_ref(), &mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                take_output(terminal, buffer.get(..n).unwrap_or_default()).await;
                drained += n;
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
}

/// Puts output into the log, then onto the screen. Gives the answers the program is owed.
async fn take_output(terminal: &Terminal, output: &[u8]) -> Vec<u8> {
    terminal.log.append(Stream::Stdout, output).await;
    let mut began = Instant::now();
    let mut answers = Vec::new();
    for slice in output.chunks(SLICE) {
        {
            let mut model = terminal.model();
            model.screen.feed(slice);
            model.offset += slice.len() as u64;
            answers.extend(model.screen.take_answers());
        }
        if began.elapsed() > TURN {
            tokio::task::yield_now().await;
            began = Instant::now();
        }
    }
    if terminal.answering.load(Ordering::Relaxed) > 0 {
        answers.clear();
    }
    answers
}
