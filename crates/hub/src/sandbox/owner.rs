//! The task that owns a sandbox's life.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandshell_types::{
    AuditEntry, ErrorCode, OnIdle, SandboxLimits, SandboxPatch, SandboxState, Timestamp,
};
use tokio::sync::{mpsc, watch};

use super::{By, Command, Published, Shared, Wish, policy};
use crate::audit;
use crate::backend::{Created, SandboxPlan};
use crate::error::HubError;
use crate::registry::Registry;
use crate::store::{Change, Stored};

/// Where a sandbox comes from.
pub(crate) enum Source {
    /// It is to be made.
    Fresh(By),
    /// It waited in the warm pool.
    Warm {
        created: Created,
        /// Whether it gets another id than that of its making.
        renamed: bool,
        by: By,
    },
    /// An earlier hub made it.
    Adopted,
}

pub(super) struct Owner {
    registry: Arc<Registry>,
    shared: Arc<Shared>,
    stored: Stored,
    publish: watch::Sender<Published>,
    commands: mpsc::Receiver<Command>,
}

/// What comes next in a sandbox's life.
enum Next {
    Command(Option<Command>),
    Died(String),
    Idle,
    Expired,
}

impl Owner {
    pub(super) fn new(
        registry: Arc<Registry>,
        shared: Arc<Shared>,
        stored: Stored,
        publish: watch::Sender<Published>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            registry,
            shared,
            stored,
            publish,
            commands,
        }
    }

    pub(super) async fn run(mut self, source: Source) {
        let made = match source {
            Source::Adopted => Ok(()),
            Source::Fresh(by) => self.make(None, &by).await,
            Source::Warm {
                created,
                renamed,
                by,
            } => self.make(Some((created, renamed)), &by).await,
        };
        match made {
            Ok(()) => self.live().await,
            Err(error) => {
                self.registry.not_made(&self.stored);
                self.publish.send_modify(|now| now.not_made = Some(error));
            }
        }
    }

    /// Makes it, or takes what is made, and writes it down. After a failure nothing is left of it.
    async fn make(&mut self, warm: Option<(Created, bool)>, by: &By) -> Result<(), HubError> {
        let began = std::time::Instant::now();
        let made = self.build(warm).await;
        let mut entry = audit::entry("sandbox.create", by, self.stored.record.id.as_str());
        let error = match made {
            Ok(()) => {
                self.stored.record.state = SandboxState::Ready;
                match self.write(vec![entry.clone()]).await {
                    Ok(()) => {
                        self.registry.figures().created(began.elapsed());
                        self.tell();
                        return Ok(());
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        self.remove().await;
        error.code().as_str().clone_into(&mut entry.outcome);
        entry.detail = Some(error.to_string());
        if let Err(error) = self
            .registry
            .store()
            .apply(vec![Change::Audit(entry)])
            .await
        {
            tracing::error!(%error, "a refused create is not in the audit log");
        }
        Err(error)
    }

    async fn build(&mut self, warm: Option<(Created, bool)>) -> Result<(), HubError> {
        let id = &self.stored.record.id;
        let created = if let Some((created, renamed)) = warm {
            let id = Some(id).filter(|_| renamed);
            self.registry.backend().take(&self.shared.place, id).await?;
            created
        } else {
            let plan = SandboxPlan {
                place: self.stored.place.clone(),
                slot: self.stored.slot.unwrap_or_default(),
                id: id.clone(),
                waits: false,
                spec: self.stored.record.spec.clone(),
            };
            self.registry.backend().create(&plan).await?
        };
        policy::check(
            self.stored.record.spec.isolation.as_ref(),
            &created.protections,
        )?;
        self.stored.record.protections = created.protections;
        Ok(())
    }

    /// From ready to the end.
    async fn live(&mut self) {
        let mut ended = self.registry.backend().ended(&self.shared.place);
        while !self.stored.record.state.is_over() {
            let next = tokio::select! {
                command = self.commands.recv() => Next::Command(command),
                reason = &mut ended => Next::Died(reason),
                () = idle(&self.stored, &self.shared) => Next::Idle,
                () = expired(&self.stored) => Next::Expired,
            };
            match next {
                Next::Command(Some(Command { wish, by, done })) => {
                    let outcome = self.fulfil(wish, &by).await;
                    // Whoever asked may have gone; it is done all the same.
                    let _ = done.send(outcome);
                }
                // The last handle is gone, and with it the hub.
                Next::Command(None) => return,
                Next::Died(reason) => self.bury(reason).await,
                Next::Idle => self.idled().await,
                Next::Expired => {
                    let reason = "its lifetime is over".to_owned();
                    self.destroy_by_itself(reason).await;
                }
            }
        }
    }

    async fn fulfil(&mut self, wish: Wish, by: &By) -> Result<(), HubError> {
        let state = self.stored.record.state;
        if state == SandboxState::Destroying && !matches!(wish, Wish::Destroy(_)) {
            return Err(HubError::SandboxGone {
                id: self.shared.id.clone(),
                reason: self.stored.record.reason.clone().unwrap_or_default(),
            });
        }
        let (backend, place) = (self.registry.backend(), &self.shared.place);
        match wish {
            // Nothing to write down. It is done again all the same: should it not be as it is called,
            // this is the way out.
            Wish::Pause if state == SandboxState::Paused => Ok(backend.pause(place).await?),
            Wish::Resume if state == SandboxState::Ready => Ok(backend.resume(place).await?),
            Wish::Pause => self.freeze(SandboxState::Paused, Some(by)).await,
            Wish::Resume => self.wake(Some(by)).await,
            Wish::Wake if state == SandboxState::Asleep => self.wake(None).await,
            Wish::Wake => Ok(()),
            Wish::Patch(patch) => self.patch(&patch, by).await,
            Wish::Destroy(reason) => self.destroy(reason, by).await,
        }
    }

    async fn freeze(&mut self, to: SandboxState, by: Option<&By>) -> Result<(), HubError> {
        let from = self.stored.record.state;
        let entries = by.map(|by| audit::entry("sandbox.pause", by, self.shared.id.as_str()));
        self.shared.open.store(false, Ordering::SeqCst);
        self.stored.record.state = to;
        let frozen = async {
            self.write(entries.into_iter().collect()).await?;
            // The agent would close idle connections the moment it is awake again.
            self.shared.upstream.clear();
            self.registry.backend().pause(&self.shared.place).await?;
            Ok(())
        }
        .await;
        if frozen.is_err() {
            self.stored.record.state = from;
            if let Err(error) = self.write(Vec::new()).await {
                tracing::error!(%error, sandbox = %self.shared.id, "its state is not written down");
            }
            let open = from == SandboxState::Ready;
            self.shared.open.store(open, Ordering::SeqCst);
        }
        self.tell();
        frozen
    }

    async fn wake(&mut self, by: Option<&By>) -> Result<(), HubError> {
        self.registry.backend().resume(&self.shared.place).await?;
        let entries = by.map(|by| audit::entry("sandbox.resume", by, self.shared.id.as_str()));
        let from = self.stored.record.state;
        self.stored.record.state = SandboxState::Ready;
        self.shared.activity.touch();
        let written = self.write(entries.into_iter().collect()).await;
        if written.is_err() {
            self.stored.record.state = from;
            // What nobody may use and is called frozen does not run.
            if let Err(error) = self.registry.backend().pause(&self.shared.place).await {
                tracing::error!(%error, sandbox = %self.shared.id, "it runs though it was not woken");
            }
        }
        self.tell();
        self.shared.open.store(written.is_ok(), Ordering::SeqCst);
        written
    }

    async fn patch(&mut self, patch: &SandboxPatch, by: &By) -> Result<(), HubError> {
        let before = self.stored.record.clone();
        let spec = &mut self.stored.record.spec;
        for (name, value) in &patch.labels {
            match value {
                Some(value) => drop(spec.labels.insert(name.clone(), value.clone())),
                None => drop(spec.labels.remove(name)),
            }
        }
        let set = |field: &mut Option<u64>, to: Option<u64>| {
            if let Some(to) = to {
                *field = Some(to).filter(|to| *to > 0);
            }
        };
        set(&mut spec.idle_timeout_ms, patch.idle_timeout_ms);
        set(&mut spec.max_lifetime_ms, patch.max_lifetime_ms);
        spec.on_idle = patch.on_idle.or(spec.on_idle);
        self.stored.record.expires_at =
            expires_at(self.stored.record.created_at, spec.max_lifetime_ms);
        let limits = before.spec.limits.clone().unwrap_or_default();
        let changed = patch.limits.as_ref().map(|patch| patch.or(&limits));
        if let Some(changed) = &changed {
            if let Err(error) = self.limit(&limits, changed).await {
                self.stored.record = before;
                return Err(error);
            }
            self.stored.record.spec.limits = Some(changed.clone());
        }
        let entry = audit::entry("sandbox.patch", by, self.shared.id.as_str());
        let written = self.write(vec![entry]).await;
        if written.is_err() {
            self.stored.record = before;
            if let Some(changed) = &changed
                && let Err(error) = self.limit(changed, &limits).await
            {
                tracing::error!(%error, sandbox = %self.shared.id, "its limits are not as recorded");
            }
        }
        self.tell();
        written
    }

    async fn limit(&self, from: &SandboxLimits, to: &SandboxLimits) -> Result<(), HubError> {
        let backend = self.registry.backend();
        Ok(backend.limit(&self.shared.place, from, to).await?)
    }

    async fn idled(&mut self) {
        let spec = &self.stored.record.spec;
        if spec.on_idle.unwrap_or_default() == OnIdle::Destroy {
            let reason = "it was idle".to_owned();
            return self.destroy_by_itself(reason).await;
        }
        self.shared.open.store(false, Ordering::SeqCst);
        // A request that came in before the door was closed is let through.
        if self.shared.activity.in_flight() > 0 {
            self.shared.open.store(true, Ordering::SeqCst);
            return;
        }
        if let Err(error) = self.freeze(SandboxState::Asleep, None).await {
            tracing::warn!(%error, sandbox = %self.shared.id, "it cannot be put to sleep");
            // Not tried again at once.
            self.shared.activity.touch();
        }
    }

    async fn destroy_by_itself(&mut self, reason: String) {
        if let Err(error) = self.destroy(reason, &By::default()).await {
            tracing::error!(%error, sandbox = %self.shared.id, "it cannot be destroyed");
            self.shared.activity.touch();
        }
    }

    async fn destroy(&mut self, reason: String, by: &By) -> Result<(), HubError> {
        let before = self.stored.record.clone();
        self.stored.record.state = SandboxState::Destroying;
        self.stored.record.reason.get_or_insert(reason);
        match self.write(Vec::new()).await {
            Ok(()) => {}
            // What is removed makes room for the record of it. Should we die before that, the next hub
            // finds the sandbox dead.
            Err(error) if error.code() == ErrorCode::NoSpace => {
                tracing::warn!(%error, sandbox = %self.shared.id, "it is destroyed on a full disk");
            }
            Err(error) => {
                self.stored.record = before;
                return Err(error);
            }
        }
        self.tell();
        self.shared.upstream.clear();
        self.registry.backend().destroy(&self.shared.place).await?;
        self.finish(SandboxState::Gone, "sandbox.destroy", by).await;
        Ok(())
    }

    /// It has died by itself.
    async fn bury(&mut self, reason: String) {
        tracing::warn!(sandbox = %self.shared.id, reason, "a sandbox died");
        // One that was told to end is gone as it was told to.
        let to = match self.stored.record.state {
            SandboxState::Destroying => SandboxState::Gone,
            _ => SandboxState::Failed,
        };
        self.stored.record.reason.get_or_insert(reason);
        self.shared.upstream.clear();
        self.remove().await;
        self.finish(to, "sandbox.fail", &By::default()).await;
    }

    /// Writes down that it is gone and tells everybody. It is gone whatever the store says, and the next
    /// hub finds the same.
    async fn finish(&mut self, to: SandboxState, action: &str, by: &By) {
        let record = &mut self.stored.record;
        record.state = to;
        record.ended_at = Some(Timestamp::now());
        record.last_used_at = self.shared.activity.last_used_at();
        let slot = self.stored.slot.take();
        let mut entry = audit::entry(action, by, self.shared.id.as_str());
        entry.detail.clone_from(&self.stored.record.reason);
        if let Err(error) = self.write(vec![entry]).await {
            tracing::error!(%error, sandbox = %self.shared.id, "its end is not written down");
        }
        self.registry.over(&self.stored, slot).await;
        self.tell();
    }

    /// Removes what there is of it.
    async fn remove(&mut self) {
        let place = &self.shared.place;
        if let Err(error) = self.registry.backend().destroy(place).await {
            tracing::error!(%error, sandbox = %self.shared.id, "it is not wholly removed");
            // Its ids are not given to another while something may have them.
            let slot = self.stored.slot.take();
            self.registry.remove_later(place.clone(), slot);
        }
    }

    async fn write(&self, entries: Vec<AuditEntry>) -> Result<(), HubError> {
        let mut changes = vec![Change::PutSandbox(Box::new(self.stored.clone()))];
        changes.extend(entries.into_iter().map(Change::Audit));
        Ok(self.registry.store().apply(changes).await?)
    }

    fn tell(&self) {
        self.publish.send_replace(Published {
            stored: Arc::new(self.stored.clone()),
            not_made: None,
        });
    }
}

/// Resolves when a sandbox that runs has not been used for its time.
async fn idle(stored: &Stored, shared: &Shared) {
    let record = &stored.record;
    match (record.state, record.spec.idle_timeout_ms) {
        (SandboxState::Ready, Some(timeout)) => {
            let timeout = Duration::from_millis(timeout);
            shared.activity.idle_for(timeout).await;
        }
        _ => pending().await,
    }
}

/// Resolves when its lifetime is over.
async fn expired(stored: &Stored) {
    match (stored.record.state, stored.record.expires_at) {
        // Its end was tried, and is tried again when asked for.
        (SandboxState::Destroying, _) | (_, None) => pending().await,
        (_, Some(at)) => {
            let left = at.duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            tokio::time::sleep(left).await;
        }
    }
}

/// When a lifetime that began then ends.
pub(crate) fn expires_at(created_at: Timestamp, max_lifetime_ms: Option<u64>) -> Option<Timestamp> {
    let lifetime = Duration::from_millis(max_lifetime_ms?);
    // A lifetime beyond the end of time never ends.
    created_at.checked_add(lifetime).ok()
}
