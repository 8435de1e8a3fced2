//! Error codes and the problem document (RFC 9457) that carries them.

use serde::{Deserialize, Serialize};

use crate::Protection;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// A stable, machine-readable reason for a failed request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// A short title, the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }
        }
    };
}

error_codes! {
    /// The request does not have the right form; `pointer` names the place.
    InvalidRequest = "invalid_request", 400, "The request is not valid";
    /// The working directory does not exist or cannot be entered.
    InvalidCwd = "invalid_cwd", 400, "The working directory cannot be used";
    /// No such user in the sandbox.
    UserNotFound = "user_not_found", 400, "The user does not exist";
    /// The bearer token is missing or wrong.
    Unauthorized = "unauthorized", 401, "A valid token is needed";
    /// The request is understood and refused.
    Forbidden = "forbidden", 403, "This is not allowed";
    /// The rights of the sandbox's user do not allow it, or the file system is read-only.
    PermissionDenied = "permission_denied", 403, "The sandbox's user may not do this";
    /// No such route.
    NotFound = "not_found", 404, "There is nothing here";
    /// No such process, or its record is no longer kept.
    ProcessNotFound = "process_not_found", 404, "The process does not exist";
    /// No such session.
    SessionNotFound = "session_not_found", 404, "The session does not exist";
    /// No such command in the session's history.
    CommandNotFound = "command_not_found", 404, "The command does not exist";
    /// No such terminal, or its record is no longer kept.
    TerminalNotFound = "terminal_not_found", 404, "The terminal does not exist";
    /// Nothing is at this path.
    FileNotFound = "file_not_found", 404, "The file does not exist";
    /// No such backup, or its time is over.
    BackupNotFound = "backup_not_found", 404, "The backup does not exist";
    /// Nothing in the sandbox listens on this port.
    PortNotFound = "port_not_found", 404, "Nothing listens on this port";
    /// No such code context.
    ContextNotFound = "context_not_found", 404, "The context does not exist";
    /// No such sandbox, or none that this token may know of.
    SandboxNotFound = "sandbox_not_found", 404, "The sandbox does not exist";
    /// No such image at this hub.
    ImageNotFound = "image_not_found", 404, "The image does not exist";
    /// No such token.
    TokenNotFound = "token_not_found", 404, "The token does not exist";
    /// The route exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here";
    /// The id is taken by something with another spec.
    IdConflict = "id_conflict", 409, "The id is in use with another spec";
    /// The idempotency key was used with another body.
    IdempotencyConflict = "idempotency_conflict", 409, "The idempotency key was used for another request";
    /// The process has ended, so it cannot be signalled or written to.
    ProcessEnded = "process_ended", 409, "The process has ended";
    /// The standard input is not open.
    StdinClosed = "stdin_closed", 409, "The standard input is closed";
    /// The offset of a stdin write is not the number of bytes accepted so far.
    StdinOffset = "stdin_offset", 409, "The stdin offset does not match";
    /// Something is at this path already.
    FileExists = "file_exists", 409, "The file exists";
    /// A directory with something in it is removed only with `recursive`.
    DirectoryNotEmpty = "directory_not_empty", 409, "The directory is not empty";
    /// Changes stand in the way of what git was asked to do.
    GitConflict = "git_conflict", 409, "Git has a conflict";
    /// The context has too many runs waiting.
    ContextBusy = "context_busy", 409, "The context is busy";
    /// The sandbox is paused and answers after a resume.
    SandboxPaused = "sandbox_paused", 409, "The sandbox is paused";
    /// Sandboxes are made of the image.
    ImageInUse = "image_in_use", 409, "The image is in use";
    /// The session has ended.
    SessionEnded = "session_ended", 410, "The session has ended";
    /// The bytes at this offset are no longer kept; `first_offset` names the first that are.
    OffsetGone = "offset_gone", 410, "The bytes at this offset are no longer kept";
    /// The terminal has ended, so it takes no input.
    TerminalEnded = "terminal_ended", 410, "The terminal has ended";
    /// The interpreter of the context has ended.
    ContextEnded = "context_ended", 410, "The context has ended";
    /// The sandbox was destroyed or died; its record tells why.
    SandboxGone = "sandbox_gone", 410, "The sandbox is gone";
    /// The file's `ETag` or time does not meet the condition of the request.
    PreconditionFailed = "precondition_failed", 412, "The file is not as expected";
    /// The body is larger than the limit.
    BodyTooLarge = "body_too_large", 413, "The body is too large";
    /// The body is not of a type this route takes.
    UnsupportedMediaType = "unsupported_media_type", 415, "The content type is not supported";
    /// No byte of the range is in the file.
    RangeNotSatisfiable = "range_not_satisfiable", 416, "The range lies outside the file";
    /// The program of an argv does not exist.
    ProgramNotFound = "program_not_found", 422, "The program does not exist";
    /// The program of an argv cannot be executed.
    ProgramNotExecutable = "program_not_executable", 422, "The program cannot be executed";
    /// A directory is needed and something else is there.
    NotADirectory = "not_a_directory", 422, "This is not a directory";
    /// A file is needed and a directory is there.
    IsADirectory = "is_a_directory", 422, "This is a directory";
    /// A file is needed and a FIFO, device or socket is there.
    NotARegularFile = "not_a_regular_file", 422, "This is not a regular file";
    /// The path goes through too many symbolic links, or one that leads to itself.
    TooManyLinks = "too_many_links", 422, "Too many symbolic links";
    /// A name or path is longer than the file system allows.
    NameTooLong = "name_too_long", 422, "The name is too long";
    /// The archive is damaged, truncated, or has an entry that would leave its directory.
    InvalidArchive = "invalid_archive", 422, "The archive is not valid";
    /// What was sent is no image, or a broken one.
    InvalidImage = "invalid_image", 422, "The image is not valid";
    /// Git could not do what it was asked to.
    GitFailed = "git_failed", 422, "Git failed";
    /// The remote wants other credentials.
    GitAuth = "git_auth", 422, "Git could not authenticate";
    /// The repository, branch or revision does not exist.
    GitNotFound = "git_not_found", 422, "Git found nothing there";
    /// The language's interpreter is not in the sandbox.
    InterpreterNotFound = "interpreter_not_found", 422, "The interpreter is not installed";
    /// A protection that was asked for cannot be had here; `protections` has the report.
    IsolationUnavailable = "isolation_unavailable", 422, "The isolation asked for cannot be had here";
    /// A limit that was asked for cannot be kept here; `pointer` names it.
    LimitUnavailable = "limit_unavailable", 422, "The limit cannot be kept here";
    /// The session's queue, or another stated limit, is full.
    LimitReached = "limit_reached", 429, "A limit is reached";
    /// Something of ours failed.
    Internal = "internal", 500, "Something failed on our side";
    /// The sandbox's agent refused the connection or broke it off.
    SandboxUnreachable = "sandbox_unreachable", 502, "The sandbox does not answer";
    /// The server behind the port refused the connection or broke it off.
    PortUnreachable = "port_unreachable", 502, "The port does not answer";
    /// The remote's name does not resolve or it does not answer.
    GitNetwork = "git_network", 502, "Git could not reach the remote";
    /// The storage at the URL refused, after retries.
    StorageFailed = "storage_failed", 502, "The storage did not take or give the backup";
    /// The agent is shutting down or a resource of the machine is used up.
    Unavailable = "unavailable", 503, "The service is not available now";
    /// The operation did not end within its `timeout_ms` and was ended.
    TimedOut = "timed_out", 504, "It took too long";
    /// No space, inode or quota is left.
    NoSpace = "no_space", 507, "The disk is full";
}

/// An RFC 9457 problem document: what went wrong, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// A URI reference that names the kind of problem.
    #[serde(rename = "type")]
    #[schema(example = "/problems/process_not_found")]
    pub kind: String,
    /// A short title, the same for every problem of this kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code to branch on.
    pub code: ErrorCode,
    /// What happened this time.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// JSON pointer to the offending field of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// With `offset_gone`: the first offset that is still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_offset: Option<u64>,
    /// With `stdin_offset`: the offset the next write must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_offset: Option<u64>,
    /// With `isolation_unavailable`: what became of each layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protections: Vec<Protection>,
    /// The id of the request, also in the `x-request-id` header.
    #[serde(default)]
    pub request_id: String,
}

impl Problem {
    /// A problem of the given kind with its particulars.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/problems/{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            hint: None,
            pointer: None,
            first_offset: None,
            expected_offset: None,
            protections: Vec::new(),
            request_id: String::new(),
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the JSON pointer of the offending field.
    #[must_use]
    pub fn pointer(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.detail, self.code.as_str())
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_called_the_same_everywhere() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::json!(code), code.as_str());
        }
    }
}
