//! One call of a tool: whose rights it has, and whether anyone still waits for it.

use std::future::Future;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use sandshell_client::Client;
use sandshell_types::{ContextId, IdError, ProcessId, SandboxId, SessionId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;

/// Time between two messages of progress. A model reads none of them; a person reads not faster.
const BETWEEN: Duration = Duration::from_millis(250);

/// Longest message of progress, in characters.
const LINE: usize = 200;

/// A call under way.
pub(crate) struct Call {
    /// The hub, with the rights of whoever calls.
    pub(crate) hub: Client,
    pub(crate) cancelled: CancellationToken,
    pub(crate) progress: Option<Progress>,
}

impl Call {
    /// The client of a sandbox.
    pub(crate) fn sandbox(&self, id: &str) -> Result<Client, Refusal> {
        let id: SandboxId = sandbox_id(id)?;
        Ok(self.hub.sandbox(&id))
    }

    /// The result of some work, unless the call is cancelled before; then `end` ends it.
    pub(crate) async fn or_cancelled<T, E: Into<Refusal>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
        end: impl AsyncFnOnce() -> &'static str,
    ) -> Result<T, Refusal> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(Refusal::cancelled(end().await)),
            done = work => done.map_err(Into::into),
        }
    }
}

pub(crate) fn sandbox_id(id: &str) -> Result<SandboxId, Refusal> {
    id.parse().map_err(|error| {
        Refusal::argument("sandbox", error).hint("list_sandboxes shows the ids there are.")
    })
}

pub(crate) fn process_id(id: &str) -> Result<ProcessId, Refusal> {
    id.parse()
        .map_err(|error: IdError| Refusal::argument("process_id", error))
}

pub(crate) fn session_id(id: &str) -> Result<SessionId, Refusal> {
    id.parse()
        .map_err(|error: IdError| Refusal::argument("session", error))
}

pub(crate) fn context_id(id: &str) -> Result<ContextId, Refusal> {
    id.parse()
        .map_err(|error: IdError| Refusal::argument("context", error))
}

/// Tells a client that asked for it how far a call has come.
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Progress {
    pub(crate) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        Self { peer, token }
    }

    /// Starts to tell.
    pub(crate) fn start(&self) -> Telling<'_> {
        Telling {
            to: self,
            last: None,
        }
    }
}

/// What has been told, and when.
pub(crate) struct Telling<'a> {
    to: &'a Progress,
    last: Option<(Instant, u64)>,
}

impl Telling<'_> {
    /// Says that there are so many bytes now, and the last line of them; not too often.
    pub(crate) async fn say(&mut self, bytes: u64, text: &str) {
        let now = Instant::now();
        let told = self
            .last
            .is_some_and(|(at, before)| now < at + BETWEEN || bytes <= before);
        if told {
            return;
        }
        self.last = Some((now, bytes));
        let line = text.trim_end().lines().next_back().unwrap_or_default();
        let message: String = line.chars().take(LINE).collect();
        #[expect(clippy::cast_precision_loss, reason = "only ever shown")]
        let told = ProgressNotificationParam::new(self.to.token.clone(), bytes as f64)
            .with_message(message);
        // Nobody listens any more: the call ends soon too.
        let _ = self.to.peer.notify_progress(told).await;
    }
}
