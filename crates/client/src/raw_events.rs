//! Events whose meaning the caller knows.

use std::future::poll_fn;

use crate::{ByteStream, ClientError, SseEvent, SseParser};

/// Events as they arrive, by name and text. Dropping it early closes the connection.
#[derive(Debug)]
pub struct RawEvents {
    body: ByteStream,
    parser: SseParser,
}

impl RawEvents {
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
            match poll_fn(|cx| self.body.poll_chunk(cx)).await? {
                Ok(bytes) => self.parser.push(&bytes),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
