//! Output on the wire: raw bytes of one stream, or events of both.
//!
//! Owns the two forms and their ends. Does not own the bytes (the output log does) nor the text of
//! an event (`sse` does). Nothing is gathered: a slow reader slows only itself.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use sandshell_exec::output::{
    JointPiece, JointReader, OutputError, OutputLog, Stream, StreamReader,
};
use sandshell_exec::{CommandHandle, ProcessHandle};
use sandshell_types::{
    Encoded, Encoding, ErrorCode, ExitEvent, OutputEvent, SessionExitEvent, StreamName, Timestamp,
    TruncatedEvent,
};
use serde::Deserialize;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::Agent;
use crate::problem::ApiError;
use crate::sse::{self, Holdback, Piece};

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Query of an output route.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// Which stream; `stdout` by default. With events: only this one; both by default. The late
    /// streams are those of a session's command.
    stream: Option<StreamName>,
    /// Raw bytes: the offset of the first one.
    offset: Option<u64>,
    /// Go on until the end. Default: false for raw bytes, true for events.
    follow: Option<bool>,
    /// Events: the `id` of the last one seen. The header `Last-Event-ID` wins.
    from: Option<u64>,
    /// Events: how bytes become text.
    #[param(inline)]
    encoding: Option<Encoding>,
}

/// Bytes as they are, in the document.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RawBytes(Vec<u8>);

impl OutputQuery {
    /// All events, live.
    pub(super) fn with_encoding(encoding: Encoding) -> Self {
        Self {
            encoding: Some(encoding),
            ..Self::default()
        }
    }
}

/// Whose output it is.
pub(super) enum Source {
    Process(ProcessHandle),
    Command(CommandHandle),
    /// A command whose exit event tells all but the output.
    CommandResult(CommandHandle, Encoding),
}

impl Source {
    /// The log with the named stream; `None` when nothing was ever written to it.
    fn log(&self, stream: Option<StreamName>) -> Result<Option<OutputLog>, ApiError> {
        let late = matches!(
            stream,
            Some(StreamName::LateStdout | StreamName::LateStderr)
        );
        match self {
            Self::Process(_) if late => Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "only commands of a session have late streams",
            )
            .pointer("/stream")),
            Self::Process(process) => Ok(Some(process.log().clone())),
            Self::Command(command) | Self::CommandResult(command, _) if late => {
                Ok(command.late_log())
            }
            Self::Command(command) | Self::CommandResult(command, _) => {
                Ok(Some(command.log().clone()))
            }
        }
    }

    async fn ended(&self) {
        match self {
            Self::Process(process) => process.ended().await,
            Self::Command(command) | Self::CommandResult(command, _) => command.done().await,
        }
    }

    fn exit_event(&self) -> Option<ExitEvent> {
        match self {
            Self::Process(process) => process.exit_event(),
            Self::Command(command) | Self::CommandResult(command, _) => command.exit_event(),
        }
    }
}

/// Answers an output route.
pub(super) fn respond(
    agent: &Agent,
    source: Source,
    query: &OutputQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    if sse::wanted(headers) {
        let from = match headers.get("last-event-id") {
            Some(id) => id
                .to_str()
                .ok()
                .and_then(|id| id.trim().parse().ok())
                .ok_or_else(|| {
                    ApiError::new(
                        ErrorCode::InvalidRequest,
                        "Last-Event-ID is not an id of ours",
                    )
                    .hint("Send the `id` of the last event that had one.")
                })?,
            None => query.from.unwrap_or(0),
        };
        return events(agent, source, from, query, None, ());
    }
    raw(agent, &source, query)
}

fn raw(agent: &Agent, source: &Source, query: &OutputQuery) -> Result<Response, ApiError> {
    let name = query.stream.unwrap_or(StreamName::Stdout);
    let (stream, _) = split_name(name);
    let follow = query.follow.unwrap_or(false);
    let body = match source.log(Some(name))? {
        Some(log) => {
            let reader = log.reader(stream, query.offset.unwrap_or(0), follow)?;
            let shutdown = follow.then(|| agent.shutdown.clone());
            Body::from_stream(stream::try_unfold((reader, shutdown), |state| async move {
                let (mut reader, shutdown) = state;
                let next = next_bytes(&mut reader, shutdown.as_ref()).await?;
                Ok::<_, BrokenOff>(next.map(|bytes| (bytes, (reader, shutdown))))
            }))
        }
        None => Body::empty(),
    };
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

/// Why a stream broke off. The connection is then closed without a proper end of the body, so that
/// no reader takes a part for the whole.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the agent is shutting down")]
    Shutdown,
}

async fn next_bytes(
    reader: &mut StreamReader,
    shutdown: Option<&CancellationToken>,
) -> Result<Option<Bytes>, BrokenOff> {
    match shutdown {
        None => Ok(reader.next().await?),
        Some(shutdown) => tokio::select! {
            next = reader.next() => Ok(next?),
            () = shutdown.cancelled() => Err(BrokenOff::Shutdown),
        },
    }
}

/// Answers with events. `guard` lives as long as the events are read; it is told when they are over.
pub(super) fn events<G: Guard>(
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
pub(super) trait Guard: Send + 'static {
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

/// The stream of a log, and whether it is the log of late output.
fn split_name(name: StreamName) -> (Stream, bool) {
    match name {
        StreamName::Stdout => (Stream::Stdout, false),
        StreamName::Stderr => (Stream::Stderr, false),
        StreamName::LateStdout => (Stream::Stdout, true),
        StreamName::LateStderr => (Stream::Stderr, true),
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
