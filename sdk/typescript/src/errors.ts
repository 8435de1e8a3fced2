// What can go wrong, as classes. Each problem of the API has a `code`; a class stands for a family of them.
//
//   SandshellError
//   ├── ApiError                        the server answered with a problem
//   │   ├── InvalidRequestError         400, 405, 415, 416
//   │   ├── AuthenticationError         401
//   │   ├── PermissionDeniedError       403
//   │   ├── NotFoundError               404
//   │   ├── ConflictError               409, 412
//   │   ├── GoneError                   410
//   │   ├── UnprocessableError          422
//   │   │   ├── ProgramError            program_not_found, program_not_executable, interpreter_not_found
//   │   │   └── IsolationError          isolation_unavailable
//   │   ├── GitError                    git_*, whatever its status
//   │   ├── LimitError                  429, 413, 507, limit_unavailable
//   │   ├── TimedOutError               504
//   │   └── ServerError                 other 5xx
//   ├── ConnectionError                 no answer, or one that broke off and could not be resumed
//   └── CommandFailedError              a command's exit code was not 0 and `check` was asked for

import type { ErrorCode, Problem, Protection } from "./schema.js";

/** Every error that this library makes itself. */
export class SandshellError extends Error {
  override name = "SandshellError";
}

/** The server refused a request or failed; it has changed nothing that it does not tell of. */
export class ApiError extends SandshellError {
  override name = "ApiError";
  /** Stable; branch on it. */
  readonly code: ErrorCode;
  /** The HTTP status. */
  readonly status: number;
  /** What happened, in words that may change. */
  readonly detail: string;
  /** What to do next, where there is something to say. */
  readonly hint: string | undefined;
  /** A JSON pointer to the field at fault, in the names of the HTTP API. */
  readonly pointer: string | undefined;
  /** Finds the request in the server's log. */
  readonly requestId: string | undefined;
  /** The whole document. */
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.hint ? `${problem.detail} (${problem.code}). ${problem.hint}` : `${problem.detail} (${problem.code})`);
    this.problem = problem;
    this.code = problem.code;
    this.status = problem.status;
    this.detail = problem.detail;
    this.hint = problem.hint ?? undefined;
    this.pointer = problem.pointer ?? undefined;
    this.requestId = problem.requestId;
  }
}

export class InvalidRequestError extends ApiError {
  override name = "InvalidRequestError";
}
export class AuthenticationError extends ApiError {
  override name = "AuthenticationError";
}
export class PermissionDeniedError extends ApiError {
  override name = "PermissionDeniedError";
}
export class NotFoundError extends ApiError {
  override name = "NotFoundError";
}
export class ConflictError extends ApiError {
  override name = "ConflictError";
  /** With `stdin_offset`: how many bytes have arrived. */
  get expectedOffset(): number | undefined {
    return this.problem.expectedOffset ?? undefined;
  }
}
export class GoneError extends ApiError {
  override name = "GoneError";
  /** With `offset_gone`: the first byte that is still kept. */
  get firstOffset(): number | undefined {
    return this.problem.firstOffset ?? undefined;
  }
}
export class UnprocessableError extends ApiError {
  override name = "UnprocessableError";
}
export class ProgramError extends UnprocessableError {
  override name = "ProgramError";
}
export class IsolationError extends UnprocessableError {
  override name = "IsolationError";
  /** Every layer of isolation, and why it cannot be had. */
  get protections(): Protection[] {
    return this.problem.protections ?? [];
  }
}
export class GitError extends ApiError {
  override name = "GitError";
}
export class LimitError extends ApiError {
  override name = "LimitError";
}
export class TimedOutError extends ApiError {
  override name = "TimedOutError";
}
export class ServerError extends ApiError {
  override name = "ServerError";
}

/** The server was not reached, or the connection broke and could not be taken up again. */
export class ConnectionError extends SandshellError {
  override name = "ConnectionError";
}

/** How a command ended that was to succeed. */
export interface FailedResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command ended with another exit code than 0, and the caller asked for that to be an error. */
export class CommandFailedError extends SandshellError {
  override name = "CommandFailedError";
  readonly exitCode: number;

  constructor(
    readonly command: string,
    readonly result: FailedResult,
  ) {
    const last = result.stderr.trimEnd().split("\n").at(-1);
    super(`${JSON.stringify(command)} ended with exit code ${result.exitCode}${last ? `: ${last}` : ""}`);
    this.exitCode = result.exitCode;
  }
}

type ProblemClass = new (problem: Problem) => ApiError;

const BY_CODE: Partial<Record<ErrorCode, ProblemClass>> = {
  program_not_found: ProgramError,
  program_not_executable: ProgramError,
  interpreter_not_found: ProgramError,
  isolation_unavailable: IsolationError,
  limit_unavailable: LimitError,
};

const BY_STATUS: Record<number, ProblemClass> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  405: InvalidRequestError,
  409: ConflictError,
  410: GoneError,
  412: ConflictError,
  413: LimitError,
  415: InvalidRequestError,
  416: InvalidRequestError,
  422: UnprocessableError,
  429: LimitError,
  504: TimedOutError,
  507: LimitError,
};

/** The error of the right class for a problem. */
export function problemError(problem: Problem): ApiError {
  const known = BY_CODE[problem.code] ?? (problem.code.startsWith("git_") ? GitError : BY_STATUS[problem.status]);
  const Class = known ?? (problem.status >= 500 ? ServerError : ApiError);
  return new Class(problem);
}
