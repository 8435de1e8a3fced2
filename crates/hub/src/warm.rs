//! The warm pool: sandboxes of the default spec that wait to be taken.
//!
//! Owns how many there are and their making, one at a time. They have no record until they are taken, and
//! an id only for whoever asks for none; a hub that dies leaves them to the next start's sweep.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandshell_types::{SandboxId, SandboxSpec};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::{Created, Place, SandboxPlan};
use crate::error::HubError;
use crate::registry::Registry;

/// Pause after a failed making: what is missing needs time to come back.
const RETRY: Duration = Duration::from_secs(5);

/// Pause after one was taken: whoever took it is about to use it, and on a small machine the making of
/// the next one would be in the way.
const MANNERS: Duration = Duration::from_millis(25);

/// A sandbox that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// What it calls itself so far.
    pub(crate) id: SandboxId,
    pub(crate) place: Place,
    pub(crate) slot: u32,
    pub(crate) created: Created,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    waiting: Mutex<VecDeque<Waiting>>,
    taken: Notify,
    size: usize,
}

impl Warm {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// How many are to wait.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Takes one for a spec that says nothing about what a sandbox is made of.
    pub(crate) fn take(&self, spec: &SandboxSpec) -> Option<Waiting> {
        if !fits(spec) {
            return None;
        }
        let taken = self.waiting().pop_front();
        if taken.is_some() {
            self.taken.notify_one();
        }
        taken
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a sandbox of the default spec is what is asked for.
fn fits(spec: &SandboxSpec) -> bool {
    let made_of = SandboxSpec {
        id: None,
        labels: std::collections::BTreeMap::new(),
        isolation: None,
        idle_timeout_ms: None,
        on_idle: None,
        max_lifetime_ms: None,
        ..spec.clone()
    };
    made_of == SandboxSpec::default()
}

/// Keeps the pool full until the hub ends, and then destroys what waits. A making that has begun is
/// finished first, so that nothing is left of it.
pub(crate) async fn keep(registry: Arc<Registry>, shutdown: CancellationToken) {
    let warm = registry.warm();
    while !shutdown.is_cancelled() {
        let pause = if warm.len() >= warm.size {
            None
        } else {
            match make(&registry).await {
                Ok(waiting) => {
                    warm.waiting().push_back(waiting);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "no sandbox for the warm pool");
                    Some(RETRY)
                }
            }
        };
        let next = async {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            } else {
                warm.taken.notified().await;
                tokio::time::sleep(MANNERS).await;
            }
        };
        tokio::select! {
            () = next => {}
            dead = death(&registry) => bury(&registry, &dead).await,
            () = shutdown.cancelled() => {}
        }
    }
    clear(&registry).await;
}

/// Resolves with the place of a sandbox that died while it waited.
async fn death(registry: &Registry) -> Place {
    let waiting: Vec<Place> = {
        let waiting = registry.warm().waiting();
        waiting.iter().map(|one| one.place.clone()).collect()
    };
    if waiting.is_empty() {
        return std::future::pending().await;
    }
    let ends = waiting.into_iter().map(|place| {
        let ended = registry.backend().ended(&place);
        Box::pin(async move {
            ended.await;
            place
        })
    });
    futures_util::future::select_all(ends).await.0
}

/// Removes one that died, unless it was taken meanwhile: then its owner does.
async fn bury(registry: &Arc<Registry>, dead: &Place) {
    let found = {
        let mut waiting = registry.warm().waiting();
        let at = waiting.iter().position(|one| one.place == *dead);
        at.and_then(|at| waiting.remove(at))
    };
    if let Some(found) = found {
        tracing::warn!(place = %dead, "a warm sandbox died");
        remove(registry, found.place, found.slot).await;
    }
}

async fn remove(registry: &Arc<Registry>, place: Place, slot: u32) {
    match registry.backend().destroy(&place).await {
        Ok(()) => registry.free_slot(slot),
        Err(error) => {
            tracing::warn!(%error, "a warm sandbox is not wholly removed");
            // Its ids are not given to another while something may have them.
            registry.remove_later(place, Some(slot));
        }
    }
}

async fn make(registry: &Arc<Registry>) -> Result<Waiting, HubError> {
    let place = Place::generate().map_err(HubError::Random)?;
    let slot = registry.take_slot()?;
    let plan = SandboxPlan {
        place,
        slot,
        id: SandboxId::generate(),
        waits: true,
        spec: SandboxSpec::default(),
    };
    match registry.backend().create(&plan).await {
        Ok(created) => Ok(Waiting {
            id: plan.id,
            place: plan.place,
            slot,
            created,
        }),
        Err(error) => {
            remove(registry, plan.place, slot).await;
            Err(error.into())
        }
    }
}

/// Destroys what waits.
async fn clear(registry: &Arc<Registry>) {
    loop {
        let Some(waiting) = registry.warm().waiting().pop_front() else {
            return;
        };
        remove(registry, waiting.place, waiting.slot).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_nothing_inside_fits() {
        let spec = |text: &str| serde_json::from_str::<SandboxSpec>(text).unwrap();
        for fitting in [
            "{}",
            r#"{"id":"a","labels":{"a":"b"},"idle_timeout_ms":1,"on_idle":"destroy"}"#,
            r#"{"isolation":{"policy":"best_effort"},"max_lifetime_ms":1}"#,
        ] {
            assert!(fits(&spec(fitting)), "{fitting}");
        }
        for other in [
            r#"{"env":{"A":"b"}}"#,
            r#"{"user":"root"}"#,
            r#"{"limits":{"pids":3}}"#,
            r#"{"network":{"mode":"none"}}"#,
            r#"{"image":"x"}"#,
        ] {
            assert!(!fits(&spec(other)), "{other}");
        }
    }
}
