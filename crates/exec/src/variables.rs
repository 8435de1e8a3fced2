//! The sandbox's own environment variables, which can be changed while it runs.
//!
//! Owns the values and a count of their changes. A shell that was started ahead of its use remembers
//! the count, so that one with former values is never used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandshell_types::Env;

use crate::ExecError;
use crate::host::check_variable;

/// Most bytes of all names and values together, well below what the kernel passes to a program.
const MOST_BYTES: usize = 128 << 10;

/// The variables; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Variables(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// `None` for one of the base that is unset.
    values: Mutex<Env>,
    changes: AtomicU64,
}

/// Which values something was started with.
#[derive(Debug)]
pub(crate) struct StartedWith {
    variables: Variables,
    changes: u64,
}

impl Variables {
    pub(crate) fn new(values: BTreeMap<String, String>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name, Some(value)));
        Self(Arc::new(Shared {
            values: Mutex::new(values.collect()),
            changes: AtomicU64::new(0),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Env> {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn values(&self) -> Env {
        self.lock().clone()
    }

    /// To be asked *before* the values are read.
    pub(crate) fn now(&self) -> StartedWith {
        StartedWith {
            changes: self.0.changes.load(Ordering::Acquire),
            variables: self.clone(),
        }
    }

    /// Applies changes, all or none. Unsetting one of the base is remembered; unsetting another
    /// forgets it.
    pub(crate) fn change(
        &self,
        changes: &Env,
        base: &BTreeMap<String, String>,
    ) -> Result<(), ExecError> {
        for (name, value) in changes {
            check_variable(name, value.as_deref())?;
        }
        let mut values = self.lock();
        let mut changed = values.clone();
        for (name, value) in changes {
            if value.is_none() && !base.contains_key(name) {
                changed.remove(name);
            } else {
                changed.insert(name.clone(), value.clone());
            }
        }
        let size = |(name, value): (&String, &Option<String>)| {
            name.len() + value.as_ref().map_or(0, String::len) + 2
        };
        if changed.iter().map(size).sum::<usize>() > MOST_BYTES {
            return Err(ExecError::invalid(
                "/env",
                format!("the sandbox's variables have at most {MOST_BYTES} bytes together"),
            ));
        }
        *values = changed;
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

impl StartedWith {
    /// Whether the values are still the same.
    pub(crate) fn is_current(&self) -> bool {
        self.variables.0.changes.load(Ordering::Acquire) == self.changes
    }
}
