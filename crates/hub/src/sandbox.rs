//! One sandbox and its owner: the task that alone changes its life.
//!
//! ```text
//!             made                     pause / resume
//! creating ─────────► ready ◄──────────────────────────────► paused
//!    │                │ │ ▲                                    │
//!    │ not made       │ │ └── any request ── asleep ◄── idle   │
//!    ▼                │ └──────────────────────────────────┐   │
//! (forgotten)         │ delete, idle, lifetime             │   │ its agent ends
//!                     ▼                                    ▼   ▼
//!                 destroying ──► gone                      failed
//! ```
//!
//! Owns the order of things in one sandbox's life. Does not own who may ask (`edge`), which ids there
//! are (`registry`) or how a sandbox is made (`backend`).
//!
//! Invariants: a state is in the store before anyone is told of it, but for `creating`, which a hub
//! that dies in it leaves to the sweep, and for an end that the store did not take; a freeze is written down before it is done and a waking after,
//! so that what the store calls running may be used at once and what it calls frozen can be frozen
//! again; a request that has been let in is never frozen by the idle timer.

pub(crate) mod activity;
mod owner;
pub(crate) mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandshell_sys::task;
use sandshell_types::{SandboxId, SandboxPatch, SandboxRecord, SandboxState, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};

use crate::backend::Place;
use crate::error::HubError;
use crate::registry::Registry;
use crate::route::Upstream;
use crate::store::Stored;
use crate::tokens::Token;
use activity::{Activity, InUse};
use owner::Owner;
pub(crate) use owner::Source;
pub(crate) use owner::expires_at;

/// Commands that may wait for the owner.
const QUEUE: usize = 64;

/// Who asked, for the audit log.
#[derive(Debug, Clone, Default)]
pub(crate) struct By {
    pub(crate) token: Option<String>,
    pub(crate) request_id: Option<String>,
}

/// What is known of a sandbox outside its owner.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) stored: Arc<Stored>,
    /// Why it was not made.
    pub(crate) not_made: Option<HubError>,
}

#[derive(Debug)]
enum Wish {
    Pause,
    Resume,
    /// A request has come for it.
    Wake,
    Patch(SandboxPatch),
    Destroy(String),
}

#[derive(Debug)]
struct Command {
    wish: Wish,
    by: By,
    done: oneshot::Sender<Result<(), HubError>>,
}

/// A handle; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    id: SandboxId,
    place: Place,
    owner: String,
    published: watch::Receiver<Published>,
    commands: mpsc::Sender<Command>,
    activity: Arc<Activity>,
    upstream: Upstream,
    /// Whether requests are let in. Closed before a freeze begins and opened after a waking, so that
    /// nobody is let in while the one or the other is under way.
    open: AtomicBool,
}

impl Sandbox {
    /// Gives a sandbox its owner, which first makes it when it is not there yet.
    pub(crate) fn start(registry: &Arc<Registry>, stored: Stored, source: Source) -> Self {
        let (publish, published) = watch::channel(Published {
            stored: Arc::new(stored.clone()),
            not_made: None,
        });
        let (commands, queue) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            id: stored.record.id.clone(),
            place: stored.place.clone(),
            owner: stored.record.owner.clone(),
            published,
            commands,
            activity: Activity::new(),
            upstream: Upstream::new(registry.backend().endpoint(&stored.place)),
            open: AtomicBool::new(!is_frozen(stored.record.state)),
        });
        let owner = Owner::new(
            Arc::clone(registry),
            Arc::clone(&shared),
            stored,
            publish,
            queue,
        );
        task::spawn(owner.run(source));
        Self(shared)
    }

    pub(crate) fn id(&self) -> &SandboxId {
        &self.0.id
    }

    pub(crate) fn created_at(&self) -> Timestamp {
        self.0.published.borrow().stored.record.created_at
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// The id of the token that made it.
    pub(crate) fn owner(&self) -> &str {
        &self.0.owner
    }

    /// Whether this token may use it.
    pub(crate) fn opens_to(&self, token: &Token) -> bool {
        token.may_use(&self.0.published.borrow().stored.record)
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.0.upstream
    }

    pub(crate) fn state(&self) -> SandboxState {
        self.0.published.borrow().stored.record.state
    }

    pub(crate) fn published(&self) -> Published {
        self.0.published.borrow().clone()
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.0.published.borrow().stored.record.spec.labels.clone()
    }

    /// The record as people see it.
    pub(crate) fn record(&self) -> SandboxRecord {
        let mut record = show(&self.0.published.borrow().stored.record);
        if !record.state.is_over() {
            record.last_used_at = self.0.activity.last_used_at();
        }
        record
    }

    /// What became of it, once it is made or not.
    pub(crate) async fn made(&self) -> Result<Published, HubError> {
        let mut published = self.0.published.clone();
        let settled = published.wait_for(|now| {
            now.not_made.is_some() || now.stored.record.state != SandboxState::Creating
        });
        match settled.await {
            Ok(now) => match &now.not_made {
                Some(error) => Err(error.clone()),
                None => Ok(now.clone()),
            },
            Err(_) => Err(HubError::Ending),
        }
    }

    /// Waits until it is over, one way or the other.
    pub(crate) async fn over(&self) {
        let mut published = self.0.published.clone();
        // An owner that is gone without a word has ended with the hub.
        let _ = published
            .wait_for(|now| now.not_made.is_some() || now.stored.record.state.is_over())
            .await;
    }

    /// Lets a request in, waking the sandbox if it sleeps. It counts until the guard is dropped.
    pub(crate) async fn enter(&self) -> Result<InUse, HubError> {
        // Counted before the door is looked at: the owner closes it before it looks at the count.
        let guard = self.0.activity.enter();
        loop {
            match self.state() {
                SandboxState::Ready if self.0.open.load(Ordering::SeqCst) => return Ok(guard),
                SandboxState::Ready | SandboxState::Asleep => {
                    self.ask(Wish::Wake, By::default()).await?;
                }
                SandboxState::Creating => drop(self.made().await?),
                SandboxState::Paused => return Err(HubError::SandboxPaused(self.id().clone())),
                SandboxState::Destroying | SandboxState::Gone | SandboxState::Failed => {
                    return Err(self.gone());
                }
            }
        }
    }

    /// Starts its idle time anew, and wakes it.
    pub(crate) async fn keep_alive(&self) -> Result<(), HubError> {
        self.0.activity.touch();
        match self.enter().await {
            Ok(_) | Err(HubError::SandboxPaused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn pause(&self, by: By) -> Result<(), HubError> {
        self.ask(Wish::Pause, by).await
    }

    pub(crate) async fn resume(&self, by: By) -> Result<(), HubError> {
        self.ask(Wish::Resume, by).await
    }

    pub(crate) async fn patch(&self, patch: SandboxPatch, by: By) -> Result<(), HubError> {
        self.ask(Wish::Patch(patch), by).await
    }

    pub(crate) async fn destroy(&self, reason: &str, by: By) -> Result<(), HubError> {
        match self.ask(Wish::Destroy(reason.to_owned()), by).await {
            // Somebody else was quicker.
            Err(HubError::SandboxGone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn ask(&self, wish: Wish, by: By) -> Result<(), HubError> {
        let (done, answer) = oneshot::channel();
        let command = Command { wish, by, done };
        if self.0.commands.send(command).await.is_err() {
            return Err(self.gone());
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Why it answers no more, if it is being ended or over.
    pub(crate) fn end(&self) -> Option<HubError> {
        let state = self.state();
        (state == SandboxState::Destroying || state.is_over()).then(|| self.gone())
    }

    fn gone(&self) -> HubError {
        let published = self.published();
        if let Some(error) = published.not_made {
            return error;
        }
        let record = &published.stored.record;
        HubError::SandboxGone {
            id: record.id.clone(),
            reason: record
                .reason
                .clone()
                .unwrap_or_else(|| "it is being destroyed".to_owned()),
        }
    }
}

pub(crate) fn is_frozen(state: SandboxState) -> bool {
    matches!(state, SandboxState::Paused | SandboxState::Asleep)
}

/// A record without what nobody is to see.
pub(crate) fn show(record: &SandboxRecord) -> SandboxRecord {
    let mut shown = record.clone();
    shown.spec.id = None;
    for secret in &mut shown.spec.secrets {
        secret.value = None;
    }
    shown
}
