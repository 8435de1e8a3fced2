//! Failures in this dialect's form: `{error, code}`.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use sandshell_client::ClientError;
use sandshell_client::types::{ErrorCode, Problem};
use serde_json::{Value, json};

/// A code of the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Unauthorized,
    InvalidRequest,
    Exec,
    ExecTransport,
    ReadNotFound,
    ArchiveRead,
    ArchiveWrite,
    Capacity,
    TooLarge,
    Pool,
    Mount,
    Unmount,
    Session,
    Tunnel,
}

impl Code {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::InvalidRequest => "invalid_request",
            Self::Exec => "exec_error",
            Self::ExecTransport => "exec_transport_error",
            Self::ReadNotFound => "workspace_read_not_found",
            Self::ArchiveRead => "workspace_archive_read_error",
            Self::ArchiveWrite => "workspace_archive_write_error",
            Self::Capacity => "capacity_exceeded",
            Self::TooLarge => "payload_too_large",
            Self::Pool => "pool_error",
            Self::Mount => "mount_error",
            Self::Unmount => "unmount_error",
            Self::Session => "session_error",
            Self::Tunnel => "tunnel_error",
        }
    }
}

/// A failure, as the dialect tells it.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    code: Code,
    error: String,
}

impl Fault {
    fn new(status: StatusCode, code: Code, error: impl Into<String>) -> Self {
        Self {
            status,
            code,
            error: error.into(),
        }
    }

    /// What is asked for cannot be.
    pub(super) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, error)
    }

    /// It is not in the workspace.
    pub(super) fn outside(what: &str) -> Self {
        let error = format!("{what} must resolve to a location within /workspace");
        Self::new(StatusCode::FORBIDDEN, Code::InvalidRequest, error)
    }

    pub(super) fn missing(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::InvalidRequest, error)
    }

    pub(super) fn method() -> Self {
        let error = "the method is not allowed here";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidRequest, error)
    }

    pub(super) fn too_large(error: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, error)
    }

    pub(super) fn no_file(path: &str) -> Self {
        let error = format!("File not found: {path}");
        Self::new(StatusCode::NOT_FOUND, Code::ReadNotFound, error)
    }

    /// What was asked for failed.
    pub(super) fn failed(code: Code, error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, code, error)
    }

    /// What a call of ours failed with, told as the failure of `what`.
    pub(super) fn of(code: Code, what: &str) -> impl Fn(ClientError) -> Self {
        move |error| match error {
            ClientError::Problem(problem) => Self::told(&problem, code, what),
            other => {
                tracing::warn!(error = %other, "the API did not answer");
                Self::failed(code, format!("{what} failed: {other}"))
            }
        }
    }

    fn told(problem: &Problem, code: Code, what: &str) -> Self {
        let detail = match &problem.hint {
            Some(hint) => format!("{what} failed: {} {hint}", sentence(&problem.detail)),
            None => format!("{what} failed: {}", problem.detail),
        };
        match problem.code {
            // Either way this token is none for what was asked.
            ErrorCode::Unauthorized | ErrorCode::Forbidden => {
                Self::new(StatusCode::UNAUTHORIZED, Code::Unauthorized, detail)
            }
            ErrorCode::InvalidRequest
            | ErrorCode::InvalidCwd
            | ErrorCode::UserNotFound
            | ErrorCode::IsolationUnavailable => Self::invalid(detail),
            ErrorCode::SandboxNotFound | ErrorCode::SandboxGone => Self::missing(detail),
            ErrorCode::BodyTooLarge => Self::too_large(detail),
            ErrorCode::LimitReached | ErrorCode::Unavailable | ErrorCode::SandboxPaused => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Capacity, detail)
            }
            _ => Self::failed(code, detail),
        }
    }

    /// As the body of an answer, or the data of an event.
    pub(super) fn body(&self) -> Value {
        json!({"error": self.error, "code": self.code.as_str()})
    }
}

/// Ends with a full stop.
fn sentence(text: &str) -> String {
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{text}{stop}")
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body())).into_response()
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::told(&problem, Code::ExecTransport, "the request")
    }
}
