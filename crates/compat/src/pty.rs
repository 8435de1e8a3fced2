//! Terminals over a WebSocket in the way of Cloudflare's services: binary frames are bytes, text frames
//! are `{"type":"resize"}` to us, and `ready`, `exit` and `error` from us.

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use sandshell_client::types::{
    ErrorCode, SessionId, TerminalFrame, TerminalId, TerminalRequest, TerminalState,
};
use sandshell_client::{Client, ClientError, ConnectOptions, TerminalConnection, TerminalEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lease::Lease;
use crate::session;

/// What a terminal is to be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) cols: Option<u16>,
    pub(crate) rows: Option<u16>,
    pub(crate) shell: Option<String>,
}

impl Wish {
    fn request(&self) -> TerminalRequest {
        let mut request = TerminalRequest {
            argv: self.shell.clone().map(|shell| vec![shell]),
            ..TerminalRequest::default()
        };
        if let Some(cols) = self.cols {
            request.cols = cols;
        }
        if let Some(rows) = self.rows {
            request.rows = rows;
        }
        request
    }
}

/// The terminal with this id, made if there is none that lives: then where its session is.
pub(crate) async fn of_session(
    sandbox: &Client,
    session: Option<&SessionId>,
    id: &TerminalId,
    wish: &Wish,
) -> Result<TerminalConnection, ClientError> {
    let new = is_free(sandbox, id).await? && made(sandbox, session, id, wish).await?;
    let options = ConnectOptions {
        offset: new.then_some(0),
        size: wish.cols.zip(wish.rows),
        ..ConnectOptions::default()
    };
    sandbox.connect_terminal(id, options).await
}

/// Whether no terminal has this id. One that has ended is forgotten, as it is in the way of the next; of
/// several that see this, one makes the next and the others find it.
pub(crate) async fn is_free(sandbox: &Client, id: &TerminalId) -> Result<bool, ClientError> {
    let missing = |error: &ClientError| error.code() == Some(ErrorCode::TerminalNotFound);
    match sandbox.terminal(id).await {
        Ok(there) if there.state == TerminalState::Running => return Ok(false),
        Ok(_) => {}
        Err(error) if missing(&error) => return Ok(true),
        Err(error) => return Err(error),
    }
    match sandbox.delete_terminal(id).await {
        Err(error) if !missing(&error) => Err(error),
        _ => Ok(true),
    }
}

/// Whether it was made, and not by somebody else meanwhile.
async fn made(
    sandbox: &Client,
    session: Option<&SessionId>,
    id: &TerminalId,
    wish: &Wish,
) -> Result<bool, ClientError> {
    let mut request = wish.request();
    request.id = Some(id.clone());
    if let Some(session) = session {
        request.cwd = Some(session::record(sandbox, session).await?.cwd);
    }
    match sandbox.create_terminal(&request).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::IdConflict) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What ends the terminal of one connection when it is dropped, with the connection or before there is one:
/// nobody else could find that terminal.
pub(crate) struct Ending {
    sandbox: Client,
    terminal: TerminalId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (sandbox, terminal) = (self.sandbox.clone(), self.terminal.clone());
        tokio::spawn(async move {
            // Often its sandbox has gone before it, and sometimes it never was.
            if let Err(error) = sandbox.delete_terminal(&terminal).await {
                tracing::debug!(%error, "a terminal without its connection was not ended");
            }
        });
    }
}

/// A terminal for one connection, and what ends it.
pub(crate) async fn of_connection(
    sandbox: &Client,
    wish: &Wish,
) -> Result<(TerminalConnection, Ending), ClientError> {
    // Named by us: whoever goes away while it is made leaves none that has no name yet.
    let ending = Ending {
        sandbox: sandbox.clone(),
        terminal: TerminalId::generate(),
    };
    let mut request = wish.request();
    request.id = Some(ending.terminal.clone());
    sandbox.create_terminal(&request).await?;
    let options = ConnectOptions {
        offset: Some(0),
        ..ConnectOptions::default()
    };
    let connection = sandbox.connect_terminal(&ending.terminal, options).await?;
    Ok((connection, ending))
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Said {
    Resize { cols: u16, rows: u16 },
}

/// Passes bytes both ways until one side ends.
pub(crate) async fn carry(mut socket: WebSocket, terminal: TerminalConnection, lease: Lease) {
    let (mut keys, mut screen) = terminal.split();
    loop {
        let message = tokio::select! {
            () = lease.over() => return,
            event = screen.next() => match event {
                Ok(Some(TerminalEvent::Bytes(bytes))) => Message::Binary(bytes),
                Ok(Some(TerminalEvent::Frame(frame))) => match shown(&frame) {
                    Some(frame) => Message::text(frame.to_string()),
                    None => continue,
                },
                Ok(Some(TerminalEvent::Closed { code, reason })) => {
                    let close = CloseFrame { code, reason: reason.into() };
                    let _ = socket.send(Message::Close(Some(close))).await;
                    return;
                }
                Ok(_) => return,
                Err(error) => {
                    let error = json!({"type": "error", "message": error.to_string()});
                    let _ = socket.send(Message::text(error.to_string())).await;
                    return;
                }
            },
            said = socket.recv() => {
                let typed = match said {
                    Some(Ok(Message::Binary(bytes))) => keys.type_in(bytes).await,
                    Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                        Ok(Said::Resize { cols, rows }) => keys.resize(cols, rows).await,
                        Err(_) => Ok(()),
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                if typed.is_err() {
                    return;
                }
                continue;
            }
        };
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

fn shown(frame: &TerminalFrame) -> Option<Value> {
    match frame {
        TerminalFrame::Ready { .. } => Some(json!({"type": "ready"})),
        TerminalFrame::Exit { exit_code, signal } => {
            let mut exit = json!({"type": "exit", "code": exit_code});
            if let Some(signal) = signal {
                exit["signal"] = signal.as_str().into();
            }
            Some(exit)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Scripted, refusal};

    fn record(state: TerminalState) -> (u16, Value) {
        let record = json!({
            "id": "t", "pid": 7, "state": state, "cols": 80, "rows": 24, "output_bytes": 0,
            "viewers": 0, "started_at": "2026-01-01T00:00:00Z",
        });
        (200, record)
    }

    async fn of_session(server: &Scripted) -> Option<ErrorCode> {
        let id = "t".parse().unwrap();
        let found = super::of_session(&server.client, None, &id, &Wish::default()).await;
        found.err().and_then(|error| error.code())
    }

    #[tokio::test]
    async fn one_that_runs_is_not_deleted() {
        let mut server = Scripted::new([
            record(TerminalState::Running),
            refusal(ErrorCode::TerminalNotFound),
        ]);
        of_session(&server).await;
        assert_eq!(server.methods(), ["GET", "GET"]);
    }

    #[tokio::test]
    async fn what_somebody_else_did_is_done() {
        let mut server = Scripted::new([
            record(TerminalState::Exited),
            refusal(ErrorCode::TerminalNotFound),
            refusal(ErrorCode::IdConflict),
            refusal(ErrorCode::Forbidden),
        ]);
        // That of the connection, which is the last that is tried.
        assert_eq!(of_session(&server).await, Some(ErrorCode::Forbidden));
        assert_eq!(server.methods(), ["GET", "DELETE", "POST", "GET"]);
    }

    #[tokio::test]
    async fn one_without_its_connection_ends() {
        let mut server = Scripted::new([
            record(TerminalState::Running),
            refusal(ErrorCode::Forbidden),
        ]);
        let made = of_connection(&server.client, &Wish::default()).await;
        assert!(made.is_err());
        assert_eq!(server.asked().await.unwrap(), "POST /v1/terminals");
        let connect = server.asked().await.unwrap();
        let path = connect.split_once("/connect").unwrap().0;
        let path = path.strip_prefix("GET ").unwrap();
        assert_eq!(server.asked().await.unwrap(), format!("DELETE {path}"));
    }
}
