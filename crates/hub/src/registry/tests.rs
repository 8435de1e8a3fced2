//! What becomes of sandboxes that an earlier hub left, with a backend that fails as it is told.

use sandshell_types::SandboxLimits;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::backend::{Created, Endpoint, NotSwept, Pending, SandboxPlan};
use crate::warm;

/// Does nothing, and fails where it is told to.
#[derive(Default)]
struct Fake {
    /// What is called, in order.
    calls: Mutex<Vec<String>>,
    /// Answers to a call that are given before all goes well.
    failures: Mutex<HashMap<String, Vec<BackendError>>>,
    /// What a sweep leaves.
    not_swept: Mutex<NotSwept>,
    /// Calls that are not answered before this is told.
    held: Mutex<HashMap<String, Arc<Notify>>>,
    called: Notify,
}

impl Fake {
    fn fails(&self, call: &str, place: &Place, errors: Vec<BackendError>) {
        self.fails_anywhere(&format!("{call} {place}"), errors);
    }

    fn fails_anywhere(&self, call: &str, errors: Vec<BackendError>) {
        let mut failures = self.failures.lock().unwrap();
        failures.insert(call.to_owned(), errors);
    }

    fn holds(&self, call: &str, place: &Place) -> Arc<Notify> {
        let go = Arc::new(Notify::new());
        let call = format!("{call} {place}");
        self.held.lock().unwrap().insert(call, Arc::clone(&go));
        go
    }

    fn count(&self, call: &str, place: &Place) -> usize {
        let call = format!("{call} {place}");
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|made| **made == call).count()
    }

    /// Waits until something was called so often.
    async fn until(&self, call: &str, place: &Place, times: usize) {
        while self.count(call, place) < times {
            self.called.notified().await;
        }
    }

    fn answer(&self, name: &str, place: &Place) -> Pending<'_, Result<(), BackendError>> {
        let call = format!("{name} {place}");
        self.calls.lock().unwrap().push(call.clone());
        self.called.notify_one();
        let held = self.held.lock().unwrap().remove(&call);
        let mut failures = self.failures.lock().unwrap();
        let failure = [call.as_str(), name]
            .iter()
            .find_map(|call| failures.get_mut(*call)?.pop());
        Box::pin(async move {
            if let Some(go) = held {
                go.notified().await;
            }
            failure.map_or(Ok(()), Err)
        })
    }
}

impl Backend for Fake {
    fn create<'a>(&'a self, plan: &'a SandboxPlan) -> Pending<'a, Result<Created, BackendError>> {
        Box::pin(async {
            self.answer("create", &plan.place).await?;
            Ok(Created::default())
        })
    }

    fn take<'a>(
        &'a self,
        place: &'a Place,
        _: Option<&'a SandboxId>,
    ) -> Pending<'a, Result<(), BackendError>> {
        self.answer("take", place)
    }

    fn adopt<'a>(
        &'a self,
        place: &'a Place,
        _: &'a SandboxSpec,
    ) -> Pending<'a, Result<(), BackendError>> {
        self.answer("adopt", place)
    }

    fn endpoint(&self, _: &Place) -> Endpoint {
        Endpoint::Unix("/nowhere".into())
    }

    fn ended(&self, _: &Place) -> Pending<'static, String> {
        Box::pin(std::future::pending())
    }

    fn pause<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        self.answer("pause", place)
    }

    fn resume<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        self.answer("resume", place)
    }

    fn limit<'a>(
        &'a self,
        place: &'a Place,
        _: &'a SandboxLimits,
        _: &'a SandboxLimits,
    ) -> Pending<'a, Result<(), BackendError>> {
        self.answer("limit", place)
    }

    fn destroy<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        self.answer("destroy", place)
    }

    fn sweep<'a>(&'a self, _: &'a HashSet<Place>) -> Pending<'a, Result<NotSwept, BackendError>> {
        let not_swept = std::mem::take(&mut *self.not_swept.lock().unwrap());
        Box::pin(async move { Ok(not_swept) })
    }
}

fn lack() -> BackendError {
    BackendError::Lack {
        action: "reach the agent".to_owned(),
        errno: rustix::io::Errno::MFILE,
    }
}

fn remains() -> BackendError {
    BackendError::Remains(Box::new(lack()))
}

fn stored(id: &str, state: SandboxState, slot: u32) -> Stored {
    let now = Timestamp::now();
    Stored {
        record: SandboxRecord {
            id: id.parse().unwrap(),
            state,
            reason: None,
            owner: "tok_1".to_owned(),
            spec: SandboxSpec::default(),
            protections: Vec::new(),
            created_at: now,
            last_used_at: now,
            expires_at: None,
            ended_at: None,
        },
        asked: SandboxSpec::default(),
        place: Place::generate().unwrap(),
        slot: Some(slot),
    }
}

/// A registry of a backend, and its records' directory.
struct World {
    backend: Arc<Fake>,
    registry: Arc<Registry>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(&dir.path().join("hub.db")).unwrap();
        let backend = Arc::new(Fake::default());
        let bounds = Bounds {
            sandboxes: 10,
            per_token: 10,
        };
        let seen: Arc<dyn Backend> = backend.clone();
        Self {
            registry: Registry::new(seen, store, bounds, 1),
            backend,
            _dir: dir,
        }
    }

    fn slots(&self) -> Vec<u32> {
        self.registry.table().slots.iter().copied().collect()
    }
}

#[tokio::test]
async fn a_leftover_that_may_live_keeps_the_hub_from_starting() {
    let world = World::new();
    let (living, dead) = (Place::generate().unwrap(), Place::generate().unwrap());
    *world.backend.not_swept.lock().unwrap() = vec![(living.clone(), lack()), (dead, remains())];
    let refused = world.registry.recover(Vec::new()).await.unwrap_err();
    assert!(
        matches!(&refused, RecoverError::NotEnded { place, lacks: true, .. } if *place == living),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_leftover_is_removed_later() {
    let world = World::new();
    let dead = Place::generate().unwrap();
    *world.backend.not_swept.lock().unwrap() = vec![(dead.clone(), remains())];
    world.backend.fails("destroy", &dead, vec![remains()]);
    world.registry.recover(Vec::new()).await.unwrap();
    world.backend.until("destroy", &dead, 2).await;
}

/// What is said to be gone is gone, and a hub that cannot see to that does not start.
#[tokio::test(start_paused = true)]
async fn one_that_was_being_destroyed_is_gone_once_it_is_known_to_be_dead() {
    let world = World::new();
    let ending = stored("ending", SandboxState::Destroying, 7);
    let place = ending.place.clone();
    world.backend.fails("destroy", &place, vec![lack()]);
    let refused = world.registry.recover(vec![ending.clone()]).await;
    assert!(
        matches!(refused, Err(RecoverError::NotTaken { lacks: true, .. })),
        "{refused:?}"
    );
    assert!(world.registry.table().over.is_empty());

    let world = World::new();
    world.backend.fails("destroy", &place, vec![remains()]);
    world.registry.recover(vec![ending]).await.unwrap();
    let over = world.registry.table().over.clone();
    let states: Vec<SandboxState> = over.values().map(|over| over.record.state).collect();
    assert_eq!(states, [SandboxState::Gone]);
    assert_eq!(world.slots(), [7], "its ids are not given to another");
    world.backend.until("destroy", &place, 2).await;
    while !world.slots().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_one_that_is_not_removed_is_removed_later_with_its_slot() {
    let world = World::new();
    world.backend.fails_anywhere("create", vec![lack()]);
    world.backend.fails_anywhere("destroy", vec![remains()]);
    let shutdown = CancellationToken::new();
    let keeping = tokio::spawn(warm::keep(Arc::clone(&world.registry), shutdown.clone()));
    let made = async || loop {
        let calls = world.backend.calls.lock().unwrap().clone();
        let made = calls.iter().find_map(|call| call.strip_prefix("create "));
        if let Some(place) = made.and_then(Place::read) {
            return place;
        }
        world.backend.called.notified().await;
    };
    let place = made().await;
    world.backend.until("destroy", &place, 2).await;
    shutdown.cancel();
    keeping.await.unwrap();
    while !world.slots().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// To be looked at it may have been thawed.
#[tokio::test]
async fn a_paused_one_that_is_not_taken_over_is_paused_again() {
    let world = World::new();
    let paused = stored("paused", SandboxState::Paused, 0);
    let other = stored("other", SandboxState::Asleep, 1);
    let (place, slow) = (paused.place.clone(), other.place.clone());
    world.backend.fails("adopt", &place, vec![lack()]);
    let go = world.backend.holds("adopt", &slow);
    let registry = Arc::clone(&world.registry);
    let recovering = tokio::spawn(async move { registry.recover(vec![paused, other]).await });
    world.backend.until("pause", &place, 1).await;
    go.notify_one();
    let refused = recovering.await.unwrap();
    assert!(
        matches!(refused, Err(RecoverError::NotTaken { .. })),
        "{refused:?}"
    );
    // Nor is another left as it is in between.
    assert_eq!(world.backend.count("pause", &slow), 1);
}
