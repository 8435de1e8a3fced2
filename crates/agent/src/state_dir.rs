//! The agent's directory: private, and for one agent at a time.
//!
//! Owns the directory's mode, its lock, and the clearing of what a former agent left: nothing in it
//! outlives the agent that wrote it, but for finished backups. Does not own what the execution core
//! and the backups put there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// What the execution core writes, and a crashed agent leaves.
const LEFTOVERS: &[&str] = &["logs", "sessions"];

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateDirError {
    /// Another agent has it.
    #[error("another agent uses the state directory {path}")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot use the state directory: {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Makes the directory if need be, takes it and clears it.
    pub(crate) fn open(path: &Path) -> Result<Self, StateDirError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| StateDirError::Io {
                action,
                path,
                source,
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed("make", path))?;
        let path = path.canonicalize().map_err(failed("resolve", path))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(failed("make private", &path))?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed("open", &lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StateDirError::InUse { path }),
            Err(errno) => return Err(failed("lock", &lock_path)(errno.into())),
        }
        for name in LEFTOVERS {
            let leftover = path.join(name);
            match std::fs::remove_dir_all(&leftover) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("clear", &leftover)(error));
                }
                _ => {}
            }
        }
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn is_private_and_for_one_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let first = StateDir::open(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert!(matches!(
            StateDir::open(&path),
            Err(StateDirError::InUse { .. })
        ));
        drop(first);
        StateDir::open(&path).unwrap();
    }

    #[test]
    fn clears_what_a_crash_left_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["logs", "sessions", "mine"] {
            std::fs::create_dir_all(dir.path().join(name).join("deep")).unwrap();
        }
        let state = StateDir::open(dir.path()).unwrap();
        assert!(!state.path().join("logs").exists());
        assert!(!state.path().join("sessions").exists());
        assert!(state.path().join("mine/deep").exists());
    }

    #[test]
    fn leaves_a_running_agents_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let _first = StateDir::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        assert!(StateDir::open(dir.path()).is_err());
        assert!(dir.path().join("logs").exists());
    }

    #[test]
    fn says_what_failed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(
            StateDir::open(&file.join("x")),
            Err(StateDirError::Io { action: "make", .. })
        ));
    }
}
