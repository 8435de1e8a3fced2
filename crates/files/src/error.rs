//! What can go wrong with a file, as data. Translated to the wire by the agent, once.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sandshell_exec::ExecError;
use sandshell_exec::inside::InsideError;

/// Why something could not be done with the sandbox's files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A field or parameter has a value that cannot be right.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The pattern of a search is no regular expression.
    #[error("{reason}")]
    Pattern {
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel refused.
    #[error("{}: {errno}", path.display())]
    At {
        /// Where, as the user named it.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// What is there is not what the caller expected to be there.
    #[error("{}: it is not as expected", path.display())]
    Precondition {
        /// Where, as the user named it.
        path: PathBuf,
    },
    /// A file ended before its promised length.
    #[error("the file became shorter while it was read; {missing} bytes are missing")]
    Shrunk {
        /// How many bytes.
        missing: u64,
    },
    /// An archive is damaged, or has an entry that would leave its directory.
    #[error("the archive is not valid: {reason}")]
    Archive {
        /// What is wrong with it.
        reason: String,
    },
    /// A limit of ours or of the kernel's is reached.
    #[error("{detail}")]
    Limit {
        /// Which.
        detail: String,
        /// What can be done.
        hint: String,
    },
    /// What is made of files cannot be written: the reader has gone, or the agent's disk is full.
    #[error("cannot write the result: {errno}")]
    Output {
        /// Why.
        errno: Errno,
    },
    /// No thread could do it.
    #[error(transparent)]
    Inside(#[from] InsideError),
    /// The execution core refused: no such user, no such session.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

impl FileError {
    /// A field that cannot be right.
    pub fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.to_owned(),
            detail: detail.into(),
        }
    }

    /// For `map_err`: what the kernel said about this path.
    pub fn at(path: &Path) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::At {
            path: path.to_owned(),
            errno,
        }
    }
}
