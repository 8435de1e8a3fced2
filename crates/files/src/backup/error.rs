//! What can go wrong with a backup. Several may wait for one backup, so it can be cloned.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use sandshell_exec::ExecError;

use crate::FileError;

/// Why something could not be done with a backup.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is none with this id.
    #[error("there is no backup {id:?}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The id is taken by one with another spec.
    #[error("the id {id:?} is in use with another `{field}`")]
    IdConflict {
        /// The id.
        id: String,
        /// The field that differs.
        field: &'static str,
    },
    /// The id is taken by something in the agent's directory that cannot be read.
    #[error("the backup {id:?} is there and cannot be read")]
    Unreadable {
        /// The id.
        id: String,
    },
    /// It is not finished.
    #[error("the backup {id:?} is still being made")]
    Creating {
        /// The id.
        id: String,
    },
    /// Its archive is elsewhere.
    #[error("the archive of {id:?} is not kept here")]
    NotStored {
        /// The id.
        id: String,
    },
    /// No more are kept.
    #[error("{limit} backups are kept already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The storage at the URL refused, after retries.
    #[error("the storage failed: {detail}")]
    Storage {
        /// What it said.
        detail: String,
    },
    /// It was deleted while it was being made.
    #[error("the backup {id:?} was deleted while it was being made")]
    Deleted {
        /// The id.
        id: String,
    },
    /// The agent ends.
    #[error("it was broken off")]
    Cancelled,
    /// A field has a value that cannot be right.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The kernel refused.
    #[error("{}: {errno}", path.display())]
    At {
        /// Where.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The archive is damaged.
    #[error("the archive is not valid: {reason}")]
    Archive {
        /// What is wrong with it.
        reason: String,
    },
    /// The agent's own directory cannot be used.
    #[error("the backups cannot be kept: {errno}")]
    Store {
        /// Why.
        errno: Errno,
    },
    /// The execution core refused.
    #[error(transparent)]
    Exec(Arc<ExecError>),
    /// A defect of ours.
    #[error("the work on a backup broke off")]
    Broken,
}

impl From<FileError> for BackupError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Invalid { pointer, detail } => Self::Invalid { pointer, detail },
            FileError::At {
                errno: Errno::CANCELED,
                ..
            } => Self::Cancelled,
            FileError::At { path, errno } => Self::At { path, errno },
            FileError::Archive { reason } => Self::Archive { reason },
            FileError::Output { errno } => Self::Store { errno },
            FileError::Exec(error) => error.into(),
            // The rest no work on a backup gives: a defect, like a thread that broke off.
            error => {
                tracing::error!(%error, "a backup failed");
                Self::Broken
            }
        }
    }
}

impl From<ExecError> for BackupError {
    fn from(error: ExecError) -> Self {
        Self::Exec(Arc::new(error))
    }
}

impl From<std::io::Error> for BackupError {
    fn from(error: std::io::Error) -> Self {
        Self::Store {
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        }
    }
}
