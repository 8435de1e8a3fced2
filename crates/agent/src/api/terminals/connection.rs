//! One WebSocket on a terminal.
//!
//! ```text
//!  ready (+ redraw) ─► output, resize, truncated (+ redraw) … ─► exit ─► close
//!        ▲ input and resizes of a writer, at the same time, never waiting for the output
//! ```
//!
//! Owns the frames and how a connection ends. Nothing is queued for a client: it is sent what comes
//! next when it has taken what came before.

use std::pin::pin;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use sandshell_exec::TerminalHandle;
use sandshell_exec::terminal::{Redraw, View, Viewer};
use sandshell_types::{ResizeRequest, TerminalClientFrame, TerminalFrame};
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};
use tokio_util::sync::CancellationToken;

/// Largest message from a client.
const MAX_MESSAGE: usize = 256 << 10;

/// Largest message that is read at all. A larger one breaks the connection off; one in between is
/// read, so that the client learns why it is refused.
pub(super) const MAX_READ: usize = 4 << 20;

/// Largest frame of output, so that a size change or a redraw is never far away.
const MAX_OUTPUT: usize = 64 << 10;

/// How often a client is asked whether it is there.
const PING: Duration = Duration::from_secs(30);

/// A client that says nothing for this long, not even to a ping, is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// How long the client's side of a close is waited for.
const CLOSE: Duration = Duration::from_secs(2);

/// Longest reason of a close, in bytes.
const REASON_MAX: usize = 120;

/// Why a connection ends: what the client is told.
struct End {
    code: u16,
    reason: String,
}

impl End {
    fn new(code: u16, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn attend(
    socket: WebSocket,
    viewer: Viewer,
    writer: bool,
    shutdown: CancellationToken,
) {
    let terminal = viewer.terminal().clone();
    let (mut sink, mut stream) = socket.split();
    {
        let (tell, told) = oneshot::channel();
        let mut showing = pin!(show(&mut sink, viewer, told, &shutdown));
        let hearing = async {
            let end = hear(&mut stream, &terminal, writer).await;
            let _ = tell.send(end);
        };
        // A client that takes nothing any more could hold the last frames up for ever.
        let ended = async {
            shutdown.cancelled().await;
            tokio::time::sleep(CLOSE).await;
        };
        tokio::select! {
            () = &mut showing => {}
            () = hearing => {
                let _ = timeout(CLOSE, showing).await;
            }
            () = ended => {}
        }
    }
    // Until the client has closed, too: a socket closed with input unread takes the last frames
    // back from the wire.
    let closed = async { while let Some(Ok(_)) = stream.next().await {} };
    let _ = timeout(CLOSE, closed).await;
}

/// Sends what the viewer sees, then closes. A client that is gone ends it too.
async fn show(
    sink: &mut SplitSink<WebSocket, Message>,
    mut viewer: Viewer,
    mut told: oneshot::Receiver<Option<End>>,
    shutdown: &CancellationToken,
) {
    let beginning = viewer.beginning().clone();
    let ready = TerminalFrame::Ready {
        offset: beginning.offset,
        cols: beginning.cols,
        rows: beginning.rows,
        redraw_bytes: beginning.bytes.len() as u64,
    };
    if send(sink, &ready, Some(beginning)).await.is_err() {
        return;
    }
    let mut ping = interval(PING);
    let end = loop {
        let view = tokio::select! {
            end = &mut told => match end {
                Ok(Some(end)) => break end,
                _ => return,
            },
            () = shutdown.cancelled() => break End::new(close_code::AWAY, "the agent ends"),
            _ = ping.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return;
                }
                continue;
            }
            view = viewer.next() => view,
        };
        let sent = match view {
            Ok(Some(View::Bytes(bytes))) => send_output(sink, bytes).await,
            Ok(Some(View::Resized { cols, rows })) => {
                send(sink, &TerminalFrame::Resize { cols, rows }, None).await
            }
            Ok(Some(View::Skipped {
                from,
                bytes,
                redraw,
            })) => {
                let frame = TerminalFrame::Truncated {
                    offset: from,
                    bytes,
                    cols: redraw.cols,
                    rows: redraw.rows,
                    redraw_bytes: redraw.bytes.len() as u64,
                };
                send(sink, &frame, Some(redraw)).await
            }
            Ok(Some(View::Exited { exit_code, signal })) => {
                send(sink, &TerminalFrame::Exit { exit_code, signal }, None).await
            }
            Ok(None) => break End::new(close_code::NORMAL, "the program has ended"),
            Err(error) => {
                tracing::error!(%error, "a terminal's output cannot be read");
                break End::new(close_code::ERROR, "the output cannot be read");
            }
        };
        if sent.is_err() {
            return;
        }
    };
    let mut reason = end.reason;
    reason.truncate(reason.floor_char_boundary(REASON_MAX));
    let close = CloseFrame {
        code: end.code,
        reason: reason.into(),
    };
    let _ = timeout(CLOSE, sink.send(Message::Close(Some(close)))).await;
}

/// A text frame, and the picture that belongs to it.
async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    frame: &TerminalFrame,
    redraw: Option<Redraw>,
) -> Result<(), axum::Error> {
    let text = serde_json::to_string(frame).map_err(axum::Error::new)?;
    sink.send(Message::Text(text.into())).await?;
    match redraw {
        Some(redraw) if !redraw.bytes.is_empty() => sink.send(Message::Binary(redraw.bytes)).await,
        _ => Ok(()),
    }
}

async fn send_output(
    sink: &mut SplitSink<WebSocket, Message>,
    mut bytes: Bytes,
) -> Result<(), axum::Error> {
    while !bytes.is_empty() {
        let frame = bytes.split_to(bytes.len().min(MAX_OUTPUT));
        sink.send(Message::Binary(frame)).await?;
    }
    Ok(())
}

/// Takes what the client sends, until it closes or does something that ends the connection. `None`:
/// there is nobody to tell.
async fn hear(
    stream: &mut SplitStream<WebSocket>,
    terminal: &TerminalHandle,
    writer: bool,
) -> Option<End> {
    loop {
        let message = match timeout(SILENCE, stream.next()).await {
            Err(_) => return Some(End::new(close_code::AWAY, "the client was silent")),
            Ok(None) => return None,
            Ok(Some(Err(error))) => return broken(&error),
            Ok(Some(Ok(message))) => message,
        };
        let size = match &message {
            Message::Binary(bytes) => bytes.len(),
            Message::Text(text) => text.len(),
            _ => 0,
        };
        match message {
            Message::Close(_) => return None,
            _ if size > MAX_MESSAGE => {
                return Some(too_large());
            }
            // The one who only looks may have a terminal that answers by itself, which is no fault.
            Message::Binary(_) | Message::Text(_) if !writer => {}
            Message::Binary(input) => {
                // After the end nobody reads it; the exit is on its way to the client.
                let _ = terminal.type_in(input).await;
            }
            Message::Text(text) => {
                if let Err(end) = told(&text, terminal) {
                    return Some(end);
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

/// Does what a text frame says.
fn told(text: &str, terminal: &TerminalHandle) -> Result<(), End> {
    let refuse = |why: String| End::new(close_code::POLICY, why);
    let frame: TerminalClientFrame = serde_json::from_str(text)
        .map_err(|error| refuse(format!("this text frame is not understood: {error}")))?;
    let TerminalClientFrame::Resize { cols, rows } = frame;
    match terminal.resize(ResizeRequest { cols, rows }) {
        Ok(()) | Err(sandshell_exec::ExecError::TerminalEnded { .. }) => Ok(()),
        Err(error) => Err(refuse(error.to_string())),
    }
}

fn too_large() -> End {
    End::new(
        close_code::SIZE,
        format!("a message has at most {MAX_MESSAGE} bytes"),
    )
}

/// What to say about a message that cannot be taken.
fn broken(error: &axum::Error) -> Option<End> {
    let cause = std::error::Error::source(error)?.downcast_ref::<tungstenite::Error>()?;
    match cause {
        tungstenite::Error::Capacity(_) => Some(too_large()),
        tungstenite::Error::Utf8(_) => Some(End::new(
            close_code::INVALID,
            "a text frame is not valid UTF-8",
        )),
        // It went away without a word: nobody is there to be told.
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(error) => {
            Some(End::new(close_code::PROTOCOL, error.to_string()))
        }
        _ => None,
    }
}
