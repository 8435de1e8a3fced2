//! Server-sent events: their text form, and how bytes are cut into them.
//!
//! Owns the format of an event and the rule that text is never cut within a character. Does not own
//! what the events mean, nor where the bytes come from.
//!
//! Pieces of output end where a write or a buffer ended, which may be within a character. Such a
//! character's first bytes (three at most) are held back and go out with the next piece of their
//! stream. The `id` of every event is a position from which nothing is missing, so while bytes are
//! held back it stays before them; a reader that resumes there may see a piece of the *other* stream
//! again, and knows it by its stream and offset.

mod live;

use std::fmt::Write as _;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use sandshell_exec::output::Stream;
use serde::Serialize;

pub(crate) use live::{Source, live, resume_from};

/// How long a client waits before it connects again.
const RETRY: &str = "retry: 1000\n\n";

/// A comment, so that nothing in between takes a quiet stream for a dead one.
pub(crate) const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// The first bytes of a stream of events.
pub(crate) fn preamble() -> Bytes {
    Bytes::from_static(RETRY.as_bytes())
}

/// Writes one event.
pub(crate) fn event(
    name: &str,
    id: Option<u64>,
    data: &impl Serialize,
) -> Result<Bytes, serde_json::Error> {
    let mut text = String::with_capacity(256);
    // Writing to a string cannot fail.
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: {name}\ndata: ");
    let mut bytes = text.into_bytes();
    // JSON text has no line break, so one data line is enough.
    serde_json::to_writer(&mut bytes, data)?;
    bytes.extend_from_slice(b"\n\n");
    Ok(bytes.into())
}

/// Whether the client asks for events.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|range| {
                let kind = range.split(';').next().unwrap_or_default();
                kind.trim().eq_ignore_ascii_case("text/event-stream")
            })
        })
    })
}

/// An answer made of events.
pub(crate) fn response(body: axum::body::Body) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Proxies of the nginx family hold events back otherwise.
        (
            header::HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, body).into_response()
}

/// Bytes of one stream that may go out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

/// The beginning of a character whose end has not arrived.
#[derive(Debug, Clone)]
struct Held {
    piece: Piece,
    /// Its place in the joint log.
    position: u64,
}

/// Holds back incomplete characters, for each stream on its own.
#[derive(Debug, Default)]
pub(crate) struct Holdback {
    stdout: Option<Held>,
    stderr: Option<Held>,
}

impl Holdback {
    /// Takes bytes in and gives back what may go out now. `position_after` is the position in the
    /// joint log behind `data`.
    pub(crate) fn push(
        &mut self,
        stream: Stream,
        offset: u64,
        data: Bytes,
        position_after: u64,
    ) -> Option<Piece> {
        let slot = self.slot(stream);
        let (mut piece, held_position) = match slot.take() {
            Some(mut held) => {
                held.piece.data.extend_from_slice(&data);
                (held.piece, Some(held.position))
            }
            None => (
                Piece {
                    offset,
                    data: Vec::from(data),
                },
                None,
            ),
        };
        let tail = incomplete_tail(&piece.data);
        if tail > 0 {
            let kept = piece.data.len() - tail;
            let rest = piece.data.split_off(kept);
            // A tail that is all there is began where the former one did.
            let position = match held_position {
                Some(position) if kept == 0 => position,
                _ => position_after.saturating_sub(tail as u64),
            };
            let offset = piece.offset + kept as u64;
            *slot = Some(Held {
                piece: Piece { offset, data: rest },
                position,
            });
        }
        (!piece.data.is_empty()).then_some(piece)
    }

    /// What is held back of a stream: its end will not come.
    pub(crate) fn flush(&mut self, stream: Stream) -> Option<Piece> {
        self.slot(stream).take().map(|held| held.piece)
    }

    /// The last position up to which everything has gone out, given that all before `position` has
    /// been taken in.
    pub(crate) fn safe_position(&self, position: u64) -> u64 {
        [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .fold(position, |safe, held| safe.min(held.position))
    }

    fn slot(&mut self, stream: Stream) -> &mut Option<Held> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// Length of the incomplete character at the end: 0 to 3 bytes.
fn incomplete_tail(data: &[u8]) -> usize {
    for length in 1..=data.len().min(3) {
        let Some(tail) = data.get(data.len() - length..) else {
            break;
        };
        match tail.first() {
            // A continuation byte: the character begins further back.
            Some(0x80..=0xBF) => {}
            Some(0xC0..) => {
                let incomplete = std::str::from_utf8(tail)
                    .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
                return if incomplete { length } else { 0 };
            }
            _ => break,
        }
    }
    0
}

#[cfg(test)]
#[path = "sse/tests.rs"]
mod tests;
