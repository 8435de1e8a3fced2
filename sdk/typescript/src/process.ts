/// <reference lib="esnext.disposable" preserve="true" />

// A process of the sandbox: its output at any time and from anywhere, its input, waiting, signals, its end.

import { type Data, concat, toBase64, toBytes, toStream, toText } from "./bytes.js";
import { ConflictError, NotFoundError, SandshellError } from "./errors.js";
import { type OutputChunk, type OutputEvent, type OutputExit, OutputReader, type StreamName } from "./output.js";
import { followBytes, followEvents, openEvents } from "./resume.js";
import type { CallOptions, HttpCheck, KillReply, ProcessRecord, RequestOptions, SignalReply, StdinReply, WaitReply, Wire } from "./schema.js";
import type { Scope } from "./scope.js";
import { type ServerEvent, readEvents } from "./sse.js";
import { segment } from "./transport.js";
import { fromWire } from "./wire.js";

/** A command: text for a shell, or a program and its arguments without one. */
export type Command = string | readonly string[];

/** Where a command's input comes from. */
export interface InputOptions {
  /** All of its standard input; without it there is none. */
  stdin?: Data | undefined;
}

export interface ProcessOptions
  extends RequestOptions<"ProcessRequest", "command" | "argv" | "stdin" | "stdinEncoding">, InputOptions, CallOptions {}

export interface OutputOptions extends CallOptions {
  /** Leaves the other stream out. */
  stream?: StreamName | undefined;
  /** `false`: ends with what there is now; `true` by default. */
  follow?: boolean | undefined;
  /** Goes on after this position in both streams together. */
  from?: number | undefined;
}

export interface RawOutputOptions extends CallOptions {
  /** Begins at this byte. */
  offset?: number | undefined;
  /** `false`: ends with what there is now; `true` by default. */
  follow?: boolean | undefined;
}

export interface WaitOptions extends CallOptions {
  timeoutMs?: number | undefined;
}

export interface LogWaitOptions extends WaitOptions {
  stream?: StreamName | undefined;
}

export interface PortWaitOptions extends WaitOptions {
  /** Also waits until a request is answered, with this status if one is named. */
  http?: HttpCheck | undefined;
}

/** What was waited for did not come. */
export class WaitError extends SandshellError {
  override name = "WaitError";

  constructor(
    message: string,
    /** `timeout`, or `exit` when the process ended before. */
    readonly outcome: "timeout" | "exit",
    readonly process: ProcessRecord,
  ) {
    super(message);
  }
}

/** Everything that a process wrote, and how it ended. */
export interface Collected {
  stdout: string;
  stderr: string;
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  /** Bytes that a limit dropped. */
  truncatedBytes: number;
  /** Missing while it runs. */
  exit: OutputExit | undefined;
}

/** A command and its input as the API takes them. */
export function commandFields(command: Command, stdin?: Data): Record<string, unknown> {
  const fields: Record<string, unknown> = typeof command === "string" ? { command } : { argv: command };
  if (typeof stdin === "string") fields["stdin"] = stdin;
  else if (stdin !== undefined) Object.assign(fields, { stdin: toBase64(toBytes(stdin)), stdinEncoding: "base64" });
  return fields;
}

/** Events of the output at a path. */
export async function* followOutput(scope: Scope, path: string, options: OutputOptions): AsyncGenerator<OutputEvent, void, undefined> {
  const { stream, follow, from, signal } = options;
  const reader = new OutputReader();
  const open = openEvents(scope.transport, scope.prefix + path, { stream, follow }, signal);
  const isLast = (event: { event: string }): boolean => event.event === "exit";
  const lastId = from === undefined ? undefined : String(from);
  // Without `follow` a stream of what still runs ends without an exit, which is then no cut.
  const events = follow === false ? once(open, lastId) : followEvents(scope.transport, "the output", { open, isLast, signal, lastId });
  for await (const event of events) {
    if (event.event === "exit") yield { type: "exit", ...fromWire(JSON.parse(event.data) as Wire["ExitEvent"]) };
    const output = reader.read(event);
    if (output) yield output;
  }
}

async function* once(open: (lastId: string | undefined) => Promise<Response>, lastId: string | undefined): AsyncGenerator<ServerEvent, void, undefined> {
  const { body } = await open(lastId);
  if (body) yield* readEvents(body);
}

/** The bytes of one stream at a path. */
export function outputBytes(scope: Scope, path: string, stream: StreamName, options: RawOutputOptions): ReadableStream<Uint8Array> {
  const { offset = 0, follow = true, signal } = options;
  const open = (at: number): Promise<Response> =>
    scope.transport.send("GET", scope.prefix + path, { query: { stream, offset: at, follow }, accept: "application/octet-stream", signal });
  return toStream(followBytes(scope.transport, `the ${stream}`, open, offset, signal));
}

/** All output of events, put together. */
export async function collect(events: AsyncIterable<OutputEvent>): Promise<Collected> {
  const out: Uint8Array[] = [];
  const err: Uint8Array[] = [];
  let truncatedBytes = 0;
  let exit: OutputExit | undefined;
  for await (const event of events) {
    if (event.type === "exit") exit = event;
    else if (event.type === "truncated") truncatedBytes += event.bytes;
    else (event.stream === "stdout" || event.stream === "late_stdout" ? out : err).push(event.bytes);
  }
  const stdoutBytes = concat(out);
  const stderrBytes = concat(err);
  return { stdout: toText(stdoutBytes), stderr: toText(stderrBytes), stdoutBytes, stderrBytes, truncatedBytes, exit };
}

export class Process implements AsyncDisposable {
  readonly id: string;
  readonly #scope: Scope;
  readonly #path: string;
  #stdinOffset: number | undefined;
  /** The last write to the input: they take their turn. */
  #lastWrite: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(scope: Scope, id: string, fresh = false) {
    this.id = id;
    this.#scope = scope;
    this.#path = `/processes/${segment(id)}`;
    if (fresh) this.#stdinOffset = 0;
  }

  /** What is known of it now. */
  record(options: CallOptions = {}): Promise<ProcessRecord> {
    return this.#scope.get(this.#path, options);
  }

  /** Output of both streams in order of arrival, and at last the exit; from the beginning, whenever it is asked for. */
  events(options: OutputOptions = {}): AsyncGenerator<OutputEvent, void, undefined> {
    return followOutput(this.#scope, `${this.#path}/output`, options);
  }

  /** The output alone. */
  async *logs(options: OutputOptions = {}): AsyncGenerator<OutputChunk, void, undefined> {
    for await (const event of this.events(options)) if (event.type === "output") yield event;
  }

  /** The bytes of one stream. */
  output(stream: StreamName = "stdout", options: RawOutputOptions = {}): ReadableStream<Uint8Array> {
    return outputBytes(this.#scope, `${this.#path}/output`, stream, options);
  }

  /** All of its output; waits for its end unless `follow` is `false`. */
  collect(options: OutputOptions = {}): Promise<Collected> {
    return collect(this.events(options));
  }

  /** Waits for what comes first of the conditions; running out of time is an answer here. */
  wait(conditions: RequestOptions<"WaitRequest"> & CallOptions = {}): Promise<WaitReply> {
    const { signal, ...json } = conditions;
    return this.#scope.post(`${this.#path}/wait`, json, signal);
  }

  /** Waits for its end. */
  async waitForExit(options: WaitOptions = {}): Promise<ProcessRecord> {
    const reply = await this.wait({ exit: true, timeoutMs: options.timeoutMs ?? null, signal: options.signal });
    if (reply.outcome !== "exit") throw this.#missed("has not ended", reply);
    return reply.process;
  }

  /** Waits for a line of output that has the text in it or matches the pattern; gives the line. */
  async waitForLog(pattern: string | RegExp, options: LogWaitOptions = {}): Promise<string> {
    const regex = pattern instanceof RegExp;
    // The server has the syntax of Rust's expressions, where flags stand in front.
    const flags = regex ? pattern.flags.replace(/[^imsu]/g, "").replace("u", "") : "";
    const text = regex ? (flags ? `(?${flags})` : "") + pattern.source : pattern;
    const log = { pattern: text, regex, stream: options.stream ?? null };
    const reply = await this.wait({ log, timeoutMs: options.timeoutMs ?? null, signal: options.signal });
    if (reply.outcome !== "log") throw this.#missed(`wrote nothing like ${String(pattern)}`, reply);
    return reply.line ?? "";
  }

  /** Waits until something in the sandbox listens on the port. */
  async waitForPort(port: number, options: PortWaitOptions = {}): Promise<void> {
    const condition = { port, http: options.http ?? null };
    const reply = await this.wait({ port: condition, timeoutMs: options.timeoutMs ?? null, signal: options.signal });
    if (reply.outcome !== "port") throw this.#missed(`does not listen on port ${port}`, reply);
  }

  #missed(what: string, reply: WaitReply): WaitError {
    const outcome = reply.outcome === "exit" ? "exit" : "timeout";
    const how = outcome === "exit" ? `it ended with exit code ${reply.process.exitCode}` : "the time is over";
    return new WaitError(`the process ${JSON.stringify(this.id)} ${what}: ${how}`, outcome, reply.process);
  }

  /**
   * Writes to its standard input, which `stdinOpen` has to have asked for, and gives how many bytes have arrived in
   * all. A retry writes nothing twice. With `offset` it is refused unless exactly so many have arrived before.
   */
  write(data: Data, options: { offset?: number | undefined } & CallOptions = {}): Promise<number> {
    const turn = this.#lastWrite.then(() => this.#write(toBytes(data), options.offset ?? this.#stdinOffset, options.signal));
    this.#lastWrite = turn.catch(() => undefined);
    return turn;
  }

  async #write(bytes: Uint8Array, begin: number | undefined, signal?: AbortSignal): Promise<number> {
    try {
      const path = `${this.#scope.prefix}${this.#path}/stdin`;
      const reply = await this.#scope.transport.json<StdinReply>("POST", path, { query: { offset: begin }, data: bytes, signal });
      this.#stdinOffset = reply.offset;
      return reply.offset;
    } catch (error) {
      // A try before this one may have brought a part of it: what has arrived is not sent again.
      if (!(error instanceof ConflictError) || error.code !== "stdin_offset" || begin === undefined) throw error;
      const arrived = error.expectedOffset ?? begin;
      if (arrived <= begin || arrived > begin + bytes.length) throw error;
      this.#stdinOffset = arrived;
      return arrived < begin + bytes.length ? this.#write(bytes.subarray(arrived - begin), arrived, signal) : arrived;
    }
  }

  /** Ends its standard input, after what was written before. */
  async closeStdin(options: CallOptions = {}): Promise<number> {
    await this.#lastWrite;
    return (await this.#scope.post<StdinReply>(`${this.#path}/stdin/close`, undefined, options.signal)).offset;
  }

  /** Sends a signal to the process, its group or its tree. */
  signal(signal: string, options: { scope?: "process" | "group" | "tree" } & CallOptions = {}): Promise<SignalReply> {
    const { signal: abort, ...rest } = options;
    return this.#scope.post(`${this.#path}/signal`, { signal, ...rest }, abort);
  }

  /** TERM, grace, KILL for the whole tree; none of it is alive when this answers. The record stays. */
  kill(options: { graceMs?: number } & CallOptions = {}): Promise<KillReply> {
    const { signal, ...json } = options;
    return this.#scope.post(`${this.#path}/kill`, json, signal);
  }

  /** Kills the tree at once and forgets the process. */
  delete(options: CallOptions = {}): Promise<KillReply> {
    return this.#scope.delete(this.#path, options.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

/** For an end that somebody else may have brought about already. */
export function ignoreMissing(error: unknown): void {
  if (!(error instanceof NotFoundError)) throw error;
}
