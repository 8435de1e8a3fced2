//! The way to a sandbox's agent: `/v1/sandboxes/{sandbox}/…` becomes `/v1/…` on its socket.
//!
//! ```text
//! request ─► let in (woken if asleep) ─► head for the inside ─► kept or fresh connection ─► answer
//!                                                                      │ 101
//!                                                                      └─► tunnel of raw bytes
//! ```
//!
//! Owns heads, connections and tunnels on that way. Does not own who may go it (`edge`).
//!
//! Invariants: bodies pass frame by frame, trailers included, never gathered; a client that goes away
//! takes its request to the agent with it; neither a token of the hub nor a ticket reaches the agent;
//! the sandbox counts as used until the answer is over.

mod head;
mod open;
mod tunnel;
mod upstream;

use axum::body::Body;
use axum::response::Response;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, StatusCode, Uri, Version};
use sandshell_agent::parts::{ApiError, Slot, upgrade};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::sandbox::Sandbox;
pub(crate) use head::{Admission, Outside};
pub(crate) use open::open_until;
pub(crate) use upstream::Upstream;

/// Marks an answer that comes from an agent: it is not ours to change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarded;

/// Connections that became tunnels, and when they are to end.
#[derive(Debug, Clone)]
pub(crate) struct Tunnels {
    pub(crate) open: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

/// Passes a request on to a sandbox's agent. What becomes a tunnel ends when `until` is told, the end of
/// the right to it.
pub(crate) async fn pass(
    sandbox: &Sandbox,
    target: &str,
    outside: &Outside,
    mut request: Request<Body>,
    request_id: &HeaderValue,
    tunnels: &Tunnels,
    until: Option<CancellationToken>,
) -> Result<Response, ApiError> {
    let guard = sandbox.enter().await?;
    let protocol = (request.version() == Version::HTTP_11)
        .then(|| upgrade(request.headers()))
        .flatten();
    let client = protocol.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    let slot = parts.extensions.remove::<Slot>();
    head::to_agent(&mut parts, outside, protocol.as_ref(), request_id);
    let mut inside = Request::new(body);
    *inside.method_mut() = parts.method;
    *inside.headers_mut() = parts.headers;
    *inside.uri_mut() = PathAndQuery::try_from(target)
        .map(Uri::from)
        .map_err(|error| ApiError::internal("a path cannot be passed on", &error))?;
    let sent = sandbox.upstream().send(inside, guard).await;
    let (mut answer, guard) = sent.map_err(|error| match sandbox.end() {
        // It was ended with the request in it.
        Some(gone) => gone.into(),
        None => error,
    })?;
    let upgraded = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    if let (true, Some(client)) = (upgraded, client) {
        let agent = hyper::upgrade::on(&mut answer);
        let websocket =
            protocol.is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"));
        tunnel::Tunnel {
            client,
            agent,
            websocket,
            until,
        }
        .start(tunnels, (guard, slot));
    }
    let (mut head, body) = answer.into_parts();
    head::to_client(&mut head.headers, upgraded);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    head.extensions.insert(Forwarded);
    Ok(Response::from_parts(head, Body::new(body)))
}
