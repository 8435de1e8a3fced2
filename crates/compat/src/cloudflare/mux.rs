//! `/ws`: many requests over one socket, each answered by the route it names.
//!
//! ```text
//! {request,id} ─► task ─► route ─► one answer: {response,id,done}
//!                                  events:     {stream,id}* {response,id,done}
//! {cancel,id}  ─► ends the task, and with it what it asked for
//! ```

use std::collections::HashMap;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, header};
use http_body_util::BodyExt as _;
use sandshell_client::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tower::Service as _;

use super::body::LARGEST;
use super::error::{Code, Fault};
use crate::lease::Lease;
use crate::sse::data_of;

/// Requests of one socket at a time.
const AT_ONCE: usize = 256;

/// Messages under way to a client that does not read.
const WAITING: usize = 64;

/// Time between two pings.
const BEAT: Duration = Duration::from_secs(30);

/// A client that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// The routes that requests over a socket are answered by.
#[derive(Debug, Clone)]
pub(super) struct Routes(pub(super) Router);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Asked {
    Request {
        id: String,
        method: String,
        path: String,
        #[serde(default)]
        body: Option<Value>,
    },
    Cancel {
        id: String,
    },
}

pub(super) async fn connect(
    Extension(sandbox): Extension<Client>,
    Extension(routes): Extension<Routes>,
    Extension(lease): Extension<Lease>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade
        .max_message_size(LARGEST)
        .max_frame_size(LARGEST)
        .on_upgrade(|socket| serve(socket, sandbox, routes, lease))
}

async fn serve(mut socket: WebSocket, sandbox: Client, routes: Routes, lease: Lease) {
    let mut beat = tokio::time::interval_at(Instant::now() + BEAT, BEAT);
    let mut heard = Instant::now();
    let (answers, mut waiting) = mpsc::channel::<Value>(WAITING);
    let mut tasks = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        tokio::select! {
            // Never empty: we hold a sender ourselves.
            Some(answer) = waiting.recv() => {
                if answer["type"] != "stream" && let Some(id) = answer["id"].as_str() {
                    running.remove(id);
                }
                if socket.send(Message::text(answer.to_string())).await.is_err() {
                    break;
                }
            }
            Some(ended) = tasks.join_next() => {
                // Whoever waits for its answer learns of it by the end of the socket.
                if ended.is_err_and(|error| error.is_panic()) {
                    break;
                }
            }
            () = lease.over() => break,
            _ = beat.tick() => {
                let gone = heard.elapsed() > SILENCE;
                if gone || socket.send(Message::Ping(Bytes::new())).await.is_err() {
                    break;
                }
            }
            message = socket.next() => {
                heard = Instant::now();
                let text = match message {
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(Message::Binary(_))) => {
                        let refused = failure(None, &Fault::new(
                            Code::ValidationFailed, "Messages are text",
                        ));
                        if socket.send(Message::text(refused.to_string())).await.is_err() {
                            break;
                        }
                        continue;
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                };
                let refused = match serde_json::from_str(&text) {
                    Ok(Asked::Cancel { id }) => {
                        if let Some(task) = running.remove(&id) {
                            task.abort();
                        }
                        None
                    }
                    Ok(Asked::Request { id, .. }) if running.contains_key(&id) => {
                        let message = format!("A request {id:?} is under way");
                        Some(failure(Some(&id), &Fault::new(Code::ValidationFailed, message)))
                    }
                    Ok(Asked::Request { id, .. }) if running.len() >= AT_ONCE => {
                        let message = format!("{AT_ONCE} requests are under way on this socket");
                        Some(failure(Some(&id), &Fault::new(Code::ContainerUnavailable, message)))
                    }
                    Ok(Asked::Request { id, method, path, body }) => {
                        let answering = answer(
                            routes.0.clone(), sandbox.clone(), id.clone(),
                            method, path, body, answers.clone(),
                        );
                        running.insert(id, tasks.spawn(answering));
                        None
                    }
                    Err(error) => Some(failure(None, &Fault::new(
                        Code::ValidationFailed, format!("Not a message: {error}"),
                    ))),
                };
                if let Some(refused) = refused
                    && socket.send(Message::text(refused.to_string())).await.is_err()
                {
                    break;
                }
            }
        }
    }
}

fn failure(id: Option<&str>, fault: &Fault) -> Value {
    let body = fault.body();
    json!({
        "type": "error",
        "id": id,
        "code": body["code"],
        "message": body["message"],
        "status": body["httpStatus"],
        "context": body["context"],
    })
}

/// Answers one request. Whoever reads the answers may be gone; then there is nobody to tell.
async fn answer(
    mut routes: Router,
    sandbox: Client,
    id: String,
    method: String,
    path: String,
    body: Option<Value>,
    answers: mpsc::Sender<Value>,
) {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder()
        .method(method.as_str())
        .uri(path.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .extension(sandbox)
        .body(body);
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            let fault = Fault::new(Code::ValidationFailed, format!("Not a request: {error}"));
            let _ = answers.send(failure(Some(&id), &fault)).await;
            return;
        }
    };
    let Ok(response) = routes.call(request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let live = kind.is_some_and(|kind| kind == "text/event-stream");
    let mut body = response.into_body();
    if live {
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.data_ref().and_then(|frame| data_of(frame));
            if let Some(data) = data {
                let event = json!({"type": "stream", "id": id, "data": data});
                if answers.send(event).await.is_err() {
                    return;
                }
            }
        }
        let end = json!({"type": "response", "id": id, "status": status, "done": true});
        let _ = answers.send(end).await;
        return;
    }
    let whole = body.collect().await;
    let bytes = whole.map(http_body_util::Collected::to_bytes);
    let body: Value = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or(Value::Null);
    let end = json!({"type": "response", "id": id, "status": status, "body": body, "done": true});
    let _ = answers.send(end).await;
}
