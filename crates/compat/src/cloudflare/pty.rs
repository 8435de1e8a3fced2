//! `/ws/pty`: the terminal of a session, one for each, seen again by whoever comes back.

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Query};
use axum::response::Response;
use sandshell_client::types::{
    ErrorCode, TerminalFrame, TerminalId, TerminalRequest, TerminalState,
};
use sandshell_client::{Client, ConnectOptions, TerminalConnection, TerminalEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Fault;
use super::session;
use crate::lease::Lease;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    session_id: Option<String>,
    cols: Option<u16>,
    rows: Option<u16>,
    shell: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Said {
    Resize { cols: u16, rows: u16 },
}

pub(super) async fn connect(
    Extension(sandbox): Extension<Client>,
    Extension(lease): Extension<Lease>,
    Query(asked): Query<Asked>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        match terminal_of(&sandbox, &asked).await {
            Ok(terminal) => carry(socket, terminal, lease).await,
            Err(fault) => {
                let error = json!({"type": "error", "message": fault.message()});
                let _ = socket.send(Message::text(error.to_string())).await;
            }
        }
    })
}

/// The terminal of the session, made if there is none that lives.
async fn terminal_of(sandbox: &Client, asked: &Asked) -> Result<TerminalConnection, Fault> {
    let session = session::named(asked.session_id.as_deref())?;
    let name = session.as_ref().map_or("none", |id| id.as_str());
    let id: TerminalId = format!("pty-{name}").parse()?;
    let mut request = TerminalRequest {
        id: Some(id.clone()),
        argv: asked.shell.clone().map(|shell| vec![shell]),
        ..TerminalRequest::default()
    };
    if let Some(cols) = asked.cols {
        request.cols = cols;
    }
    if let Some(rows) = asked.rows {
        request.rows = rows;
    }
    let lives = match sandbox.terminal(&id).await {
        Ok(record) => record.state == TerminalState::Running,
        Err(error) if error.code() == Some(ErrorCode::TerminalNotFound) => false,
        Err(error) => return Err(error.into()),
    };
    if !lives {
        if let Some(session) = &session {
            request.cwd = Some(session::record(sandbox, session).await?.cwd);
        }
        // One that has ended is in the way of the next.
        if sandbox.terminal(&id).await.is_ok() {
            sandbox.delete_terminal(&id).await?;
        }
        sandbox.create_terminal(&request).await?;
    }
    let options = ConnectOptions {
        offset: (!lives).then_some(0),
        size: asked.cols.zip(asked.rows),
        ..ConnectOptions::default()
    };
    Ok(sandbox.connect_terminal(&id, options).await?)
}

/// Passes bytes both ways until one side ends.
async fn carry(mut socket: WebSocket, terminal: TerminalConnection, lease: Lease) {
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
