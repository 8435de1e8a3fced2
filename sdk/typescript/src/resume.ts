// Streams that outlive their connections.
//
//   open ──► read ──► end            the last event, or the proper end of a body
//    ▲        │ cut off
//    └────────┘                      with the last id or offset; given up after `retries` cuts without progress

import { pieces } from "./bytes.js";
import { ConnectionError, SandshellError } from "./errors.js";
import { type ServerEvent, readEvents } from "./sse.js";
import { type Query, type Transport, backoff, delay, reason } from "./transport.js";

/** Counts cuts without progress, and waits between tries. */
class Patience {
  #cuts = 0;

  constructor(
    private readonly transport: Transport,
    private readonly signal: AbortSignal | undefined,
  ) {}

  progress(): void {
    this.#cuts = 0;
  }

  /** Waits before another try, or throws when there were too many. */
  async cut(what: string, cause: unknown): Promise<void> {
    this.signal?.throwIfAborted();
    if (cause instanceof SandshellError && !(cause instanceof ConnectionError)) throw cause;
    this.#cuts += 1;
    if (this.#cuts > this.transport.retries) {
      throw new ConnectionError(`${what} broke off ${this.#cuts} times without progress: ${reason(cause)}`, { cause });
    }
    // The first try comes at once: a connection that was cut once is mostly there again.
    if (this.#cuts > 1) await delay(backoff(this.#cuts), this.signal);
  }
}

export interface Following {
  /** Opens the stream after the event with this id, or from its beginning. */
  open(lastId: string | undefined): Promise<Response>;
  /** Whether nothing comes after this event. */
  isLast(event: ServerEvent): boolean;
  signal?: AbortSignal | undefined;
  /** Begins after this one. */
  lastId?: string | undefined;
}

/** Events over as many connections as it takes. */
export async function* followEvents(transport: Transport, what: string, following: Following): AsyncGenerator<ServerEvent, void, undefined> {
  const patience = new Patience(transport, following.signal);
  let lastId = following.lastId;
  for (;;) {
    let cause: unknown = "the stream ended before its last event";
    const response = await following.open(lastId);
    try {
      for await (const event of readEvents(body(response))) {
        patience.progress();
        lastId = event.id ?? lastId;
        yield event;
        if (following.isLast(event)) return;
      }
    } catch (error) {
      cause = error;
    }
    await patience.cut(what, cause);
  }
}

/** A GET of events that `Last-Event-ID` resumes. */
export function openEvents(transport: Transport, path: string, query: Query, signal?: AbortSignal) {
  return (lastId: string | undefined): Promise<Response> => {
    const headers: Record<string, string> = lastId === undefined ? {} : { "last-event-id": lastId };
    return transport.send("GET", path, { query, headers, accept: "text/event-stream", signal });
  };
}

/** Bytes over as many connections as it takes; `open` gives those from an offset on. */
export async function* followBytes(
  transport: Transport,
  what: string,
  open: (offset: number) => Promise<Response>,
  offset: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const patience = new Patience(transport, signal);
  for (;;) {
    let cause: unknown;
    const response = await open(offset);
    try {
      for await (const piece of pieces(body(response))) {
        patience.progress();
        offset += piece.length;
        yield piece;
      }
      return;
    } catch (error) {
      cause = error;
    }
    await patience.cut(what, cause);
  }
}

function body(response: Response): ReadableStream<Uint8Array> {
  return response.body ?? new ReadableStream({ start: (controller) => controller.close() });
}
