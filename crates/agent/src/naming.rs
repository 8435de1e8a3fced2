//! The name of a sandbox that was made before anyone asked for it.
//!
//! It is given its name by the kernel's word for it, from outside, when it is taken: the next request is
//! the first that can care, and finds the sandbox's own files telling the same.

use std::sync::{Mutex, PoisonError};

use sandshell_exec::Executor;

/// What such a sandbox calls itself so far; nothing once it has its name.
#[derive(Debug, Default)]
pub(crate) struct Naming(Mutex<Option<Vec<u8>>>);

impl Naming {
    /// Of a sandbox that may still be named.
    pub(crate) fn expected() -> Self {
        Self(Mutex::new(Some(host_name())))
    }

    /// Sees whether it was named, and has its files say so.
    pub(crate) fn settle(&self, executor: &Executor) {
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_none() {
            return;
        }
        let now = host_name();
        if before.as_ref() == Some(&now) {
            return;
        }
        if let Err(errno) = executor.write_name(&String::from_utf8_lossy(&now)) {
            tracing::warn!(%errno, "the sandbox's files tell an old name");
        }
        *before = None;
    }
}

fn host_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_owned()
}
