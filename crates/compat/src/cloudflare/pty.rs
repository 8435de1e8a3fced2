//! `/ws/pty`: the terminal of a session, one for each, seen again by whoever comes back.

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Extension, Query};
use axum::response::Response;
use sandshell_client::types::TerminalId;
use sandshell_client::{Client, TerminalConnection};
use serde::Deserialize;
use serde_json::json;

use super::error::Fault;
use super::session;
use crate::lease::Lease;
use crate::pty::{self, Wish};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    session_id: Option<String>,
    cols: Option<u16>,
    rows: Option<u16>,
    shell: Option<String>,
}

pub(super) async fn connect(
    Extension(sandbox): Extension<Client>,
    Extension(lease): Extension<Lease>,
    Query(asked): Query<Asked>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        match terminal_of(&sandbox, asked).await {
            Ok(terminal) => pty::carry(socket, terminal, lease).await,
            Err(fault) => {
                let error = json!({"type": "error", "message": fault.message()});
                let _ = socket.send(Message::text(error.to_string())).await;
            }
        }
    })
}

async fn terminal_of(sandbox: &Client, asked: Asked) -> Result<TerminalConnection, Fault> {
    let session = session::named(asked.session_id.as_deref())?;
    let name = session.as_ref().map_or("none", |id| id.as_str());
    let id: TerminalId = format!("pty-{name}").parse()?;
    let wish = Wish {
        cols: asked.cols,
        rows: asked.rows,
        shell: asked.shell,
    };
    Ok(pty::of_session(sandbox, session.as_ref(), &id, &wish).await?)
}
