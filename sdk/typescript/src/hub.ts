// A hub and its sandboxes, and an agent that is asked directly.

import { type StreamData } from "./bytes.js";
import { Computer, sandboxPath } from "./computer.js";
import { GoneError } from "./errors.js";
import { ignoreMissing } from "./process.js";
import type {
  AuditEntry, CallOptions, ImageRecord, RequestOptions, SandboxPatch, SandboxRecord, SandboxSpec, SandboxState, TokenCreated, TokenRecord, VersionInfo,
} from "./schema.js";
import { Scope } from "./scope.js";
import { type ConnectionOptions, Transport, segment } from "./transport.js";

export interface CreateOptions extends ConnectionOptions, SandboxSpec, CallOptions {}

export interface ListSandboxesOptions extends CallOptions {
  /** All of them must hold. */
  labels?: Record<string, string> | undefined;
  /** What is not over by default. */
  state?: SandboxState | "all" | undefined;
}

/** One isolated computer. */
export class Sandbox extends Computer implements AsyncDisposable {
  readonly id: string;

  /** @internal */
  constructor(transport: Transport, id: string) {
    super(new Scope(transport, sandboxPath(id)));
    this.id = id;
  }

  /** Makes a sandbox, or finds the one that has this `id` and spec; it takes commands when this is resolved. */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const { url, token, fetch, WebSocket, headers, retries, ...spec } = options;
    return new Hub({ url, token, fetch, WebSocket, headers, retries }).create(spec);
  }

  /** One that exists. */
  static async connect(id: string, options: ConnectionOptions & CallOptions = {}): Promise<Sandbox> {
    return new Hub(options).connect(id, options);
  }

  /** The records of those that the token may use. */
  static async list(options: ConnectionOptions & ListSandboxesOptions = {}): Promise<SandboxRecord[]> {
    return new Hub(options).list(options);
  }

  /** State, times, limits, protections. */
  record(options: CallOptions = {}): Promise<SandboxRecord> {
    return this.scope.get("", options);
  }

  /** Changes labels, times and some of the limits. */
  update(patch: SandboxPatch & CallOptions): Promise<SandboxRecord> {
    const { signal, ...json } = patch;
    return this.scope.patch("", json, signal);
  }

  /** Freezes everything in it; requests are refused until `resume`. */
  pause(options: CallOptions = {}): Promise<SandboxRecord> {
    return this.scope.post("/pause", undefined, options.signal);
  }

  resume(options: CallOptions = {}): Promise<SandboxRecord> {
    return this.scope.post("/resume", undefined, options.signal);
  }

  /** Starts the time of `idleTimeoutMs` anew. */
  keepalive(options: CallOptions = {}): Promise<SandboxRecord> {
    return this.scope.post("/keepalive", undefined, options.signal);
  }

  /** Ends it; nothing of it runs when this is resolved. */
  destroy(options: CallOptions = {}): Promise<SandboxRecord> {
    // What is over stays over, so that a second try does no harm.
    return this.scope.transport.json("DELETE", this.scope.prefix, { ...options, repeatable: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy().catch((error: unknown) => {
      if (!(error instanceof GoneError)) ignoreMissing(error);
    });
  }
}

/** One agent without a hub, as in a container: the same computer, without a life cycle. */
export class Agent extends Computer {
  readonly #transport: Transport;

  constructor(options: ConnectionOptions = {}) {
    const transport = new Transport(options);
    super(new Scope(transport, "/v1"));
    this.#transport = transport;
  }

  version(options: CallOptions = {}): Promise<VersionInfo> {
    return this.#transport.json("GET", "/version", options);
  }
}

/** A service that keeps many sandboxes. */
export class Hub {
  readonly tokens: Tokens;
  readonly images: Images;
  readonly #transport: Transport;

  constructor(options: ConnectionOptions = {}) {
    this.#transport = new Transport(options);
    this.tokens = new Tokens(this.#transport);
    this.images = new Images(this.#transport);
  }

  /** Makes a sandbox, or finds the one that has this `id` and spec. */
  async create(spec: SandboxSpec & CallOptions = {}): Promise<Sandbox> {
    const { signal, ...json } = spec;
    const record = await this.#transport.json<SandboxRecord>("POST", "/v1/sandboxes", { json, signal });
    return this.sandbox(record.id);
  }

  /** One that exists; checks that it does and is not over. */
  async connect(id: string, options: CallOptions = {}): Promise<Sandbox> {
    const sandbox = this.sandbox(id);
    const record = await sandbox.record({ signal: options.signal });
    if (record.state === "gone" || record.state === "failed") {
      const detail = `the sandbox ${JSON.stringify(id)} is over${record.reason ? `: ${record.reason}` : ""}`;
      throw new GoneError({ type: "/problems/sandbox_gone", title: "The sandbox is gone", status: 410, code: "sandbox_gone", detail });
    }
    return sandbox;
  }

  /** One by its id, unchecked. */
  sandbox(id: string): Sandbox {
    return new Sandbox(this.#transport, id);
  }

  list(options: ListSandboxesOptions = {}): Promise<SandboxRecord[]> {
    const label = Object.entries(options.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    return this.#transport.list("/v1/sandboxes", { label, state: options.state }, options.signal);
  }

  /** What was done to sandboxes and tokens, newest first. */
  audit(options: { target?: string; action?: string } & CallOptions = {}): AsyncGenerator<AuditEntry, void, undefined> {
    const { signal, ...query } = options;
    return this.#transport.items("/v1/audit", query, signal);
  }

  version(options: CallOptions = {}): Promise<VersionInfo> {
    return this.#transport.json("GET", "/version", options);
  }
}

/** Who may use the hub, and for what. */
export class Tokens {
  /** @internal */
  constructor(private readonly transport: Transport) {}

  /** Makes a token; it is shown this once. */
  create(options: RequestOptions<"TokenRequest"> & CallOptions): Promise<TokenCreated> {
    const { signal, ...json } = options;
    return this.transport.json("POST", "/v1/tokens", { json, signal });
  }

  list(options: CallOptions = {}): Promise<TokenRecord[]> {
    return this.transport.list("/v1/tokens", {}, options.signal);
  }

  get(id: string, options: CallOptions = {}): Promise<TokenRecord> {
    return this.transport.json("GET", `/v1/tokens/${segment(id)}`, options);
  }

  revoke(id: string, options: CallOptions = {}): Promise<TokenRecord> {
    return this.transport.json("DELETE", `/v1/tokens/${segment(id)}`, options);
  }
}

/** Root file systems that sandboxes can be made of. */
export class Images {
  /** @internal */
  constructor(private readonly transport: Transport) {}

  /** Imports a tar: of a root, of `docker save`, or of an OCI layout. */
  import(name: string, data: StreamData, options: CallOptions = {}): Promise<ImageRecord> {
    const headers = { "content-type": "application/x-tar" };
    return this.transport.json("PUT", `/v1/images/${segment(name)}`, { data, headers, signal: options.signal });
  }

  /** Imports a directory of the hub's machine. */
  create(name: string, directory: string, options: CallOptions = {}): Promise<ImageRecord> {
    return this.transport.json("POST", "/v1/images", { json: { name, directory }, signal: options.signal });
  }

  list(options: CallOptions = {}): Promise<ImageRecord[]> {
    return this.transport.list("/v1/images", {}, options.signal);
  }

  get(name: string, options: CallOptions = {}): Promise<ImageRecord> {
    return this.transport.json("GET", `/v1/images/${segment(name)}`, options);
  }

  remove(name: string, options: CallOptions = {}): Promise<ImageRecord> {
    return this.transport.json("DELETE", `/v1/images/${segment(name)}`, options);
  }
}
