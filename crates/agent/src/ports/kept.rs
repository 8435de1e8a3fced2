//! Connections that are kept for the next request, and the bodies of answers on them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

/// What is held while an answer is read.
pub trait Kept {
    /// The answer was read to its end, so that the connection can take the next request.
    fn give_back(self);
}

/// A body that gives back what it holds at its end, and drops it when it ends before.
#[derive(Debug)]
pub struct KeptBody<K> {
    body: Incoming,
    kept: Option<K>,
}

impl<K: Kept> KeptBody<K> {
    /// A body that holds this; nothing, where its end means nothing.
    pub fn new(body: Incoming, kept: Option<K>) -> Self {
        let mut body = Self { body, kept };
        body.release_if_over();
        body
    }

    fn release_if_over(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.give_back();
        }
    }
}

impl<K: Kept + Unpin> Body for KeptBody<K> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => self.release_if_over(),
            Some(Err(_)) => self.kept = None,
            None => self.release(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a kept connection takes a request now. Its task may need one turn to notice that the last
/// answer is over; one that needs more still sends a body that nobody waits for.
pub async fn is_ready<B>(sender: &mut SendRequest<B>) -> bool {
    tokio::select! {
        biased;
        ready = sender.ready() => ready.is_ok(),
        () = tokio::task::yield_now() => sender.is_ready(),
    }
}
