// The part of a server that belongs to one sandbox: `/v1/sandboxes/{id}` of a hub, or `/v1` of an agent.

import type { Transport } from "./transport.js";

export class Scope {
  constructor(
    readonly transport: Transport,
    readonly prefix: string,
  ) {}

  get<T>(path: string, options: { query?: Parameters<Transport["address"]>[1]; signal?: AbortSignal | undefined } = {}): Promise<T> {
    return this.transport.json<T>("GET", this.prefix + path, options);
  }

  post<T>(path: string, json: unknown, signal?: AbortSignal): Promise<T> {
    return this.transport.json<T>("POST", this.prefix + path, json === undefined ? { signal } : { json, signal });
  }

  patch<T>(path: string, json: unknown, signal?: AbortSignal): Promise<T> {
    return this.transport.json<T>("PATCH", this.prefix + path, { json, signal });
  }

  delete<T>(path: string, signal?: AbortSignal): Promise<T> {
    return this.transport.json<T>("DELETE", this.prefix + path, { signal });
  }

  list<T>(path: string, query: Parameters<Transport["address"]>[1] = {}, signal?: AbortSignal): Promise<T[]> {
    return this.transport.list<T>(this.prefix + path, query, signal);
  }
}
