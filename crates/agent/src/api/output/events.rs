//! Output as events: both streams in order of arrival, then the exit.
//!
//! ```text
//! output ─── all sent ───► (waits for the end) ───► exit
//!    └── agent ends, or all there is now ──► over, without exit: resume later
//! ```

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use sandshell_exec::output::{JointPiece, JointReader, Stream};
use sandshell_types::{
    Encoded, Encoding, OutputEvent, SessionExitEvent, StreamName, Timestamp, TruncatedEvent,
};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{BrokenOff, OutputQuery, Source, split_name};
use crate::Agent;
use crate::problem::ApiError;
use crate::sse::{self, Holdback, Piece};

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with events. `guard` lives as long as the events are read; it is told when they are over.
pub(in crate::api) fn events<G: Guard>(
    agent: &Agent,
    source: Source,
    from: u64,
    query: &OutputQuery,
    first: Option<Bytes>,
    guard: G,
) -> Result<Response, ApiError> {
    let follow = query.follow.unwrap_or(true);
    let reader = match source.log(query.stream)? {
        Some(log) => Some(log.joint_reader(from, follow)?),
        None => None,
    };
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    keep_alive.reset();
    let feed = Feed {
        only: query.stream.map(split_name),
        encoding: query.encoding.unwrap_or_default(),
        follow,
        source,
        reader,
        position: from,
        at: Timestamp::now(),
        holdback: Holdback::default(),
        shutdown: agent.shutdown.clone(),
        keep_alive,
        guard,
    };
    let mut start = vec![Ok::<_, BrokenOff>(sse::preamble())];
    start.extend(first.map(Ok));
    let rest = stream::try_unfold(Some(feed), |feed| async move {
        let Some(mut feed) = feed else {
            return Ok(None);
        };
        Ok(match feed.next().await? {
            Next::More(bytes) => Some((bytes, Some(feed))),
            Next::Last(bytes) => {
                feed.guard.over();
                Some((bytes, None))
            }
            Next::Over => None,
        })
    });
    let body = futures_util::StreamExt::chain(stream::iter(start), rest);
    Ok(sse::response(Body::from_stream(body)))
}

/// Something that cares whether a stream of events was read to its end.
pub(in crate::api) trait Guard: Send + 'static {
    /// The exit event is on its way.
    fn over(&mut self);
}

impl Guard for () {
    fn over(&mut self) {}
}

enum Next {
    More(Bytes),
    /// The exit event.
    Last(Bytes),
    /// An end without exit event: all there is now, or the agent ends.
    Over,
}

/// The events of one reader.
struct Feed<G> {
    source: Source,
    /// `None` when the output has all been sent.
    reader: Option<JointReader>,
    only: Option<(Stream, bool)>,
    encoding: Encoding,
    follow: bool,
    /// All before it has been taken in.
    position: u64,
    /// When the last piece arrived.
    at: Timestamp,
    holdback: Holdback,
    shutdown: CancellationToken,
    keep_alive: Interval,
    guard: G,
}

impl<G: Guard> Feed<G> {
    async fn next(&mut self) -> Result<Next, BrokenOff> {
        while let Some(reader) = &mut self.reader {
            let piece = tokio::select! {
                piece = reader.next() => piece?,
                () = self.shutdown.cancelled() => return Ok(Next::Over),
                _ = self.keep_alive.tick() => return Ok(keep_alive()),
            };
            let event = if let Some(piece) = piece {
                self.take_in(piece)?
            } else {
                self.reader = None;
                // Without their end, the beginnings of characters go out as they are.
                let stdout = self.flush(Stream::Stdout)?;
                let stderr = self.flush(Stream::Stderr)?;
                join(stdout, stderr)
            };
            if let Some(event) = event {
                return Ok(Next::More(event));
            }
        }
        if self.follow {
            tokio::select! {
                () = self.source.ended() => {}
                () = self.shutdown.cancelled() => return Ok(Next::Over),
                _ = self.keep_alive.tick() => return Ok(keep_alive()),
            }
        }
        Ok(match self.exit().await? {
            Some(exit) => Next::Last(exit),
            None => Next::Over,
        })
    }

    fn take_in(&mut self, piece: JointPiece) -> Result<Option<Bytes>, BrokenOff> {
        match piece {
            JointPiece::Data {
                stream,
                offset,
                data,
                at,
                position_after,
            } => {
                self.position = position_after;
                self.at = at;
                if self.skips(stream) {
                    return Ok(None);
                }
                let piece = if self.encoding == Encoding::Base64 {
                    Some(Piece {
                        offset,
                        data: data.into(),
                    })
                } else {
                    self.holdback.push(stream, offset, data, position_after)
                };
                piece.map(|piece| self.output(stream, piece)).transpose()
            }
            JointPiece::Gap {
                stream,
                offset,
                bytes,
                position_after,
            } => {
                self.position = position_after;
                if self.skips(stream) {
                    return Ok(None);
                }
                let before = self.flush(stream)?;
                let gap = TruncatedEvent {
                    stream: self.name(stream),
                    offset,
                    bytes,
                };
                let id = self.holdback.safe_position(position_after);
                Ok(join(before, Some(sse::event("truncated", Some(id), &gap)?)))
            }
        }
    }

    fn flush(&mut self, stream: Stream) -> Result<Option<Bytes>, BrokenOff> {
        let held = self.holdback.flush(stream);
        held.map(|piece| self.output(stream, piece)).transpose()
    }

    fn output(&self, stream: Stream, piece: Piece) -> Result<Bytes, BrokenOff> {
        let Encoded { data, encoding } = Encoded::new(piece.data, self.encoding);
        let event = OutputEvent {
            stream: self.name(stream),
            offset: piece.offset,
            data,
            encoding,
            at: self.at,
        };
        let id = self.holdback.safe_position(self.position);
        Ok(sse::event("output", Some(id), &event)?)
    }

    /// The exit event; `None` while there is no exit.
    async fn exit(&mut self) -> Result<Option<Bytes>, BrokenOff> {
        let Some(exit) = self.source.exit_event() else {
            return Ok(None);
        };
        let id = Some(self.position);
        let Source::CommandResult(command, encoding) = &self.source else {
            return Ok(Some(sse::event("exit", id, &exit)?));
        };
        let result = command.result(*encoding).await.ok();
        let event = SessionExitEvent {
            command_id: command.id().clone(),
            exit_code: exit.exit_code,
            signal: exit.signal,
            duration_ms: exit.duration_ms,
            timed_out: exit.timed_out,
            oom: exit.oom,
            interrupted: command.record().interrupted,
            left_running: result.as_ref().map_or(0, |result| result.left_running),
            cwd: exit
                .cwd
                .or_else(|| result.as_ref().map(|result| result.cwd.clone())),
            session_state: result.map(|result| result.session_state),
        };
        Ok(Some(sse::event("exit", id, &event)?))
    }

    fn skips(&self, stream: Stream) -> bool {
        self.only.is_some_and(|(only, _)| only != stream)
    }

    fn name(&self, stream: Stream) -> StreamName {
        let late = self.only.is_some_and(|(_, late)| late);
        match (stream, late) {
            (Stream::Stdout, false) => StreamName::Stdout,
            (Stream::Stderr, false) => StreamName::Stderr,
            (Stream::Stdout, true) => StreamName::LateStdout,
            (Stream::Stderr, true) => StreamName::LateStderr,
        }
    }
}

fn keep_alive() -> Next {
    Next::More(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()))
}

fn join(first: Option<Bytes>, second: Option<Bytes>) -> Option<Bytes> {
    match (first, second) {
        (Some(first), Some(second)) => Some([first, second].concat().into()),
        (first, second) => first.or(second),
    }
}
