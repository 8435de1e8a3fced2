//! Calls of code contexts.

use http::Method;
use sandshell_types::{
    ContextId, ContextInterruptReply, ContextRecord, ContextRequest, KillReply, List, RunEvent,
    RunReply, RunRequest,
};

use crate::live::payload;
use crate::query::Query;
use crate::{Client, ClientError, Page, SseEvent, SseStream};

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
    pub async fn delete_context(&self, id: &ContextId) -> Result<KillReply, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/contexts/{id}"))
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
        let path = format!("/v1/contexts/{id}/run");
        self.post_sse(&path, request).await.map(RunEventStream)
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
pub struct RunEventStream(SseStream);

impl RunEventStream {
    /// The next event; `None` when the server has ended the stream.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped; the stream holds them.
    pub async fn next(&mut self) -> Option<Result<RunEvent, ClientError>> {
        loop {
            let event = match self.0.next().await? {
                Ok(raw) => typed(&raw).transpose(),
                Err(error) => Some(Err(error)),
            };
            if event.is_some() {
                return event;
            }
        }
    }
}

/// `None` for an event of a name not known here: a newer server may send more.
fn typed(raw: &SseEvent) -> Result<Option<RunEvent>, ClientError> {
    macro_rules! event {
        ($kind:ident) => {
            RunEvent::$kind(payload(raw)?)
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
