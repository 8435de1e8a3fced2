//! Events of streams that go on: raw ones, and how they are read as typed ones.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use serde::de::DeserializeOwned;

use crate::{ByteStream, ClientError, SseEvent, SseParser};

/// Events as they stand on the wire. Dropping it early closes the connection.
#[derive(Debug)]
pub struct SseStream {
    body: ByteStream,
    parser: SseParser,
}

impl SseStream {
    pub(crate) fn new(body: ByteStream) -> Self {
        Self {
            body,
            parser: SseParser::new(),
        }
    }

    /// The next event; `None` when the server has ended the stream.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped; the stream holds them.
    pub async fn next(&mut self) -> Option<Result<SseEvent, ClientError>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    pub(crate) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<SseEvent, ClientError>>> {
        loop {
            if let Some(event) = self.parser.next_event() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.body.poll_chunk(cx)) {
                Some(Ok(bytes)) => self.parser.push(&bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The payload of an event.
pub(crate) fn payload<T: DeserializeOwned>(raw: &SseEvent) -> Result<T, ClientError> {
    serde_json::from_str(&raw.data).map_err(|error| {
        let what = format!("the {:?} event is not understood", raw.event);
        ClientError::protocol(what, error)
    })
}

/// The number of an event.
pub(crate) fn number(raw: &SseEvent) -> Result<u64, ClientError> {
    let id = raw.id.as_deref().unwrap_or_default();
    id.parse().map_err(|error: std::num::ParseIntError| {
        ClientError::protocol(format!("the event id {id:?} is not a number"), error)
    })
}
