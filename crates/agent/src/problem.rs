//! The single translation of failures into problem documents (RFC 9457).
//!
//! Owns which code, status, pointer and hint a failure gets. Does not own the request id, which the
//! edge fills in, nor the rendering, which it does for every failed answer alike.
//!
//! An [`ApiError`] becomes a response that carries its [`Problem`] as an extension and has no body
//! yet: handlers need not know the request they fail.

mod backup;
mod context;
mod file;
mod git;
mod port;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use sandshell_exec::ExecError;
use sandshell_exec::output::OutputError;
use sandshell_types::{ErrorCode, Problem};

/// Seconds after which a refused request may be sent again: queues drain and restarts end in about
/// this time.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A failed request.
#[derive(Debug)]
pub struct ApiError(Box<Problem>);

impl ApiError {
    /// A failure with this code and what happened.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the place in the request.
    #[must_use]
    pub fn pointer(mut self, pointer: impl Into<String>) -> Self {
        self.0.pointer = Some(pointer.into());
        self
    }

    /// A mistake of ours: the cause goes to the log, the client gets the request id to ask with.
    pub fn internal(detail: &str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "{detail}");
        Self::new(ErrorCode::Internal, detail)
            .hint("This is a fault of the server; its log has more under this request's time.")
    }

    /// What a failure without a problem of its own, such as an unknown route, amounts to.
    pub fn from_status(status: StatusCode, method: &str, path: &str) -> Self {
        match status {
            StatusCode::NOT_FOUND => {
                Self::new(ErrorCode::NotFound, format!("there is no route {path}"))
                    .hint("GET /openapi.json lists every route.")
            }
            StatusCode::METHOD_NOT_ALLOWED => Self::new(
                ErrorCode::MethodNotAllowed,
                format!("{path} does not take {method}"),
            )
            .hint("The `allow` header names the methods it takes."),
            status if status.is_client_error() => Self::new(
                ErrorCode::InvalidRequest,
                format!("the request was refused: {status}"),
            ),
            status => Self::internal("the request failed", &status),
        }
    }

    /// The problem itself, for answers that carry it otherwise than as their body.
    pub fn into_problem(self) -> Problem {
        *self.0
    }

    #[cfg(test)]
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = *self.0;
        let mut response = Response::default();
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        match problem.code {
            ErrorCode::LimitReached | ErrorCode::Unavailable => {
                headers.insert(header::RETRY_AFTER, RETRY_AFTER);
            }
            ErrorCode::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response.extensions_mut().insert(problem);
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<OutputError> for ApiError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Gone { first_offset } => {
                let mut gone = Self::new(
                    ErrorCode::OffsetGone,
                    format!("output before offset {first_offset} is no longer kept"),
                )
                .hint(format!("Read on from offset {first_offset}."));
                gone.0.first_offset = Some(first_offset);
                gone
            }
            OutputError::Beyond { len } => Self::new(
                ErrorCode::InvalidRequest,
                format!("the position is beyond the end of the output, which is {len} long"),
            )
            .pointer("/offset")
            .hint(format!(
                "Read from {len} or less; follow=true waits for what is still to come."
            )),
            other => Self::internal("the output cannot be read", &other),
        }
    }
}

impl From<ExecError> for ApiError {
    fn from(error: ExecError) -> Self {
        use ErrorCode as Code;
        match error {
            ExecError::Invalid { pointer, detail, hint } => {
                let invalid = Self::new(Code::InvalidRequest, detail).pointer(pointer);
                match hint {
                    Some(hint) => invalid.hint(hint),
                    None => invalid,
                }
            }
            ExecError::Cwd { path, reason } => {
                Self::new(Code::InvalidCwd, format!("cannot use {path} as working directory: {reason}"))
                    .pointer("/cwd")
                    .hint("Make the directory first, or leave `cwd` out for the sandbox's own.")
            }
            ExecError::UserNotFound { user } => {
                Self::new(Code::UserNotFound, format!("there is no user {user:?}"))
                    .pointer("/user")
                    .hint("Use a name from /etc/passwd or a numeric uid, or leave `user` out.")
            }
            ExecError::Forbidden { detail } => Self::new(Code::Forbidden, detail)
                .pointer("/user")
                .hint("Leave `user` out; where the hub, or the agent without one, runs as root, others can be named."),
            ExecError::ProcessNotFound { id } => {
                Self::new(Code::ProcessNotFound, format!("there is no process {id:?}")).hint(
                    "GET /v1/processes (?kind=exec for execs) lists those there are; ended ones are kept for a while only.",
                )
            }
            ExecError::SessionNotFound { id } => {
                Self::new(Code::SessionNotFound, format!("there is no session {id:?}"))
                    .hint("Make one with POST /v1/sessions; GET /v1/sessions lists those there are.")
            }
            ExecError::CommandNotFound { id } => {
                Self::new(Code::CommandNotFound, format!("the session has no command {id:?}"))
                    .hint("GET /v1/sessions/{id}/commands lists those that are kept.")
            }
            ExecError::TerminalNotFound { id } => {
                Self::new(Code::TerminalNotFound, format!("there is no terminal {id:?}"))
                    .hint("Make one with POST /v1/terminals; GET /v1/terminals lists those there are.")
            }
            ExecError::TerminalEnded { id } => {
                Self::new(Code::TerminalEnded, format!("the terminal {id:?} has ended"))
                    .hint("GET /v1/terminals/{id} tells how; its screen and recording are kept for a while.")
            }
            error @ (ExecError::TooManyViewers { .. } | ExecError::TooManyTerminals { .. }) => {
                Self::new(Code::LimitReached, error.to_string()).hint("End or leave some first.")
            }
            ExecError::IdConflict { id, field } => Self::new(
                Code::IdConflict,
                format!("the id {id:?} is in use with another `{field}`"),
            )
            .pointer(format!("/{field}"))
            .hint("Take another id, or send the same spec to get what is there."),
            ExecError::ProcessEnded { id } => {
                Self::new(Code::ProcessEnded, format!("the process {id:?} has ended"))
                    .hint("GET /v1/processes/{id} tells how.")
            }
            ExecError::StdinClosed => Self::new(Code::StdinClosed, "the standard input is not open")
                .hint("Start the process with `stdin_open: true` to write to it later."),
            ExecError::StdinOffset { expected } => {
                let mut wrong = Self::new(
                    Code::StdinOffset,
                    format!("{expected} bytes have been accepted so far, so the next write has offset {expected}"),
                )
                .pointer("/offset")
                .hint("Leave out the bytes before that offset: they have arrived.");
                wrong.0.expected_offset = Some(expected);
                wrong
            }
            ExecError::CommandDropped { id } => {
                let detail = format!("nothing of the command {id:?} was run: it was interrupted while it waited, or its session ended");
                Self::new(Code::SessionEnded, detail)
                    .hint("GET the session itself: while it is there, the command can be sent again.")
            }
            ExecError::SessionEnded { id, reason } => {
                Self::new(Code::SessionEnded, format!("the session {id:?} has ended: {reason}"))
                    .hint("Make another with POST /v1/sessions.")
            }
            ExecError::LimitUnavailable { pointer, detail } => {
                Self::new(Code::LimitUnavailable, detail)
                    .pointer(pointer)
                    .hint("Leave the limit out, or give the agent a cgroup that it may divide.")
            }
            ExecError::IsolationUnavailable { pointer, detail } => {
                Self::new(Code::IsolationUnavailable, detail)
                    .pointer(pointer)
                    .hint("Leave it out, or give the agent the right to make namespaces.")
            }
            ExecError::ProgramNotFound { program } => {
                Self::new(Code::ProgramNotFound, format!("there is no program {program:?}"))
                    .pointer("/argv/0")
                    .hint("Give its full path, or use `command` for text that a shell is to run.")
            }
            ExecError::ShellNotFound { shell } => {
                Self::new(Code::ProgramNotFound, format!("there is no shell {shell:?}"))
                    .pointer("/shell")
                    .hint("Leave `shell` out for bash, or give the full path of a shell.")
            }
            ExecError::NoShell => Self::new(Code::ProgramNotFound, error.to_string())
                .hint("Give the program and its arguments as `argv`, or use an image with a shell."),
            ExecError::ShellNotUsable { shell, reason } => Self::new(
                Code::ProgramNotExecutable,
                format!("{shell:?} cannot be used as a shell: {reason}"),
            )
            .pointer("/shell")
            .hint("Leave `shell` out for bash, or give the full path of a shell."),
            ExecError::ProgramNotExecutable { program, reason } => Self::new(
                Code::ProgramNotExecutable,
                format!("{program:?} cannot be executed: {reason}"),
            )
            .pointer("/argv/0"),
            ExecError::QueueFull { limit } => {
                Self::new(Code::LimitReached, format!("{limit} commands are waiting already"))
                    .hint("Wait for some to end, or use another session.")
            }
            ExecError::Output(error) => error.into(),
            ExecError::Unavailable { detail } => {
                Self::new(Code::Unavailable, detail).hint("Try again in a moment.")
            }
            lost @ ExecError::ShellLost => {
                Self::new(Code::Unavailable, lost.to_string()).hint("Try again in a moment.")
            }
            other => Self::internal("the request failed", &other),
        }
    }
}
