//! Why something with a context failed.

use sandshell_exec::ExecError;
use sandshell_exec::output::OutputError;

/// A failure with a context.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// A field does not have the right form.
    #[error("{detail}")]
    Invalid {
        /// JSON pointer to it.
        pointer: String,
        /// What is wrong.
        detail: String,
    },
    /// No such context.
    #[error("there is no context {id:?}")]
    NotFound {
        /// The id asked for.
        id: String,
    },
    /// The id is taken by a context with another spec.
    #[error("{id:?} exists already and differs in `{field}`")]
    Conflict {
        /// The id.
        id: String,
        /// First field that differs.
        field: String,
    },
    /// Too many runs wait.
    #[error("{limit} runs are waiting in this context already")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// Too many contexts.
    #[error("there are {limit} contexts already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The interpreter has ended.
    #[error("the interpreter of {id:?} has ended: {reason}")]
    Ended {
        /// The context.
        id: String,
        /// Why.
        reason: String,
    },
    /// The interpreter is not installed.
    #[error("{what} is not installed in the sandbox")]
    InterpreterNotFound {
        /// What is missing.
        what: String,
        /// How to install it.
        hint: String,
    },
    /// The execution core refused.
    #[error(transparent)]
    Exec(std::sync::Arc<ExecError>),
    /// The interpreter did not start as it should.
    #[error("the interpreter did not start: {reason}")]
    Start {
        /// Why.
        reason: String,
    },
    /// The output cannot be read.
    #[error(transparent)]
    Output(std::sync::Arc<OutputError>),
}

impl From<ExecError> for ContextError {
    fn from(error: ExecError) -> Self {
        Self::Exec(std::sync::Arc::new(error))
    }
}

impl From<OutputError> for ContextError {
    fn from(error: OutputError) -> Self {
        Self::Output(std::sync::Arc::new(error))
    }
}

impl ContextError {
    pub(crate) fn invalid(pointer: &str, detail: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.to_owned(),
            detail: detail.into(),
        }
    }

    pub(crate) fn start(reason: impl Into<String>) -> Self {
        Self::Start {
            reason: reason.into(),
        }
    }
}
