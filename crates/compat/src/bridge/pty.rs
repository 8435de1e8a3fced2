//! `GET pty`: a terminal over a WebSocket.
//!
//! Without a session it is for this one connection and ends with it: nobody could find it again. That
//! of a session stays, and whoever comes back sees it again.

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Query};
use axum::response::Response;
use http::HeaderMap;
use sandshell_client::types::TerminalId;
use serde::Deserialize;

use super::body::{named, session};
use super::error::{Code, Fault};
use super::sandbox::Named;
use crate::lease::Lease;
use crate::pty::{self, Wish};

#[derive(Deserialize)]
pub(super) struct Asked {
    cols: Option<String>,
    rows: Option<String>,
    shell: Option<String>,
    session: Option<String>,
}

pub(super) async fn connect(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    Extension(lease): Extension<Lease>,
    at: Named,
) -> Result<Response, Fault> {
    let upgrade = upgrade.map_err(|_| Fault::invalid("WebSocket upgrade required"))?;
    let session = match (session(&headers)?, &asked.session) {
        (None, Some(id)) => Some(named(id)?),
        (session, _) => session,
    };
    let wish = Wish {
        cols: asked.cols.as_deref().map(number).transpose()?,
        rows: asked.rows.as_deref().map(number).transpose()?,
        shell: asked.shell.filter(|shell| !shell.is_empty()),
    };
    let client = at.reach().await?.client;
    let failed = Fault::of(Code::ExecTransport, "terminal");
    let Some(session) = session else {
        let made = pty::of_connection(&client, &wish).await;
        let (terminal, ending) = made.map_err(failed)?;
        return Ok(upgrade.on_upgrade(async move |socket| {
            pty::carry(socket, terminal, lease).await;
            drop(ending);
        }));
    };
    let id: TerminalId = format!("pty-{session}")
        .parse()
        .map_err(|_| Fault::invalid("the session's id is too long for a terminal"))?;
    let terminal = pty::of_session(&client, Some(&session), &id, &wish).await;
    let terminal = terminal.map_err(failed)?;
    Ok(upgrade.on_upgrade(|socket| pty::carry(socket, terminal, lease)))
}

fn number(text: &str) -> Result<u16, Fault> {
    text.parse()
        .map_err(|_| Fault::invalid("cols and rows must be valid numbers"))
}
