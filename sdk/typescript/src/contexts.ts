// Code interpreters that keep their state from run to run.

import { Streams } from "./output.js";
import { decode, toText } from "./bytes.js";
import { ignoreMissing } from "./process.js";
import { followEvents } from "./resume.js";
import type {
  CallOptions, ContextInterruptReply, ContextRecord, KillReply, Language, RequestOptions, RunEnd, RunError, RunResult, RunStarted, Truncated, Wire,
} from "./schema.js";
import type { Scope } from "./scope.js";
import { segment } from "./transport.js";
import { type Camel, fromWire } from "./wire.js";

export interface ContextOptions extends RequestOptions<"ContextRequest", "language">, CallOptions {}
export interface RunOptions extends RequestOptions<"RunRequest", "code" | "encoding">, CallOptions {}

export type RunEvent =
  | ({ readonly type: "started" } & RunStarted)
  | { readonly type: "stdout" | "stderr"; readonly text: string; readonly bytes: Uint8Array }
  | ({ readonly type: "result" } & RunResult)
  | ({ readonly type: "error" } & RunError)
  | ({ readonly type: "truncated" } & Record<string, unknown>)
  | ({ readonly type: "end" } & RunEnd);

/** What a run wrote, gave and raised. An error of the code is data. */
export class CodeResult extends Streams {
  readonly runId: string;
  readonly status: RunEnd["status"];
  readonly results: RunResult[];
  readonly error: RunError | undefined;
  readonly executionCount: number;
  readonly durationMs: number;
  /** What became of the state: `kept`, `lost` or `ended`. */
  readonly context: RunEnd["context"];
  readonly exitCode: number | undefined;
  readonly truncated: Truncated | undefined;

  constructor(wire: Camel<Wire["RunReply"]>) {
    super(wire);
    this.runId = wire.runId;
    this.status = wire.status;
    this.results = wire.results;
    this.error = wire.error ?? undefined;
    this.executionCount = wire.executionCount;
    this.durationMs = wire.durationMs;
    this.context = wire.context;
    this.exitCode = wire.exitCode ?? undefined;
    this.truncated = wire.truncated ?? undefined;
  }

  /** The value of the last expression as text, if it had one. */
  get text(): string | undefined {
    const main = this.results.find((result) => result.isMain) ?? this.results.at(-1);
    const text = main?.data["text/plain"];
    return typeof text === "string" ? text : undefined;
  }
}

export class Contexts {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  async create(language: Language, options: ContextOptions = {}): Promise<Context> {
    const { signal, ...json } = options;
    const record = await this.#scope.post<ContextRecord>("/contexts", { language, ...json }, signal);
    return this.get(record.id);
  }

  /** One that exists. */
  get(id: string): Context {
    return new Context(this.#scope, id);
  }

  list(options: CallOptions = {}): Promise<ContextRecord[]> {
    return this.#scope.list("/contexts", {}, options.signal);
  }
}

export class Context implements AsyncDisposable {
  readonly id: string;
  readonly #scope: Scope;
  readonly #path: string;

  /** @internal */
  constructor(scope: Scope, id: string) {
    this.id = id;
    this.#scope = scope;
    this.#path = `/contexts/${segment(id)}`;
  }

  record(options: CallOptions = {}): Promise<ContextRecord> {
    return this.#scope.get(this.#path, options);
  }

  /** Runs code in its turn. */
  async run(code: string, options: RunOptions = {}): Promise<CodeResult> {
    const { signal, ...json } = options;
    return new CodeResult(await this.#scope.post(`${this.#path}/run`, { code, ...json }, signal));
  }

  /** The same, telling everything as it comes; `end` is the last. */
  async *runStream(code: string, options: RunOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const { signal, ...rest } = options;
    const json = { code, ...rest };
    const { transport, prefix } = this.#scope;
    const idempotencyKey = crypto.randomUUID();
    const told = new Replay();
    const open = (): Promise<Response> => {
      told.rewind();
      return transport.send("POST", `${prefix}${this.#path}/run`, { json, accept: "text/event-stream", signal, idempotencyKey });
    };
    for await (const { event, data } of followEvents(transport, "the run", { open, isLast: (event) => event.event === "end", signal })) {
      const payload: unknown = JSON.parse(data);
      if (event === "stdout" || event === "stderr") {
        const { data, encoding } = payload as Wire["RunOutput"];
        const bytes = told.rest(event, decode(data, encoding));
        if (bytes.length > 0) yield { type: event, bytes, text: toText(bytes) };
      } else if (told.isNew(event)) {
        yield { type: event, ...fromWire(payload as object) } as RunEvent;
      }
    }
  }

  /** Interrupts the run, if there is one; answers when it is really over. */
  interrupt(options: CallOptions = {}): Promise<ContextInterruptReply> {
    return this.#scope.post(`${this.#path}/interrupt`, undefined, options.signal);
  }

  /** Gives it a fresh interpreter. */
  restart(options: CallOptions = {}): Promise<ContextRecord> {
    return this.#scope.post(`${this.#path}/restart`, undefined, options.signal);
  }

  /** Ends it with all it started. */
  delete(options: CallOptions = {}): Promise<KillReply> {
    return this.#scope.delete(this.#path, options.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

/**
 * What is new of a run that is told again from its beginning, as the same request does after a cut: its output
 * may come in other pieces then, so bytes are counted; of anything else, how many there were of its kind.
 */
class Replay {
  readonly #told = new Map<string, number>();
  #place = new Map<string, number>();

  /** The run is told from its beginning. */
  rewind(): void {
    this.#place = new Map();
  }

  /** What of the next bytes of a stream was not told yet. */
  rest(stream: string, bytes: Uint8Array): Uint8Array {
    const begin = this.#place.get(stream) ?? 0;
    const told = this.#told.get(stream) ?? 0;
    this.#place.set(stream, begin + bytes.length);
    this.#told.set(stream, Math.max(told, begin + bytes.length));
    return bytes.subarray(Math.max(0, told - begin));
  }

  isNew(event: string): boolean {
    return this.rest(event, ONE).length > 0;
  }
}

const ONE = new Uint8Array(1);
