//! The body of a reply as a stream of bytes.
//!
//! Owns the connection until the body has ended, then gives it back to the pool.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::ClientError;
use crate::client::Shared;
use crate::connection::Connection;

/// The bytes of a reply, as they arrive. Dropping it early closes the connection.
pub struct ByteStream {
    body: Incoming,
    /// `None` once the body has ended or failed.
    connection: Option<Connection>,
    shared: Arc<Shared>,
}

impl ByteStream {
    pub(crate) fn new(body: Incoming, connection: Connection, shared: Arc<Shared>) -> Self {
        Self {
            body,
            connection: Some(connection),
            shared,
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// CANCEL SAFETY: no bytes are lost when the future is dropped; the stream holds them.
    pub async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// Everything up to the end.
    pub async fn read_to_end(mut self) -> Result<Bytes, ClientError> {
        let Some(first) = self.next().await.transpose()? else {
            return Ok(Bytes::new());
        };
        // A small reply comes in one piece, which needs no copy.
        let Some(second) = self.next().await.transpose()? else {
            return Ok(first);
        };
        let mut all = BytesMut::with_capacity((first.len() + second.len()) * 2);
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(piece) = self.next().await.transpose()? {
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ClientError>>> {
        let mut driven = None;
        loop {
            let Some(connection) = &mut self.connection else {
                return Poll::Ready(None);
            };
            let mut own = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.body).poll_frame(&mut own) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.connection = None;
                    let context = "the connection failed within the reply";
                    return Poll::Ready(Some(Err(ClientError::protocol(context, error))));
                }
                Poll::Ready(None) => {
                    if let Some(mut connection) = self.connection.take()
                        && connection.is_usable()
                    {
                        self.shared.pool.put(connection);
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending if driven == Some(Poll::Pending) => return Poll::Pending,
                Poll::Pending if driven.is_some() => {
                    self.connection = None;
                    let context = "the connection ended within the reply".to_owned();
                    let error = ClientError::Protocol {
                        context,
                        source: None,
                    };
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Pending => driven = Some(connection.poll_drive(cx)),
            }
        }
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes, ClientError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_chunk(cx)
    }
}

impl std::fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteStream")
            .field("ended", &self.connection.is_none())
            .finish_non_exhaustive()
    }
}
