//! The rest of a request that is refused.
//!
//! Their clients use a connection again for the next request. One that is answered before its body was read is
//! closed, and the next request on it would fail without an answer.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;

/// Most bytes that are read for nothing.
const MOST: usize = 64 * 1024 * 1024;

/// Longest time between two pieces.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest time in all.
const LONGEST: Duration = Duration::from_secs(10);

/// Reads what is left of a body, if it is not too much and does not take too long.
pub async fn drain(body: Body) {
    // Whether it came to its end makes no difference to the answer.
    let _ = tokio::time::timeout(LONGEST, read(body)).await;
}

async fn read(mut body: Body) {
    let mut read = 0;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(PATIENCE, body.frame()).await {
        read += frame.data_ref().map_or(0, bytes::Bytes::len);
        if read > MOST {
            return;
        }
    }
}
