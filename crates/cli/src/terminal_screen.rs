//! A terminal of a sandbox on ours, as ssh would have it.
//!
//! ```text
//!   our keys ──► detach keys? ──► the terminal ──► our screen
//!   SIGWINCH ──────────────────► its size
//! ```
//!
//! Our terminal is in raw mode meanwhile and gets its own mode back however we end: at the exit of the
//! program, at the detach keys, by an error, a panic, SIGTERM or SIGHUP.
//!
//! What our screen shows stays ours. A terminal that we made is shown from its first byte on, below what was
//! there. Coming back to one draws a picture of it; what was on our screen scrolls up and is kept. Into a pipe
//! goes what the program writes, and no picture.

mod replay;

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandshell_client::types::{
    SandboxId, TerminalFrame, TerminalId, TerminalRequest, TerminalRole,
};
use sandshell_client::{Client, ConnectOptions, TerminalEvent, TerminalWriter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::connection::{Hub, Sandbox};
use crate::detach::{Detach, Keys};
use crate::failure::Failure;
use crate::output::Output;
use crate::relay;
pub use replay::Replay;

/// What leaves the alternate screen, shows the cursor and ends mouse and paste reports: what a program that
/// goes on without us has set on our terminal.
const LEAVE_SCREEN: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n";

/// How a picture begins: a full reset, which would take the scrollback of our terminal with it.
const RESET: &[u8] = b"\x1bc";
/// In its place: modes, margins, colours, character sets and tab stops as after a reset.
const SOFT_RESET: &[u8] = b"\x1b[?1049l\x1b[!p\x1b[?7h\x1b[?5l\x1b[r\x1b[0m\x1b(B\x0f\x1b[?5W\
    \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l";

/// Columns and rows that the API takes.
const MOST_COLS: u16 = 500;
const MOST_ROWS: u16 = 300;

/// Pieces of input on their way.
const AHEAD: usize = 8;
/// Time that the last of them have when the terminal is left.
const PARTING: Duration = Duration::from_secs(1);

/// How often the end of a piped stdin is told again. A terminal has no end of its own: Ctrl-D is one for
/// whoever reads at that moment, and a shell that is still starting does not.
const ENDS_TOLD: u32 = 16;

/// How a visit ended.
enum End {
    Exit(i32),
    Detached,
    /// The connection is over and told no exit.
    Closed(String),
    /// A signal told us to go.
    Told(u8),
    /// Whoever read our output went away.
    Unread,
}

/// How we come to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// We made it.
    First,
    /// It was there.
    Back(TerminalRole),
}

/// Where terminals are, and how they are left.
pub(crate) struct Desk<'a> {
    client: &'a Client,
    /// The sandbox that they live on in; absent when all ends with us.
    sandbox: Option<&'a SandboxId>,
    /// What leaves one without ending it.
    keys: Option<Keys>,
    out: Output,
}

impl<'a> Desk<'a> {
    /// In a sandbox of a hub.
    pub(crate) fn of(hub: &Hub, sandbox: &'a Sandbox) -> Result<Self, Failure> {
        let keys = &hub.settings.detach_keys;
        let parsed = keys.value.parse().map_err(|error| {
            Failure::usage(format!(
                "the detach keys ({}) are not understood: {error}",
                keys.origin
            ))
            .hint("keys are written as in ctrl-p,ctrl-q")
        })?;
        Ok(Self {
            client: &sandbox.client,
            sandbox: Some(&sandbox.id),
            keys: Some(parsed),
            out: hub.out,
        })
    }

    /// In a sandbox that ends with us.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_our_own(client: &'a Client, out: Output) -> Self {
        Self {
            client,
            sandbox: None,
            keys: None,
            out,
        }
    }

    /// Makes a terminal, stays until its program ends, and forgets it. Detached, it is kept.
    pub(crate) async fn run(&self, mut request: TerminalRequest) -> Result<u8, Failure> {
        if let Some((cols, rows)) = our_size() {
            (request.cols, request.rows) = (cols, rows);
        }
        if let Ok(term) = std::env::var("TERM") {
            request.env.entry("TERM".to_owned()).or_insert(Some(term));
        }
        let id = self.client.create_terminal(&request).await?.id;
        let end = self.visit(&id, Coming::First).await;
        if let Ok(End::Exit(_) | End::Unread) = end {
            // Its record would be forgotten later anyway.
            let _ = self.client.delete_terminal(&id).await;
        }
        self.ended(&id, end?)
    }

    /// Goes to a terminal that is there.
    pub(crate) async fn attach(&self, id: &TerminalId, role: TerminalRole) -> Result<u8, Failure> {
        let end = self.visit(id, Coming::Back(role)).await?;
        self.ended(id, end)
    }

    fn ended(&self, id: &TerminalId, end: End) -> Result<u8, Failure> {
        let back = self
            .sandbox
            .map(|sandbox| format!("sandshell terminal attach {sandbox}/{id}"));
        match end {
            End::Exit(code) => Ok(relay::exit_code(Some(code))),
            End::Told(code) => Ok(code),
            End::Unread => Ok(relay::UNREAD),
            End::Detached => {
                let back = back.unwrap_or_default();
                self.out
                    .remark(&format!("detached: `{back}` comes back to it"));
                Ok(0)
            }
            End::Closed(reason) => {
                let what = format!("the connection to the terminal is over: {reason}");
                let failure = Failure::failed(what);
                Err(match back {
                    Some(back) => failure.hint(format!("`{back}` opens another")),
                    None => failure,
                })
            }
        }
    }

    /// How much a terminal of ours had written when we came to it: questions in there have been answered by
    /// the sandbox. Whatever comes later is ours to answer, from the moment this connection is made; it is
    /// to be kept until there is another.
    async fn written_before(
        &self,
        id: &TerminalId,
    ) -> Result<(u64, sandshell_client::TerminalConnection), Failure> {
        let options = ConnectOptions {
            role: TerminalRole::Viewer,
            answers: Some(true),
            ..ConnectOptions::default()
        };
        let mut connection = self.client.connect_terminal(id, options).await?;
        match connection.next().await? {
            Some(TerminalEvent::Frame(TerminalFrame::Ready { offset, .. })) => {
                Ok((offset, connection))
            }
            _ => Err(Failure::failed("the terminal does not say where it is")
                .hint("send the command again")),
        }
    }

    async fn visit(&self, id: &TerminalId, coming: Coming) -> Result<End, Failure> {
        let people = std::io::stdin().is_terminal();
        let shown = std::io::stdout().is_terminal();
        let (role, offset) = match coming {
            Coming::First => (TerminalRole::Writer, Some(0)),
            Coming::Back(role) => (role, None),
        };
        let (mut replay, first) = if people && coming == Coming::First {
            let (written, first) = self.written_before(id).await?;
            (Replay::of(written), Some(first))
        } else {
            (Replay::of(0), None)
        };
        let options = ConnectOptions {
            offset,
            role,
            size: our_size().filter(|_| role == TerminalRole::Writer),
            // Our terminal does, if it is one.
            answers: Some(people),
        };
        let connection = self.client.connect_terminal(id, options).await?;
        drop(first);
        let mut resized = listen(SignalKind::window_change())?;
        let mut terminated = listen(SignalKind::terminate())?;
        let mut hung_up = listen(SignalKind::hangup())?;
        let mut interrupted = listen(SignalKind::interrupt())?;
        let (writer, mut reader) = connection.split();
        // What is typed goes its own way: a screenful that is on its way here never waits for it.
        let (sender, receiver) = mpsc::channel(AHEAD);
        let typing = tokio::spawn(pass_on(writer, receiver));
        let mut waiting = VecDeque::new();
        let raw = RawMode::enter()?;
        let mut stdout = tokio::io::stdout();
        let mut stdin = tokio::io::stdin();
        let mut typed = vec![0; 8192];
        let mut open = true;
        // What is piped in are bytes, not keys.
        let mut detach = self.keys.clone().filter(|_| people).map(Detach::new);
        // The next bytes are a picture.
        let mut picture = false;
        let mut ends_to_tell = 0;
        let end = loop {
            tokio::select! {
                event = reader.next() => match event? {
                    Some(TerminalEvent::Bytes(bytes)) => {
                        let bytes = match std::mem::take(&mut picture) {
                            true if shown => drawn(&bytes),
                            true => Vec::new(),
                            false => replay.filter(&bytes),
                        };
                        let written = match stdout.write_all(&bytes).await {
                            Ok(()) => stdout.flush().await,
                            failed => failed,
                        };
                        match written {
                            Ok(()) => {}
                            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                                break End::Unread;
                            }
                            Err(error) => return Err(Failure::output(&error)),
                        }
                        if !open && ends_to_tell > 0 && waiting.is_empty() {
                            ends_to_tell -= 1;
                            waiting.push_back(Typed::end());
                        }
                    }
                    Some(TerminalEvent::Frame(TerminalFrame::Ready { redraw_bytes, .. })) => {
                        picture = redraw_bytes > 0;
                    }
                    Some(TerminalEvent::Frame(TerminalFrame::Truncated { redraw_bytes, .. })) => {
                        picture = redraw_bytes > 0;
                        // What follows the picture is new.
                        replay = Replay::of(0);
                    }
                    Some(TerminalEvent::Frame(TerminalFrame::Exit { exit_code, .. })) => {
                        break End::Exit(exit_code);
                    }
                    Some(TerminalEvent::Closed { reason, .. }) => break End::Closed(reason),
                    Some(_) => {}
                    None => break End::Closed("the hub closed it".to_owned()),
                },
                permit = sender.reserve(), if !waiting.is_empty() => match (permit, waiting.pop_front()) {
                    (Ok(permit), Some(typed)) => permit.send(typed),
                    _ => break End::Closed("it takes no more keys".to_owned()),
                },
                read = stdin.read(&mut typed), if open && waiting.is_empty() => {
                    if let Ok(n @ 1..) = read {
                        let typed = typed.get(..n).unwrap_or_default();
                        let (bytes, left) = match &mut detach {
                            Some(detach) => detach.filter(typed),
                            None => (typed.to_vec(), false),
                        };
                        if !bytes.is_empty() {
                            waiting.push_back(Typed::Keys(bytes));
                        }
                        if left {
                            break End::Detached;
                        }
                    } else {
                        open = false;
                        // That of others goes on when there is nothing more from us.
                        if coming == Coming::First {
                            ends_to_tell = ENDS_TOLD;
                            waiting.push_back(Typed::end());
                        }
                    }
                }
                _ = resized.recv() => if let (Some((cols, rows)), TerminalRole::Writer) = (our_size(), role) {
                    waiting.retain(|typed| matches!(typed, Typed::Keys(_)));
                    waiting.push_back(Typed::Size(cols, rows));
                },
                _ = terminated.recv() => break End::Told(128 + 15),
                _ = hung_up.recv() => break End::Told(128 + 1),
                // In raw mode Ctrl-C is a key; this one was sent to us.
                _ = interrupted.recv() => break End::Told(128 + 2),
            }
        };
        if !matches!(end, End::Exit(_)) && shown {
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(LEAVE_SCREEN).and_then(|()| stdout.flush());
        }
        drop(raw);
        if matches!(end, End::Detached) {
            // What was typed before the keys still gets there.
            for typed in waiting {
                let _ = sender.try_send(typed);
            }
            drop(sender);
            let _ = tokio::time::timeout(PARTING, typing).await;
        }
        Ok(end)
    }
}

/// A picture of a terminal on ours: what is on the screen scrolls up and stays.
fn drawn(picture: &[u8]) -> Vec<u8> {
    let rows = our_size().map_or(MOST_ROWS, |(_, rows)| rows);
    let mut drawn = SOFT_RESET.to_vec();
    drawn.extend_from_slice(format!("\x1b[{rows};1H").as_bytes());
    drawn.extend(std::iter::repeat_n(b'\n', rows.into()));
    drawn.extend_from_slice(b"\x1b[H");
    drawn.extend_from_slice(picture.strip_prefix(RESET).unwrap_or(picture));
    drawn
}

/// What goes to the terminal.
enum Typed {
    Keys(Vec<u8>),
    Size(u16, u16),
}

impl Typed {
    /// The end of what is piped in, as a terminal takes it: Ctrl-D.
    fn end() -> Self {
        Self::Keys(b"\x04".to_vec())
    }
}

/// Types until there is nothing more, or nobody takes it; then the other half knows why.
async fn pass_on(mut writer: TerminalWriter, mut typed: mpsc::Receiver<Typed>) {
    while let Some(typed) = typed.recv().await {
        let sent = match typed {
            Typed::Keys(keys) => writer.type_in(keys).await,
            Typed::Size(cols, rows) => writer.resize(cols, rows).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::ours(&error))
}

/// Columns and rows of our terminal, as far as the API takes them.
pub(crate) fn our_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout())
        .or_else(|_| tcgetwinsize(std::io::stdin()))
        .ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then(|| (size.ws_col.min(MOST_COLS), size.ws_row.min(MOST_ROWS)))
}

/// Raw mode, as long as it lives. Nothing when our stdin is no terminal.
struct RawMode(Option<Termios>);

impl RawMode {
    fn enter() -> Result<Self, Failure> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self(None));
        }
        let failed = |error: rustix::io::Errno| {
            Failure::local("the terminal cannot be put into raw mode", &error)
        };
        let before = tcgetattr(&stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Drain, &raw).map_err(failed)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A terminal that has gone away has no mode.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, before);
        }
    }
}
