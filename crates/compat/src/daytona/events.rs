//! The socket at which clients wait for events: Socket.IO 5 over Engine.IO 4, as far as they use it.
//!
//! ```text
//! ─► 0{sid,…}                  open
//! ◄─ 40{token}                 who it is, within a few seconds
//! ─► 40{sid} | 44{message}     let in, or not
//! ─► 2  ◄─ 3                   ping and pong, until the lease is over or no pong comes
//! ```
//!
//! No event is ever told: whatever changes the state of a sandbox is answered when it is done, and clients
//! ask for the state besides. Without the socket they would try again and again.

use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use http::Request;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, interval_at, timeout};

use super::error::Fault;
use crate::lease::Lease;

/// How long a client may take to show its token.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// Time between two pings.
const BEAT: Duration = Duration::from_secs(25);

/// How long a pong may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Largest message of a client.
const LARGEST: usize = 16 * 1024;

#[derive(Deserialize)]
struct Introduction {
    token: String,
}

pub(super) async fn listen(
    admit: impl Fn(&str) -> Option<Lease> + Send + 'static,
    request: Request<Body>,
) -> Result<Response, Fault> {
    let (mut head, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut head, &()).await;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade.max_message_size(LARGEST).max_frame_size(LARGEST),
        Err(refused) => {
            let status = refused.into_response().status();
            return Err(Fault::unread(
                status,
                "Events come over a WebSocket".to_owned(),
            ));
        }
    };
    Ok(upgrade.on_upgrade(|mut socket| async move {
        let lease = timeout(INTRODUCTION, introduced(&mut socket, admit)).await;
        if let Ok(Some(lease)) = lease {
            lease.hold(stay(socket)).await;
        }
    }))
}

/// Says who we are, and hears who it is. `None` when there is nobody to let in.
async fn introduced(
    socket: &mut WebSocket,
    admit: impl Fn(&str) -> Option<Lease> + Send,
) -> Option<Lease> {
    let sid = uuid::Uuid::now_v7().simple().to_string();
    let open = json!({
        "sid": sid,
        "upgrades": [],
        "pingInterval": BEAT.as_millis() as u64,
        "pingTimeout": PATIENCE.as_millis() as u64,
        "maxPayload": LARGEST,
    });
    socket.send(Message::text(format!("0{open}"))).await.ok()?;
    loop {
        let Message::Text(said) = socket.recv().await?.ok()? else {
            continue;
        };
        let Some(said) = said.strip_prefix("40") else {
            continue;
        };
        let shown = serde_json::from_str::<Introduction>(said).ok();
        let lease = shown.and_then(|shown| admit(&shown.token));
        let answer = match lease {
            Some(_) => format!("40{}", json!({"sid": sid})),
            None => format!("44{}", json!({"message": "Unauthorized"})),
        };
        socket.send(Message::text(answer)).await.ok()?;
        return lease;
    }
}

async fn stay(mut socket: WebSocket) {
    let mut beat = interval_at(Instant::now() + BEAT, BEAT);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            _ = beat.tick() => {
                let silent = heard.elapsed() > BEAT + PATIENCE;
                if silent || socket.send(Message::text("2")).await.is_err() {
                    return;
                }
            }
            said = socket.recv() => match said {
                Some(Ok(Message::Text(said))) if matches!(said.as_str(), "1" | "41") => return,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => heard = Instant::now(),
            },
        }
    }
}
