//! Failures with code contexts.

use sandshell_contexts::ContextError;
use sandshell_types::ErrorCode;

use super::ApiError;

impl From<ContextError> for ApiError {
    fn from(error: ContextError) -> Self {
        use ErrorCode as Code;
        let text = error.to_string();
        match error {
            ContextError::Invalid { pointer, detail } => {
                Self::new(Code::InvalidRequest, detail).pointer(pointer)
            }
            ContextError::NotFound { .. } => Self::new(Code::ContextNotFound, text)
                .hint("Make one with POST /v1/contexts; GET /v1/contexts lists those there are."),
            ContextError::Conflict { id, field } => Self::new(
                Code::IdConflict,
                format!("the id {id:?} is in use with another `{field}`"),
            )
            .pointer(format!("/{field}"))
            .hint("Take another id, or send the same spec to get what is there."),
            ContextError::Busy { .. } => Self::new(Code::ContextBusy, text)
                .hint("Wait for some to end, or make another context."),
            ContextError::TooMany { .. } => Self::new(Code::LimitReached, text)
                .hint("Delete some with DELETE /v1/contexts/{id}."),
            ContextError::Ended { .. } => Self::new(Code::ContextEnded, text)
                .hint("POST /v1/contexts/{id}/restart starts a fresh interpreter."),
            ContextError::InterpreterNotFound { hint, .. } => {
                Self::new(Code::InterpreterNotFound, text)
                    .pointer("/language")
                    .hint(hint)
            }
            ContextError::Start { .. } => Self::new(Code::Unavailable, text)
                .hint("The interpreter in the sandbox may be broken or too old; try it with POST /v1/exec."),
            ContextError::Exec(error) => match std::sync::Arc::try_unwrap(error) {
                Ok(error) => error.into(),
                Err(shared) => Self::internal("the request failed", &shared),
            },
            ContextError::Output(error) => Self::internal("the output cannot be read", &error),
            other => Self::internal("the request failed", &other),
        }
    }
}
