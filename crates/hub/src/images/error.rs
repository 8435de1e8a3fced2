//! What can be wrong with an image.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandshell_files::FileError;

/// Why there is no image.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// What was sent is no image, or a broken one.
    #[error("{reason}")]
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody waits for it any more.
    #[error("the import was broken off")]
    BrokenOff,
    /// The machine refused.
    #[error("{}: {errno}", path.display())]
    At {
        /// Where in the image.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
}

impl ImageError {
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid {
            reason: reason.into(),
        }
    }

    /// For `map_err`: what the kernel said about a path.
    pub(super) fn at(path: impl AsRef<Path>) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::At {
            path: path.as_ref().to_owned(),
            errno,
        }
    }

    pub(super) fn from_io(path: impl AsRef<Path>, error: &io::Error) -> Self {
        Self::at(path)(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }
}

/// Of the reading of a tar archive.
impl From<FileError> for ImageError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Archive { reason } => Self::Invalid { reason },
            other => Self::Invalid {
                reason: other.to_string(),
            },
        }
    }
}
