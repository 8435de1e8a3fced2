//! Streams of events that go on until their source or the agent ends.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use sandshell_types::ErrorCode;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::problem::ApiError;

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where events come from.
pub(crate) trait Source: Send + 'static {
    /// Events as text, one or more; `None` at the end. Must be cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// A stream under way.
struct Feed<S> {
    source: S,
    shutdown: CancellationToken,
    keep_alive: Interval,
}

/// Answers with what is there now, then with what comes.
pub(crate) fn live(first: Bytes, source: impl Source, shutdown: CancellationToken) -> Response {
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let start = stream::iter([Bytes::from([super::preamble(), first].concat())]);
    let feed = Feed {
        source,
        shutdown,
        keep_alive,
    };
    let rest = stream::unfold(Some(feed), |feed| async move {
        let mut feed = feed?;
        // What was told before the end still goes out, once.
        let over = feed.shutdown.is_cancelled();
        let bytes = tokio::select! {
            biased;
            next = feed.source.next() => next?,
            () = feed.shutdown.cancelled() => return None,
            _ = feed.keep_alive.tick() => Bytes::from_static(super::KEEP_ALIVE.as_bytes()),
        };
        Some((bytes, (!over).then_some(feed)))
    });
    let body = start.chain(rest).map(Ok::<_, std::convert::Infallible>);
    super::response(Body::from_stream(body))
}

/// The event to go on after: the header wins over the parameter.
pub(crate) fn resume_from(headers: &HeaderMap, from: Option<u64>) -> Result<Option<u64>, ApiError> {
    let Some(header) = headers.get("last-event-id") else {
        return Ok(from);
    };
    let id = header.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| {
        ApiError::new(
            ErrorCode::InvalidRequest,
            "Last-Event-ID is not an id of ours",
        )
        .hint("Send the `id` of the last event you saw.")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_reconnect_wins_over_the_query() {
        let mut headers = HeaderMap::new();
        assert_eq!(resume_from(&headers, Some(3)).unwrap(), Some(3));
        headers.insert("last-event-id", "7".parse().unwrap());
        assert_eq!(resume_from(&headers, Some(3)).unwrap(), Some(7));
        headers.insert("last-event-id", "nonsense".parse().unwrap());
        assert!(resume_from(&headers, Some(3)).is_err());
    }
}
