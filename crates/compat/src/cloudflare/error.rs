//! Failures in this dialect's form.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use sandshell_client::ClientError;
use sandshell_client::types::{ErrorCode, IdError, Problem};
use serde_json::{Value, json};

/// Declares the codes we answer with, each with its text and status.
macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal;)*) => {
        /// A code of the dialect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Code { $($name),* }

        impl Code {
            fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }
        }
    };
}

codes! {
    FileNotFound = "FILE_NOT_FOUND", 404;
    ProcessNotFound = "PROCESS_NOT_FOUND", 404;
    ContextNotFound = "CONTEXT_NOT_FOUND", 404;
    GitRepositoryNotFound = "GIT_REPOSITORY_NOT_FOUND", 404;
    UnknownError = "UNKNOWN_ERROR", 404;
    IsDirectory = "IS_DIRECTORY", 400;
    NotDirectory = "NOT_DIRECTORY", 400;
    InvalidCommand = "INVALID_COMMAND", 400;
    InvalidPort = "INVALID_PORT", 400;
    InvalidGitUrl = "INVALID_GIT_URL", 400;
    NameTooLong = "NAME_TOO_LONG", 400;
    ValidationFailed = "VALIDATION_FAILED", 400;
    GitAuthFailed = "GIT_AUTH_FAILED", 401;
    PermissionDenied = "PERMISSION_DENIED", 403;
    FileExists = "FILE_EXISTS", 409;
    ResourceBusy = "RESOURCE_BUSY", 409;
    SessionAlreadyExists = "SESSION_ALREADY_EXISTS", 409;
    SessionDestroyed = "SESSION_DESTROYED", 410;
    FileTooLarge = "FILE_TOO_LARGE", 413;
    PythonNotAvailable = "PYTHON_NOT_AVAILABLE", 501;
    JavascriptNotAvailable = "JAVASCRIPT_NOT_AVAILABLE", 501;
    ServiceNotResponding = "SERVICE_NOT_RESPONDING", 502;
    GitNetworkError = "GIT_NETWORK_ERROR", 502;
    ContainerUnavailable = "CONTAINER_UNAVAILABLE", 503;
    NoSpace = "NO_SPACE", 500;
    TooManyLinks = "TOO_MANY_LINKS", 500;
    FilesystemError = "FILESYSTEM_ERROR", 500;
    CommandExecutionError = "COMMAND_EXECUTION_ERROR", 500;
    ProcessError = "PROCESS_ERROR", 500;
    GitCloneFailed = "GIT_CLONE_FAILED", 500;
    BackupRestoreFailed = "BACKUP_RESTORE_FAILED", 500;
    InternalError = "INTERNAL_ERROR", 500;
}

/// A failure, as the dialect tells it.
#[derive(Debug)]
pub(super) struct Fault {
    code: Code,
    message: String,
    context: Value,
    suggestion: Option<String>,
}

impl Fault {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            context: json!({}),
            suggestion: None,
        }
    }

    pub(super) fn context(self, context: Value) -> Self {
        Self { context, ..self }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// As the body of an answer.
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "code": self.code.as_str(),
            "message": self.message,
            "context": self.context,
            "httpStatus": self.code.status(),
            "timestamp": super::now(),
        });
        if let Some(suggestion) = &self.suggestion {
            body["suggestion"] = suggestion.clone().into();
        }
        body
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(self.body())).into_response()
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => Self::from(*problem),
            other => {
                tracing::warn!(error = %other, "the API did not answer");
                Self::new(Code::InternalError, other.to_string())
            }
        }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self {
            code: code_of(problem.code),
            message: problem.detail,
            context: json!({"reason": problem.code.as_str()}),
            suggestion: problem.hint,
        }
    }
}

impl From<IdError> for Fault {
    fn from(error: IdError) -> Self {
        Self::new(Code::ValidationFailed, error.to_string())
    }
}

/// What our codes are in this dialect.
fn code_of(code: ErrorCode) -> Code {
    match code {
        ErrorCode::InvalidRequest | ErrorCode::InvalidCwd | ErrorCode::UserNotFound => {
            Code::ValidationFailed
        }
        // Their client sends no credential: whoever has none has no sandbox.
        ErrorCode::Unauthorized | ErrorCode::Forbidden | ErrorCode::PermissionDenied => {
            Code::PermissionDenied
        }
        ErrorCode::ProcessNotFound | ErrorCode::CommandNotFound => Code::ProcessNotFound,
        ErrorCode::FileNotFound => Code::FileNotFound,
        ErrorCode::ContextNotFound | ErrorCode::ContextEnded => Code::ContextNotFound,
        // Not what their client tries again for two minutes: it does not come back.
        ErrorCode::SessionNotFound
        | ErrorCode::SessionEnded
        | ErrorCode::SandboxNotFound
        | ErrorCode::SandboxGone => Code::SessionDestroyed,
        ErrorCode::FileExists | ErrorCode::DirectoryNotEmpty => Code::FileExists,
        ErrorCode::ContextBusy | ErrorCode::SandboxPaused => Code::ResourceBusy,
        ErrorCode::NotADirectory => Code::NotDirectory,
        ErrorCode::IsADirectory => Code::IsDirectory,
        ErrorCode::NameTooLong => Code::NameTooLong,
        ErrorCode::TooManyLinks => Code::TooManyLinks,
        ErrorCode::NotARegularFile => Code::FilesystemError,
        ErrorCode::NoSpace => Code::NoSpace,
        ErrorCode::BodyTooLarge => Code::FileTooLarge,
        ErrorCode::InvalidArchive => Code::BackupRestoreFailed,
        ErrorCode::GitFailed | ErrorCode::GitConflict => Code::GitCloneFailed,
        ErrorCode::GitAuth => Code::GitAuthFailed,
        ErrorCode::GitNotFound => Code::GitRepositoryNotFound,
        ErrorCode::GitNetwork => Code::GitNetworkError,
        ErrorCode::InterpreterNotFound => Code::PythonNotAvailable,
        ErrorCode::ProgramNotFound | ErrorCode::ProgramNotExecutable => Code::InvalidCommand,
        ErrorCode::ProcessEnded | ErrorCode::IdConflict => Code::ProcessError,
        ErrorCode::PortNotFound | ErrorCode::PortUnreachable => Code::ServiceNotResponding,
        ErrorCode::SandboxUnreachable | ErrorCode::Unavailable | ErrorCode::LimitReached => {
            Code::ContainerUnavailable
        }
        _ => Code::InternalError,
    }
}
