// A terminal: a program on a pseudo-terminal.
//
// Looking and typing are apart. Who looks is a place in the output: a viewer's connection, opened again at
// that place when it was cut, or when the program writes faster than the loop reads. Who types has a
// connection of his own, opened with the first key.

import { type Data, toBytes, toText } from "./bytes.js";
import { ConnectionError, GoneError, SandshellError } from "./errors.js";
import { ignoreMissing } from "./process.js";
import type { CallOptions, KillReply, RequestOptions, TerminalRecord, TerminalScreen, Wire } from "./schema.js";
import type { Scope } from "./scope.js";
import { type Query, backoff, delay, segment } from "./transport.js";
import { type Socket, socketClass } from "./websocket.js";
import { fromWire } from "./wire.js";

export interface TerminalOptions extends RequestOptions<"TerminalRequest", "command" | "argv">, CallOptions {}

export type TerminalExit = { readonly type: "exit"; readonly exitCode: number; readonly signal: string | undefined };

export type TerminalEvent =
  /** Bytes that the program wrote, and where in its output they begin. */
  | { readonly type: "output"; readonly offset: number; readonly bytes: Uint8Array }
  /** Bytes that draw the screen as it is; no output of the program. */
  | { readonly type: "redraw"; readonly bytes: Uint8Array }
  | { readonly type: "resize"; readonly cols: number; readonly rows: number }
  /** Output that is no longer kept was left out. */
  | { readonly type: "truncated"; readonly offset: number; readonly bytes: number }
  | TerminalExit;

export interface TerminalEventsOptions extends CallOptions {
  /** Where in the output to begin, 0 by default; or `"screen"`: a redraw of the screen as it is, then what follows. */
  from?: number | "screen" | undefined;
}

/** More than this is not held for a loop that does not read: the connection is given up and opened again later. */
const MOST_BUFFERED = 4 * 1024 * 1024;
/** More than this is not given to a connection that does not send. */
const MOST_UNSENT = 1024 * 1024;

type Frame = Uint8Array | Wire["TerminalFrame"];

/** One connection. Its frames end with `undefined`, for whatever reason. */
class Connection {
  readonly #socket: Socket;
  readonly #frames: Frame[] = [];
  readonly #keep: boolean;
  #buffered = 0;
  #wake: (() => void) | undefined;
  readonly opened: Promise<boolean>;
  closed = false;

  constructor(socket: Socket, keep: boolean, signal?: AbortSignal) {
    this.#socket = socket;
    this.#keep = keep;
    socket.binaryType = "arraybuffer";
    const stop = (): void => this.close();
    signal?.addEventListener("abort", stop, { once: true });
    this.opened = new Promise((resolve) => {
      socket.onopen = () => resolve(true);
      socket.onerror = () => undefined;
      socket.onclose = () => {
        this.closed = true;
        signal?.removeEventListener("abort", stop);
        resolve(false);
        this.#wake?.();
      };
    });
    socket.onmessage = ({ data }) => {
      if (!this.#keep || this.closed) return;
      const frame: Frame = typeof data === "string" ? (JSON.parse(data) as Wire["TerminalFrame"]) : new Uint8Array(data as ArrayBuffer);
      this.#frames.push(frame);
      if (frame instanceof Uint8Array) this.#buffered += frame.length;
      if (this.#buffered > MOST_BUFFERED) this.close();
      this.#wake?.();
    };
  }

  async next(): Promise<Frame | undefined> {
    while (this.#frames.length === 0) {
      if (this.closed) return undefined;
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = undefined;
    }
    const frame = this.#frames.shift();
    if (frame instanceof Uint8Array) this.#buffered -= frame.length;
    return frame;
  }

  async send(bytes: Uint8Array): Promise<void> {
    // A WebSocket does not tell when it has sent what it was given.
    while (this.#socket.bufferedAmount > MOST_UNSENT && !this.closed) await delay(5);
    if (this.closed) throw new ConnectionError("the connection to the terminal was lost; what was typed last may not have arrived");
    this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
  }

  close(): void {
    this.closed = true;
    this.#socket.close();
    this.#wake?.();
  }
}

/** Connects; gives nothing when that failed on the way and may be tried again. */
async function connect(scope: Scope, path: string, query: Query, keep: boolean, signal?: AbortSignal): Promise<Connection | undefined> {
  const target = `${scope.prefix}${path}/connect`;
  const json = { path: target };
  const { ticket } = await scope.transport.json<{ ticket: string }>("POST", "/v1/tickets", { json, signal });
  const address = scope.transport.address(target, { ...query, ticket }).replace(/^http/, "ws");
  const Class = socketClass(scope.transport.WebSocket);
  const connection = new Connection(new Class(address), keep, signal);
  if (await connection.opened) return connection;
  signal?.throwIfAborted();
  // A WebSocket keeps the reason to itself. If there is no such terminal, this says so.
  await scope.get(path, { signal });
  return undefined;
}

export class Terminal implements AsyncDisposable {
  readonly id: string;
  readonly #scope: Scope;
  readonly #path: string;
  #writer: TerminalWriter | undefined;
  /** Whether its end was told here. */
  #ended = false;

  /** @internal */
  constructor(scope: Scope, id: string) {
    this.id = id;
    this.#scope = scope;
    this.#path = `/terminals/${segment(id)}`;
  }

  record(options: CallOptions = {}): Promise<TerminalRecord> {
    return this.#scope.get(this.#path, options);
  }

  /** What happens on it, from the beginning, until the program ends. */
  async *events(options: TerminalEventsOptions = {}): AsyncGenerator<TerminalEvent, void, undefined> {
    const { from = 0, signal } = options;
    const { retries } = this.#scope.transport;
    let position = from === "screen" ? undefined : from;
    for (let cuts = 0; ; ) {
      let connection: Connection | undefined;
      try {
        const query = { role: "viewer", offset: position };
        connection = await connect(this.#scope, this.#path, query, true, signal);
        let redraw = false;
        for (let frame = await connection?.next(); frame; frame = await connection?.next()) {
          if (frame instanceof Uint8Array) {
            cuts = 0;
            if (redraw) {
              redraw = false;
              yield { type: "redraw", bytes: frame };
              continue;
            }
            const offset = position ?? 0;
            position = offset + frame.length;
            yield { type: "output", offset, bytes: frame };
          } else if (frame.type === "ready") {
            redraw = frame.redraw_bytes > 0;
            const missed = frame.offset - (position ?? frame.offset);
            if (missed > 0) yield { type: "truncated", offset: frame.offset - missed, bytes: missed };
            position = frame.offset;
            yield { type: "resize", cols: frame.cols, rows: frame.rows };
          } else if (frame.type === "truncated") {
            redraw = frame.redraw_bytes > 0;
            position = frame.offset + frame.bytes;
            yield { type: "truncated", offset: frame.offset, bytes: frame.bytes };
            yield { type: "resize", cols: frame.cols, rows: frame.rows };
          } else if (frame.type === "resize") {
            yield fromWire(frame);
          } else {
            this.#ended = true;
            yield { type: "exit", exitCode: frame.exit_code, signal: frame.signal ?? undefined };
            return;
          }
        }
      } finally {
        connection?.close();
      }
      signal?.throwIfAborted();
      cuts += 1;
      if (cuts > retries) throw new ConnectionError(`the terminal ${JSON.stringify(this.id)} broke off ${cuts} times without progress`);
      if (cuts > 1) await delay(backoff(cuts), signal);
    }
  }

  /** The bytes that the program writes, until it ends. */
  async *output(options: TerminalEventsOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const event of this.events(options)) if (event.type === "output" || event.type === "redraw") yield event.bytes;
  }

  /** Waits until the output has the text in it, or matches; gives all of it from `from` on up to there. */
  async waitForText(pattern: string | RegExp, options: TerminalEventsOptions = {}): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const bytes of this.output(options)) {
      text += decoder.decode(bytes, { stream: true });
      if (typeof pattern !== "string") {
        const match = pattern.exec(text);
        if (match) return text.slice(0, match.index + match[0].length);
      } else {
        const at = text.indexOf(pattern);
        if (at >= 0) return text.slice(0, at + pattern.length);
      }
    }
    throw new SandshellError(`the terminal ${JSON.stringify(this.id)} ended without ${String(pattern)}`);
  }

  /** Waits for the end of the program. */
  async waitForExit(options: CallOptions = {}): Promise<TerminalExit> {
    for await (const event of this.events({ from: "screen", ...options })) if (event.type === "exit") return event;
    throw new ConnectionError("the terminal broke off before its end");
  }

  /** Types. What was given to a connection that then breaks is not typed again. */
  async write(data: Data): Promise<void> {
    if (this.#ended) throw ended(this.id);
    this.#writer ??= this.writer();
    return this.#writer.write(data);
  }

  /** A connection to type over. `answers`: what types is a terminal emulator, which answers programs that ask where the cursor is. */
  writer(options: { answers?: boolean } = {}): TerminalWriter {
    const query = { answers: options.answers ?? false };
    return new TerminalWriter(async () => {
      const { state } = await this.record();
      if (state === "exited") throw ended(this.id);
      const connection = await connect(this.#scope, this.#path, query, false);
      if (!connection) throw new ConnectionError("the connection to the terminal was lost before anything was typed");
      return connection;
    });
  }

  resize(cols: number, rows: number, options: CallOptions = {}): Promise<TerminalRecord> {
    return this.#scope.post(`${this.#path}/resize`, { cols, rows }, options.signal);
  }

  /** What is on the screen; `scrollback` asks for so many lines above it. */
  screen(options: { scrollback?: number } & CallOptions = {}): Promise<TerminalScreen> {
    const { signal, ...query } = options;
    return this.#scope.get(`${this.#path}/screen`, { query, signal });
  }

  /** Bytes that draw the screen as it is, colours and modes included. */
  async screenAnsi(options: CallOptions = {}): Promise<string> {
    const response = await this.#scope.transport.send("GET", `${this.#scope.prefix}${this.#path}/screen`, {
      query: { format: "ansi" }, accept: "*/*", signal: options.signal,
    });
    return toText(new Uint8Array(await response.arrayBuffer()));
  }

  /** Its output with times, as an asciicast. */
  async recording(options: CallOptions = {}): Promise<string> {
    const response = await this.#scope.transport.send("GET", `${this.#scope.prefix}${this.#path}/recording`, { accept: "*/*", signal: options.signal });
    return response.text();
  }

  /** Closes the connection for typing. The terminal goes on. */
  close(): void {
    this.#writer?.close();
    this.#writer = undefined;
  }

  /** Kills all that was started on it and forgets it. */
  delete(options: CallOptions = {}): Promise<KillReply> {
    this.close();
    return this.#scope.delete(this.#path, options.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

function ended(id: string): GoneError {
  const detail = `the terminal ${JSON.stringify(id)} has ended`;
  return new GoneError({ type: "/problems/terminal_ended", title: "The terminal has ended", status: 410, code: "terminal_ended", detail });
}

/** Types over one connection, opened with the first use and again after it was lost. */
export class TerminalWriter {
  readonly #connect: () => Promise<Connection>;
  #connection: Promise<Connection> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(connect: () => Promise<Connection>) {
    this.#connect = connect;
  }

  /** Connects now, if that has not happened. */
  async open(): Promise<void> {
    await this.#open();
  }

  async #open(): Promise<Connection> {
    if (this.#connection && !(await this.#connection).closed) return this.#connection;
    const opening = this.#connect();
    this.#connection = opening;
    opening.catch(() => (this.#connection = undefined));
    return opening;
  }

  /** Types; in the order of the calls. */
  write(data: Data): Promise<void> {
    const turn = this.#last.then(async () => (await this.#open()).send(toBytes(data)));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  close(): void {
    void this.#connection?.then((connection) => connection.close(), () => undefined);
    this.#connection = undefined;
  }
}
