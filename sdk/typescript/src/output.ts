// The output of a command: the result of one that is over, and the events of one that may still run.

import { decode, toText } from "./bytes.js";
import { SandshellError } from "./errors.js";
import type { Camel } from "./wire.js";
import type { Wire } from "./schema.js";
import { fromWire } from "./wire.js";
import type { ServerEvent } from "./sse.js";

export type StreamName = Wire["StreamName"];
type Encoding = Wire["TextEncoding"];

/** Data of the wire as bytes and as text, each made when asked for. */
class Payload {
  readonly #data: string;
  readonly #encoding: Encoding;

  constructor(data: string, encoding: Encoding) {
    this.#data = data;
    this.#encoding = encoding;
  }

  get bytes(): Uint8Array {
    return decode(this.#data, this.#encoding);
  }

  get text(): string {
    return this.#encoding === "utf8" ? this.#data : toText(this.bytes);
  }
}

/** Both streams of a result: as text (what is not UTF-8 becomes U+FFFD) and as the exact bytes. */
export abstract class Streams {
  readonly #out: Payload;
  readonly #err: Payload;
  /** `utf8` when the stream is text throughout. */
  readonly stdoutEncoding: Encoding;
  readonly stderrEncoding: Encoding;

  constructor(wire: { stdout: string; stderr: string; stdoutEncoding: Encoding; stderrEncoding: Encoding }) {
    this.#out = new Payload(wire.stdout, wire.stdoutEncoding);
    this.#err = new Payload(wire.stderr, wire.stderrEncoding);
    this.stdoutEncoding = wire.stdoutEncoding;
    this.stderrEncoding = wire.stderrEncoding;
  }

  get stdout(): string {
    return this.#out.text;
  }
  get stderr(): string {
    return this.#err.text;
  }
  get stdoutBytes(): Uint8Array {
    return this.#out.bytes;
  }
  get stderrBytes(): Uint8Array {
    return this.#err.bytes;
  }
}

/** How a command ended and what it wrote. */
export class CommandResult extends Streams {
  readonly exitCode: number;
  /** The signal that ended it, such as `SIGKILL`. */
  readonly signal: string | undefined;
  readonly durationMs: number;
  readonly timedOut: boolean;
  /** The kernel killed in it for want of memory. */
  readonly oom: boolean;
  /** How many bytes of each stream a limit left out of the middle. */
  readonly truncated: Camel<Wire["Truncated"]> | undefined;
  /** What it left running. */
  readonly leftRunning: number;

  constructor(wire: Camel<Omit<Wire["ExecResult"], "id">>) {
    super(wire);
    this.exitCode = wire.exitCode;
    this.signal = wire.signal ?? undefined;
    this.durationMs = wire.durationMs;
    this.timedOut = wire.timedOut;
    this.oom = wire.oom ?? false;
    this.truncated = wire.truncated ?? undefined;
    this.leftRunning = wire.leftRunning;
  }

  /** Whether the exit code is 0. */
  get ok(): boolean {
    return this.exitCode === 0;
  }
}

export class ExecResult extends CommandResult {
  /** The id of the process it was. */
  readonly id: string;

  constructor(wire: Camel<Wire["ExecResult"]>) {
    super(wire);
    this.id = wire.id;
  }
}

export class SessionExecResult extends CommandResult {
  readonly commandId: string;
  /** The session's directory after it. */
  readonly cwd: string;
  readonly interrupted: boolean;
  /** What became of the shell's state: `kept`, or how it was restored. */
  readonly sessionState: string;

  constructor(wire: Camel<Wire["SessionExecResult"]>) {
    super(wire);
    this.commandId = wire.commandId;
    this.cwd = wire.cwd;
    this.interrupted = wire.interrupted;
    this.sessionState = wire.sessionState;
  }
}

/** A piece of output. In text no character is split between two pieces. */
export class OutputChunk {
  readonly type = "output";
  readonly stream: StreamName;
  /** Where in its stream the piece begins, in bytes. */
  readonly offset: number;
  /** When it was written. */
  readonly at: string;
  readonly #payload: Payload | Uint8Array;

  constructor(stream: StreamName, offset: number, at: string, payload: Payload | Uint8Array) {
    this.stream = stream;
    this.offset = offset;
    this.at = at;
    this.#payload = payload;
  }

  get bytes(): Uint8Array {
    return this.#payload instanceof Uint8Array ? this.#payload : this.#payload.bytes;
  }
  get text(): string {
    return this.#payload instanceof Uint8Array ? toText(this.#payload) : this.#payload.text;
  }
}

/** What a limit dropped. */
export type OutputGap = { readonly type: "truncated" } & Camel<Wire["TruncatedEvent"]>;

/** The end; always last. */
export type OutputExit = { readonly type: "exit" } & Camel<Wire["ExitEvent"]>;

export type OutputEvent = OutputChunk | OutputGap | OutputExit;

/**
 * Turns events of the wire into output without a byte twice or missing: after a resume a piece may come
 * again, and its place in its stream tells how much of it is new.
 */
export class OutputReader {
  readonly #next = new Map<StreamName, number>();

  /** The `output` or `truncated` event, or what is new of it. */
  read(event: ServerEvent): OutputChunk | OutputGap | undefined {
    if (event.event === "truncated") return this.#gap(fromWire(JSON.parse(event.data) as Wire["TruncatedEvent"]));
    if (event.event !== "output") return undefined;
    const { stream, offset, data, encoding, at } = JSON.parse(event.data) as Wire["OutputEvent"];
    const payload = new Payload(data, encoding);
    const next = this.#next.get(stream);
    if (next !== undefined && offset > next) {
      throw new SandshellError(`the server left out ${offset - next} bytes of ${stream} at ${next} without saying so`);
    }
    const bytes = payload.bytes;
    const end = offset + bytes.length;
    if (next === undefined || offset === next) {
      this.#next.set(stream, end);
      return new OutputChunk(stream, offset, at, payload);
    }
    if (end <= next) return undefined;
    this.#next.set(stream, end);
    return new OutputChunk(stream, next, at, bytes.subarray(next - offset));
  }

  #gap(gap: Camel<Wire["TruncatedEvent"]>): OutputGap | undefined {
    const end = gap.offset + gap.bytes;
    if (end <= (this.#next.get(gap.stream) ?? -1)) return undefined;
    this.#next.set(gap.stream, end);
    return { type: "truncated", ...gap };
  }
}
