//! The inside of the sandbox, reached from the agent with the sandbox user's rights.
//!
//! Whatever resolves a path that a user named does it on one of the threads in here, which has that
//! user's file ids and no capability, starting from the sandbox's root; whatever connects to a port
//! of the sandbox does it through `Inside::connect_to`, by way of `crate::ports`. The rest of the agent never opens a user's
//! path. Where the sandbox has mounts of its own, the root is the one init sees.
//!
//! ```text
//! run(who, job) ─► permit ─► thread (own umask; ids set when they differ) ─► job(&Root) ─► answer
//! ```
//!
//! Invariants: no more threads than [`THREADS`], made when needed, ended when idle; a thread whose
//! rights could not be set runs nothing; a job that panics takes neither its thread nor a permit.

mod root;
mod threads;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use sandshell_isolate::InitHandle;
use sandshell_sys::procfs;
use sandshell_sys::spawn::Identity;
use tokio::net::TcpStream;

pub use root::{Follow, Root, wants_directory};
use threads::Threads;

/// Most threads at work in the sandbox's files at a time; further jobs wait.
pub const THREADS: usize = 64;

/// A way in; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inside {
    root: Arc<Root>,
    threads: Threads,
}

/// Whose rights a job has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who(pub(crate) Option<Identity>);

/// Why a job did not run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InsideError {
    /// The thread could not take on the user's rights.
    #[error("cannot act as the sandbox's user: {0}")]
    Rights(Errno),
    /// No thread could be made.
    #[error("cannot start a thread")]
    Thread,
    /// The job panicked, which is a defect of ours.
    #[error("a job in the sandbox's files broke off")]
    Broken,
}

impl Inside {
    /// The inside of what this init keeps.
    pub(crate) fn of(init: &mut InitHandle) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = if let Some(root) = init.root.take() {
            root
        } else if init.surroundings.pid_namespace.is_ok() {
            // It has mounts of its own, among them a /proc that does not show us.
            let pid = procfs::pid_of(&init.pidfd)?.ok_or(Errno::SRCH)?;
            openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty())?
        } else {
            openat(CWD, "/", flags, Mode::empty())?
        };
        Self::new(root)
    }

    fn new(root: OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            root: Arc::new(Root::new(root)?),
            threads: Threads::new(THREADS),
        })
    }

    /// Runs a blocking job with this user's rights. It goes on to its end even when nobody waits for
    /// it any more; a long one must look for that itself, by the channel it feeds.
    pub async fn run<T: Send + 'static>(
        &self,
        who: &Who,
        job: impl FnOnce(&Root) -> T + Send + 'static,
    ) -> Result<T, InsideError> {
        let root = self.root.clone();
        self.threads.run(who.0.clone(), move || job(&root)).await
    }

    /// The root with our own rights, for what the sandbox says of itself: its users and programs.
    /// Nothing that a request names is opened with it.
    pub(crate) fn own_root(&self) -> &Root {
        &self.root
    }

    /// Connects to an address of the sandbox. Only for `crate::ports`, which knows whether the
    /// sandbox listens there: as long as it has no network of its own, the kernel does not.
    pub(crate) async fn connect_to(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

#[cfg(test)]
mod tests;
