//! The serve loop: accepts connections and gives each a task, until told to stop.
//!
//! Owns limits and timeouts of connections and the drain at the end. Does not own what is answered.
//!
//! Drain: long streams end by themselves on the shutdown token, idle connections are closed, and
//! whoever is in the middle of an answer gets [`DRAIN`] to finish.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use sandshell_sys::task;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ebb;
use crate::listen::{Connection, Listener};
use crate::metrics::{Metrics, Open};
use crate::ports::Peer;

/// Time for a connection's first request: whoever connects has something to ask.
const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// Time for the head of a further request, which is also how long a connection may idle. Longer than
/// the idle time of common client pools, so that they, not we, close idle connections.
const HEADER_READ: Duration = Duration::from_mins(2);

/// Time for answers in progress when the agent ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Pause after a failed accept: usually descriptors are used up and need time to come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who answers the requests of every connection.
pub trait Answering:
    Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static
{
}

impl<S> Answering for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static
{
}

/// Serves connections until the token is cancelled, then drains them.
pub async fn serve<S>(
    listener: Listener,
    edge: S,
    metrics: Arc<Metrics>,
    max_connections: usize,
    shutdown: CancellationToken,
) where
    S: Answering,
    S::Future: Send,
{
    let builder = Arc::new(protocol());
    let slots = Arc::new(Semaphore::new(max_connections));
    let connections = TaskTracker::new();
    let ended = Arc::new(Notify::new());
    let mut giving_back = pin!(ebb::give_back(&ended));
    loop {
        let next = async {
            // Taken before the accept: connections beyond the limit wait in the kernel's queue.
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            never = giving_back.as_mut() => match never {},
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok(connection) => {
                let (builder, edge, shutdown) =
                    (Arc::clone(&builder), edge.clone(), shutdown.clone());
                let ended = Arc::clone(&ended);
                let slot = Slot(Arc::new((slot, metrics.connection())));
                connections.spawn(async move {
                    drive(connection, &builder, edge, slot, &shutdown).await;
                    ended.notify_one();
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            left = connections.len(),
            "connections were closed before their answer"
        );
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        // A peer that vanished without a word must not hold its slot for ever.
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .adaptive_window(true);
    builder
}

/// Serves one connection.
async fn drive<S>(
    connection: Connection,
    builder: &auto::Builder<TokioExecutor>,
    edge: S,
    slot: Slot,
    shutdown: &CancellationToken,
) where
    S: Answering,
    S::Future: Send,
{
    let asked = Arc::new(AtomicBool::new(false));
    let service = Noting {
        edge,
        asked: Arc::clone(&asked),
        peer: connection.peer.map(Peer),
        slot,
    };
    let io = TokioIo::new(connection.stream);
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    let silent = async {
        tokio::time::sleep(FIRST_REQUEST).await;
        if asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        result = connection.as_mut() => {
            if let Err(error) = result {
                // Clients go away; that is their right.
                tracing::debug!(%error, "connection ended");
            }
        }
        () = silent => {}
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(DRAIN, connection).await;
        }
    }
}

/// A connection's place among those served at a time. Every request carries it as an extension, so
/// that a connection that becomes a WebSocket keeps its place for as long as that lives.
#[derive(Clone)]
pub struct Slot(#[expect(dead_code, reason = "held")] Arc<(Permit, Open)>);

type Permit = Result<OwnedSemaphorePermit, AcquireError>;

/// Notes that a connection has asked for something, and tells where it comes from.
struct Noting<S> {
    edge: S,
    peer: Option<Peer>,
    asked: Arc<AtomicBool>,
    slot: Slot,
}

impl<S: Answering> Service<Request<Incoming>> for Noting<S> {
    type Response = Response;
    type Error = Infallible;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        request.extensions_mut().insert(self.slot.clone());
        self.asked.store(true, Ordering::Relaxed);
        self.edge.call(request)
    }
}

/// Runs work to its end even if the one who waits for it goes away: what is begun, such as a kill
/// with its grace time, must not be left half done.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, crate::problem::ApiError> {
    task::spawn(work)
        .await
        .map_err(|error| crate::problem::ApiError::internal("a task of the agent failed", &error))
}
