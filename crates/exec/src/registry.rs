//! A map of things by id that are made once, kept while they live, and remembered for a while.
//!
//! Owns the rules of ids: concurrent creates of one id make one thing; creating it again with the
//! same spec gives the same thing, with another spec an error that names the field. Owns the rules
//! of forgetting: finished things go by age and count, oldest first, never while someone holds them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::OnceCell;

use crate::ExecError;

/// Something a registry can hold.
pub(crate) trait Entry: Clone {
    /// The spec it was made from, for comparing.
    type Spec: Serialize;
    fn spec(&self) -> &Self::Spec;
    /// Whether anyone but the registry holds it.
    fn is_held(&self) -> bool;
    /// Whether the other is a handle of the same thing.
    fn is(&self, other: &Self) -> bool;
}

#[derive(Debug)]
pub(crate) struct Registry<K, T> {
    inner: Mutex<Inner<K, T>>,
    keep: usize,
    keep_for: Duration,
}

#[derive(Debug)]
struct Inner<K, T> {
    cells: HashMap<K, Slot<T>>,
    /// Ids in order of creation, so that lists are stable.
    order: BTreeMap<u64, K>,
    next: u64,
    /// Numbers of what may be forgotten, the oldest first.
    finished: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Slot<T> {
    number: u64,
    cell: Arc<OnceCell<T>>,
}

impl<K, T> Registry<K, T>
where
    K: Clone + Eq + Hash + Display + Borrow<str>,
    T: Entry,
{
    pub(crate) fn new(keep: usize, keep_for: Duration) -> Self {
        Self {
            inner: Mutex::new(Inner {
                cells: HashMap::new(),
                order: BTreeMap::new(),
                next: 0,
                finished: VecDeque::new(),
            }),
            keep,
            keep_for,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thing with this id, made now unless it exists. Says whether it was made now.
    pub(crate) async fn get_or_make(
        &self,
        id: &K,
        spec: &T::Spec,
        make: impl Future<Output = Result<T, ExecError>>,
    ) -> Result<(T, bool), ExecError> {
        let cell = self.lock().enter(id);
        let mut made = false;
        let result = cell
            .get_or_try_init(|| {
                made = true;
                make
            })
            .await
            .cloned();
        let thing = match result {
            Ok(thing) => thing,
            Err(error) => {
                self.lock().leave_if_empty(id);
                return Err(error);
            }
        };
        if !made && let Some(field) = first_difference(thing.spec(), spec) {
            return Err(ExecError::IdConflict {
                id: id.to_string(),
                field,
            });
        }
        Ok((thing, made))
    }

    /// The thing with this id.
    pub(crate) fn get(&self, id: &str) -> Option<T> {
        let mut inner = self.lock();
        inner.forget_old(self.keep, self.keep_for);
        inner
            .cells
            .get(id)
            .and_then(|slot| slot.cell.get().cloned())
    }

    /// All things, oldest first.
    pub(crate) fn all(&self) -> Vec<T> {
        let mut inner = self.lock();
        inner.forget_old(self.keep, self.keep_for);
        let inner = &*inner;
        inner
            .order
            .values()
            .filter_map(|id| inner.cells.get::<str>(id.borrow())?.cell.get().cloned())
            .collect()
    }

    /// Marks a thing as finished: from now on it may be forgotten.
    pub(crate) fn finished(&self, id: &str) {
        let mut inner = self.lock();
        let Some(number) = inner.cells.get(id).map(|slot| slot.number) else {
            return;
        };
        inner.finished.push_back((Instant::now(), number));
        inner.forget_old(self.keep, self.keep_for);
    }

    /// Forgets a thing at once. Another that has its id by now stays.
    pub(crate) fn remove(&self, id: &str, thing: &T) {
        let mut inner = self.lock();
        let Some(slot) = inner.cells.get(id) else {
            return;
        };
        if slot.cell.get().is_some_and(|there| there.is(thing)) {
            let number = slot.number;
            // It no longer counts among those that are kept.
            inner.finished.retain(|(_, finished)| *finished != number);
            inner.remove(id);
        }
    }
}

impl<K, T> Inner<K, T>
where
    K: Clone + Eq + Hash + Borrow<str>,
    T: Entry,
{
    fn enter(&mut self, id: &K) -> Arc<OnceCell<T>> {
        if let Some(slot) = self.cells.get::<str>(id.borrow()) {
            return slot.cell.clone();
        }
        let (number, cell) = (self.next, Arc::new(OnceCell::new()));
        self.next += 1;
        self.order.insert(number, id.clone());
        self.cells.insert(
            id.clone(),
            Slot {
                number,
                cell: cell.clone(),
            },
        );
        cell
    }

    /// A failed create leaves no trace, unless another one is trying the same id right now.
    fn leave_if_empty(&mut self, id: &K) {
        let empty = self
            .cells
            .get::<str>(id.borrow())
            .is_some_and(|slot| slot.cell.get().is_none() && Arc::strong_count(&slot.cell) <= 2);
        if empty {
            self.remove(id.borrow());
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(slot) = self.cells.remove(id) {
            self.order.remove(&slot.number);
        }
    }

    fn forget_old(&mut self, keep: usize, keep_for: Duration) {
        let mut held = Vec::new();
        while let Some((at, _)) = self.finished.front() {
            if self.finished.len() <= keep && at.elapsed() < keep_for {
                break;
            }
            let Some((at, number)) = self.finished.pop_front() else {
                break;
            };
            let Some(id) = self.order.get(&number).cloned() else {
                continue;
            };
            let in_use = self
                .cells
                .get::<str>(id.borrow())
                .is_some_and(|slot| slot.cell.get().is_some_and(Entry::is_held));
            if in_use {
                held.push((at, number));
            } else {
                self.remove(id.borrow());
            }
            if held.len() >= keep.max(1) {
                break;
            }
        }
        for entry in held.into_iter().rev() {
            self.finished.push_front(entry);
        }
    }
}

/// Name of the first field in which two specs differ.
pub(crate) fn first_difference<S: Serialize>(a: &S, b: &S) -> Option<String> {
    let (a, b) = (serde_json::to_value(a).ok()?, serde_json::to_value(b).ok()?);
    if a == b {
        return None;
    }
    let (a, b) = (a.as_object()?, b.as_object()?);
    a.keys()
        .chain(b.keys())
        .find(|key| a.get(*key) != b.get(*key))
        .cloned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Thing(Arc<BTreeMap<String, u32>>);

    impl Entry for Thing {
        type Spec = BTreeMap<String, u32>;
        fn spec(&self) -> &Self::Spec {
            &self.0
        }
        fn is_held(&self) -> bool {
            Arc::strong_count(&self.0) > 1
        }
        fn is(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.0, &other.0)
        }
    }

    fn spec(n: u32) -> BTreeMap<String, u32> {
        BTreeMap::from([("size".to_owned(), n)])
    }

    async fn make(
        registry: &Registry<String, Thing>,
        id: &str,
        n: u32,
    ) -> Result<(Thing, bool), ExecError> {
        let wanted = spec(n);
        registry
            .get_or_make(&id.to_owned(), &wanted, async {
                Ok(Thing(Arc::new(wanted.clone())))
            })
            .await
    }

    #[tokio::test]
    async fn one_id_makes_one_thing() {
        let registry = Registry::new(10, Duration::from_mins(1));
        assert!(make(&registry, "a", 1).await.unwrap().1);
        assert!(!make(&registry, "a", 1).await.unwrap().1);
        let conflict = make(&registry, "a", 2).await.unwrap_err();
        assert!(matches!(conflict, ExecError::IdConflict { field, .. } if field == "size"));
    }

    #[tokio::test]
    async fn a_failed_make_leaves_nothing() {
        let registry: Registry<String, Thing> = Registry::new(10, Duration::from_mins(1));
        let failed = registry
            .get_or_make(&"a".to_owned(), &spec(1), async {
                Err(ExecError::StdinClosed)
            })
            .await;
        assert!(failed.is_err());
        assert!(registry.lock().cells.is_empty() && registry.lock().order.is_empty());
        assert!(make(&registry, "a", 1).await.unwrap().1);
    }

    #[tokio::test]
    async fn finished_things_are_forgotten_by_count_but_not_while_held() {
        let registry = Registry::new(2, Duration::from_mins(1));
        let (held, _) = make(&registry, "held", 0).await.unwrap();
        registry.finished("held");
        for n in 0..4 {
            make(&registry, &n.to_string(), n).await.unwrap();
            registry.finished(&n.to_string());
        }
        assert!(registry.get("held").is_some());
        assert!(registry.get("0").is_none());
        assert!(registry.get("3").is_some());
        drop(held);
        make(&registry, "last", 9).await.unwrap();
        registry.finished("last");
        assert!(registry.get("held").is_none());
    }

    #[tokio::test]
    async fn a_late_removal_leaves_the_next_of_the_same_id() {
        let registry = Registry::new(2, Duration::from_mins(1));
        let (first, _) = make(&registry, "a", 1).await.unwrap();
        registry.remove("a", &first);
        let (second, made) = make(&registry, "a", 1).await.unwrap();
        assert!(made);
        registry.remove("a", &first);
        assert!(registry.get("a").is_some_and(|there| there.is(&second)));
        registry.remove("a", &second);
        assert!(registry.get("a").is_none());
    }

    #[tokio::test]
    async fn what_was_removed_does_not_count_among_the_kept() {
        let registry = Registry::new(2, Duration::from_mins(1));
        make(&registry, "kept", 1).await.unwrap();
        registry.finished("kept");
        for _ in 0..5 {
            let (thing, _) = make(&registry, "a", 1).await.unwrap();
            registry.finished("a");
            registry.remove("a", &thing);
        }
        make(&registry, "a", 1).await.unwrap();
        registry.finished("a");
        assert!(registry.get("kept").is_some() && registry.get("a").is_some());
    }
}
