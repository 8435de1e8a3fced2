//! Terminals.
//!
//! ```text
//! ─► {"type":"control","status":"connected"}     first, as text
//! ─► bytes  ◄─ bytes                             output and input
//! ─► {"type":"control","status":"exited",…}      at the end, and a close whose reason says the same
//! ```

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, Path, Query};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, StatusCode};
use sandshell_client::types::{
    ErrorCode, TerminalFrame, TerminalId, TerminalRecord, TerminalRequest, TerminalState,
};
use sandshell_client::{Client, ClientError, ConnectOptions, TerminalConnection, TerminalEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::exec::env_of;
use super::log::{close, reason_of};
use super::reach::Sandbox;
use crate::lease::Lease;
use crate::pages::all;

/// The protocol that clients offer and get.
const PROTOCOL: &str = "X-Daytona-Pty-Exit-Control";

/// What they offer besides, to bring variables.
const VARIABLES: &str = "X-Daytona-Pty-Envs~";

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Of {
    pty: String,
}

fn missing(id: &str) -> Fault {
    Fault::missing(format!("PTY session {id} not found"))
}

/// A failure about one terminal names it.
fn about(id: &TerminalId) -> impl Fn(ClientError) -> Fault + '_ {
    move |error| match error.code() {
        Some(ErrorCode::TerminalNotFound) => missing(id.as_str()),
        _ => error.into(),
    }
}

impl Of {
    fn id(&self) -> Result<TerminalId, Fault> {
        self.pty.parse().map_err(|_| missing(&self.pty))
    }
}

fn shown(record: &TerminalRecord) -> Value {
    json!({
        "id": record.id,
        "active": record.state == TerminalState::Running,
        "cols": record.cols,
        "rows": record.rows,
        "createdAt": record.started_at,
        "lazyStart": false,
        // What it was started with is not kept.
        "cwd": "",
        "envs": {},
    })
}

#[derive(Deserialize)]
pub(super) struct Create {
    id: Option<String>,
    cwd: Option<String>,
    envs: Option<BTreeMap<String, String>>,
    cols: Option<u16>,
    rows: Option<u16>,
}

async fn made(sandbox: &Client, asked: Create) -> Result<TerminalId, Fault> {
    let id = match asked.id.filter(|id| !id.is_empty()) {
        Some(id) => id.parse()?,
        None => TerminalId::generate(),
    };
    if !crate::pty::is_free(sandbox, &id).await? {
        return Err(Fault::conflict(format!("PTY session {id} already exists")));
    }
    let usual = TerminalRequest::default();
    let request = TerminalRequest {
        id: Some(id.clone()),
        cwd: asked.cwd.filter(|cwd| !cwd.is_empty()),
        env: env_of(asked.envs),
        cols: asked.cols.unwrap_or(usual.cols),
        rows: asked.rows.unwrap_or(usual.rows),
        ..usual
    };
    sandbox.create_terminal(&request).await?;
    Ok(id)
}

pub(super) async fn create(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Create>,
) -> Result<(StatusCode, Json<Value>), Fault> {
    let id = made(&sandbox, asked).await?;
    Ok((StatusCode::CREATED, Json(json!({"sessionId": id}))))
}

pub(super) async fn list(Sandbox(sandbox): Sandbox) -> Shown {
    let client = &sandbox;
    let records = all(|page| async move { client.list_terminals(&page).await }).await?;
    let sessions: Vec<Value> = records.iter().map(shown).collect();
    Ok(Json(json!({"sessions": sessions})))
}

pub(super) async fn get(Sandbox(sandbox): Sandbox, Path(of): Path<Of>) -> Shown {
    let id = of.id()?;
    let record = sandbox.terminal(&id).await.map_err(about(&id))?;
    Ok(Json(shown(&record)))
}

pub(super) async fn delete(Sandbox(sandbox): Sandbox, Path(of): Path<Of>) -> Shown {
    let id = of.id()?;
    sandbox.delete_terminal(&id).await.map_err(about(&id))?;
    Ok(Json(json!({"message": "PTY session deleted"})))
}

#[derive(Deserialize)]
pub(super) struct Size {
    cols: u16,
    rows: u16,
}

pub(super) async fn resize(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<Of>,
    Given(size): Given<Size>,
) -> Shown {
    let id = of.id()?;
    let resized = sandbox.resize_terminal(&id, size.cols, size.rows).await;
    Ok(Json(shown(&resized.map_err(about(&id))?)))
}

/// Variables among the protocols that are offered.
fn variables(headers: &HeaderMap) -> Result<Option<BTreeMap<String, String>>, Fault> {
    let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let offers = offers.filter_map(|offers| offers.to_str().ok());
    let mut offers = offers.flat_map(|offers| offers.split(',').map(str::trim));
    let Some(given) = offers.find_map(|offer| offer.strip_prefix(VARIABLES)) else {
        return Ok(None);
    };
    let read = URL_SAFE_NO_PAD.decode(given).ok();
    let read = read.and_then(|json| serde_json::from_slice(&json).ok());
    let wrong = || Fault::invalid("The variables of a PTY are base64url of a JSON object of texts");
    read.map(Some).ok_or_else(wrong)
}

/// Makes a terminal and connects to it.
pub(super) async fn create_connect(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Create>,
    Extension(lease): Extension<Lease>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Fault> {
    let asked = Create {
        envs: variables(&headers)?,
        ..asked
    };
    let id = made(&sandbox, asked).await?;
    let options = ConnectOptions {
        offset: Some(0),
        ..ConnectOptions::default()
    };
    joined(&sandbox, &id, options, lease, upgrade).await
}

/// Connects to a terminal; its screen is drawn first.
pub(super) async fn connect(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<Of>,
    Extension(lease): Extension<Lease>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Fault> {
    joined(
        &sandbox,
        &of.id()?,
        ConnectOptions::default(),
        lease,
        upgrade,
    )
    .await
}

async fn joined(
    sandbox: &Client,
    id: &TerminalId,
    options: ConnectOptions,
    lease: Lease,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Fault> {
    // Before the upgrade: what fails has a status then.
    sandbox.terminal(id).await.map_err(about(id))?;
    let terminal = sandbox.connect_terminal(id, options).await;
    let terminal = terminal.map_err(about(id))?;
    let upgrade = upgrade.protocols([PROTOCOL]);
    Ok(upgrade.on_upgrade(|socket| async move { lease.hold(carry(socket, terminal)).await }))
}

/// Passes bytes both ways until one side ends.
async fn carry(mut socket: WebSocket, terminal: TerminalConnection) {
    let connected = json!({"type": "control", "status": "connected"});
    if socket
        .send(Message::text(connected.to_string()))
        .await
        .is_err()
    {
        return;
    }
    let (mut keys, mut screen) = terminal.split();
    let (code, reason) = loop {
        tokio::select! {
            event = screen.next() => match event {
                Ok(Some(TerminalEvent::Bytes(bytes))) => {
                    if socket.send(Message::Binary(bytes)).await.is_err() {
                        return;
                    }
                }
                Ok(Some(TerminalEvent::Frame(TerminalFrame::Exit { exit_code, signal }))) => {
                    let mut exit = json!({"exitCode": exit_code});
                    if let Some(signal) = signal {
                        exit["exitReason"] = format!("killed by {signal}").into();
                    }
                    let reason = exit.to_string();
                    exit["type"] = "control".into();
                    exit["status"] = "exited".into();
                    if socket.send(Message::text(exit.to_string())).await.is_err() {
                        return;
                    }
                    break (close_code::NORMAL, reason);
                }
                Ok(Some(TerminalEvent::Frame(_))) => {}
                Ok(Some(TerminalEvent::Closed { reason, .. })) => {
                    break (close_code::AWAY, json!({"error": reason}).to_string());
                }
                Ok(_) => break (close_code::AWAY, String::new()),
                Err(error) => {
                    break (close_code::ERROR, json!({"error": error.to_string()}).to_string());
                }
            },
            said = socket.recv() => {
                let typed = match said {
                    Some(Ok(Message::Binary(bytes))) => keys.type_in(bytes).await,
                    Some(Ok(Message::Text(text))) => {
                        keys.type_in(bytes::Bytes::from(text)).await
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                // Its end is told by the terminal itself.
                if let Err(error) = typed {
                    tracing::debug!(%error, "a terminal takes no input");
                }
            }
        }
    };
    close(socket, code, reason_of(&reason)).await;
}
