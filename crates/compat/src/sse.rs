//! Streams of events, as answers.

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
pub(crate) struct Gone;

/// The writing end of a stream.
pub(crate) struct Feed(mpsc::Sender<Bytes>);

impl Feed {
    /// An event without a name: a `data:` line of JSON.
    pub(crate) async fn tell(&self, event: &Value) -> Result<(), Gone> {
        self.send(format!("data: {event}\n\n")).await
    }

    /// An event with a name, and one line of data.
    pub(crate) async fn tell_named(
        &self,
        name: &str,
        data: impl std::fmt::Display,
    ) -> Result<(), Gone> {
        self.send(format!("event: {name}\ndata: {data}\n\n")).await
    }

    async fn send(&self, frame: String) -> Result<(), Gone> {
        self.0.send(frame.into()).await.map_err(|_| Gone)
    }
}

/// An answer made of what `work` tells. It ends with the work, and the work with its reader.
pub(crate) fn events<F>(work: impl FnOnce(Feed) -> F) -> Response
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

/// The JSON of an event without a name.
pub(crate) fn data_of(frame: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(frame).ok()?;
    text.strip_prefix("data: ")?.strip_suffix("\n\n")
}
