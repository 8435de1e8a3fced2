//! A terminal of a sandbox on ours, as ssh would have it.
//!
//! ```text
//!   our keys ──► detach keys? ──► the terminal ──► our screen
//!   SIGWINCH ──────────────────► its size
//! ```
//!
//! Our terminal is in raw mode meanwhile and gets its own mode back however we end: at the exit of the
//! program, at the detach keys, by an error, a panic, SIGTERM or SIGHUP.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandshell_client::types::{TerminalFrame, TerminalId, TerminalRequest, TerminalRole};
use sandshell_client::{ConnectOptions, TerminalEvent, TerminalWriter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::connection::{Hub, Sandbox};
use crate::detach::{Detach, Keys};
use crate::failure::Failure;
use crate::relay;

/// What leaves the alternate screen, shows the cursor and ends mouse and paste reports: what a program that
/// goes on without us has set on our terminal.
const LEAVE_SCREEN: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n";

/// Columns and rows that the API takes.
const MOST_COLS: u16 = 500;
const MOST_ROWS: u16 = 300;

/// Pieces of input on their way.
const AHEAD: usize = 8;
/// Time that the last of them have when the terminal is left.
const PARTING: Duration = Duration::from_secs(1);

/// How a visit ended.
enum End {
    Exit(i32),
    Detached,
    /// The connection is over and told no exit.
    Closed(String),
    /// A signal told us to go.
    Told(u8),
}

/// Makes a terminal, stays until its program ends, and forgets it. Detached, it is kept.
pub(crate) async fn run(
    hub: &Hub,
    sandbox: &Sandbox,
    mut request: TerminalRequest,
) -> Result<u8, Failure> {
    if let Some((cols, rows)) = our_size() {
        (request.cols, request.rows) = (cols, rows);
    }
    if let Ok(term) = std::env::var("TERM") {
        request.env.entry("TERM".to_owned()).or_insert(Some(term));
    }
    let record = sandbox.client.create_terminal(&request).await?;
    let end = visit(hub, sandbox, &record.id, TerminalRole::Writer).await;
    match end {
        Ok(End::Exit(code)) => {
            // Its record would be forgotten later anyway.
            let _ = sandbox.client.delete_terminal(&record.id).await;
            Ok(relay::exit_code(Some(code)))
        }
        other => ended(hub, sandbox, &record.id, other?),
    }
}

/// Goes to a terminal that is there.
pub(crate) async fn attach(
    hub: &Hub,
    sandbox: &Sandbox,
    id: &TerminalId,
    role: TerminalRole,
) -> Result<u8, Failure> {
    let end = visit(hub, sandbox, id, role).await?;
    ended(hub, sandbox, id, end)
}

fn ended(hub: &Hub, sandbox: &Sandbox, id: &TerminalId, end: End) -> Result<u8, Failure> {
    let back = format!("sandshell terminal attach {}/{id}", sandbox.id);
    match end {
        End::Exit(code) => Ok(relay::exit_code(Some(code))),
        End::Told(code) => Ok(code),
        End::Detached => {
            hub.out
                .remark(&format!("detached: `{back}` comes back to it"));
            Ok(0)
        }
        End::Closed(reason) => Err(Failure::failed(format!(
            "the connection to the terminal is over: {reason}"
        ))
        .hint(format!("`{back}` opens another"))),
    }
}

async fn visit(
    hub: &Hub,
    sandbox: &Sandbox,
    id: &TerminalId,
    role: TerminalRole,
) -> Result<End, Failure> {
    let keys: Keys = hub.settings.detach_keys.value.parse().map_err(|error| {
        Failure::usage(format!(
            "the detach keys ({}) are not understood: {error}",
            hub.settings.detach_keys.origin
        ))
        .hint("keys are written as in ctrl-p,ctrl-q")
    })?;
    let people = std::io::stdin().is_terminal();
    let options = ConnectOptions {
        offset: None,
        role,
        size: our_size().filter(|_| role == TerminalRole::Writer),
        // Our terminal does, if it is one.
        answers: Some(people),
    };
    let connection = sandbox.client.connect_terminal(id, options).await?;
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
    let mut detach = Detach::new(keys);
    let end = loop {
        tokio::select! {
            event = reader.next() => match event? {
                Some(TerminalEvent::Bytes(bytes)) => {
                    let written = match stdout.write_all(&bytes).await {
                        Ok(()) => stdout.flush().await,
                        failed => failed,
                    };
                    written.map_err(|error| Failure::output(&error))?;
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
                    let (bytes, left) = detach.filter(typed.get(..n).unwrap_or_default());
                    if !bytes.is_empty() {
                        waiting.push_back(Typed::Keys(bytes));
                    }
                    if left {
                        break End::Detached;
                    }
                } else {
                    // What is piped in has an end: Ctrl-D says so to a terminal.
                    open = false;
                    waiting.push_back(Typed::Keys(b"\x04".to_vec()));
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
    if !matches!(end, End::Exit(_)) && std::io::stdout().is_terminal() {
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

/// What goes to the terminal.
enum Typed {
    Keys(Vec<u8>),
    Size(u16, u16),
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
