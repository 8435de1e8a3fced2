// A shell for a model: one session, made with the first command and anew after a restart.

import type { Computer } from "../computer.js";
import type { SessionExecResult } from "../output.js";
import type { CallOptions } from "../schema.js";
import type { Session, SessionOptions } from "../session.js";
import { excerpt } from "./excerpt.js";

export interface ShellOptions {
  /** The session to use; one is made with the first command by default. */
  session?: Session | undefined;
  /** What a session that is made is like. */
  sessionOptions?: Omit<SessionOptions, "id" | "signal"> | undefined;
  /** A command that runs longer is interrupted; two minutes by default. The shell stays. */
  timeoutMs?: number | undefined;
  /** About how much of a result a model gets to see, in characters; 30,000 by default. */
  maxCharacters?: number | undefined;
}

/** What is kept of a stream by the server: the middle is missing beyond it, and an excerpt is far shorter. */
const KEPT_BYTES = 4 * 1024 * 1024;

export class ModelShell {
  readonly maxCharacters: number;
  readonly timeoutMs: number;
  readonly #computer: Computer;
  readonly #options: ShellOptions;
  #session: Promise<Session> | undefined;

  constructor(computer: Computer, options: ShellOptions = {}) {
    this.#computer = computer;
    this.#options = options;
    this.maxCharacters = options.maxCharacters ?? 30_000;
    this.timeoutMs = options.timeoutMs ?? 120_000;
    if (options.session) this.#session = Promise.resolve(options.session);
  }

  session(): Promise<Session> {
    if (!this.#session) {
      this.#session = this.#computer.createSession(this.#options.sessionOptions);
      this.#session.catch(() => (this.#session = undefined));
    }
    return this.#session;
  }

  async exec(command: string, options: { timeoutMs?: number | undefined; cwd?: string; env?: Record<string, string> } & CallOptions = {}): Promise<SessionExecResult> {
    const { signal, timeoutMs = this.timeoutMs, ...rest } = options;
    return (await this.session()).exec(command, { ...rest, timeoutMs, maxOutputBytes: KEPT_BYTES, signal });
  }

  /** Ends the shell with all it runs; the next command has a fresh one. */
  async restart(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session) await (await session)[Symbol.asyncDispose]();
  }

  stdout(result: SessionExecResult, limit = this.maxCharacters): string {
    return excerpt(result.stdout, limit, result.truncated?.stdoutBytes);
  }

  stderr(result: SessionExecResult, limit = this.maxCharacters): string {
    return excerpt(result.stderr, limit, result.truncated?.stderrBytes);
  }
}
