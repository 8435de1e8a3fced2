//! The hub's directory: private, and for one hub at a time.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Longest path of the directory: the socket of a sandbox lies 36 bytes deeper, and the path of a
/// socket has at most 107.
const LONGEST: usize = 70;

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateDirError {
    /// Another hub has it.
    #[error("another hub uses the state directory {path}")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// No socket could be made in it.
    #[error("the path of the state directory, {path}, is longer than {LONGEST} bytes")]
    TooLong {
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
    /// Makes the directory if need be and takes it.
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
        if path.as_os_str().len() > LONGEST {
            return Err(StateDirError::TooLong { path });
        }
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
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StateDirError::InUse { path }),
            Err(errno) => Err(failed("lock", &lock_path)(errno.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
