//! All contexts of a sandbox, by id. Concurrent creates of one id make one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandshell_exec::Executor;
use sandshell_types::{ContextId, ContextRequest, KillReply};
use tokio::sync::OnceCell;

use crate::context::{ContextHandle, Workshop, check_env};
use crate::jupyter::Directories;
use crate::pool::Pools;
use crate::{CONTEXTS, ContextError};

/// The contexts; cheap to clone.
#[derive(Debug, Clone)]
pub struct Contexts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    workshop: Workshop,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    cells: HashMap<String, Slot>,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Slot {
    /// Order of creation, so that lists are stable.
    number: u64,
    cell: Arc<OnceCell<ContextHandle>>,
}

impl Contexts {
    /// None yet. `notes` is a directory of the agent's own; what a former agent noted there is removed
    /// from the sandbox.
    pub async fn open(executor: Executor, notes: PathBuf) -> Result<Self, ContextError> {
        let pools = Arc::new(Pools::new()?);
        let directories = Directories::open(&executor, notes).await;
        let directories = directories.map_err(|error| {
            ContextError::start(format!("the notes of the agent cannot be used: {error}"))
        })?;
        Ok(Self(Arc::new(Inner {
            workshop: Workshop {
                executor,
                pools,
                directories,
            },
            table: Mutex::default(),
        })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a context. Says whether it was made now.
    pub async fn create(
        &self,
        spec: ContextRequest,
    ) -> Result<(ContextHandle, bool), ContextError> {
        check_env(&spec.env)?;
        if spec
            .cwd
            .as_deref()
            .is_some_and(|cwd| cwd.is_empty() || cwd.contains('\0'))
        {
            let detail = "a directory has a name without NUL bytes";
            return Err(ContextError::invalid("/cwd", detail));
        }
        let id = spec.id.clone().unwrap_or_else(ContextId::generate);
        let cell = self.table().enter(&id)?;
        let mut made = false;
        let result = cell
            .get_or_try_init(|| {
                made = true;
                let contexts = Arc::downgrade(&self.0);
                let forget = move |id: &ContextId| {
                    if let Some(inner) = contexts.upgrade() {
                        Self(inner).table().cells.remove(id.as_str());
                    }
                };
                ContextHandle::begin(self.0.workshop.clone(), id.clone(), spec.clone(), forget)
            })
            .await
            .cloned();
        let context = match result {
            Ok(context) => context,
            Err(error) => {
                self.table().leave_if_empty(&id);
                return Err(error);
            }
        };
        if !made && let Some(field) = first_difference(context.spec(), &spec) {
            let id = id.to_string();
            return Err(ContextError::Conflict { id, field });
        }
        Ok((context, made))
    }

    /// The context with this id.
    pub fn get(&self, id: &str) -> Result<ContextHandle, ContextError> {
        let table = self.table();
        let found = table.cells.get(id).and_then(|slot| slot.cell.get());
        found
            .cloned()
            .ok_or_else(|| ContextError::NotFound { id: id.to_owned() })
    }

    /// All contexts, oldest first.
    pub fn all(&self) -> Vec<ContextHandle> {
        let table = self.table();
        let mut slots: Vec<&Slot> = table.cells.values().collect();
        slots.sort_by_key(|slot| slot.number);
        slots
            .into_iter()
            .filter_map(|slot| slot.cell.get().cloned())
            .collect()
    }

    /// Ends a context with all it started, and forgets it.
    pub async fn delete(&self, id: &str) -> Result<KillReply, ContextError> {
        Ok(self.get(id)?.end().await)
    }

    /// Ends everything.
    pub async fn shutdown(&self) {
        self.table().closed = true;
        let mut ending = tokio::task::JoinSet::new();
        for context in self.all() {
            ending.spawn(async move { context.end().await });
        }
        while ending.join_next().await.is_some() {}
        self.0.workshop.pools.close().await;
    }
}

impl Table {
    fn enter(&mut self, id: &ContextId) -> Result<Arc<OnceCell<ContextHandle>>, ContextError> {
        if let Some(slot) = self.cells.get(id.as_str()) {
            return Ok(slot.cell.clone());
        }
        if self.closed {
            return Err(ContextError::start("the agent is shutting down"));
        }
        if self.cells.len() >= CONTEXTS {
            return Err(ContextError::TooMany { limit: CONTEXTS });
        }
        let cell = Arc::new(OnceCell::new());
        let slot = Slot {
            number: self.next,
            cell: cell.clone(),
        };
        self.next += 1;
        self.cells.insert(id.to_string(), slot);
        Ok(cell)
    }

    /// A failed create leaves no trace, unless another one is trying the same id right now.
    fn leave_if_empty(&mut self, id: &ContextId) {
        let empty = self
            .cells
            .get(id.as_str())
            .is_some_and(|slot| slot.cell.get().is_none() && Arc::strong_count(&slot.cell) <= 2);
        if empty {
            self.cells.remove(id.as_str());
        }
    }
}

/// Name of the first field in which two specs differ.
fn first_difference(a: &ContextRequest, b: &ContextRequest) -> Option<String> {
    let (a, b) = (serde_json::to_value(a).ok()?, serde_json::to_value(b).ok()?);
    let (a, b) = (a.as_object()?, b.as_object()?);
    a.keys()
        .chain(b.keys())
        .find(|key| a.get(*key) != b.get(*key))
        .cloned()
}
