// Everything that can be done in a sandbox, whether a hub keeps it or its agent is asked directly.

import { Backups } from "./backups.js";
import { Contexts } from "./contexts.js";
import { ApiError, CommandFailedError, NotFoundError } from "./errors.js";
import { Files } from "./files.js";
import { Git } from "./git.js";
import { ExecResult, type OutputEvent } from "./output.js";
import { Ports } from "./ports.js";
import { type Command, type InputOptions, Process, type ProcessOptions, commandFields } from "./process.js";
import { followEvents, openEvents } from "./resume.js";
import type { CallOptions, EnvReply, ProcessRecord, Protection, RequestOptions, SandboxEvent, SandboxStats, SessionRecord, TerminalRecord } from "./schema.js";
import type { Scope } from "./scope.js";
import { Session, type SessionOptions } from "./session.js";
import { Terminal, type TerminalOptions } from "./terminal.js";
import { delay, segment } from "./transport.js";
import { fromWire } from "./wire.js";

export interface ExecOptions
  extends RequestOptions<"ExecRequest", "command" | "argv" | "stdin" | "stdinEncoding" | "encoding">, InputOptions, CallOptions {
  /** An exit code other than 0 is thrown as a `CommandFailedError`. */
  check?: boolean | undefined;
}

export type ExecStreamOptions = Omit<ProcessOptions, "stdinOpen" | "restart">;

export interface EventsOptions extends CallOptions {
  /** Begins after this event; 0 for the oldest kept, only what comes without it. */
  from?: number | undefined;
  types?: readonly SandboxEvent["type"][] | undefined;
}

export abstract class Computer {
  readonly files: Files;
  readonly git: Git;
  readonly backups: Backups;
  readonly ports: Ports;
  readonly contexts: Contexts;
  readonly env: Environment;
  /** @internal */
  protected readonly scope: Scope;

  protected constructor(scope: Scope) {
    this.scope = scope;
    this.files = new Files(scope);
    this.git = new Git(scope);
    this.backups = new Backups(scope);
    this.ports = new Ports(scope);
    this.contexts = new Contexts(scope);
    this.env = new Environment(scope);
  }

  /** Runs one command from a clean state and gives its result. An abort kills it. */
  async exec(command: Command, options: ExecOptions = {}): Promise<ExecResult> {
    const { signal, check, stdin, ...rest } = options;
    const id = rest.id ?? freshId();
    try {
      const result = new ExecResult(await this.scope.post("/exec", { ...rest, ...commandFields(command, stdin), id }, signal));
      if (check && !result.ok) throw new CommandFailedError(describe(command), result);
      return result;
    } catch (error) {
      if (signal?.aborted) await this.#abandon(id);
      throw error;
    }
  }

  /** Runs one command and tells what it writes, as it writes it, and at last its exit. Leaving the loop early kills it. */
  async *execStream(command: Command, options: ExecStreamOptions = {}): AsyncGenerator<OutputEvent, void, undefined> {
    const id = options.id ?? freshId();
    let over = false;
    try {
      const process = await this.startProcess(command, { ...options, id });
      for await (const event of process.events({ signal: options.signal })) {
        over = event.type === "exit";
        yield event;
      }
    } catch (error) {
      // A refused command did not begin.
      over = error instanceof ApiError;
      throw error;
    } finally {
      if (!over) await this.#abandon(id);
    }
  }

  /** Kills a command that nobody waits for any more; its request may still be on the way. */
  async #abandon(id: string): Promise<void> {
    for (let tries = 0; tries < 5; tries++) {
      const missing = await this.process(id).kill({ graceMs: 0 }).then(() => false, (error: unknown) => error instanceof NotFoundError);
      if (!missing) return;
      await delay(20);
    }
  }

  /** Starts a process and does not wait for it. */
  async startProcess(command: Command, options: ProcessOptions = {}): Promise<Process> {
    const { signal, stdin, ...rest } = options;
    const record = await this.scope.post<ProcessRecord>("/processes", { ...rest, ...commandFields(command, stdin) }, signal);
    return new Process(this.scope, record.id, rest.id === undefined);
  }

  /** One that exists. */
  process(id: string): Process {
    return new Process(this.scope, id);
  }

  /** Processes, or execs with `kind: "exec"`. */
  processes(options: { kind?: "process" | "exec"; session?: string } & CallOptions = {}): Promise<ProcessRecord[]> {
    const { signal, ...query } = options;
    return this.scope.list("/processes", query, signal);
  }

  /** Makes a session: a shell that keeps its state from command to command. */
  async createSession(options: SessionOptions = {}): Promise<Session> {
    const { signal, ...json } = options;
    const record = await this.scope.post<SessionRecord>("/sessions", json, signal);
    return this.session(record.id);
  }

  /** One that exists. */
  session(id: string): Session {
    return new Session(this.scope, id);
  }

  sessions(options: CallOptions = {}): Promise<SessionRecord[]> {
    return this.scope.list("/sessions", {}, options.signal);
  }

  /** Starts a terminal: a login shell, or the command. */
  async terminal(options: TerminalOptions & { command?: Command | undefined } = {}): Promise<Terminal> {
    const { signal, command, ...rest } = options;
    const json = command === undefined ? rest : { ...rest, ...commandFields(command) };
    const record = await this.scope.post<TerminalRecord>("/terminals", json, signal);
    return this.attachTerminal(record.id);
  }

  /** One that exists. */
  attachTerminal(id: string): Terminal {
    return new Terminal(this.scope, id);
  }

  terminals(options: CallOptions = {}): Promise<TerminalRecord[]> {
    return this.scope.list("/terminals", {}, options.signal);
  }

  /** What happens in the sandbox, until the loop is left. */
  async *events(options: EventsOptions = {}): AsyncGenerator<SandboxEvent & { id: number }, void, undefined> {
    const { from, types, signal } = options;
    const open = openEvents(this.scope.transport, `${this.scope.prefix}/events`, { types: types?.join(",") }, signal);
    const lastId = from === undefined ? undefined : String(from);
    for await (const { event, data, id } of followEvents(this.scope.transport, "the events", { open, isLast: () => false, signal, lastId })) {
      const told = fromWire(JSON.parse(data) as object);
      yield { type: event, ...told, id: Number(id) } as SandboxEvent & { id: number };
    }
  }

  /** What it uses: processors, memory, processes, disk, network. */
  stats(options: CallOptions = {}): Promise<SandboxStats> {
    return this.scope.get("/stats", options);
  }

  /** How it is isolated: each layer with its status. */
  async protections(options: CallOptions = {}): Promise<Protection[]> {
    return (await this.scope.get<{ protections: Protection[] }>("/protections", options)).protections;
  }
}

/** Variables that every command started from now on has. */
export class Environment {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** The sandbox's variables, and the base below them. */
  get(options: CallOptions = {}): Promise<EnvReply> {
    return this.#scope.get("/env", options);
  }

  /** Sets some; `null` unsets. */
  update(env: Record<string, string | null>, options: CallOptions = {}): Promise<EnvReply> {
    return this.#scope.patch("/env", { env }, options.signal);
  }
}

/** With an id of ours a command can be ended when the call for it is given up. */
function freshId(): string {
  return `proc_${crypto.randomUUID().replaceAll("-", "")}`;
}

function describe(command: Command): string {
  return typeof command === "string" ? command : command.join(" ");
}

/** @internal */
export const sandboxPath = (id: string): string => `/v1/sandboxes/${segment(id)}`;
