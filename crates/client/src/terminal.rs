//! Calls of the `terminal` surface, and connections to terminals.

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::Method;
use hyper_util::rt::TokioIo;
use sandshell_types::{
    KillReply, List, ResizeRequest, TerminalClientFrame, TerminalFrame, TerminalId, TerminalRecord,
    TerminalRequest, TerminalRole, TerminalScreen,
};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::endpoint::Transport;
use crate::query::Query;
use crate::{ByteStream, Client, ClientError, Page};

type Socket = WebSocketStream<TokioIo<Transport>>;

/// How to connect to a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Begin with the byte of output at this offset, instead of with a redraw.
    pub offset: Option<u64>,
    /// A viewer only sees.
    pub role: TerminalRole,
    /// Take this size first: columns and rows.
    pub size: Option<(u16, u16)>,
    /// Whether we answer what programs ask a terminal; the server decides when not said.
    pub answers: Option<bool>,
}

/// What comes over a connection to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TerminalEvent {
    /// Bytes for the screen: output, or the redraw that the frame before announced.
    Bytes(Bytes),
    /// A text frame.
    Frame(TerminalFrame),
    /// The server closed the connection.
    Closed {
        /// The WebSocket close code; 1000 after an exit.
        code: u16,
        /// In words.
        reason: String,
    },
}

/// A connection to a terminal. Dropping it leaves the terminal running.
#[derive(Debug)]
pub struct TerminalConnection {
    writer: TerminalWriter,
    reader: TerminalReader,
}

/// The half that types and resizes.
#[derive(Debug)]
pub struct TerminalWriter(SplitSink<Socket, Message>);

/// The half that sees.
#[derive(Debug)]
pub struct TerminalReader(SplitStream<Socket>);

impl Client {
    /// Makes a terminal.
    pub async fn create_terminal(
        &self,
        request: &TerminalRequest,
    ) -> Result<TerminalRecord, ClientError> {
        self.post("/v1/terminals", request).await
    }

    /// Lists terminals.
    pub async fn list_terminals(&self, page: &Page) -> Result<List<TerminalRecord>, ClientError> {
        self.get(&format!("/v1/terminals{}", Query::default().page(page)))
            .await
    }

    /// The record of a terminal.
    pub async fn terminal(&self, id: &TerminalId) -> Result<TerminalRecord, ClientError> {
        self.get(&format!("/v1/terminals/{id}")).await
    }

    /// Ends a terminal with all that runs on it, and forgets it.
    pub async fn delete_terminal(&self, id: &TerminalId) -> Result<KillReply, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/terminals/{id}"))
            .await
    }

    /// Changes the size of a terminal.
    pub async fn resize_terminal(
        &self,
        id: &TerminalId,
        cols: u16,
        rows: u16,
    ) -> Result<TerminalRecord, ClientError> {
        let size = ResizeRequest { cols, rows };
        self.post(&format!("/v1/terminals/{id}/resize"), &size)
            .await
    }

    /// What is on the screen of a terminal.
    pub async fn terminal_screen(&self, id: &TerminalId) -> Result<TerminalScreen, ClientError> {
        self.get(&format!("/v1/terminals/{id}/screen")).await
    }

    /// The same, with the last lines that scrolled away.
    pub async fn terminal_scrollback(
        &self,
        id: &TerminalId,
        lines: u32,
    ) -> Result<TerminalScreen, ClientError> {
        self.get(&format!("/v1/terminals/{id}/screen?scrollback={lines}"))
            .await
    }

    /// Bytes that draw the screen of a terminal on another one of its size.
    pub async fn terminal_redraw(&self, id: &TerminalId) -> Result<Bytes, ClientError> {
        self.get_bytes(&format!("/v1/terminals/{id}/screen?format=ansi"))
            .await?
            .read_to_end()
            .await
    }

    /// The recording of a terminal, as an asciicast.
    pub async fn terminal_recording(&self, id: &TerminalId) -> Result<ByteStream, ClientError> {
        self.get_bytes(&format!("/v1/terminals/{id}/recording"))
            .await
    }

    /// Connects to a terminal.
    pub async fn connect_terminal(
        &self,
        id: &TerminalId,
        options: ConnectOptions,
    ) -> Result<TerminalConnection, ClientError> {
        let role = (options.role == TerminalRole::Viewer).then_some("viewer");
        let query = Query::default()
            .with("offset", options.offset)
            .with("role", role)
            .with("cols", options.size.map(|(cols, _)| cols))
            .with("rows", options.size.map(|(_, rows)| rows))
            .with("answers", options.answers);
        let path = format!("/v1/terminals/{id}/connect{query}");
        let (request, transport) = self.upgrade(&path).await?;
        let (socket, _) = tokio_tungstenite::client_async(request, TokioIo::new(transport))
            .await
            .map_err(|error| match error {
                Error::Http(reply) => {
                    let status = reply.status();
                    ClientError::from_reply(status, &reply.into_body().unwrap_or_default())
                }
                error => ClientError::protocol("the WebSocket could not be opened", error),
            })?;
        let (sink, stream) = socket.split();
        Ok(TerminalConnection {
            writer: TerminalWriter(sink),
            reader: TerminalReader(stream),
        })
    }
}

impl TerminalConnection {
    /// The two halves, for two tasks.
    pub fn split(self) -> (TerminalWriter, TerminalReader) {
        (self.writer, self.reader)
    }

    /// See [`TerminalWriter::type_in`].
    pub async fn type_in(&mut self, bytes: impl Into<Bytes>) -> Result<(), ClientError> {
        self.writer.type_in(bytes).await
    }

    /// See [`TerminalWriter::resize`].
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), ClientError> {
        self.writer.resize(cols, rows).await
    }

    /// See [`TerminalWriter::send_text`].
    pub async fn send_text(&mut self, text: &str) -> Result<(), ClientError> {
        self.writer.send_text(text).await
    }

    /// See [`TerminalReader::next`].
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        self.reader.next().await
    }

    /// Closes the connection and waits for the server to do the same; the terminal runs on.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let normal = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        self.writer.send(Message::Close(Some(normal))).await?;
        while self.reader.next().await?.is_some() {}
        Ok(())
    }
}

impl TerminalWriter {
    /// Types.
    pub async fn type_in(&mut self, bytes: impl Into<Bytes>) -> Result<(), ClientError> {
        self.send(Message::Binary(bytes.into())).await
    }

    /// Changes the size of the terminal.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), ClientError> {
        let frame = TerminalClientFrame::Resize { cols, rows };
        let text = serde_json::to_string(&frame)
            .map_err(|error| ClientError::protocol("the frame cannot be encoded", error))?;
        self.send_text(&text).await
    }

    /// Sends a text frame as it is: for frames this client does not know.
    pub async fn send_text(&mut self, text: &str) -> Result<(), ClientError> {
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ClientError> {
        self.0
            .send(message)
            .await
            .map_err(|error| ClientError::protocol("the connection to the terminal broke", error))
    }
}

impl TerminalReader {
    /// The next event; `None` when the connection is over.
    ///
    /// CANCEL SAFETY: a dropped call loses nothing.
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        loop {
            let message = match self.0.next().await {
                None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                    return Ok(None);
                }
                Some(Err(error)) => {
                    let context = "the connection to the terminal broke";
                    return Err(ClientError::protocol(context, error));
                }
                Some(Ok(message)) => message,
            };
            return Ok(Some(match message {
                Message::Binary(bytes) => TerminalEvent::Bytes(bytes),
                Message::Text(text) => {
                    TerminalEvent::Frame(serde_json::from_str(&text).map_err(|error| {
                        ClientError::protocol("a text frame is not understood", error)
                    })?)
                }
                Message::Close(frame) => TerminalEvent::Closed {
                    code: frame.as_ref().map_or(1005, |frame| frame.code.into()),
                    reason: frame
                        .map(|frame| frame.reason.to_string())
                        .unwrap_or_default(),
                },
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            }));
        }
    }
}
