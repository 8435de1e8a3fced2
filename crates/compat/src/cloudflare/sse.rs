//! Streams of events in this dialect: `data:` lines of JSON without names.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header;
use serde_json::Value;
use tokio::sync::mpsc;

/// Events under way to a client that does not read.
const WAITING: usize = 16;

/// Whoever read the stream has gone.
pub(super) struct Gone;

/// The writing end of a stream.
pub(super) struct Feed(mpsc::Sender<Bytes>);

impl Feed {
    pub(super) async fn tell(&self, event: &Value) -> Result<(), Gone> {
        let frame = Bytes::from(format!("data: {event}\n\n"));
        self.0.send(frame).await.map_err(|_| Gone)
    }
}

/// An answer made of what `work` tells. It ends with the work, and the work with its reader.
pub(super) fn events<F>(work: impl FnOnce(Feed) -> F) -> Response
where
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let reader = sender.clone();
    let work = work(Feed(sender));
    tokio::spawn(async move {
        tokio::select! {
            _ = work => {}
            () = reader.closed() => {}
        }
    });
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let frame = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), receiver))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// The JSON of a frame.
pub(super) fn data_of(frame: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(frame).ok()?;
    text.strip_prefix("data: ")?.strip_suffix("\n\n")
}
