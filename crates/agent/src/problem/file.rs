//! Failures with files: what the kernel said becomes a code.

use rustix::io::Errno;
use sandshell_exec::ExecError;
use sandshell_exec::inside::InsideError;
use sandshell_files::FileError;
use sandshell_types::ErrorCode;

use super::ApiError;

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Invalid { pointer, detail } => {
                Self::new(ErrorCode::InvalidRequest, detail).pointer(pointer)
            }
            FileError::Pattern { reason } => Self::new(ErrorCode::InvalidRequest, reason)
                .pointer("/pattern")
                .hint("With `literal` the pattern is searched for as it stands."),
            FileError::At { path, errno } => {
                let path = path.display();
                match code(errno) {
                    Some((code, what)) => Self::new(code, format!("{path}: {what}")),
                    None => Self::internal(&format!("{path} cannot be used"), &errno),
                }
            }
            FileError::Precondition { path } => Self::new(
                ErrorCode::PreconditionFailed,
                format!(
                    "{}: it is not the version that was expected",
                    path.display()
                ),
            )
            .hint("Read it again, with its ETag, and decide anew."),
            FileError::Archive { reason } => Self::new(
                ErrorCode::InvalidArchive,
                format!("the archive is not valid: {reason}"),
            ),
            FileError::Limit { detail, hint } => {
                Self::new(ErrorCode::LimitReached, detail).hint(hint)
            }
            FileError::Output {
                errno: Errno::NOSPC | Errno::DQUOT,
            } => Self::new(ErrorCode::NoSpace, "the agent has no space left"),
            FileError::Exec(error) => error.into(),
            FileError::Inside(error) => ExecError::from(error).into(),
            other => Self::internal("the request failed", &other),
        }
    }
}

impl From<InsideError> for ApiError {
    fn from(error: InsideError) -> Self {
        FileError::from(error).into()
    }
}

/// The code for what the kernel said, and the words for it.
fn code(errno: Errno) -> Option<(ErrorCode, &'static str)> {
    use ErrorCode as Code;
    Some(match errno {
        Errno::NOENT => (Code::FileNotFound, "there is nothing at this path"),
        Errno::ACCESS | Errno::PERM => (
            Code::PermissionDenied,
            "the sandbox's user has no right to do this",
        ),
        Errno::ROFS => (Code::PermissionDenied, "the file system is read-only"),
        Errno::EXIST => (Code::FileExists, "something is there already"),
        Errno::NOTDIR => (
            Code::NotADirectory,
            "it, or a part of its path, is not a directory",
        ),
        Errno::ISDIR => (
            Code::IsADirectory,
            "it is a directory, or its path ends as only that of one may",
        ),
        Errno::NOTEMPTY => (Code::DirectoryNotEmpty, "the directory is not empty"),
        Errno::NXIO | Errno::NODEV => (
            Code::NotARegularFile,
            "it is a FIFO, a device or a socket, not a regular file",
        ),
        Errno::AGAIN => (
            Code::NotARegularFile,
            "it has nothing to read, now or ever, so it is not a regular file",
        ),
        Errno::LOOP => (Code::TooManyLinks, "too many symbolic links on the way"),
        Errno::NAMETOOLONG => (Code::NameTooLong, "the name is too long"),
        Errno::NOSPC | Errno::DQUOT => (Code::NoSpace, "no space is left"),
        Errno::FBIG => (Code::NoSpace, "the file would be larger than the limit"),
        Errno::MLINK => (Code::TooManyLinks, "the directory can hold no more links"),
        Errno::BUSY => (
            Code::PermissionDenied,
            "it is in use by the system and cannot be replaced or removed",
        ),
        Errno::TXTBSY => (Code::PermissionDenied, "it is a program that runs"),
        Errno::INVAL => (
            Code::InvalidRequest,
            "the file system does not take this name or change",
        ),
        Errno::XDEV => (
            Code::InvalidRequest,
            "source and target are on different file systems",
        ),
        Errno::STALE => (Code::Unavailable, "it changed while it was read; try again"),
        Errno::CANCELED => (Code::Unavailable, "it was broken off"),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            (Code::Unavailable, "the machine has no resources left")
        }
        _ => return None,
    })
}
