//! Git, run in the sandbox: its words in, its answers typed.
//!
//! Every call is one or a few runs of `git` as processes of the sandbox, with the rights of the
//! call's user and, where a session is named, its environment and directory.
//!
//! ```text
//! request ─► checked ─► git (LC_ALL=C, no prompts, machine formats) ─► parsed ─► reply
//!                        │ exit ≠ 0
//!                        └─► failure.rs: auth, not found, network, conflict, other
//! ```
//!
//! Invariants: what a request names can never be taken for an option (a leading dash is refused, and
//! paths stand behind `--`); `ext::` and other helpers that run commands are off; git never asks
//! anybody anything; credentials travel by a pipe only ([`credentials`]).

pub(crate) mod branches;
mod change;
mod clone;
mod command;
pub(crate) mod credentials;
pub(crate) mod diff;
mod failure;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod remote;
pub(crate) mod status;

use sandshell_exec::{ExecError, Executor};
use sandshell_types::SessionId;

use crate::{FileError, Named};
use command::With;

pub use branches::branches;
pub use change::{add, checkout, commit};
pub use clone::{CheckedClone, Progress, check_clone, clone};
pub use diff::diff;
pub use log::log;
pub use remote::{pull, push};
pub use status::status;

/// Most entries of a status or files of a diff in one reply.
pub const MAX_ENTRIES: usize = 10_000;

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// A field has a value that cannot be right.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong with it.
        detail: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// There is no git.
    #[error("git is not installed in the sandbox")]
    Missing,
    /// The remote wants other credentials.
    #[error("{0}")]
    Auth(String),
    /// No such repository, branch, revision or path.
    #[error("{0}")]
    NotFound(String),
    /// The remote cannot be reached.
    #[error("{0}")]
    Network(String),
    /// Changes stand in the way.
    #[error("{0}")]
    Conflict(String),
    /// The target of a clone is taken.
    #[error("{0:?} exists already and is not an empty directory")]
    Exists(String),
    /// It took too long and was ended.
    #[error("git did not end within {0} ms")]
    TimedOut(u64),
    /// Something else, in git's words.
    #[error("{detail}")]
    Failed {
        /// What git said.
        detail: String,
        /// What to do about it, where known.
        hint: Option<String>,
    },
    /// The sandbox's files cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The execution core refused.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

impl GitError {
    fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.to_owned(),
            detail: detail.into(),
            hint: None,
        }
    }
}

/// Where git runs, and as whom.
#[derive(Debug, Clone)]
struct Place {
    executor: Executor,
    /// Absolute; `None` for the session's or sandbox's own directory.
    cwd: Option<String>,
    session: Option<SessionId>,
    user: Option<String>,
}

impl Place {
    /// The place a request names.
    fn of(
        executor: &Executor,
        path: Option<&str>,
        session: Option<SessionId>,
        user: Option<String>,
    ) -> Result<Self, GitError> {
        // A process takes its directory as text, so there is no base64 here.
        let named = Named {
            field: "path",
            text: Some(path.unwrap_or(".")),
            base64: None,
            session: session.as_ref(),
        };
        let cwd = named.path(executor)?;
        Ok(Self {
            executor: executor.clone(),
            cwd: Some(cwd.to_string_lossy().into_owned()),
            session,
            user,
        })
    }

    /// The branch that is checked out; `None` when detached.
    async fn branch(&self) -> Result<Option<String>, GitError> {
        let words = ["symbolic-ref", "--quiet", "--short", "HEAD"];
        let done = self.run(&words, With::default()).await?;
        if done.code == 1 {
            return Ok(None);
        }
        Ok(Some(done.succeeded()?.line()))
    }

    /// The commit that is checked out; `None` before the first.
    async fn commit(&self) -> Result<Option<String>, GitError> {
        let words = ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"];
        let done = self.run(&words, With::default()).await?;
        if done.code == 1 {
            return Ok(None);
        }
        Ok(Some(done.succeeded()?.line()))
    }
}

/// Refuses a name that git could take for an option, or that cannot be one.
fn check_name(pointer: &str, name: &str) -> Result<(), GitError> {
    if name.is_empty() || name.starts_with('-') || name.contains(|c: char| c.is_control()) {
        return Err(GitError::invalid(
            pointer,
            "a name is not empty, does not begin with '-' and has no control characters",
        ));
    }
    Ok(())
}

/// Refuses a branch to fetch or push that git would take for more than a name: a pair, a pattern, or
/// the wish to force.
fn check_branch(name: Option<&str>) -> Result<(), GitError> {
    check_optional("/branch", name)?;
    if name
        .is_some_and(|name| name.starts_with('+') || name.contains([':', '*', '?', '[', '^', '~']))
    {
        return Err(GitError::invalid(
            "/branch",
            "a branch is one name, without any of + : * ? [ ^ ~",
        ));
    }
    Ok(())
}

fn check_optional(pointer: &str, name: Option<&str>) -> Result<(), GitError> {
    name.map_or(Ok(()), |name| check_name(pointer, name))
}

fn check_paths(paths: &[String]) -> Result<(), GitError> {
    let wrong = |path: &String| path.is_empty() || path.contains('\0');
    match paths.iter().position(wrong) {
        Some(at) => Err(GitError::invalid(
            &format!("/paths/{at}"),
            "a path is not empty and has no NUL byte",
        )),
        None => Ok(()),
    }
}
