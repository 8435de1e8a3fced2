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
use axum::extract::ws::{self, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, header};
use http_body_util::BodyExt as _;
use sandshell_client::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tower::Service as _;

use super::body::{LARGEST, QUICK};
use super::error::{Code, Fault};
use crate::lease::Lease;
use crate::sse::data_of;

/// Requests of one socket at a time, and the bytes of them all.
const AT_ONCE: usize = 64;
const ROOM: usize = 128 * 1024 * 1024;

/// Messages under way to a client that does not read.
const WAITING: usize = 8;

/// Time between two pings.
const BEAT: Duration = Duration::from_secs(30);

/// A client that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// The routes that requests over a socket are answered by.
#[derive(Debug, Clone)]
pub(super) struct Routes(pub(super) Router);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Request,
    Cancel,
}

/// A message as it is written. Its body is left as it is: the route reads it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    id: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    path: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// A message that was understood.
struct Asked {
    kind: Kind,
    id: String,
    method: String,
    path: String,
    body: Bytes,
}

/// A request that is being answered. An id can be used again: what comes late for an earlier one is told
/// apart by the number.
struct Running {
    number: u64,
    bytes: usize,
    task: AbortHandle,
}

/// A message to the client, for a request.
struct Answer {
    id: String,
    number: u64,
    last: bool,
    text: String,
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
    let (answers, mut waiting) = mpsc::channel::<Answer>(WAITING);
    let mut tasks = JoinSet::new();
    let mut running: HashMap<String, Running> = HashMap::new();
    let mut number = 0;
    loop {
        tokio::select! {
            // Never empty: we hold a sender ourselves.
            Some(answer) = waiting.recv() => {
                let current = running.get(&answer.id).is_some_and(|one| one.number == answer.number);
                if current && answer.last {
                    running.remove(&answer.id);
                }
                if current && socket.send(ws::Message::text(answer.text)).await.is_err() {
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
                if gone || socket.send(ws::Message::Ping(Bytes::new())).await.is_err() {
                    break;
                }
            }
            message = socket.next() => {
                heard = Instant::now();
                let asked = match message {
                    Some(Ok(ws::Message::Text(text))) => understand(text.into()).await,
                    Some(Ok(ws::Message::Binary(_))) => {
                        Err(Fault::new(Code::ValidationFailed, "Messages are text"))
                    }
                    Some(Ok(ws::Message::Ping(_) | ws::Message::Pong(_))) => continue,
                    Some(Ok(ws::Message::Close(_)) | Err(_)) | None => break,
                };
                let refused = match asked {
                    Err(fault) => Some(failure(None, &fault)),
                    Ok(Asked { kind: Kind::Cancel, id, .. }) => {
                        if let Some(one) = running.remove(&id) {
                            one.task.abort();
                        }
                        None
                    }
                    Ok(asked) => {
                        let refused = admit(&running, &asked).err();
                        let refused = refused.map(|fault| failure(Some(&asked.id), &fault));
                        if refused.is_none() {
                            number += 1;
                            let (id, bytes) = (asked.id.clone(), asked.body.len());
                            let (routes, sandbox) = (routes.0.clone(), sandbox.clone());
                            let answering = answer(routes, sandbox, asked, number, answers.clone());
                            let task = tasks.spawn(answering);
                            running.insert(id, Running { number, bytes, task });
                        }
                        refused
                    }
                };
                if let Some(refused) = refused
                    && socket.send(ws::Message::text(refused.to_string())).await.is_err()
                {
                    break;
                }
            }
        }
    }
}

/// Reads a message; a large one where it holds nobody up.
async fn understand(text: Bytes) -> Result<Asked, Fault> {
    if text.len() <= QUICK {
        return read(&text);
    }
    let read = tokio::task::spawn_blocking(move || read(&text)).await;
    read.unwrap_or_else(|error| Err(Fault::new(Code::InternalError, error.to_string())))
}

/// Id, method, path and body of a message.
pub(crate) fn message(text: &Bytes) -> Option<(String, String, String, Bytes)> {
    let asked = read(text).ok()?;
    Some((asked.id, asked.method, asked.path, asked.body))
}

fn read(text: &Bytes) -> Result<Asked, Fault> {
    let message: Message<'_> = serde_json::from_slice(text)
        .map_err(|error| Fault::new(Code::ValidationFailed, format!("Not a message: {error}")))?;
    let body = message
        .body
        .map(|body| text.slice_ref(body.get().as_bytes()));
    Ok(Asked {
        kind: message.kind,
        id: message.id,
        method: message.method,
        path: message.path,
        body: body.unwrap_or_default(),
    })
}

/// Whether there is room for a request beside those that run.
fn admit(running: &HashMap<String, Running>, asked: &Asked) -> Result<(), Fault> {
    if running.contains_key(&asked.id) {
        let message = format!("A request {:?} is under way", asked.id);
        return Err(Fault::new(Code::ValidationFailed, message));
    }
    let bytes: usize = running.values().map(|one| one.bytes).sum();
    if running.len() >= AT_ONCE || bytes + asked.body.len() > ROOM {
        let message =
            format!("{AT_ONCE} requests or {ROOM} bytes of them are under way on this socket");
        return Err(Fault::new(Code::ContainerUnavailable, message));
    }
    Ok(())
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
    asked: Asked,
    number: u64,
    answers: mpsc::Sender<Answer>,
) {
    let id = asked.id;
    let said = |last: bool, text: String| Answer {
        id: id.clone(),
        number,
        last,
        text,
    };
    let request = Request::builder()
        .method(asked.method.as_str())
        .uri(asked.path.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .extension(sandbox)
        .body(Body::from(asked.body));
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            let fault = Fault::new(Code::ValidationFailed, format!("Not a request: {error}"));
            let refused = failure(Some(&id), &fault).to_string();
            let _ = answers.send(said(true, refused)).await;
            return;
        }
    };
    let Ok(response) = routes.call(request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).cloned();
    let is = |wanted: &str| kind.as_ref().is_some_and(|kind| kind == wanted);
    let mut body = response.into_body();
    if is("text/event-stream") {
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.data_ref().and_then(|frame| data_of(frame));
            if let Some(data) = data {
                let event = json!({"type": "stream", "id": id, "data": data}).to_string();
                if answers.send(said(false, event)).await.is_err() {
                    return;
                }
            }
        }
        let end = json!({"type": "response", "id": id, "status": status, "done": true});
        let _ = answers.send(said(true, end.to_string())).await;
        return;
    }
    // Its place first: answers that wait for a slow reader are not many.
    let Ok(place) = answers.reserve().await else {
        return;
    };
    let whole = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let whole = whole.unwrap_or_default();
    // It is JSON of ours, and goes on as it is.
    let body = std::str::from_utf8(&whole).unwrap_or_default();
    let body = if is("application/json") { body } else { "null" };
    let quoted = Value::from(id.as_str());
    let end = format!(
        r#"{{"type":"response","id":{quoted},"status":{status},"body":{body},"done":true}}"#
    );
    place.send(said(true, end));
}
