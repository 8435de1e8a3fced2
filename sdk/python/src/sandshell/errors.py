"""What can go wrong, as exceptions.

Every failure that the service tells of is an `ApiError`, of a class for its code below a class for its
kind of status, so that both can be caught: `FileNotFound` is a `NotFoundError`. A code that this
version does not know comes as the class of its status. What failed between here and the service is a
`ConnectionFailed`.

A command that exits with another status than 0 is a result, not a failure; only `check=True` makes it
one (`CommandFailed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .models import ProcessRecord
    from .results import Result


class SandshellError(Exception):
    """Whatever this package raises, but for wrong arguments (`ValueError`, `TypeError`)."""


class ConnectionFailed(SandshellError, ConnectionError):
    """The service could not be reached, or broke an answer off, also after retries."""


class ProtocolError(SandshellError):
    """An answer is not what the API promises; something else listens there, or a newer version."""


class StreamBroken(ConnectionFailed):
    """A stream broke off and cannot be resumed without losing or repeating something."""


class WaitTimeout(SandshellError, TimeoutError):
    """What was waited for did not happen in time. Nothing was ended by it."""


class ProcessExited(SandshellError):
    """The process ended before what was waited for happened; `process` tells how."""

    def __init__(self, message: str, process: ProcessRecord) -> None:
        super().__init__(message)
        self.process: ProcessRecord = process


class CommandFailed(SandshellError):
    """A command run with `check=True` did not end with 0; `result` has all of it."""

    def __init__(self, result: Result[Any]) -> None:
        how = "timed out" if result.timed_out else f"ended with {result.exit_code}"
        stderr: str | bytes = result.stderr
        said = stderr if isinstance(stderr, str) else stderr.decode(errors="replace")
        last = said.strip().splitlines()[-1:]
        super().__init__(f"the command {how}" + (f": {last[0]}" if last else ""))
        self.result: Result[Any] = result


class ApiError(SandshellError):
    """The service refused or failed; an RFC 9457 problem."""

    def __init__(self, problem: Mapping[str, Any], *, status: int, retry_after: float | None = None) -> None:
        self.status: int = status
        """The HTTP status; 0 for a problem in the middle of a stream that names none."""
        self.code: str = str(problem.get("code", "unknown"))
        """The stable name of the problem: branch on it, or on the class."""
        self.title: str = str(problem.get("title", ""))
        self.detail: str = str(problem.get("detail", ""))
        """What happened this time."""
        self.hint: str | None = problem.get("hint")
        """What to do about it, where there is something to say."""
        self.pointer: str | None = problem.get("pointer")
        """A JSON pointer to the field at fault."""
        self.request_id: str | None = problem.get("request_id")
        """Finds the request in the service's log."""
        self.retry_after: float | None = retry_after
        """Seconds after which to try again, with 429 and 503."""
        self.problem: dict[str, Any] = dict(problem)
        """The whole document, with what only some problems have (`first_offset`, `protections`)."""
        text = f"{self.code}: {self.detail or self.title}"
        super().__init__(text + (f" ({self.hint})" if self.hint else ""))

    @staticmethod
    def of(problem: Mapping[str, Any], *, status: int, retry_after: float | None = None) -> ApiError:
        """The exception of the right class for a problem."""
        of_code = CodedError.by_code.get(str(problem.get("code")))
        kind = of_code or _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
        return kind(problem, status=status, retry_after=retry_after)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.problem, self.status, self.retry_after)


def _rebuild(problem: Mapping[str, Any], status: int, retry_after: float | None) -> ApiError:
    return ApiError.of(problem, status=status, retry_after=retry_after)


class CodedError(ApiError):
    """An `ApiError` of a code that this version knows."""

    by_code: ClassVar[dict[str, type[ApiError]]] = {}

    def __init_subclass__(cls, *, code: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if code is not None:
            CodedError.by_code[code] = cls


class BadRequestError(CodedError):
    """400 and the like: the request does not have the right form."""


class AuthenticationError(CodedError):
    """401: no token, or a wrong one."""


class PermissionDeniedError(CodedError):
    """403: understood and refused."""


class NotFoundError(CodedError):
    """404: what was named does not exist."""


class ConflictError(CodedError):
    """409 and 412: the present state does not allow it."""


class GoneError(CodedError):
    """410: it was there and is over."""


class UnprocessableError(CodedError):
    """422: well formed, but it cannot be done."""


class RateLimitError(CodedError):
    """429: a limit is reached; `retry_after` says when to try again."""


class ServerError(CodedError):
    """5xx: the service, or what it depends on, failed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    412: ConflictError,
    413: BadRequestError,
    415: BadRequestError,
    416: BadRequestError,
    422: UnprocessableError,
    429: RateLimitError,
}


# One class for each code.


class InvalidRequest(BadRequestError, code="invalid_request"):
    """The request is not valid."""


class InvalidCwd(BadRequestError, code="invalid_cwd"):
    """The working directory cannot be used."""


class UserNotFound(BadRequestError, code="user_not_found"):
    """The user does not exist."""


class Unauthorized(AuthenticationError, code="unauthorized"):
    """A valid token is needed."""


class Forbidden(PermissionDeniedError, code="forbidden"):
    """This is not allowed."""


class PermissionDenied(PermissionDeniedError, code="permission_denied"):
    """The sandbox's user may not do this."""


class RouteNotFound(NotFoundError, code="not_found"):
    """There is nothing here."""


class ProcessNotFound(NotFoundError, code="process_not_found"):
    """The process does not exist."""


class SessionNotFound(NotFoundError, code="session_not_found"):
    """The session does not exist."""


class CommandNotFound(NotFoundError, code="command_not_found"):
    """The command does not exist."""


class TerminalNotFound(NotFoundError, code="terminal_not_found"):
    """The terminal does not exist."""


class FileNotFound(NotFoundError, code="file_not_found"):
    """The file does not exist."""


class BackupNotFound(NotFoundError, code="backup_not_found"):
    """The backup does not exist."""


class PortNotFound(NotFoundError, code="port_not_found"):
    """Nothing listens on this port."""


class ContextNotFound(NotFoundError, code="context_not_found"):
    """The context does not exist."""


class SandboxNotFound(NotFoundError, code="sandbox_not_found"):
    """The sandbox does not exist."""


class ImageNotFound(NotFoundError, code="image_not_found"):
    """The image does not exist."""


class TokenNotFound(NotFoundError, code="token_not_found"):
    """The token does not exist."""


class MethodNotAllowed(BadRequestError, code="method_not_allowed"):
    """The method is not allowed here."""


class IdConflict(ConflictError, code="id_conflict"):
    """The id is in use with another spec."""


class IdempotencyConflict(ConflictError, code="idempotency_conflict"):
    """The idempotency key was used for another request."""


class ProcessEnded(ConflictError, code="process_ended"):
    """The process has ended."""


class StdinClosed(ConflictError, code="stdin_closed"):
    """The standard input is closed."""


class StdinOffset(ConflictError, code="stdin_offset"):
    """The stdin offset does not match."""


class FileExists(ConflictError, code="file_exists"):
    """The file exists."""


class DirectoryNotEmpty(ConflictError, code="directory_not_empty"):
    """The directory is not empty."""


class GitConflict(ConflictError, code="git_conflict"):
    """Git has a conflict."""


class ContextBusy(ConflictError, code="context_busy"):
    """The context is busy."""


class SandboxPaused(ConflictError, code="sandbox_paused"):
    """The sandbox is paused."""


class ImageInUse(ConflictError, code="image_in_use"):
    """The image is in use."""


class SessionEnded(GoneError, code="session_ended"):
    """The session has ended."""


class OffsetGone(GoneError, code="offset_gone"):
    """The bytes at this offset are no longer kept."""


class TerminalEnded(GoneError, code="terminal_ended"):
    """The terminal has ended."""


class ContextEnded(GoneError, code="context_ended"):
    """The context has ended."""


class SandboxGone(GoneError, code="sandbox_gone"):
    """The sandbox is gone."""


class PreconditionFailed(ConflictError, code="precondition_failed"):
    """The file is not as expected."""


class BodyTooLarge(BadRequestError, code="body_too_large"):
    """The body is too large."""


class UnsupportedMediaType(BadRequestError, code="unsupported_media_type"):
    """The content type is not supported."""


class RangeNotSatisfiable(BadRequestError, code="range_not_satisfiable"):
    """The range lies outside the file."""


class ProgramNotFound(UnprocessableError, code="program_not_found"):
    """The program does not exist."""


class ProgramNotExecutable(UnprocessableError, code="program_not_executable"):
    """The program cannot be executed."""


class NotADirectory(UnprocessableError, code="not_a_directory"):
    """This is not a directory."""


class IsADirectory(UnprocessableError, code="is_a_directory"):
    """This is a directory."""


class NotARegularFile(UnprocessableError, code="not_a_regular_file"):
    """This is not a regular file."""


class TooManyLinks(UnprocessableError, code="too_many_links"):
    """Too many symbolic links."""


class NameTooLong(UnprocessableError, code="name_too_long"):
    """The name is too long."""


class InvalidArchive(UnprocessableError, code="invalid_archive"):
    """The archive is not valid."""


class InvalidImage(UnprocessableError, code="invalid_image"):
    """The image is not valid."""


class GitFailed(UnprocessableError, code="git_failed"):
    """Git failed."""


class GitAuth(UnprocessableError, code="git_auth"):
    """Git could not authenticate."""


class GitNotFound(UnprocessableError, code="git_not_found"):
    """Git found nothing there."""


class InterpreterNotFound(UnprocessableError, code="interpreter_not_found"):
    """The interpreter is not installed."""


class IsolationUnavailable(UnprocessableError, code="isolation_unavailable"):
    """The isolation asked for cannot be had here."""


class LimitUnavailable(UnprocessableError, code="limit_unavailable"):
    """The limit cannot be kept here."""


class LimitReached(RateLimitError, code="limit_reached"):
    """A limit is reached."""


class InternalError(ServerError, code="internal"):
    """Something failed on our side."""


class SandboxUnreachable(ServerError, code="sandbox_unreachable"):
    """The sandbox does not answer."""


class PortUnreachable(ServerError, code="port_unreachable"):
    """The port does not answer."""


class GitNetwork(ServerError, code="git_network"):
    """Git could not reach the remote."""


class StorageFailed(ServerError, code="storage_failed"):
    """The storage did not take or give the backup."""


class Unavailable(ServerError, code="unavailable"):
    """The service is not available now."""


class OperationTimedOut(ServerError, code="timed_out"):
    """It took too long."""


class NoSpace(ServerError, code="no_space"):
    """The disk is full."""
