//! Failures of git.

use sandshell_files::git::GitError;
use sandshell_types::ErrorCode;

use super::ApiError;

impl From<GitError> for ApiError {
    fn from(error: GitError) -> Self {
        use ErrorCode as Code;
        let hinted = |error: Self, hint: Option<String>| match hint {
            Some(hint) => error.hint(hint),
            None => error,
        };
        match error {
            GitError::Invalid {
                pointer,
                detail,
                hint,
            } => hinted(
                Self::new(Code::InvalidRequest, detail).pointer(pointer),
                hint,
            ),
            GitError::Missing => {
                Self::new(Code::ProgramNotFound, "git is not installed in the sandbox")
                    .hint("Install it there, for example with `apt-get install git`.")
            }
            GitError::Auth(detail) => Self::new(Code::GitAuth, detail)
                .pointer("/auth")
                .hint("Give `auth` with a password or token that the remote takes."),
            GitError::NotFound(detail) => Self::new(Code::GitNotFound, detail).hint(
                "Check the path of the repository, the address of the remote and the name of the \
                 branch; a private repository may need `auth` to be seen at all.",
            ),
            GitError::Network(detail) => Self::new(Code::GitNetwork, detail),
            GitError::Conflict(detail) => Self::new(Code::GitConflict, detail)
                .hint("POST /v1/git/status names the files and what became of them."),
            GitError::Exists(path) => Self::new(
                Code::FileExists,
                format!("{path} exists already and is not an empty directory"),
            )
            .pointer("/path"),
            GitError::TimedOut(ms) => {
                Self::new(Code::TimedOut, format!("git did not end within {ms} ms"))
                    .hint("Give more time with `timeout_ms`.")
            }
            GitError::Failed { detail, hint } => hinted(Self::new(Code::GitFailed, detail), hint),
            GitError::File(error) => error.into(),
            GitError::Exec(error) => error.into(),
            other => Self::internal("the request failed", &other),
        }
    }
}
