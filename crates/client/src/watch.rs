//! Calls that watch files.

use sandshell_types::{
    ChangesReply, ChangesRequest, FileEvent, RescanEvent, WatchEndEvent, WatchReadyEvent,
};

use crate::live::{SseStream, number, payload};
use crate::query::Query;
use crate::{Client, ClientError};

/// What an event of a watch says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchStreamEvent {
    /// Every change is told from now on.
    Ready(WatchReadyEvent),
    /// Something changed.
    Change(FileEvent),
    /// Some changes are missing: list again.
    Rescan(RescanEvent),
    /// The watch is over. Nothing follows.
    End(WatchEndEvent),
}

/// The events of a watch.
#[derive(Debug)]
pub struct WatchStream(SseStream);

impl WatchStream {
    /// The next event and the version of the watch after it; `None` when the stream has ended.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<(u64, WatchStreamEvent), ClientError>> {
        loop {
            let raw = match self.0.next().await? {
                Ok(raw) => raw,
                Err(error) => return Some(Err(error)),
            };
            let event = match raw.event.as_str() {
                "ready" => payload(&raw).map(WatchStreamEvent::Ready),
                "created" | "modified" | "removed" | "moved" | "attributes" => {
                    payload(&raw).map(WatchStreamEvent::Change)
                }
                "rescan" => payload(&raw).map(WatchStreamEvent::Rescan),
                "end" => payload(&raw).map(WatchStreamEvent::End),
                // A newer server may send more.
                _ => continue,
            };
            return Some(event.and_then(|event| Ok((number(&raw)?, event))));
        }
    }
}

impl Client {
    /// Watches files; `since` of the request resumes after that version.
    pub async fn watch_files(&self, request: &ChangesRequest) -> Result<WatchStream, ClientError> {
        let globs = |globs: &[String]| (!globs.is_empty()).then(|| globs.join(","));
        let query = Query::default()
            .with("path", request.path.as_ref())
            .with("path_base64", request.path_base64.as_ref())
            .with("recursive", request.recursive)
            .with("include", globs(&request.include))
            .with("exclude", globs(&request.exclude))
            .with("from", request.since)
            .with("session", request.session.as_ref())
            .with("user", request.user.as_ref());
        let events = self.get_sse(&format!("/v1/files/watch{query}")).await?;
        Ok(WatchStream(events))
    }

    /// Whether anything changed since a version.
    pub async fn check_changes(
        &self,
        request: &ChangesRequest,
    ) -> Result<ChangesReply, ClientError> {
        self.post("/v1/files/changes", request).await
    }
}
