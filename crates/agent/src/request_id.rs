//! Ids of requests: the client's own, or one of ours that no other process gives.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The field that carries the id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id taken over from a client.
const LONGEST: usize = 128;

/// The ids of one process.
#[derive(Debug)]
pub struct RequestIds {
    /// Random, so that the ids of two processes differ.
    prefix: String,
    next: AtomicU64,
}

impl RequestIds {
    /// Ids with a prefix of their own.
    #[expect(clippy::new_without_default, reason = "no two are alike")]
    pub fn new() -> Self {
        let mut random = [0_u8; 6];
        // Ids of requests are no secret; without random bytes they are only less distinct.
        let _ = getrandom::fill(&mut random);
        let prefix = random.iter().fold("req_".to_owned(), |mut prefix, byte| {
            prefix.extend(char::from_digit(u32::from(byte >> 4), 16));
            prefix.extend(char::from_digit(u32::from(byte & 15), 16));
            prefix
        });
        Self {
            prefix,
            next: AtomicU64::new(0),
        }
    }

    /// The id of a request: the one it brings, when that is fit for a log, or a fresh one.
    pub fn of(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(given) = headers.get(REQUEST_ID)
            && (1..=LONGEST).contains(&given.len())
            && given.as_bytes().iter().all(u8::is_ascii_graphic)
        {
            return given.clone();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{}{number:08x}", self.prefix))
            .unwrap_or(HeaderValue::from_static("req_unknown"))
    }
}
