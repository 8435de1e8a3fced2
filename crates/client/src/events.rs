//! Output events of a process or command, typed.
//!
//! Owns the meaning of event names and payloads; the events themselves come from `live`.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use sandshell_types::{CommandId, ExitEvent, OutputEvent, TruncatedEvent};
use serde::Deserialize;

use crate::live::{SseStream, number, payload};
use crate::{ClientError, SseEvent};

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputStreamEvent {
    /// A session took the command in. First event of a streamed session exec, and only there.
    Started {
        /// The id of the command.
        command_id: CommandId,
    },
    /// A piece of output.
    Output(OutputEvent),
    /// Bytes that are missing.
    Truncated(TruncatedEvent),
    /// The end. Nothing follows.
    Exit(ExitEvent),
}

/// An event and its position in the joint log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Where to resume after this event, as [`EventQuery::from`](crate::EventQuery::from).
    pub id: Option<u64>,
    /// What it says.
    pub event: OutputStreamEvent,
}

/// Events as they arrive. Dropping it early closes the connection.
#[derive(Debug)]
pub struct EventStream {
    events: SseStream,
    last_id: Option<u64>,
}

impl EventStream {
    pub(crate) fn new(events: SseStream) -> Self {
        Self {
            events,
            last_id: None,
        }
    }

    /// The next event; `None` when the server has ended the stream.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped; the stream holds them.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, ClientError>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The id of the last event that had one: where to resume.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<StreamEvent, ClientError>>> {
        loop {
            let event = match std::task::ready!(self.events.poll_event(cx)) {
                Some(Ok(raw)) => typed(&raw).transpose(),
                Some(Err(error)) => Some(Err(error)),
                None => return Poll::Ready(None),
            };
            let Some(event) = event else {
                continue;
            };
            if let Ok(StreamEvent { id: Some(id), .. }) = event {
                self.last_id = Some(id);
            }
            return Poll::Ready(Some(event));
        }
    }
}

impl Stream for EventStream {
    type Item = Result<StreamEvent, ClientError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

/// `None` for an event of a name not known here: a newer server may send more.
fn typed(raw: &SseEvent) -> Result<Option<StreamEvent>, ClientError> {
    #[derive(Deserialize)]
    struct Started {
        command_id: CommandId,
    }
    let event = match raw.event.as_str() {
        "output" => OutputStreamEvent::Output(payload(raw)?),
        "truncated" => OutputStreamEvent::Truncated(payload(raw)?),
        "exit" => OutputStreamEvent::Exit(payload(raw)?),
        "command" => {
            let Started { command_id } = payload(raw)?;
            OutputStreamEvent::Started { command_id }
        }
        _ => return Ok(None),
    };
    let id = match raw.id.as_deref() {
        None | Some("") => None,
        Some(_) => Some(number(raw)?),
    };
    Ok(Some(StreamEvent { id, event }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(event: &str, id: Option<&str>, data: &str) -> SseEvent {
        SseEvent {
            event: event.into(),
            id: id.map(Into::into),
            data: data.into(),
        }
    }

    #[test]
    fn ignores_unknown_fields_and_unknown_events() {
        let exit = raw(
            "exit",
            Some("9"),
            r#"{"exit_code":3,"duration_ms":1,"session_state":"kept","stdout_bytes":4}"#,
        );
        assert!(matches!(
            typed(&exit),
            Ok(Some(StreamEvent { id: Some(9), event: OutputStreamEvent::Exit(exit) }))
                if exit.exit_code == Some(3)
        ));
        assert!(matches!(typed(&raw("ping", None, "{}")), Ok(None)));
    }

    #[test]
    fn names_the_command_first() {
        assert!(matches!(
            typed(&raw("command", None, r#"{"command_id":"cmd_1"}"#)),
            Ok(Some(StreamEvent { id: None, event: OutputStreamEvent::Started { command_id } }))
                if command_id.as_str() == "cmd_1"
        ));
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        assert!(typed(&raw("exit", None, "nonsense")).is_err());
        assert!(typed(&raw("exit", Some("x"), r#"{"duration_ms":1}"#)).is_err());
    }
}
