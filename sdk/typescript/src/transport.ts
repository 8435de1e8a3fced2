// One request to the server: address, token, JSON, problems as errors, and retries that are safe.
//
// Every POST carries an `Idempotency-Key`, so that one whose answer was lost is sent again and still runs
// once. What cannot be repeated (a body that is a stream, a DELETE) is sent once.

import { type Body, type StreamData, toBody } from "./bytes.js";
import { ConnectionError, SandshellError, ServerError, problemError } from "./errors.js";
import type { Problem } from "./schema.js";
import { fromWire, toWire } from "./wire.js";

/** Where the server is and how to talk to it. */
export interface ConnectionOptions {
  /** Its address; `SANDSHELL_URL` by default, else `http://127.0.0.1:4020`. */
  url?: string | undefined;
  /** The token; `SANDSHELL_TOKEN` by default, else the content of the file `SANDSHELL_TOKEN_FILE`. */
  token?: string | undefined;
  /** Instead of the runtime's own `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Instead of the runtime's own `WebSocket`. */
  WebSocket?: (new (url: string) => object) | undefined;
  /** Sent with every request. */
  headers?: Record<string, string> | undefined;
  /** How often in a row something is tried again after a lost connection or a busy server; 8 by default. */
  retries?: number | undefined;
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface RequestInput {
  query?: Query | undefined;
  /** Sent as JSON, its names changed to those of the wire. */
  json?: unknown;
  /** Sent as it is. */
  data?: StreamData | undefined;
  headers?: Record<string, string> | undefined;
  accept?: string | undefined;
  signal?: AbortSignal | undefined;
  /** `false`: not sent a second time after a lost connection. */
  repeatable?: boolean | undefined;
  /** Sent again by the caller itself. */
  idempotencyKey?: string | undefined;
}

/** An attempt that took this long was no failure to get through: a runtime gave up waiting for a slow answer. */
const LONG_ATTEMPT_MS = 30_000;

/** A server may ask for more patience than a caller has. */
const LONGEST_PAUSE_MS = 10_000;

/** Where a token comes from here; the server speaks of HTTP. */
const TOKEN_HINT = "The token is `token`, else SANDSHELL_TOKEN, else what is in the file SANDSHELL_TOKEN_FILE.";

function environment(name: string): string | undefined {
  const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env;
  try {
    return env?.[name] || undefined;
  } catch {
    // Deno without the right to read the environment.
    return undefined;
  }
}

/** The token that is given, else that of the environment, else that of the file that the environment names. */
function tokenOf(given: string | undefined): string | undefined {
  const token = given || environment("SANDSHELL_TOKEN");
  if (token) return token.trim();
  const path = environment("SANDSHELL_TOKEN_FILE");
  if (!path) return undefined;
  let text: string;
  try {
    text = readFile(path);
  } catch (error) {
    throw new SandshellError(`the token file ${path} (SANDSHELL_TOKEN_FILE) cannot be read: ${reason(error)}`, { cause: error });
  }
  if (!text.trim()) throw new SandshellError(`the token file ${path} (SANDSHELL_TOKEN_FILE) is empty`);
  return text.trim();
}

interface FileModules {
  getBuiltinModule?(name: string): { readFileSync(path: string, encoding: string): string } | undefined;
}

/** Node's module is taken at run time, so that a bundle for browsers has nothing of it. */
function readFile(path: string): string {
  const files = (globalThis as { process?: FileModules }).process?.getBuiltinModule?.("node:fs");
  if (!files) throw new Error("this runtime gives no access to files");
  return files.readFileSync(path, "utf8");
}

export class Transport {
  readonly url: string;
  readonly retries: number;
  readonly WebSocket: (new (url: string) => object) | undefined;
  readonly #fetch: typeof fetch;
  readonly #headers: Record<string, string>;

  constructor(options: ConnectionOptions = {}) {
    this.url = (options.url ?? environment("SANDSHELL_URL") ?? "http://127.0.0.1:4020").replace(/\/+$/, "");
    this.retries = options.retries ?? 8;
    this.WebSocket = options.WebSocket;
    const chosen = options.fetch;
    this.#fetch = chosen ? (input, init) => chosen(input, init) : (input, init) => fetch(input, init);
    this.#headers = { ...options.headers };
    const token = tokenOf(options.token);
    if (token) this.#headers["authorization"] = `Bearer ${token}`;
  }

  /** The full address of a path. */
  address(path: string, query: Query = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (value === null || value === undefined) continue;
      if (Array.isArray(value)) for (const item of value) search.append(name, item);
      else search.append(name, String(value));
    }
    const text = search.toString();
    return `${this.url}${path}${text ? `?${text}` : ""}`;
  }

  /** Sends one request, without retries and without a look at its status. */
  async raw(method: string, address: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.#headers)) if (!headers.has(name)) headers.set(name, value);
    try {
      return await this.#fetch(address, { ...init, method, headers });
    } catch (error) {
      init.signal?.throwIfAborted();
      const { origin, pathname } = new URL(address);
      const why = `no answer from ${origin}: ${reason(error)}; perhaps no hub runs there (\`sandshell serve\` starts one)`;
      throw new ConnectionError(`${method} ${pathname}: ${why}`, { cause: error });
    }
  }

  /** Sends a request until it is answered; an answer that is a problem is thrown. */
  send(method: string, path: string, input: RequestInput = {}): Promise<Response> {
    return this.#attempt(method, path, input, async (response) => response);
  }

  /** Sends a request and gives its JSON, names changed. */
  json<T>(method: string, path: string, input: RequestInput = {}): Promise<T> {
    return this.#attempt(method, path, input, async (response) => fromWire(await readJson(response, method, path)) as T);
  }

  /** Tries until an answer has come and was read, as far as trying again is safe. */
  async #attempt<T>(method: string, path: string, input: RequestInput, read: (response: Response) => Promise<T>): Promise<T> {
    const headers: Record<string, string> = { accept: input.accept ?? "application/json", ...input.headers };
    let body: Body | null = null;
    let repeatable = input.repeatable ?? method !== "DELETE";
    if (input.data !== undefined) {
      const made = await toBody(input.data);
      body = made.body;
      repeatable &&= made.repeatable;
      headers["content-type"] ??= "application/octet-stream";
    } else if (input.json !== undefined) {
      body = JSON.stringify(toWire(input.json));
      headers["content-type"] = "application/json";
    }
    if (method === "POST") headers["idempotency-key"] = input.idempotencyKey ?? crypto.randomUUID();

    const init: RequestInit = { headers, body, signal: input.signal ?? null };
    if (body instanceof ReadableStream) Object.assign(init, { duplex: "half" });
    const address = this.address(path, input.query);
    let failures = 0;
    for (;;) {
      const begun = Date.now();
      let error: unknown;
      let pause: number | undefined;
      try {
        const response = await this.raw(method, address, init);
        if (response.ok) return await read(response);
        error = await problemOf(response);
        // A refused request has done nothing, so any may be sent again, but for a body that is used up.
        const busy = response.status === 429 || response.status === 503 || (method === "GET" && response.status === 502);
        if (!busy || body instanceof ReadableStream) throw error;
        pause = Number(response.headers.get("retry-after") ?? Number.NaN) * 1000 || undefined;
      } catch (caught) {
        error ??= caught;
        if (!(caught instanceof ConnectionError) || !repeatable) throw caught;
      }
      failures = Date.now() - begun > LONG_ATTEMPT_MS ? 0 : failures + 1;
      if (failures > this.retries) throw error;
      await delay(Math.min(pause ?? backoff(failures), LONGEST_PAUSE_MS), input.signal);
    }
  }

  /** All items of a list, page by page. */
  async *items<T>(path: string, query: Query = {}, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
    let cursor: string | null | undefined;
    do {
      const page: { items: T[]; nextCursor?: string | null } = await this.json("GET", path, { query: { ...query, cursor }, signal });
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor);
  }

  async list<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this.items<T>(path, query, signal)) items.push(item);
    return items;
  }
}

async function readJson(response: Response, method: string, path: string): Promise<unknown> {
  const text = await response.text().catch((error: unknown) => {
    throw new ConnectionError(`${method} ${path}: the answer broke off: ${reason(error)}`, { cause: error });
  });
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConnectionError(`${method} ${path}: the answer is not JSON; is this a Sandshell server?`, { cause: error });
  }
}

/** The problem in an answer, whoever gave it. */
export async function problemOf(response: Response): Promise<Error> {
  const text = await response.text().catch(() => "");
  try {
    const problem = fromWire(JSON.parse(text)) as Problem;
    if (problem.code === "unauthorized") problem.hint = TOKEN_HINT;
    if (typeof problem.code === "string") return problemError(problem);
  } catch {
    // Not ours: a proxy in between, or another server.
  }
  const detail = `status ${response.status} without a problem document${text ? `: ${text.slice(0, 200)}` : ""}`;
  const problem: Problem = { type: "about:blank", title: response.statusText, status: response.status, code: "internal", detail };
  const requestId = response.headers.get("x-request-id");
  if (requestId) problem.requestId = requestId;
  return response.status >= 500 ? new ServerError(problem) : problemError(problem);
}

/** The pause before the n-th try: short at first, at most two seconds, never in step with others. */
export function backoff(failures: number): number {
  return Math.min(2000, 50 * 2 ** failures) * (0.5 + Math.random() / 2);
}

export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** What an error of `fetch` says; some runtimes hide it in the cause. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause;
  return cause instanceof Error ? cause.message || error.message : error.message;
}

export const segment = encodeURIComponent;
