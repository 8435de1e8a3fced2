//! Connections of HTTP/2 that many requests share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandshell_agent::parts::ApiError;

use super::{broken, connect, unreachable};
use crate::backend::Endpoint;

/// Requests on one connection; an agent takes 256.
const MOST: usize = 200;

#[derive(Debug, Default)]
pub(super) struct SharedConnections(Mutex<Vec<Connection>>);

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Body>,
    requests: Arc<AtomicUsize>,
}

/// A request's place on a connection, until this is dropped.
pub(super) struct Share(Arc<AtomicUsize>);

impl Share {
    /// A place on a connection that has one.
    fn on(connection: &Connection) -> Option<Self> {
        let more = |count| (count < MOST).then_some(count + 1);
        connection
            .requests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| Self(Arc::clone(&connection.requests)))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedConnections {
    /// Sends a request on a connection with room, or on a fresh one.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, Share), ApiError> {
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        let host = request.headers_mut().remove(header::HOST);
        let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = authority.or(Some(Authority::from_static("localhost")));
        *request.uri_mut() = Uri::from_parts(uri)
            .map_err(|error| ApiError::internal("a path cannot be passed on", &error))?;
        // A field of HTTP/1.1 that came with `te: trailers`.
        request.headers_mut().remove(header::CONNECTION);
        loop {
            let (mut sender, share) = match self.find() {
                Some(found) => found,
                None => self.open(endpoint).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, share)),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => {
                        self.remove(&share);
                        request = unsent;
                    }
                    None => return Err(broken(failure.error())),
                },
            }
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Closes those that nobody uses.
    pub(super) fn sweep(&self) {
        self.lock().retain(|one| {
            one.requests.load(Ordering::Relaxed) > 0 && !one.sender.is_closed()
        });
    }

    /// Takes no more requests on the connection of a share.
    fn remove(&self, share: &Share) {
        self.lock()
            .retain(|one| !Arc::ptr_eq(&one.requests, &share.0));
    }

    fn find(&self) -> Option<(SendRequest<Body>, Share)> {
        let connections = self.lock();
        let mut open = connections.iter().filter(|one| !one.sender.is_closed());
        open.find_map(|one| Some((one.sender.clone(), Share::on(one)?)))
    }

    async fn open(&self, endpoint: &Endpoint) -> Result<(SendRequest<Body>, Share), ApiError> {
        let stream = connect(endpoint)
            .await
            .map_err(|error| unreachable(&error))?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .adaptive_window(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a shared connection to an agent ended");
            }
        });
        let requests = Arc::new(AtomicUsize::new(1));
        let share = Share(Arc::clone(&requests));
        self.lock().push(Connection {
            sender: sender.clone(),
            requests,
        });
        Ok((sender, share))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
