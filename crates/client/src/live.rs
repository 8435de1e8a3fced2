//! Events of streams that go on: raw ones, and how they are read as typed ones.

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
        loop {
            if let Some(event) = self.parser.next_event() {
                return Some(Ok(event));
            }
            match std::future::poll_fn(|cx| self.body.poll_chunk(cx)).await? {
                Ok(bytes) => self.parser.push(&bytes),
                Err(error) => return Some(Err(error)),
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
