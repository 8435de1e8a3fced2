//! What is left of a request that was answered before it was read.
//!
//! A client that is still sending takes a connection closed under it for a failure and may never see its
//! answer, and so may the next request on that connection. So a body that is dropped before its end is read
//! on for nothing, while the answer is on its way: within limits, since others wait for the connection.
//!
//! Handlers need not know: they drop what they do not want. Left alone are requests of HTTP/2, where one is
//! ended without the others, and of clients that still wait to be told to go on, which have sent nothing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{Request, Version, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Handle;

/// Most bytes that are read for nothing.
const MOST: usize = 256 << 20;

/// Longest time between two pieces.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest time in all.
const LONGEST: Duration = Duration::from_secs(10);

/// A request as handlers take it.
pub fn taken(request: Request<Incoming>) -> Request<Body> {
    let alone =
        request.version() == Version::HTTP_2 || http_body::Body::is_end_stream(request.body());
    let waits = request.headers().contains_key(header::EXPECT);
    request.map(|body| {
        if alone {
            Body::new(body)
        } else {
            Body::new(ReadOn::new(body, waits))
        }
    })
}

/// A body that is read to its end even when it is dropped.
struct ReadOn<B: Rest> {
    /// Nothing from its end on.
    body: Option<B>,
    /// Whether its client waits to be told to send it, which the first look at it does.
    waits: bool,
}

impl<B: Rest> ReadOn<B> {
    fn new(body: B, waits: bool) -> Self {
        Self {
            body: Some(body),
            waits,
        }
    }
}

/// What can be read on by a task of its own.
trait Rest: http_body::Body<Data = Bytes> + Send + Unpin + 'static {}

impl<B: http_body::Body<Data = Bytes> + Send + Unpin + 'static> Rest for B {}

impl<B: Rest> http_body::Body for ReadOn<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.waits = false;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let over = || SizeHint::with_exact(0);
        self.body.as_ref().map_or_else(over, B::size_hint)
    }
}

impl<B: Rest> Drop for ReadOn<B> {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !self.waits
            && !body.is_end_stream()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(tokio::time::timeout(LONGEST, read_on(body)));
        }
    }
}

async fn read_on(mut body: impl Rest) {
    let mut read = 0;
    while read < MOST
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(PATIENCE, body.frame()).await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt as _;
    use http_body_util::StreamBody;

    use super::*;

    /// A body of so many pieces of a MiB, and how many of them were taken.
    fn pieces(count: usize) -> (impl Rest, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let stream = futures_util::stream::iter(0..count).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![0; 1 << 20])))
        });
        (StreamBody::new(stream), taken)
    }

    /// What a dropped body's task does, until nothing is left to do.
    async fn settle() {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_is_dropped_is_read_on() {
        let (body, taken) = pieces(8);
        let mut body = ReadOn::new(body, true);
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        drop(body);
        settle().await;
        assert_eq!(taken.load(Ordering::Relaxed), 8);
    }

    #[tokio::test]
    async fn not_for_ever() {
        let (body, taken) = pieces(usize::MAX);
        drop(ReadOn::new(body, false));
        settle().await;
        assert_eq!(taken.load(Ordering::Relaxed), MOST >> 20);
    }

    #[tokio::test]
    async fn nor_what_was_not_asked_for() {
        let (body, taken) = pieces(8);
        drop(ReadOn::new(body, true));
        settle().await;
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nor_for_one_who_says_nothing() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        let silent = futures_util::stream::poll_fn(move |cx| {
            let heard = ready!(receiver.poll_recv(cx));
            let frame = |()| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::new()));
            Poll::Ready(heard.map(frame))
        });
        drop(ReadOn::new(StreamBody::new(silent), false));
        tokio::time::sleep(PATIENCE + Duration::from_millis(100)).await;
        assert!(sender.is_closed());
    }
}
