//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use std::ops::Range;

use axum::body::Bytes;
use http::HeaderMap;
use sandshell_exec::output::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::files::conditions;
use crate::relay::dns::Question;
use crate::sse;

/// A JSON body; where the mistake is, if it has one.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Option<String>> {
    crate::extract::parse(bytes).map_err(|error| error.into_problem().pointer)
}

/// Which bytes of a file a range names: all of them, a part, or none that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranged {
    /// It is no range that counts.
    All,
    /// These.
    Part(Range<u64>),
    /// It lies outside.
    Outside,
}

/// Reads a range.
pub fn range(text: &str, size: u64) -> Ranged {
    match conditions::parse_range(text, size) {
        conditions::Bytes::All => Ranged::All,
        conditions::Bytes::Part(part) => Ranged::Part(part),
        conditions::Bytes::Outside => Ranged::Outside,
    }
}

/// Reads a date of HTTP.
pub fn date(text: &str) -> Option<i64> {
    conditions::parse_date(text)
}

/// Writes one.
pub fn date_of(seconds: i64) -> Option<String> {
    conditions::http_date(seconds)
}

/// Writes an event.
pub fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> Option<Bytes> {
    sse::event(name, id, data).ok()
}

/// Holds back incomplete characters of output.
#[derive(Debug, Default)]
pub struct Holdback(sse::Holdback);

impl Holdback {
    /// Takes bytes in; the offset and bytes of what may go out.
    pub fn push(
        &mut self,
        stream: Stream,
        offset: u64,
        data: Bytes,
        position_after: u64,
    ) -> Option<(u64, Vec<u8>)> {
        let piece = self.0.push(stream, offset, data, position_after)?;
        Some((piece.offset, piece.data))
    }

    /// What is held back of a stream.
    pub fn flush(&mut self, stream: Stream) -> Option<(u64, Vec<u8>)> {
        let piece = self.0.flush(stream)?;
        Some((piece.offset, piece.data))
    }

    /// The position up to which everything has gone out.
    pub fn safe_position(&self, position: u64) -> u64 {
        self.0.safe_position(position)
    }
}

/// The name in a question to the resolver, and the bytes of the question.
pub fn dns_question(bytes: &[u8]) -> Option<(Option<String>, &[u8])> {
    let question = Question::parse(bytes)?;
    Some((question.name, question.bytes))
}

/// The path and query for a server inside.
pub fn inside_path(rest: &str, query: Option<&str>) -> String {
    crate::ports::head::inside_path(rest, query)
}

/// Leaves our own cookies out.
pub fn strip_cookie(headers: &mut HeaderMap) {
    crate::ports::head::strip_cookie(headers);
}
