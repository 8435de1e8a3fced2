//! A server's directory: private, and for one server at a time.
//!
//! Owns the directory's mode, its lock, and the clearing of what a former agent left: nothing in an
//! agent's outlives the agent that wrote it, but for finished backups. Does not own what is put there.

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
    /// Another server of this kind has it.
    #[error("another {kind} uses the state directory {path}")]
    InUse {
        /// What it is.
        kind: &'static str,
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
pub struct StateDir {
    path: PathBuf,
    /// Absent for one that was made for its server and is known to nobody else.
    _lock: Option<File>,
}

impl StateDir {
    /// Makes the directory if need be and takes it, for an agent or a hub.
    pub fn open(path: &Path, kind: &'static str) -> Result<Self, StateDirError> {
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
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StateDirError::InUse { kind, path }),
            Err(errno) => return Err(failed("lock", &lock_path)(errno.into())),
        }
        let lock = Some(lock);
        Ok(Self { path, _lock: lock })
    }

    /// The directory that whoever made a sandbox made for its agent.
    pub(crate) fn given(path: PathBuf) -> Self {
        Self { path, _lock: None }
    }

    /// Removes what a former agent left.
    pub(crate) fn clear(&self) -> Result<(), StateDirError> {
        for name in LEFTOVERS {
            let leftover = self.path.join(name);
            match std::fs::remove_dir_all(&leftover) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("clear", &leftover)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Tells what was tried on what.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateDirError {
    let path = path.to_owned();
    move |source| StateDirError::Io {
        action,
        path,
        source,
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
        let first = StateDir::open(&path, "agent").unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert!(matches!(
            StateDir::open(&path, "agent"),
            Err(StateDirError::InUse { .. })
        ));
        drop(first);
        StateDir::open(&path, "agent").unwrap();
    }

    #[test]
    fn clears_what_a_crash_left_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["logs", "sessions", "mine"] {
            std::fs::create_dir_all(dir.path().join(name).join("deep")).unwrap();
        }
        let state = StateDir::open(dir.path(), "agent").unwrap();
        state.clear().unwrap();
        assert!(!state.path().join("logs").exists());
        assert!(!state.path().join("sessions").exists());
        assert!(state.path().join("mine/deep").exists());
    }

    #[test]
    fn leaves_a_running_agents_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let _first = StateDir::open(dir.path(), "agent").unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        assert!(StateDir::open(dir.path(), "agent").is_err());
        assert!(dir.path().join("logs").exists());
    }

    #[test]
    fn says_what_failed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(
            StateDir::open(&file.join("x"), "agent"),
            Err(StateDirError::Io { action: "make", .. })
        ));
    }
}
