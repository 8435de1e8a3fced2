//! Answers that end with the right to them.
//!
//! A stream of events ends with an event that says so; any other answer breaks off, so that nobody takes
//! a part of it for the whole.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use sandshell_types::{ErrorCode, Problem};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Bytes of an answer that is not worth tearing off.
const SHORT: u64 = 64 * 1024;

/// An answer that is open until this is told, at the longest.
pub(crate) fn open_until(response: Response, ended: CancellationToken) -> Response {
    let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    // What is said already is said to its end, such as that the token was revoked by its own wish.
    let whole = response.body().size_hint().exact();
    if upgraded || whole.is_some_and(|bytes| bytes <= SHORT) {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    response.map(|body| {
        Body::new(Open {
            body,
            ended,
            told: None,
            tail: events.then_some(*b"\n\n"),
            over: false,
        })
    })
}

struct Open {
    body: Body,
    ended: CancellationToken,
    /// Made once there is something to wait for.
    told: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The last two bytes of a stream of events, which tell whether one is complete.
    tail: Option<[u8; 2]>,
    over: bool,
}

type Next = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

impl Open {
    fn note(&mut self, data: &[u8]) {
        if let Some(tail) = &mut self.tail {
            for byte in data.iter().skip(data.len().saturating_sub(2)) {
                *tail = [tail[1], *byte];
            }
        }
    }

    fn end(&mut self) -> Next {
        self.over = true;
        // What there is of the agent's goes with it, and so its connection.
        self.body = Body::empty();
        if self.tail == Some(*b"\n\n") {
            let problem = Problem::new(ErrorCode::Unauthorized, "the token has ended");
            let problem = serde_json::to_string(&problem).unwrap_or_default();
            let last = Bytes::from(format!("event: error\ndata: {problem}\n\n"));
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
        let broken = io::Error::new(io::ErrorKind::ConnectionAborted, "the token has ended");
        Poll::Ready(Some(Err(axum::Error::new(broken))))
    }
}

impl http_body::Body for Open {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next {
        if self.over {
            return Poll::Ready(None);
        }
        if self.ended.is_cancelled() {
            return self.end();
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if let Some(Ok(frame)) = &frame
                && let Some(data) = frame.data_ref()
            {
                self.note(data);
            }
            return Poll::Ready(frame);
        }
        let this = &mut *self;
        let ended = &this.ended;
        let told = this
            .told
            .get_or_insert_with(|| Box::pin(ended.clone().cancelled_owned()));
        match told.as_mut().poll(cx) {
            Poll::Ready(()) => self.end(),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
