//! Failures in this dialect's form.
//!
//! Its clients choose the exception by `source` and `code` together, and by the status where they do not
//! know the code.

use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use sandshell_client::ClientError;
use sandshell_client::types::{ErrorCode, IdError, Problem};
use serde_json::{Value, json};

/// A failure, as the dialect tells it.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Fault {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// A request that cannot be meant.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    /// Something of the same name is there.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", message)
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// Something that this server does not have.
    pub(super) fn absent(what: &str) -> Self {
        let message = format!("Sandshell does not serve {what}");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NOT_IMPLEMENTED", message)
    }

    /// A request that could not be read, as the one who tried says it.
    pub(super) fn unread(status: StatusCode, message: String) -> Self {
        match status {
            StatusCode::METHOD_NOT_ALLOWED => {
                Self::new(status, "BAD_REQUEST", "The method is not allowed here")
            }
            _ => Self::new(status, "BAD_REQUEST", message),
        }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The same failure under another name, if it has this status.
    pub(super) fn named(self, status: StatusCode, code: &'static str) -> Self {
        if self.status == status {
            Self { code, ..self }
        } else {
            self
        }
    }

    /// As one of several: without the request.
    pub(super) fn part(&self) -> Value {
        json!({
            "statusCode": self.status.as_u16(),
            "message": self.message,
            "code": self.code,
            "source": "DAYTONA_DAEMON",
        })
    }

    /// As the answer to a request.
    pub(super) fn told(&self, method: &Method, path: &str) -> Response {
        let source = if path.starts_with("/toolbox") {
            "DAYTONA_DAEMON"
        } else {
            "DAYTONA_API"
        };
        let body = json!({
            "statusCode": self.status.as_u16(),
            "message": self.message,
            // Where several files are sent, clients look here.
            "errors": [self.message],
            "code": self.code,
            "source": source,
            "method": method.as_str(),
            "path": path,
            "timestamp": jiff::Timestamp::now(),
        });
        (self.status, axum::Json(body)).into_response()
    }
}

impl IntoResponse for Fault {
    /// Its form comes where the answer leaves.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => Self::from(*problem),
            other => {
                tracing::warn!(error = %other, "the API did not answer");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Self::new(status, "INTERNAL_SERVER_ERROR", other.to_string())
            }
        }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let (status, code) = code_of(problem.code);
        let status = StatusCode::from_u16(status);
        let message = match problem.hint {
            Some(hint) => format!("{}. {hint}", problem.detail),
            None => problem.detail,
        };
        Self::new(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            message,
        )
    }
}

impl From<IdError> for Fault {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// What our codes are in this dialect.
fn code_of(code: ErrorCode) -> (u16, &'static str) {
    match code {
        ErrorCode::InvalidRequest | ErrorCode::InvalidCwd | ErrorCode::UserNotFound => {
            (400, "BAD_REQUEST")
        }
        ErrorCode::IsADirectory
        | ErrorCode::NotADirectory
        | ErrorCode::NotARegularFile
        | ErrorCode::NameTooLong
        | ErrorCode::TooManyLinks => (400, "INVALID_FILE_PATH"),
        ErrorCode::Unauthorized => (401, "UNAUTHORIZED"),
        ErrorCode::GitAuth => (401, "GIT_AUTH_FAILED"),
        ErrorCode::Forbidden => (403, "FORBIDDEN"),
        ErrorCode::PermissionDenied => (403, "FILE_ACCESS_DENIED"),
        ErrorCode::FileNotFound => (404, "FILE_NOT_FOUND"),
        ErrorCode::ProcessNotFound => (404, "PROCESS_NOT_FOUND"),
        ErrorCode::GitNotFound => (404, "GIT_REPO_NOT_FOUND"),
        // One that is over is one that is not there.
        ErrorCode::SandboxGone => (404, "NOT_FOUND"),
        ErrorCode::TimedOut => (408, "REQUEST_TIMEOUT"),
        ErrorCode::GitConflict => (409, "GIT_MERGE_CONFLICT"),
        ErrorCode::ProcessEnded | ErrorCode::StdinClosed => (410, "COMMAND_ALREADY_COMPLETED"),
        ErrorCode::SessionEnded => (410, "SESSION_ENDED"),
        ErrorCode::GitNetwork => (502, "GIT_TRANSPORT_FAILED"),
        other => (other.status(), general(other.status())),
    }
}

fn general(status: u16) -> &'static str {
    match status {
        404 => "NOT_FOUND",
        409 => "CONFLICT",
        410 => "GONE",
        422 => "UNPROCESSABLE_ENTITY",
        400..=499 => "BAD_REQUEST",
        _ => "INTERNAL_SERVER_ERROR",
    }
}
