//! Which sandboxes there are, by id.
//!
//! Owns ids, slots, quotas and the records of what is over. Does not own a sandbox's life (`sandbox`)
//! nor who may see it (`tokens`).
//!
//! Invariants: an id stands for one live sandbox at most, however many ask for it at once; a slot is
//! one sandbox's until all of that sandbox is gone; records of what is over are bounded in number and
//! age, here and in the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandshell_sys::task;
use sandshell_types::{ErrorCode, SandboxId, SandboxRecord, SandboxSpec, SandboxState, Timestamp};
use tokio::task::{JoinError, JoinSet};

use crate::audit;
use crate::backend::{Backend, BackendError, Place};
use crate::error::HubError;
use crate::figures::Figures;
use crate::sandbox::{By, Sandbox, Source, is_frozen, show};
use crate::store::{Change, Store, StoreError, Stored};
use crate::tokens::Token;
use crate::warm::Warm;

/// Records of sandboxes that are over.
const OVER_KEPT: usize = 1000;

/// How long they are kept.
const OVER_KEPT_FOR: Duration = Duration::from_hours(24);

/// Pauses before it is tried again to remove what is left of a sandbox.
const REMOVED_AFTER: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_mins(30),
];

/// Bounds of the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Live sandboxes of all together.
    pub(crate) sandboxes: usize,
    /// Live sandboxes of one token that says nothing else.
    pub(crate) per_token: usize,
}

pub(crate) struct Registry {
    backend: Arc<dyn Backend>,
    store: Store,
    figures: Figures,
    warm: Warm,
    bounds: Bounds,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    live: HashMap<SandboxId, Sandbox>,
    /// One whose id is live again is kept for the case that its successor cannot be made.
    over: HashMap<SandboxId, Stored>,
    slots: BTreeSet<u32>,
    /// No more are made: the hub ends.
    closed: bool,
}

/// A sandbox that can be shown.
pub(crate) enum Found {
    Live(Sandbox),
    Over(Box<SandboxRecord>),
}

impl Registry {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        store: Store,
        bounds: Bounds,
        warm: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            backend,
            store,
            figures: Figures::default(),
            warm: Warm::new(warm),
            bounds,
            table: Mutex::default(),
        })
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    pub(crate) fn warm(&self) -> &Warm {
        &self.warm
    }

    /// Most sandboxes at a time.
    pub(crate) fn most(&self) -> usize {
        self.bounds.sandboxes
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a sandbox, or finds the one that was made with the same id and spec. The flag tells
    /// whether it was made now.
    pub(crate) async fn create(
        self: &Arc<Self>,
        spec: &SandboxSpec,
        token: &Token,
        by: By,
    ) -> Result<(Sandbox, bool), HubError> {
        loop {
            let (sandbox, fresh) = self.claim(spec, token, &by)?;
            let published = sandbox.made().await?;
            if fresh {
                return Ok((sandbox, true));
            }
            let state = published.stored.record.state;
            if state == SandboxState::Destroying || state.is_over() {
                // The id is free in a moment.
                sandbox.over().await;
                continue;
            }
            same(&published.stored, spec, token)?;
            return Ok((sandbox, false));
        }
    }

    /// The live sandbox of an id, or a new one that is being made.
    fn claim(
        self: &Arc<Self>,
        spec: &SandboxSpec,
        token: &Token,
        by: &By,
    ) -> Result<(Sandbox, bool), HubError> {
        let mut table = self.table();
        if let Some(id) = &spec.id
            && let Some(sandbox) = table.live.get(id)
        {
            return Ok((sandbox.clone(), false));
        }
        if table.closed {
            return Err(HubError::Ending);
        }
        self.check_quota(&table, token)?;
        let (id, place, slot, source) = if let Some(waiting) = self.warm.take(spec) {
            self.figures.taken_warm();
            let source = Source::Warm {
                created: waiting.created,
                renamed: spec.id.is_some(),
                by: by.clone(),
            };
            let id = spec.id.clone().unwrap_or(waiting.id);
            (id, waiting.place, waiting.slot, source)
        } else {
            let id = spec.id.clone().unwrap_or_else(SandboxId::generate);
            let place = Place::generate().map_err(HubError::Random)?;
            (id, place, table.take_slot()?, Source::Fresh(by.clone()))
        };
        let now = Timestamp::now();
        let stored = Stored {
            record: SandboxRecord {
                id: id.clone(),
                state: SandboxState::Creating,
                reason: None,
                owner: token.id().to_owned(),
                spec: SandboxSpec {
                    id: None,
                    ..spec.clone()
                },
                protections: Vec::new(),
                created_at: now,
                last_used_at: now,
                expires_at: crate::sandbox::expires_at(now, spec.max_lifetime_ms),
                ended_at: None,
            },
            asked: SandboxSpec {
                id: None,
                ..spec.clone()
            },
            place,
            slot: Some(slot),
        };
        let sandbox = Sandbox::start(self, stored, source);
        // Once it is written down it takes the place of the one that had the id before.
        table.live.insert(id, sandbox.clone());
        Ok((sandbox, true))
    }

    fn check_quota(&self, table: &Table, token: &Token) -> Result<(), HubError> {
        if table.live.len() >= self.bounds.sandboxes {
            return Err(HubError::Quota {
                detail: format!("there are {} sandboxes already", self.bounds.sandboxes),
            });
        }
        let most = token.max_sandboxes().unwrap_or(self.bounds.per_token);
        let own = table.live.values().filter(|one| one.owner() == token.id());
        if own.count() >= most {
            return Err(HubError::Quota {
                detail: format!("this token has {most} sandboxes already"),
            });
        }
        Ok(())
    }

    /// A sandbox that this token may know of.
    pub(crate) fn find(&self, id: &str, token: &Token) -> Result<Found, HubError> {
        let table = self.table();
        match (table.live.get(id), table.over.get(id)) {
            (Some(sandbox), _) if sandbox.opens_to(token) => Ok(Found::Live(sandbox.clone())),
            (None, Some(stored)) if token.may_use(&stored.record) => {
                Ok(Found::Over(Box::new(show(&stored.record))))
            }
            _ => Err(HubError::SandboxNotFound(id.to_owned())),
        }
    }

    /// A live one that this token may use.
    pub(crate) fn live(&self, id: &str, token: &Token) -> Result<Sandbox, HubError> {
        match self.find(id, token)? {
            Found::Live(sandbox) => Ok(sandbox),
            Found::Over(record) => Err(HubError::SandboxGone {
                id: record.id,
                reason: record.reason.unwrap_or_default(),
            }),
        }
    }

    /// A live one, whoever asks; for names that carry their own right.
    pub(crate) fn any_live(&self, id: &str) -> Option<Sandbox> {
        self.table().live.get(id).cloned()
    }

    pub(crate) fn all_live(&self) -> Vec<Sandbox> {
        self.table().live.values().cloned().collect()
    }

    /// Records that this token may see, oldest first.
    pub(crate) fn records(&self, token: &Token, over: bool) -> Vec<SandboxRecord> {
        let table = self.table();
        let mut records: Vec<SandboxRecord> = table
            .live
            .values()
            .filter(|one| one.opens_to(token))
            .map(Sandbox::record)
            .collect();
        if over {
            let ended = table.ended().map(|stored| &stored.record);
            let seen = ended.filter(|record| token.may_use(record));
            records.extend(seen.map(show));
        }
        drop(table);
        records.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        records
    }

    pub(crate) fn states(&self) -> Vec<SandboxState> {
        let table = self.table();
        let live = table.live.values().map(Sandbox::state);
        live.chain(table.ended().map(|stored| stored.record.state))
            .collect()
    }

    pub(crate) fn take_slot(&self) -> Result<u32, HubError> {
        self.table().take_slot()
    }

    pub(crate) fn free_slot(&self, slot: u32) {
        self.table().slots.remove(&slot);
    }

    /// A sandbox was not made; nothing is left of it.
    pub(crate) fn not_made(&self, stored: &Stored) {
        let mut table = self.table();
        table.live.remove(&stored.record.id);
        if let Some(slot) = stored.slot {
            table.slots.remove(&slot);
        }
    }

    /// A sandbox is over: its record moves to those that are, and its slot is free.
    pub(crate) async fn over(&self, stored: &Stored, slot: Option<u32>) {
        self.figures.ended();
        let forgotten = {
            let mut table = self.table();
            table.live.remove(&stored.record.id);
            table.over.insert(stored.record.id.clone(), stored.clone());
            if let Some(slot) = slot {
                table.slots.remove(&slot);
            }
            table.drop_old()
        };
        self.forget(forgotten).await;
    }

    async fn forget(&self, ids: Vec<SandboxId>) {
        let changes: Vec<Change> = ids.into_iter().map(Change::ForgetSandbox).collect();
        if !changes.is_empty()
            && let Err(error) = self.store.apply(changes).await
        {
            tracing::error!(%error, "old records are not forgotten");
        }
    }

    /// Removes later what cannot be removed now, for lack of descriptors perhaps, and frees the slot then. What resists
    /// is left to the next start's sweep.
    pub(crate) fn remove_later(self: &Arc<Self>, place: Place, slot: Option<u32>) {
        let registry = Arc::downgrade(self);
        task::spawn(async move {
            for pause in REMOVED_AFTER {
                tokio::time::sleep(pause).await;
                let Some(registry) = registry.upgrade() else {
                    return;
                };
                if registry.backend.destroy(&place).await.is_ok() {
                    if let Some(slot) = slot {
                        registry.table().slots.remove(&slot);
                    }
                    return;
                }
            }
        });
    }

    /// Takes over what an earlier hub left: adopts what is alive, buries what is dead, finishes what
    /// was being ended, and has the backend remove the rest. Fails where something may live of which it cannot be
    /// seen to.
    pub(crate) async fn recover(self: &Arc<Self>, stored: Vec<Stored>) -> Result<(), RecoverError> {
        let mut adopting = JoinSet::new();
        for stored in stored {
            if stored.record.state.is_over() {
                let id = stored.record.id.clone();
                self.table().over.insert(id, stored);
                continue;
            }
            if let Some(slot) = stored.slot {
                self.table().slots.insert(slot);
            }
            let registry = Arc::clone(self);
            adopting.spawn(async move { registry.recover_one(stored).await });
        }
        let (mut adopted, mut left, mut refused) = (Vec::new(), HashMap::new(), None);
        // All are seen to, also where one cannot be: none is to be left in the midst of it.
        while let Some(done) = adopting.join_next().await {
            match done.map_err(RecoverError::from).flatten() {
                Ok(Recovered::Lives(stored)) => adopted.push(*stored),
                Ok(Recovered::Over) => {}
                Ok(Recovered::Remains(place, slot)) => drop(left.insert(place, slot)),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let known: HashSet<Place> = adopted.iter().map(|stored| stored.place.clone()).collect();
        let swept = self.backend.sweep(&known).await;
        for (place, error) in swept.map_err(RecoverError::not_seen)? {
            match error {
                BackendError::Remains(_) => {
                    tracing::error!(%error, %place, "what is left of a sandbox is not removed");
                    left.entry(place).or_insert(None);
                }
                // Nobody knows what ids it has, so none could be given to another.
                error => drop(refused.get_or_insert(RecoverError::not_ended(place, error))),
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        for (place, slot) in left {
            self.remove_later(place, slot);
        }
        // Only now, for one whose time is over ends at once: the sweep would meet a sandbox that is half removed.
        for stored in adopted {
            let id = stored.record.id.clone();
            let sandbox = Sandbox::start(self, stored, Source::Adopted);
            self.table().live.insert(id, sandbox);
        }
        let forgotten = self.table().drop_old();
        self.forget(forgotten).await;
        Ok(())
    }

    /// Has one be as its record says, or buries it if it is known to be dead.
    async fn recover_one(self: Arc<Self>, mut stored: Stored) -> Result<Recovered, RecoverError> {
        let id = stored.record.id.clone();
        let dead = if stored.record.state == SandboxState::Destroying {
            None
        } else {
            match self.backend.adopt(&stored.place, &stored.record.spec).await {
                Ok(()) => {
                    self.settle(&mut stored).await?;
                    return Ok(Recovered::Lives(Box::new(stored)));
                }
                Err(BackendError::Dead(reason)) => Some(reason),
                Err(error) => {
                    // To be looked at it may have been thawed.
                    if is_frozen(stored.record.state)
                        && let Err(error) = self.backend.pause(&stored.place).await
                    {
                        tracing::error!(%error, sandbox = %id, "it may run though it was paused");
                    }
                    return Err(RecoverError::not_taken(id, error));
                }
            }
        };
        let removed = match self.backend.destroy(&stored.place).await {
            Ok(()) => true,
            Err(error @ BackendError::Remains(_)) => {
                tracing::error!(%error, sandbox = %id, "it is not wholly removed");
                false
            }
            // It may live, and is not to be called over.
            Err(error) => return Err(RecoverError::not_taken(id, error)),
        };
        let action = if dead.is_some() {
            "sandbox.fail"
        } else {
            "sandbox.destroy"
        };
        stored.record.state = match dead {
            Some(_) => SandboxState::Failed,
            None => SandboxState::Gone,
        };
        if let Some(reason) = dead {
            tracing::warn!(sandbox = %id, reason, "a sandbox did not outlive the hub's absence");
            stored.record.reason = Some(reason);
        }
        stored.record.ended_at = Some(Timestamp::now());
        let (place, slot) = (stored.place.clone(), stored.slot.take());
        let mut entry = audit::entry(action, &By::default(), id.as_str());
        entry.detail.clone_from(&stored.record.reason);
        let changes = vec![
            Change::PutSandbox(Box::new(stored.clone())),
            Change::Audit(entry),
        ];
        self.store.apply(changes).await?;
        let mut table = self.table();
        table.over.insert(id, stored);
        if !removed {
            // Its ids are not given to another while something may have them.
            return Ok(Recovered::Remains(place, slot));
        }
        if let Some(slot) = slot {
            table.slots.remove(&slot);
        }
        Ok(Recovered::Over)
    }

    /// Has one that lives be as its record says, which was perhaps written by a hub that died before it
    /// did so. What cannot be done is no reason to give a living sandbox up: its record then says what it
    /// is instead.
    async fn settle(&self, stored: &mut Stored) -> Result<(), RecoverError> {
        let recorded = stored.record.state;
        let frozen = is_frozen(recorded);
        let settled = if frozen {
            self.backend.pause(&stored.place).await
        } else {
            self.backend.resume(&stored.place).await
        };
        let id = stored.record.id.clone();
        let error = match settled {
            Ok(()) => return Ok(()),
            Err(error @ BackendError::Lack { .. }) => {
                return Err(RecoverError::not_taken(id, error));
            }
            Err(error) => error,
        };
        let mut entry = if frozen {
            // It runs, and not only in part.
            let resumed = self.backend.resume(&stored.place).await;
            resumed.map_err(|error| RecoverError::not_taken(id.clone(), error))?;
            stored.record.state = SandboxState::Ready;
            audit::entry("sandbox.resume", &By::default(), id.as_str())
        } else {
            // Whoever asks for it has it tried again, and is told why not.
            stored.record.state = SandboxState::Asleep;
            let mut entry = audit::entry("sandbox.resume", &By::default(), id.as_str());
            ErrorCode::Unavailable
                .as_str()
                .clone_into(&mut entry.outcome);
            entry
        };
        tracing::error!(%error, sandbox = %id, state = ?stored.record.state, "a sandbox is not as it was left");
        entry.detail = Some(format!("after the hub's absence: {error}"));
        let changes = vec![
            Change::PutSandbox(Box::new(stored.clone())),
            Change::Audit(entry),
        ];
        Ok(self.store.apply(changes).await?)
    }

    /// Makes no more.
    pub(crate) fn close(&self) {
        self.table().closed = true;
    }
}

/// What became of a sandbox that an earlier hub had.
enum Recovered {
    Lives(Box<Stored>),
    Over,
    /// It is over, and not all that it had is removed.
    Remains(Place, Option<u32>),
}

/// Why a hub cannot go on from where an earlier one stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecoverError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A sandbox that may well live would have to be given up.
    #[error("cannot take over the sandbox \"{id}\"")]
    NotTaken {
        id: SandboxId,
        /// Whether it is we who have too little of something.
        lacks: bool,
        source: io::Error,
    },
    /// The same, and not even which.
    #[error("taking over a sandbox was cut short")]
    CutShort(#[from] JoinError),
    /// A sandbox that no record names may well live, with ids that nobody knows.
    #[error("cannot end what is left of a sandbox in {place}")]
    NotEnded {
        place: Place,
        /// Whether it is we who have too little of something.
        lacks: bool,
        source: io::Error,
    },
    /// It cannot be seen whether there are such.
    #[error("cannot look for what is left of sandboxes")]
    NotSeen(#[source] io::Error),
}

impl RecoverError {
    fn not_taken(id: SandboxId, error: BackendError) -> Self {
        let (lacks, source) = cause(error);
        Self::NotTaken { id, lacks, source }
    }

    fn not_ended(place: Place, error: BackendError) -> Self {
        let (lacks, source) = cause(error);
        Self::NotEnded {
            place,
            lacks,
            source,
        }
    }

    fn not_seen(error: BackendError) -> Self {
        Self::NotSeen(cause(error).1)
    }
}

/// Whether it is we who have too little of something, and what is behind an error.
fn cause(error: BackendError) -> (bool, io::Error) {
    match error {
        BackendError::Lack { errno, .. } => (true, errno.into()),
        BackendError::Failed { source, .. } => (false, source),
        other => (false, io::Error::other(other)),
    }
}

impl Table {
    /// The lowest that is free.
    fn take_slot(&mut self) -> Result<u32, HubError> {
        let free = (0..u32::MAX).find(|slot| !self.slots.contains(slot));
        let free = free.ok_or(HubError::Quota {
            detail: "there are no slots left".to_owned(),
        })?;
        self.slots.insert(free);
        Ok(free)
    }

    /// What is over and has no successor.
    fn ended(&self) -> impl Iterator<Item = &Stored> {
        let over = self.over.values();
        over.filter(|stored| !self.live.contains_key(&stored.record.id))
    }

    /// Drops records that are too old or too many; gives their ids.
    fn drop_old(&mut self) -> Vec<SandboxId> {
        let mut ended: Vec<(Timestamp, SandboxId)> = self
            .ended()
            .map(|stored| {
                let record = &stored.record;
                (
                    record.ended_at.unwrap_or(record.created_at),
                    record.id.clone(),
                )
            })
            .collect();
        ended.sort();
        let oldest = Timestamp::now() - OVER_KEPT_FOR;
        let too_many = ended.len().saturating_sub(OVER_KEPT);
        let dropped: Vec<SandboxId> = ended
            .into_iter()
            .enumerate()
            .filter(|(at, (ended, _))| *at < too_many || *ended < oldest)
            .map(|(_, (_, id))| id)
            .collect();
        for id in &dropped {
            self.over.remove(id);
        }
        dropped
    }
}

/// Refuses a create whose spec is not the one the sandbox was made with.
fn same(stored: &Stored, spec: &SandboxSpec, token: &Token) -> Result<(), HubError> {
    let id = stored.record.id.clone();
    if !token.may_manage(&stored.record.owner) {
        return Err(HubError::IdConflict { id, field: None });
    }
    let asked = SandboxSpec {
        id: None,
        ..spec.clone()
    };
    if asked == stored.asked {
        return Ok(());
    }
    let value = |spec: &SandboxSpec| serde_json::to_value(spec).unwrap_or_default();
    let (was, now) = (value(&stored.asked), value(&asked));
    let fields = |value: &serde_json::Value| -> BTreeSet<String> {
        let object = value.as_object().into_iter().flatten();
        object.map(|(name, _)| name.clone()).collect()
    };
    let all: BTreeSet<String> = fields(&was).union(&fields(&now)).cloned().collect();
    let field = all.into_iter().find(|name| was.get(name) != now.get(name));
    Err(HubError::IdConflict {
        id,
        field: Some(field.unwrap_or_else(|| "spec".to_owned())),
    })
}

#[cfg(test)]
mod tests;
