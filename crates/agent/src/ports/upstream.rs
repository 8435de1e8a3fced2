//! Connections to servers inside, kept for the next request.
//!
//! ```text
//! fresh ─► in use ── answer read to its end ──► idle ── next request ──► in use
//!             └── answer dropped, error ──► closed ◄── 30 s / closed by the server ──┘
//! ```
//!
//! An idle connection may have been closed by the server a moment ago. A request that fails on one
//! is sent again on a fresh connection when it never left, or when it has no body, may be repeated
//! by its method, and no answer had begun. A failure on a fresh connection is final.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sandshell_exec::Executor;
use sandshell_sys::task;
use sandshell_types::ErrorCode;
use tokio::time::Instant;

use super::kept::{Kept, KeptBody, is_ready};
use crate::extract::fault_of_body;
use crate::problem::ApiError;

/// How long a connection waits for its next request.
const IDLE: Duration = Duration::from_secs(30);

/// Most idle connections of all ports together.
const MOST_IDLE: usize = 128;

type Sender = SendRequest<Body>;

/// All connections; cheap to clone.
#[derive(Clone)]
pub(super) struct Upstreams(Arc<Shared>);

struct Shared {
    executor: Executor,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    by_port: HashMap<u16, Vec<(Instant, Sender)>>,
    count: usize,
    swept: bool,
}

impl Upstreams {
    pub(super) fn new(executor: Executor) -> Self {
        Self(Arc::new(Shared {
            executor,
            idle: Mutex::default(),
        }))
    }

    /// Sends a request to the server on this port.
    pub(super) async fn send(
        &self,
        port: u16,
        mut request: Request<Body>,
    ) -> Result<Response<UpstreamBody>, ApiError> {
        while let Some(mut sender) = self.take(port) {
            if !is_ready(&mut sender).await {
                continue;
            }
            let spare = repeatable(&request).then(|| head_of(&request));
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.answer(port, response, sender)),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => match spare.filter(|_| is_stale(failure.error())) {
                        Some(again) => {
                            request = again;
                            break;
                        }
                        None => return Err(broken(port, failure.error())),
                    },
                },
            }
        }
        let mut sender = self.open(port).await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| broken(port, &error))?;
        Ok(self.answer(port, response, sender))
    }

    async fn open(&self, port: u16) -> Result<Sender, ApiError> {
        let stream = self.0.executor.connect_port(port).await?;
        let (sender, connection) = http1::Builder::new()
            .max_headers(256)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(port, &error))?;
        // Ends by itself when the server closes or nobody holds the sender any more.
        task::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, port, "a proxied connection ended");
            }
        });
        Ok(sender)
    }

    fn answer(
        &self,
        port: u16,
        response: Response<Incoming>,
        sender: Sender,
    ) -> Response<UpstreamBody> {
        let lease = Lease {
            upstreams: self.clone(),
            port,
            sender,
        };
        response.map(|body| KeptBody::new(body, Some(lease)))
    }

    fn take(&self, port: u16) -> Option<Sender> {
        let mut idle = self.lock();
        while let Some((since, sender)) = idle.by_port.get_mut(&port)?.pop() {
            idle.count -= 1;
            if since.elapsed() < IDLE && !sender.is_closed() {
                return Some(sender);
            }
        }
        idle.by_port.remove(&port);
        None
    }

    fn keep(&self, port: u16, sender: Sender) {
        let mut idle = self.lock();
        if sender.is_closed() || idle.count >= MOST_IDLE {
            return;
        }
        idle.count += 1;
        let since = Instant::now();
        idle.by_port.entry(port).or_default().push((since, sender));
        if !idle.swept {
            idle.swept = true;
            task::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what has been idle for too long, for as long as anything is idle.
async fn sweep(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut idle = shared.lock();
        for kept in idle.by_port.values_mut() {
            kept.retain(|(since, sender)| since.elapsed() < IDLE && !sender.is_closed());
        }
        idle.by_port.retain(|_, kept| !kept.is_empty());
        idle.count = idle.by_port.values().map(Vec::len).sum();
        if idle.count == 0 {
            idle.swept = false;
            return;
        }
    }
}

/// Whether the server may get the request twice.
fn repeatable(request: &Request<Body>) -> bool {
    let safe = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    safe && request.body().is_end_stream() && !request.headers().contains_key(http::header::UPGRADE)
}

fn head_of(request: &Request<Body>) -> Request<Body> {
    let mut head = Request::new(Body::empty());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head
}

/// Whether the connection was gone before an answer had begun.
fn is_stale(error: &hyper::Error) -> bool {
    let reset = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|io| {
            use std::io::ErrorKind as Kind;
            matches!(io.kind(), Kind::ConnectionReset | Kind::BrokenPipe)
        });
    reset || error.is_incomplete_message() || error.is_canceled() || error.is_closed()
}

fn broken(port: u16, error: &hyper::Error) -> ApiError {
    fault_of_body(error).unwrap_or_else(|| {
        ApiError::new(
            ErrorCode::PortUnreachable,
            format!("the server on port {port} broke off: {error}"),
        )
        .hint("Look at the output of the process that listens there.")
    })
}

/// The body of an answer.
pub(super) type UpstreamBody = KeptBody<Lease>;

/// A connection in use.
pub(super) struct Lease {
    upstreams: Upstreams,
    port: u16,
    sender: Sender,
}

impl Kept for Lease {
    fn give_back(self) {
        self.upstreams.keep(self.port, self.sender);
    }
}
