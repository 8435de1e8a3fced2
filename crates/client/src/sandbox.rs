//! Calls about the sandbox as a whole.

use sandshell_types::{
    EnvPatch, EnvReply, EventsTruncated, ProtectionsReply, SandboxEvent, SandboxStats,
};

use crate::live::{SseStream, number, payload};
use crate::query::Query;
use crate::{Client, ClientError};

/// What an event of the sandbox says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxStreamEvent {
    /// Something happened. With the number to resume after.
    Event(u64, SandboxEvent),
    /// Events are missing here.
    Truncated(EventsTruncated),
}

/// The events of a sandbox.
#[derive(Debug)]
pub struct SandboxStream(SseStream);

impl SandboxStream {
    /// The next event; `None` when the stream has ended.
    ///
    /// CANCEL SAFETY: no events are lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<SandboxStreamEvent, ClientError>> {
        let raw = match self.0.next().await? {
            Ok(raw) => raw,
            Err(error) => return Some(Err(error)),
        };
        Some(if raw.event == "truncated" {
            payload(&raw).map(SandboxStreamEvent::Truncated)
        } else {
            number(&raw).and_then(|id| Ok(SandboxStreamEvent::Event(id, payload(&raw)?)))
        })
    }
}

impl Client {
    /// The sandbox's environment.
    pub async fn environment(&self) -> Result<EnvReply, ClientError> {
        self.get("/v1/env").await
    }

    /// Changes the sandbox's environment.
    pub async fn patch_environment(&self, patch: &EnvPatch) -> Result<EnvReply, ClientError> {
        self.patch("/v1/env", patch).await
    }

    /// What happens in the sandbox: from now on, or after the event with this number; only these types
    /// when some are named.
    pub async fn sandbox_events(
        &self,
        from: Option<u64>,
        types: &[&str],
    ) -> Result<SandboxStream, ClientError> {
        let types = (!types.is_empty()).then(|| types.join(","));
        let query = Query::default().with("from", from).with("types", types);
        let events = self.get_sse(&format!("/v1/events{query}")).await?;
        Ok(SandboxStream(events))
    }

    /// How the sandbox is isolated.
    pub async fn protections(&self) -> Result<ProtectionsReply, ClientError> {
        self.get("/v1/protections").await
    }

    /// What the sandbox uses.
    pub async fn stats(&self) -> Result<SandboxStats, ClientError> {
        self.get("/v1/stats").await
    }
}
