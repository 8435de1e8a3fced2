//! Streams of events that go on until their source or the agent ends.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use sandshell_types::ErrorCode;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::problem::ApiError;

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where events come from.
pub(crate) trait Source: Send + 'static {
    /// Events as text, one or more; `None` at the end. Must be cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Answers with what is there now, then with what comes.
pub(crate) fn live(first: Bytes, source: impl Source, shutdown: CancellationToken) -> Response {
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let start = stream::iter([super::preamble(), first]);
    let rest = stream::unfold(
        (source, shutdown, keep_alive),
        |(mut source, shutdown, mut keep_alive)| async move {
            let bytes = tokio::select! {
                next = source.next() => next?,
                () = shutdown.cancelled() => return None,
                _ = keep_alive.tick() => Bytes::from_static(super::KEEP_ALIVE.as_bytes()),
            };
            Some((bytes, (source, shutdown, keep_alive)))
        },
    );
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
