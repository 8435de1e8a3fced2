//! Directories and runtimes of the targets.

use std::cell::RefCell;
use std::path::Path;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A directory that goes with its owner; in memory where there is one.
#[derive(Debug)]
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() {
            TempDir::with_prefix_in("sandshell-fuzz-", memory)
        } else {
            TempDir::with_prefix("sandshell-fuzz-")
        };
        Self(made.unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

thread_local! {
    static RUNTIME: RefCell<Runtime> = RefCell::new(
        Builder::new_current_thread().enable_all().build().unwrap(),
    );
}

/// Uses the one runtime of this thread.
pub(crate) fn runtime<T>(work: impl FnOnce(&Runtime) -> T) -> T {
    RUNTIME.with_borrow(work)
}
