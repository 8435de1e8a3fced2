//! Calls of code contexts.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use http::Method;
use sandshell_types::{
    ContextId, ContextInterruptReply, ContextRecord, ContextRequest, List, RunEvent, RunReply,
    RunRequest,
};

use crate::query::Query;
use crate::{ByteStream, Client, ClientError, Page, SseEvent, SseParser};

impl Client {
    /// Makes a code context.
    pub async fn create_context(
        &self,
        request: &ContextRequest,
    ) -> Result<ContextRecord, ClientError> {
        self.post("/v1/contexts", request).await
    }

    /// Lists code contexts.
    pub async fn list_contexts(&self, page: &Page) -> Result<List<ContextRecord>, ClientError> {
        self.get(&format!("/v1/contexts{}", Query::default().page(page)))
            .await
    }

    /// The record of a code context.
    pub async fn context(&self, id: &ContextId) -> Result<ContextRecord, ClientError> {
        self.get(&format!("/v1/contexts/{id}")).await
    }

    /// Ends a code context and all it started.
    pub async fn delete_context(&self, id: &ContextId) -> Result<(), ClientError> {
        self.done(Method::DELETE, &format!("/v1/contexts/{id}"))
            .await
    }

    /// Runs code and waits for its end.
    pub async fn run_code(
        &self,
        id: &ContextId,
        request: &RunRequest,
    ) -> Result<RunReply, ClientError> {
        self.post(&format!("/v1/contexts/{id}/run"), request).await
    }

    /// Runs code and streams what it writes, gives and raises.
    pub async fn run_code_stream(
        &self,
        id: &ContextId,
        request: &RunRequest,
    ) -> Result<RunEventStream, ClientError> {
        let body = self
            .post_event_text(&format!("/v1/contexts/{id}/run"), request)
            .await?;
        Ok(RunEventStream {
            body,
            parser: SseParser::new(),
        })
    }

    /// Interrupts the run of a code context; answers when it is really over.
    pub async fn interrupt_context(
        &self,
        id: &ContextId,
    ) -> Result<ContextInterruptReply, ClientError> {
        self.post_empty(&format!("/v1/contexts/{id}/interrupt"))
            .await
    }

    /// Gives a code context a fresh interpreter.
    pub async fn restart_context(&self, id: &ContextId) -> Result<ContextRecord, ClientError> {
        self.post_empty(&format!("/v1/contexts/{id}/restart")).await
    }
}

/// The events of a run as they arrive. Dropping it early closes the connection; the run goes on.
#[derive(Debug)]
pub struct RunEventStream {
    body: ByteStream,
    parser: SseParser,
}

impl RunEventStream {
    /// The next event; `None` when the server has ended the stream.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped; the stream holds them.
    pub async fn next(&mut self) -> Option<Result<RunEvent, ClientError>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RunEvent, ClientError>>> {
        loop {
            while let Some(raw) = self.parser.next_event() {
                if let Some(event) = typed(&raw).transpose() {
                    return Poll::Ready(Some(event));
                }
            }
            match ready!(self.body.poll_chunk(cx)) {
                Some(Ok(bytes)) => self.parser.push(&bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// `None` for an event of a name not known here: a newer server may send more.
fn typed(raw: &SseEvent) -> Result<Option<RunEvent>, ClientError> {
    let not_understood = |error| {
        let context = format!("the {:?} event is not understood", raw.event);
        ClientError::protocol(context, error)
    };
    macro_rules! event {
        ($kind:ident) => {
            RunEvent::$kind(serde_json::from_str(&raw.data).map_err(not_understood)?)
        };
    }
    Ok(Some(match raw.event.as_str() {
        "started" => event!(Started),
        "stdout" => event!(Stdout),
        "stderr" => event!(Stderr),
        "truncated" => event!(Truncated),
        "result" => event!(Result),
        "error" => event!(Error),
        "end" => event!(End),
        _ => return Ok(None),
    }))
}
