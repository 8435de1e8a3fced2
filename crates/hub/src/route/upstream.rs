//! Connections to one sandbox's agent, kept for the next request.
//!
//! ```text
//! fresh ─► in use ── answer read to its end ──► idle ── next request ──► in use
//!             └── answer dropped, error ──► closed ◄── 60 s / closed by the agent ──┘
//! ```
//!
//! A connection of HTTP/1.1 for each request in flight: the shortest way, and no stream waits for or
//! fails with another, however slowly its client reads. Their number is bounded.
//!
//! A request that finds its kept connection closed before it was sent goes on to the next one. Once it
//! has been sent it is never sent again: the agent may have run it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sandshell_agent::parts::{ApiError, Kept, KeptBody, fault_of_body, is_ready};
use sandshell_sys::quiet::QuietStream;
use sandshell_sys::task;
use sandshell_types::ErrorCode;
use tokio::net::UnixStream;
use tokio::time::Instant;

use crate::backend::{Endpoint, is_lack};
use crate::sandbox::activity::InUse;

/// How long a connection waits for its next request: less than the agent waits.
const IDLE: Duration = Duration::from_mins(1);

/// Most idle connections of one sandbox.
const MOST_IDLE: usize = 64;

/// Most requests in flight for one sandbox, tunnels not counted. Fewer than an agent takes.
const MOST_IN_FLIGHT: usize = 10_000;

type Sender = SendRequest<Body>;

/// The connections of one sandbox; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Upstream(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    /// The last one used is taken first, so that a burst's extra connections age at the front.
    idle: Mutex<Vec<(Instant, Sender)>>,
    in_flight: AtomicUsize,
}

async fn connect(endpoint: &Endpoint) -> std::io::Result<QuietStream> {
    match endpoint {
        Endpoint::Unix(path) => QuietStream::new(UnixStream::connect(path).await?),
    }
}

impl Upstream {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self(Arc::new(Inner {
            endpoint,
            idle: Mutex::default(),
            in_flight: AtomicUsize::new(0),
        }))
    }

    /// Sends a request. The guard comes back with an answer that changes the protocol, and otherwise
    /// lives as long as the answer's body.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        guard: InUse,
    ) -> Result<(Response<AgentBody>, Option<InUse>), ApiError> {
        let place = InFlight::new(self)?;
        while let Some(mut sender) = self.take() {
            if !is_ready(&mut sender).await {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(answer(response, sender, place, guard)),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(failure.error())),
                },
            }
        }
        let mut sender = self.open().await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| broken(&error))?;
        Ok(answer(response, sender, place, guard))
    }

    /// Closes what is idle.
    pub(crate) fn clear(&self) {
        self.idle().clear();
    }

    /// Closes what has been idle for too long.
    pub(crate) fn sweep(&self) {
        self.idle()
            .retain(|(since, sender)| since.elapsed() < IDLE && !sender.is_closed());
    }

    async fn open(&self) -> Result<Sender, ApiError> {
        let stream = connect(&self.0.endpoint).await.map_err(|error| {
            if is_lack(&error) {
                let detail = format!("the hub cannot make a connection now: {error}");
                ApiError::new(ErrorCode::Unavailable, detail)
            } else {
                unreachable(&error)
            }
        })?;
        let (sender, connection) = http1::Builder::new()
            .max_headers(256)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        // Ends by itself when the agent closes or nobody holds the sender any more.
        task::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to an agent ended");
            }
        });
        Ok(sender)
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle();
        while let Some((since, sender)) = idle.pop() {
            if since.elapsed() < IDLE && !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        if !sender.is_closed() && idle.len() < MOST_IDLE {
            idle.push((Instant::now(), sender));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Instant, Sender)>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in flight, counted until this is dropped.
struct InFlight(Upstream);

impl InFlight {
    fn new(upstream: &Upstream) -> Result<Self, ApiError> {
        let before = upstream.0.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = Self(upstream.clone());
        if before >= MOST_IN_FLIGHT {
            let detail = format!("{MOST_IN_FLIGHT} requests for this sandbox are in flight");
            return Err(ApiError::new(ErrorCode::LimitReached, detail)
                .hint("Close streams that nobody reads."));
        }
        Ok(place)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(
    response: Response<Incoming>,
    sender: Sender,
    place: InFlight,
    guard: InUse,
) -> (Response<AgentBody>, Option<InUse>) {
    let (head, body) = response.into_parts();
    let (kept, guard) = if head.status == StatusCode::SWITCHING_PROTOCOLS {
        (None, Some(guard))
    } else {
        let lease = Lease {
            place,
            sender,
            _guard: guard,
        };
        (Some(lease), None)
    };
    (Response::from_parts(head, KeptBody::new(body, kept)), guard)
}

fn unreachable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(
        ErrorCode::SandboxUnreachable,
        format!("the sandbox's agent takes no connection: {error}"),
    )
    .hint("GET the sandbox itself: its state and reason tell more.")
}

fn broken(error: &hyper::Error) -> ApiError {
    fault_of_body(error).unwrap_or_else(|| {
        ApiError::new(
            ErrorCode::SandboxUnreachable,
            format!("the sandbox's agent broke off: {error}"),
        )
        .hint("It may have done what was asked; GET the sandbox itself for its state.")
    })
}

/// The body of an answer. The sandbox counts as used until its end.
pub(crate) type AgentBody = KeptBody<Lease>;

/// A connection in use.
pub(crate) struct Lease {
    place: InFlight,
    sender: Sender,
    /// Held for its drop.
    _guard: InUse,
}

impl Kept for Lease {
    fn give_back(self) {
        self.place.0.keep(self.sender);
    }
}
