//! Failures with backups.

use std::sync::Arc;

use rustix::io::Errno;
use sandshell_files::{BackupError, FileError};
use sandshell_types::ErrorCode;

use super::ApiError;

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        use ErrorCode as Code;
        match error {
            BackupError::NotFound { id } => {
                Self::new(Code::BackupNotFound, format!("there is no backup {id:?}"))
                    .hint("GET /v1/backups lists those there are.")
            }
            BackupError::IdConflict { id, field } => Self::new(
                Code::IdConflict,
                format!("the id {id:?} is in use with another `{field}`"),
            )
            .pointer(format!("/{field}"))
            .hint("Take another id, or send the same spec to get what is there."),
            BackupError::Unreadable { id } => Self::new(
                Code::IdConflict,
                format!("the id {id:?} belongs to a backup whose manifest cannot be read"),
            )
            .pointer("/id")
            .hint("Take another id. What is there is left alone, in the agent's state directory."),
            BackupError::Deleted { id } => Self::new(
                Code::BackupNotFound,
                format!("the backup {id:?} was deleted while it was being made"),
            )
            .hint("Send the request again to make another."),
            BackupError::Creating { id } => Self::new(
                Code::Unavailable,
                format!("the backup {id:?} is still being made"),
            )
            .hint("Send the request that makes it again to wait for it."),
            BackupError::NotStored { id } => Self::new(
                Code::InvalidRequest,
                format!("the archive of {id:?} was sent elsewhere and is not kept here"),
            )
            .pointer("/download")
            .hint("Give a presigned URL in `download`."),
            BackupError::TooMany { limit } => Self::new(
                Code::LimitReached,
                format!("{limit} backups are kept already"),
            )
            .hint("Delete some, or give them a `ttl_ms`."),
            BackupError::Storage { detail } => {
                Self::new(Code::StorageFailed, format!("the storage failed: {detail}"))
                    .hint("Nothing was changed; check that the URL is still valid.")
            }
            BackupError::Cancelled => {
                Self::new(Code::Unavailable, "it was broken off: the agent ends")
            }
            BackupError::Store {
                errno: Errno::DQUOT,
            } => Self::new(
                Code::NoSpace,
                "the backups have all the bytes that they may have together",
            )
            .hint("Delete some that are kept, or give them a `ttl_ms`."),
            BackupError::Store {
                errno: Errno::NOSPC,
            } => Self::new(Code::NoSpace, "the agent has no space left for the backup"),
            BackupError::Store {
                errno: Errno::NOENT,
            } => Self::new(Code::BackupNotFound, "the archive of the backup is gone"),
            BackupError::Invalid { pointer, detail } => {
                FileError::Invalid { pointer, detail }.into()
            }
            BackupError::At { path, errno } => FileError::At { path, errno }.into(),
            BackupError::Archive { reason } => FileError::Archive { reason }.into(),
            BackupError::Exec(error) => match Arc::try_unwrap(error) {
                Ok(error) => error.into(),
                Err(error) => Self::internal("the request failed", &error),
            },
            other => Self::internal("the backup failed", &other),
        }
    }
}
