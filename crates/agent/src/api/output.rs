//! Output on the wire: raw bytes of one stream, or events of both.
//!
//! Owns the two forms and their ends. Does not own the bytes (the output log does) nor the text of
//! an event (`sse` does). Nothing is gathered: a slow reader slows only itself.

mod events;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use sandshell_exec::output::{OutputError, OutputLog, Stream, StreamReader};
use sandshell_exec::{CommandHandle, ProcessHandle};
use sandshell_types::{Encoding, ErrorCode, ExitEvent, OutputEvent, StreamName, TruncatedEvent};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::document::events::event_union;
use crate::Agent;
use crate::problem::ApiError;
use crate::sse;

pub(super) use events::{Guard, events};

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

event_union! {
    /// Output of a process or of a session's command, in order of arrival. `exit` is always the last.
    pub(super) OutputEvents:
        "output" => OutputEvent, "truncated" => TruncatedEvent, "exit" => ExitEvent;
}

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
    // Checked in both forms, so that a mistake shows wherever it is made.
    let last_seen = headers
        .get("last-event-id")
        .map(last_event_id)
        .transpose()?;
    if sse::wanted(headers) {
        let from = last_seen.or(query.from).unwrap_or(0);
        return events(agent, source, from, query, None, ());
    }
    raw(agent, &source, query)
}

fn last_event_id(id: &HeaderValue) -> Result<u64, ApiError> {
    id.to_str()
        .ok()
        .and_then(|id| id.trim().parse().ok())
        .ok_or_else(|| {
            ApiError::new(
                ErrorCode::InvalidRequest,
                "Last-Event-ID is not an id of ours",
            )
            .hint("Send the `id` of the last event that had one.")
        })
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

/// The stream of a log, and whether it is the log of late output.
fn split_name(name: StreamName) -> (Stream, bool) {
    match name {
        StreamName::Stdout => (Stream::Stdout, false),
        StreamName::Stderr => (Stream::Stderr, false),
        StreamName::LateStdout => (Stream::Stdout, true),
        StreamName::LateStderr => (Stream::Stderr, true),
    }
}
