//! A process of a sandbox as if it ran here: its output on ours, our input and signals to it.
//!
//! ```text
//!  our stdin ──► feed ──► the process ──► events ──► our stdout and stderr
//!                              ▲
//!  Ctrl-C: first ── SIGINT ────┘   second: we leave it running, or end it if it ends with us
//! ```
//!
//! Both streams come in order of arrival. A connection that breaks is made again where it broke. When
//! whoever reads our output goes away, the process is ended, as a local one would be by SIGPIPE.

use std::io::IsTerminal as _;
use std::time::Duration;

use sandshell_client::types::{
    Encoded, ExitEvent, KillRequest, NetworkMode, ProcessId, SignalRequest, SignalScope, StreamName,
};
use sandshell_client::{Client, ClientError, EventQuery, OutputStreamEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::connection::{Hub, Sandbox};
use crate::failure::{Failure, OURS};
use crate::output::Output;

/// Most bytes of our stdin sent at a time.
const PIECE: usize = 64 * 1024;

/// Pauses before a broken stream is opened again: a hub that is started anew is back within them.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Time that a process has to end when nobody reads its output any more.
const GRACE_MS: u64 = 2000;

/// Killed by SIGPIPE, as a shell would say it.
pub(crate) const UNREAD: u8 = 141;
/// It took too long, as `timeout` says it.
pub(crate) const TIMED_OUT: u8 = 124;
/// Left by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// What a relay does besides copying output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Pass our stdin on, and its end.
    pub(crate) stdin: bool,
    /// Pass signals on, and end the process when nobody reads. Otherwise we only look.
    pub(crate) own: bool,
}

/// One process that is relayed.
pub(crate) struct Relay<'a> {
    pub(crate) client: &'a Client,
    pub(crate) id: &'a ProcessId,
    /// As a person would name it, to come back to it; absent for one that ends with us.
    pub(crate) name: Option<String>,
    pub(crate) network: Network<'a>,
    pub(crate) out: Output,
}

/// What it may reach, to be asked for when it is of interest.
pub(crate) enum Network<'a> {
    Of(&'a Hub, &'a Sandbox),
    #[cfg(target_os = "linux")]
    Known(NetworkMode),
}

/// How a relay came to its end.
enum End {
    /// With whether it looked for a network in vain.
    Exit(ExitEvent, bool),
    /// The stream ended, the process did not.
    Caught,
    Left,
    Unread,
}

impl<'a> Relay<'a> {
    /// Of a process that lives on without us.
    pub(crate) fn of(hub: &'a Hub, sandbox: &'a Sandbox, id: &'a ProcessId) -> Self {
        Self {
            client: &sandbox.client,
            id,
            name: Some(format!("{}/{id}", sandbox.id)),
            network: Network::Of(hub, sandbox),
            out: hub.out,
        }
    }

    /// Until the process ends or is left; gives the code to end with.
    pub(crate) async fn until_exit(
        &self,
        from: Option<u64>,
        manner: Manner,
    ) -> Result<u8, Failure> {
        let feeding = manner
            .stdin
            .then(|| tokio::spawn(feed(self.client.clone(), self.id.clone())));
        let end = self.copy(from, manner).await;
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        Ok(match end? {
            End::Exit(exit, unreached) => {
                if unreached {
                    self.tell_of_network().await;
                }
                self.code_of(&exit)
            }
            End::Caught => 0,
            End::Unread => {
                if manner.own {
                    self.kill(GRACE_MS).await;
                }
                UNREAD
            }
            End::Left => {
                match &self.name {
                    Some(name) => self.out.remark(&format!(
                        "\nleft running: `sandshell attach {name}` comes back to it"
                    )),
                    None => self.kill(0).await,
                }
                INTERRUPTED
            }
        })
    }

    /// A sandbox without a network is the usual one, and whoever is new to it does not know.
    async fn tell_of_network(&self) {
        let (mode, remedy) = match &self.network {
            Network::Of(hub, sandbox) => (
                hub.network_of(sandbox).await,
                "`sandshell create --allow HOST` makes one that may reach HOST",
            ),
            #[cfg(target_os = "linux")]
            Network::Known(mode) => (Some(*mode), "add --allow HOST"),
        };
        if mode == Some(NetworkMode::None) {
            let told = format!("sandshell: the sandbox has no network; hint: {remedy}");
            self.out.remark(&told);
        }
    }

    async fn kill(&self, grace_ms: u64) {
        let request = KillRequest {
            grace_ms: Some(grace_ms),
        };
        // It may have ended by itself.
        let _ = self.client.kill_process(self.id, &request).await;
    }

    fn code_of(&self, exit: &ExitEvent) -> u8 {
        if exit.timed_out {
            self.out.remark("sandshell: it took too long and was ended");
            return TIMED_OUT;
        }
        if exit.oom {
            self.out.remark("sandshell: it ran out of memory");
        }
        exit_code(exit.exit_code)
    }

    async fn copy(&self, from: Option<u64>, manner: Manner) -> Result<End, Failure> {
        let mut signals = manner.own.then(Signals::new).transpose()?;
        let mut screen = Screen::new(self.out);
        let mut last = from;
        let mut pauses = PAUSES.iter();
        loop {
            let query = EventQuery {
                from: last,
                follow: Some(true),
            };
            let failed = match self.client.process_events(self.id, query).await {
                Err(error) => error,
                Ok(mut events) => loop {
                    let event = tokio::select! {
                        event = events.next() => event,
                        end = self.next_signal(signals.as_mut()) => return Ok(end),
                    };
                    match event {
                        Some(Ok(event)) => {
                            pauses = PAUSES.iter();
                            last = event.id.or(last);
                            match screen.show(event.event).await? {
                                Shown::More => {}
                                Shown::Exit(exit) => {
                                    let failed = exit.exit_code != Some(0);
                                    return Ok(End::Exit(exit, failed && screen.is_unreached()));
                                }
                                Shown::Unread => return Ok(End::Unread),
                            }
                        }
                        Some(Err(error)) => break error,
                        // An agent that ends closes its streams; the process is over then as well.
                        None => return self.caught().await,
                    }
                },
            };
            if failed.problem().is_some() {
                return Err(failed.into());
            }
            let Some(pause) = pauses.next() else {
                return Err(failed.into());
            };
            tokio::time::sleep(*pause).await;
        }
    }

    /// The stream is over and told no exit.
    async fn caught(&self) -> Result<End, Failure> {
        let record = self.client.process(self.id).await?;
        Ok(if record.ended_at.is_some() {
            let exit = ExitEvent {
                exit_code: record.exit_code,
                signal: record.signal,
                timed_out: record.timed_out,
                oom: record.oom,
                cwd: None,
                duration_ms: 0,
            };
            End::Exit(exit, false)
        } else {
            End::Caught
        })
    }

    /// Passes signals on until there is a reason to leave.
    async fn next_signal(&self, signals: Option<&mut Signals>) -> End {
        let Some(signals) = signals else {
            return std::future::pending().await;
        };
        loop {
            let name = signals.next().await;
            if signals.interrupts > 1 {
                return End::Left;
            }
            let request = SignalRequest {
                signal: name.to_owned(),
                scope: SignalScope::Group,
            };
            let (client, id) = (self.client.clone(), self.id.clone());
            // Apart, so that a second Ctrl-C is heard even if the hub does not answer.
            signals.sending = Some(tokio::spawn(async move {
                let _ = client.signal_process(&id, &request).await;
            }));
        }
    }
}

/// The command's own code.
pub(crate) fn exit_code(code: Option<i32>) -> u8 {
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(OURS)
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    interrupts: u32,
    sending: Option<JoinHandle<()>>,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::ours(&error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            interrupts: 0,
            sending: None,
        })
    }

    /// CANCEL SAFETY: a signal that came is told by the next call.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => {
                self.interrupts += 1;
                "SIGINT"
            }
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

/// What became of an event.
pub(crate) enum Shown {
    More,
    Exit(ExitEvent),
    Unread,
}

/// How much of the end of stderr is remembered.
const LAST_WORDS: usize = 4096;
/// What programs say on stderr that look for a host and reach no network.
const UNREACHED: [&str; 4] = [
    "Could not resolve",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
];

/// Our stdout and stderr, for output of others.
pub(crate) struct Screen {
    stdout: tokio::io::Stdout,
    stderr: tokio::io::Stderr,
    out: Output,
    /// The end of what was written to stderr.
    last_words: Vec<u8>,
}

impl Screen {
    pub(crate) fn new(out: Output) -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
            out,
            last_words: Vec::new(),
        }
    }

    /// Shows an event as bytes, or as JSON.
    pub(crate) async fn show(&mut self, event: OutputStreamEvent) -> Result<Shown, Failure> {
        if self.out.json {
            let line = match &event {
                OutputStreamEvent::Output(output) => serde_json::to_string(output),
                OutputStreamEvent::Truncated(truncated) => serde_json::to_string(truncated),
                OutputStreamEvent::Exit(exit) => serde_json::to_string(exit),
                _ => return Ok(Shown::More),
            };
            let line = line.map_err(|error| Failure::ours(&error))? + "\n";
            if let Shown::Unread = self.write(StreamName::Stdout, line.as_bytes()).await? {
                return Ok(Shown::Unread);
            }
        }
        match event {
            OutputStreamEvent::Output(output) if !self.out.json => {
                let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
                self.write(output.stream, &bytes).await
            }
            OutputStreamEvent::Truncated(truncated) if !self.out.json => {
                self.out.remark(&format!(
                    "sandshell: {} bytes of output are no longer kept",
                    truncated.bytes
                ));
                Ok(Shown::More)
            }
            OutputStreamEvent::Exit(exit) => Ok(Shown::Exit(exit)),
            _ => Ok(Shown::More),
        }
    }

    /// Whether the program ended with saying that it reached nobody.
    fn is_unreached(&self) -> bool {
        let heard = String::from_utf8_lossy(&self.last_words);
        UNREACHED.iter().any(|text| heard.contains(text))
    }

    pub(crate) async fn write(
        &mut self,
        stream: StreamName,
        bytes: &[u8],
    ) -> Result<Shown, Failure> {
        let written = match stream {
            StreamName::Stdout | StreamName::LateStdout => {
                match self.stdout.write_all(bytes).await {
                    Ok(()) => self.stdout.flush().await,
                    failed => failed,
                }
            }
            StreamName::Stderr | StreamName::LateStderr => {
                let end = bytes.len().saturating_sub(LAST_WORDS);
                self.last_words
                    .extend_from_slice(bytes.get(end..).unwrap_or_default());
                let past = self.last_words.len().saturating_sub(LAST_WORDS);
                self.last_words.drain(..past);
                match self.stderr.write_all(bytes).await {
                    Ok(()) => self.stderr.flush().await,
                    failed => failed,
                }
            }
        };
        match written {
            Ok(()) => Ok(Shown::More),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Shown::Unread),
            Err(error) => Err(Failure::output(&error)),
        }
    }
}

/// Copies our stdin to the command's, and its end.
async fn feed(client: Client, id: ProcessId) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; PIECE];
    let mut offset = 0;
    while let Ok(n @ 1..) = stdin.read(&mut buffer).await {
        let piece = buffer.get(..n).unwrap_or_default().to_vec();
        let length = piece.len() as u64;
        match send(&client, &id, offset, piece.into()).await {
            Ok(()) => offset += length,
            // It reads no more.
            Err(_) => return,
        }
    }
    let _ = client.close_stdin(&id).await;
}

/// Sends one piece; one that broke off is sent again, and its offset keeps it from being taken twice.
async fn send(
    client: &Client,
    id: &ProcessId,
    offset: u64,
    piece: bytes::Bytes,
) -> Result<(), ClientError> {
    let mut pauses = PAUSES.iter();
    loop {
        match client.write_stdin(id, Some(offset), piece.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) => {
                let problem = error.problem();
                let taken = offset + piece.len() as u64;
                if problem.is_some_and(|problem| problem.expected_offset == Some(taken)) {
                    return Ok(());
                }
                let Some(pause) = pauses.next().filter(|_| problem.is_none()) else {
                    return Err(error);
                };
                tokio::time::sleep(*pause).await;
            }
        }
    }
}

/// Whether our stdin may have something to say: it is open, and not /dev/null.
pub(crate) fn has_stdin() -> bool {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return true;
    }
    match (rustix::fs::fstat(&stdin), rustix::fs::stat("/dev/null")) {
        (Ok(ours), Ok(null)) => !(ours.st_rdev == null.st_rdev && ours.st_mode == null.st_mode),
        // It is closed.
        (Err(_), _) => false,
        _ => true,
    }
}
