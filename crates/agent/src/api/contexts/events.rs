//! A run as events: what the code wrote, gave and raised, in order, then the end.
//!
//! The `id` of an event is its number. A run is read by the request that made it, or by one with the
//! same idempotency key, always from its start: what has been seen is known by its number.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use sandshell_contexts::{ContextError, RunHandle, RunItem, RunReader};
use sandshell_exec::output::Stream;
use sandshell_types::{Encoded, Encoding, RunOutput, Truncated};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::Agent;
use crate::sse::{self, Holdback};

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with the events of a run.
pub(super) fn events(agent: &Agent, run: &RunHandle, encoding: Encoding) -> Response {
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let feed = Feed {
        reader: run.reader(),
        encoding,
        holdback: Holdback::default(),
        position: 0,
        number: 0,
        shutdown: agent.shutdown.clone(),
        keep_alive,
    };
    let start = stream::iter([Ok::<_, BrokenOff>(sse::preamble())]);
    let rest = stream::try_unfold(feed, |mut feed| async move {
        Ok(feed.next().await?.map(|bytes| (bytes, feed)))
    });
    let body = futures_util::StreamExt::chain(start, rest);
    sse::response(Body::from_stream(body))
}

/// Why the events broke off.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

struct Feed {
    reader: RunReader,
    encoding: Encoding,
    holdback: Holdback,
    /// Bytes of output taken in.
    position: u64,
    number: u64,
    shutdown: CancellationToken,
    keep_alive: Interval,
}

impl Feed {
    /// The next event; `None` when there is no more, or the agent ends.
    async fn next(&mut self) -> Result<Option<Bytes>, BrokenOff> {
        loop {
            let item = tokio::select! {
                item = self.reader.next() => item?,
                () = self.shutdown.cancelled() => return Ok(None),
                _ = self.keep_alive.tick() => {
                    return Ok(Some(Bytes::from_static(sse::KEEP_ALIVE.as_bytes())));
                }
            };
            let Some(item) = item else {
                return Ok(None);
            };
            let text = self.event(item)?;
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
    }

    fn event(&mut self, item: RunItem) -> Result<Vec<u8>, BrokenOff> {
        let mut text = Vec::new();
        match item {
            RunItem::Started(started) => self.write(&mut text, "started", &started)?,
            RunItem::Output(stream, data) if self.encoding == Encoding::Base64 => {
                self.output(&mut text, stream, data.into())?;
            }
            RunItem::Output(stream, data) => {
                let offset = self.position;
                self.position += data.len() as u64;
                let piece = self.holdback.push(stream, offset, data, self.position);
                if let Some(piece) = piece {
                    self.output(&mut text, stream, piece.data)?;
                }
            }
            RunItem::Gap(stream, bytes) => {
                self.flush(&mut text)?;
                let (stdout_bytes, stderr_bytes) = match stream {
                    Stream::Stdout => (bytes, 0),
                    Stream::Stderr => (0, bytes),
                };
                let gap = Truncated {
                    stdout_bytes,
                    stderr_bytes,
                };
                self.write(&mut text, "truncated", &gap)?;
            }
            RunItem::Result(result) => self.write(&mut text, "result", &result)?,
            RunItem::Error(error) => self.write(&mut text, "error", &error)?,
            RunItem::End(end) => {
                self.flush(&mut text)?;
                self.write(&mut text, "end", &end)?;
            }
        }
        Ok(text)
    }

    /// Characters whose rest will not come go out as they are.
    fn flush(&mut self, text: &mut Vec<u8>) -> Result<(), BrokenOff> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(piece) = self.holdback.flush(stream) {
                self.output(text, stream, piece.data)?;
            }
        }
        Ok(())
    }

    fn output(
        &mut self,
        text: &mut Vec<u8>,
        stream: Stream,
        data: Vec<u8>,
    ) -> Result<(), BrokenOff> {
        let Encoded { data, encoding } = Encoded::new(data, self.encoding);
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        self.write(text, name, &RunOutput { data, encoding })
    }

    fn write(
        &mut self,
        text: &mut Vec<u8>,
        name: &str,
        data: &impl serde::Serialize,
    ) -> Result<(), BrokenOff> {
        self.number += 1;
        text.extend_from_slice(&sse::event(name, Some(self.number), data)?);
        Ok(())
    }
}
