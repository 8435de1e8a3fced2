//! A client at a terminal, which waits for what is on the screen.

use std::collections::BTreeMap;
use std::time::Instant;

use sandshell_client::types::{
    TerminalFrame, TerminalId, TerminalRecord, TerminalRequest, TerminalScreen,
};
use sandshell_client::{Client, ConnectOptions, TerminalConnection, TerminalEvent};

use crate::calls::{DEADLINE, in_time};

/// A prompt that no output contains, and nothing that differs between machines.
const PROMPT: &str = "ready> ";

/// A terminal with a plain bash on it.
pub(super) fn bash() -> TerminalRequest {
    TerminalRequest {
        argv: Some(
            ["bash", "--norc", "--noprofile", "-i"]
                .map(str::to_owned)
                .into(),
        ),
        env: BTreeMap::from([("PS1".to_owned(), Some(PROMPT.to_owned()))]),
        ..Default::default()
    }
}

/// A terminal with a text for a shell.
pub(super) fn command(text: &str) -> TerminalRequest {
    TerminalRequest {
        command: Some(text.to_owned()),
        ..Default::default()
    }
}

pub(super) async fn create(client: &Client, request: &TerminalRequest) -> TerminalRecord {
    in_time(client.create_terminal(request)).await.unwrap()
}

/// What a connection has brought so far.
pub(super) struct Driver {
    pub(super) client: Client,
    pub(super) id: TerminalId,
    pub(super) connection: TerminalConnection,
    /// Offset of the next byte of output.
    pub(super) offset: u64,
    /// All output, without redraws.
    pub(super) output: Vec<u8>,
    /// The redraws.
    pub(super) redraws: Vec<Vec<u8>>,
    /// Announced bytes of a redraw that is still to come.
    redraw: u64,
    /// All text frames.
    pub(super) frames: Vec<TerminalFrame>,
    /// Code and reason of the close.
    pub(super) closed: Option<(u16, String)>,
}

impl Driver {
    pub(super) async fn connect(client: &Client, id: &TerminalId, options: ConnectOptions) -> Self {
        let connection = in_time(client.connect_terminal(id, options)).await.unwrap();
        let mut driver = Self {
            client: client.clone(),
            id: id.clone(),
            connection,
            offset: 0,
            output: Vec::new(),
            redraws: Vec::new(),
            redraw: 0,
            frames: Vec::new(),
            closed: None,
        };
        assert!(driver.step().await);
        assert!(matches!(driver.frames[0], TerminalFrame::Ready { .. }));
        driver
    }

    /// A new terminal and a writer on it.
    pub(super) async fn start(client: &Client, request: &TerminalRequest) -> Self {
        let record = create(client, request).await;
        let options = ConnectOptions {
            offset: Some(0),
            ..Default::default()
        };
        Self::connect(client, &record.id, options).await
    }

    /// A new bash that has written its prompt.
    pub(super) async fn bash(client: &Client) -> Self {
        let mut driver = Self::start(client, &bash()).await;
        driver.until_text(PROMPT.trim_end()).await;
        driver
    }

    /// Takes one event; false when the connection is over.
    pub(super) async fn step(&mut self) -> bool {
        in_time(self.take()).await
    }

    async fn take(&mut self) -> bool {
        match self.connection.next().await.unwrap() {
            None => return false,
            Some(TerminalEvent::Bytes(bytes)) => {
                if self.redraw > 0 {
                    assert_eq!(self.redraw, bytes.len() as u64);
                    self.redraw = 0;
                    self.redraws.push(bytes.to_vec());
                } else {
                    self.offset += bytes.len() as u64;
                    self.output.extend_from_slice(&bytes);
                }
            }
            Some(TerminalEvent::Frame(frame)) => {
                match &frame {
                    TerminalFrame::Ready {
                        offset,
                        redraw_bytes,
                        ..
                    } => {
                        self.offset = *offset;
                        self.redraw = *redraw_bytes;
                    }
                    TerminalFrame::Truncated {
                        offset,
                        bytes,
                        redraw_bytes,
                        ..
                    } => {
                        assert_eq!(*offset, self.offset, "nothing is left out unsaid");
                        self.offset += bytes;
                        self.redraw = *redraw_bytes;
                    }
                    _ => {}
                }
                self.frames.push(frame);
            }
            Some(TerminalEvent::Closed { code, reason }) => self.closed = Some((code, reason)),
            Some(other) => panic!("{other:?}"),
        }
        true
    }

    pub(super) async fn type_in(&mut self, keys: impl AsRef<[u8]>) {
        let keys = keys.as_ref().to_vec();
        in_time(self.connection.type_in(keys)).await.unwrap();
    }

    pub(super) async fn resize(&mut self, cols: u16, rows: u16) {
        in_time(self.connection.resize(cols, rows)).await.unwrap();
    }

    /// The screen with all that has been seen here on it.
    pub(super) async fn screen(&self) -> TerminalScreen {
        loop {
            let screen = in_time(self.client.terminal_screen(&self.id))
                .await
                .unwrap();
            if screen.offset >= self.offset {
                return screen;
            }
        }
    }

    /// Waits until the screen is as wanted, looking again whenever something has come.
    pub(super) async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&TerminalScreen) -> bool,
    ) -> TerminalScreen {
        let began = Instant::now();
        let mut last = self.screen().await;
        while !wanted(&last) {
            let stepped = tokio::time::timeout(DEADLINE, self.take()).await;
            let shown = &last.text;
            let alive = stepped.unwrap_or_else(|_| panic!("never {what}:\n{shown}"));
            assert!(alive, "the connection ended before {what}:\n{shown}");
            assert!(began.elapsed() < DEADLINE, "never {what}:\n{shown}");
            last = self.screen().await;
        }
        last
    }

    /// Waits for a text on the screen.
    pub(super) async fn until_text(&mut self, text: &str) -> TerminalScreen {
        self.until(&format!("{text:?}"), |screen| screen.text.contains(text))
            .await
    }

    /// Types a line for the shell and waits for what it makes appear.
    /// That must not be in the line itself, which the terminal echoes.
    pub(super) async fn run(&mut self, line: &str, expected: &str) -> TerminalScreen {
        assert!(!line.contains(expected), "{expected:?} is in the line");
        self.type_in(format!("{line}\r")).await;
        self.until_text(expected).await
    }

    /// Waits for a text in the output.
    pub(super) async fn until_output(&mut self, text: &str) {
        let found = |output: &[u8]| output.windows(text.len()).any(|w| w == text.as_bytes());
        let mut looked = 0;
        while !found(&self.output[looked..]) {
            looked = self.output.len().saturating_sub(text.len());
            assert!(self.step().await, "the connection ended before {text:?}");
        }
    }

    /// Reads to the end of the connection.
    pub(super) async fn read_on(&mut self) {
        while self.step().await {}
    }

    /// The exit frame; the last but for the close.
    pub(super) async fn exit(&mut self) -> (i32, Option<String>) {
        self.read_on().await;
        let (code, _) = self.closed.clone().expect("a close");
        assert_eq!(code, 1000);
        match self.frames.last() {
            Some(TerminalFrame::Exit { exit_code, signal }) => (*exit_code, signal.clone()),
            other => panic!("no exit: {other:?}"),
        }
    }
}
