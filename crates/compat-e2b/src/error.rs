//! Failures in this dialect's forms.
//!
//! | where | form |
//! |---|---|
//! | control plane, files, code interpreter | status and `{"code": STATUS, "message"}` |
//! | a call with one answer | status and `{"code": "not_found", "message"}` |
//! | a stream | 200, and the same within its last envelope |
//!
//! A sandbox that is not there, or does not run, is 404 for the control plane. For what is inside of it, it
//! is 502 or `unavailable` with a sentence that contains "was not found", by which clients know it.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use sandshell_client::ClientError;
use sandshell_client::types::{ErrorCode, Problem};
use serde_json::{Value, json};

/// Declares the codes, each with its text and status.
macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal;)*) => {
        /// A code of the Connect protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code { $($name),* }

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
    Canceled = "canceled", 499;
    InvalidArgument = "invalid_argument", 400;
    DeadlineExceeded = "deadline_exceeded", 504;
    NotFound = "not_found", 404;
    AlreadyExists = "already_exists", 409;
    PermissionDenied = "permission_denied", 403;
    ResourceExhausted = "resource_exhausted", 429;
    FailedPrecondition = "failed_precondition", 400;
    Unimplemented = "unimplemented", 501;
    Internal = "internal", 500;
    Unavailable = "unavailable", 503;
    DataLoss = "data_loss", 500;
    Unauthenticated = "unauthenticated", 401;
}

/// A failure, as the dialect tells it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    message: String,
    /// Where a plain answer has another status than the code has.
    status: Option<u16>,
}

impl Fault {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self {
            status: Some(status),
            ..self
        }
    }

    /// What a sandbox that does not run is, for what is inside of it.
    pub(crate) fn gone(detail: &str) -> Self {
        let message = format!("The sandbox was not found: {detail}");
        Self::new(Code::Unavailable, message).with_status(502)
    }

    /// The same failure, told of the sandbox from outside.
    pub(crate) fn outside(problem: Problem) -> Self {
        let fault = Self::from(problem.clone());
        match problem.code {
            ErrorCode::SandboxNotFound | ErrorCode::SandboxGone => {
                Self::not_found(problem.detail).with_status(404)
            }
            ErrorCode::SandboxPaused => {
                Self::new(Code::AlreadyExists, problem.detail).with_status(409)
            }
            ErrorCode::ImageNotFound => Self::not_found(problem.detail).with_status(404),
            _ => fault,
        }
    }

    fn http_status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.code.status())
    }

    /// As a part of the Connect protocol.
    pub(crate) fn body(&self) -> Value {
        json!({"code": self.code.as_str(), "message": self.message})
    }

    /// As an answer of the Connect protocol.
    pub(crate) fn unary(&self) -> Response {
        (status_of(self.code.status()), axum::Json(self.body())).into_response()
    }

    /// As any other answer.
    pub(crate) fn plain(&self) -> Response {
        let status = self.http_status();
        let body = json!({"code": status, "message": self.message});
        (status_of(status), axum::Json(body)).into_response()
    }
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Plain answers.
impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        self.plain()
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => Self::from(*problem),
            other => {
                tracing::debug!(error = %other, "the API did not answer");
                // Whether the sandbox is gone is for the client to ask.
                Self::new(Code::Unavailable, other.to_string()).with_status(502)
            }
        }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let fault = Self::new(code_of(problem.code), problem.detail);
        match problem.code {
            ErrorCode::SandboxNotFound | ErrorCode::SandboxGone | ErrorCode::SandboxPaused => {
                Self::gone(&fault.message)
            }
            ErrorCode::SandboxUnreachable => fault.with_status(502),
            ErrorCode::NoSpace => fault.with_status(507),
            ErrorCode::BodyTooLarge => fault.with_status(413),
            ErrorCode::RangeNotSatisfiable => fault.with_status(416),
            ErrorCode::PreconditionFailed => fault.with_status(412),
            _ => fault,
        }
    }
}

/// What our codes are in this dialect.
fn code_of(code: ErrorCode) -> Code {
    match code {
        // A user that is not there is nobody.
        ErrorCode::Unauthorized | ErrorCode::UserNotFound => Code::Unauthenticated,
        ErrorCode::Forbidden | ErrorCode::PermissionDenied => Code::PermissionDenied,
        ErrorCode::IdConflict | ErrorCode::FileExists | ErrorCode::IdempotencyConflict => {
            Code::AlreadyExists
        }
        ErrorCode::ProcessEnded
        | ErrorCode::StdinClosed
        | ErrorCode::DirectoryNotEmpty
        | ErrorCode::ContextBusy
        | ErrorCode::TerminalEnded
        | ErrorCode::ContextEnded => Code::FailedPrecondition,
        ErrorCode::LimitReached | ErrorCode::NoSpace => Code::ResourceExhausted,
        ErrorCode::TimedOut => Code::DeadlineExceeded,
        ErrorCode::MethodNotAllowed => Code::Unimplemented,
        ErrorCode::SandboxUnreachable | ErrorCode::PortUnreachable | ErrorCode::Unavailable => {
            Code::Unavailable
        }
        ErrorCode::Internal | ErrorCode::StorageFailed => Code::Internal,
        other => match other.status() {
            404 => Code::NotFound,
            400..=499 => Code::InvalidArgument,
            _ => Code::Internal,
        },
    }
}
