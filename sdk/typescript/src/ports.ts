// Servers in the sandbox, and ways to them.

import { followEvents, openEvents } from "./resume.js";
import type { CallOptions, HttpCheck, PortExposure, PortRecord, PortUnexposed, PortWaitReply, Preview, Wire } from "./schema.js";
import type { Scope } from "./scope.js";
import { fromWire } from "./wire.js";

/** All ports, at first and after a lost connection; then what changes. */
export type PortEvent =
  | { readonly type: "ports"; readonly items: PortRecord[] }
  | ({ readonly type: "opened" } & PortRecord)
  | ({ readonly type: "closed" } & PortRecord);

export class Ports {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Ports that something in the sandbox listens on. */
  list(options: CallOptions = {}): Promise<PortRecord[]> {
    return this.#scope.list("/ports", {}, options.signal);
  }

  /** The ports, and what changes of them; until the loop is left. */
  async *events(options: CallOptions = {}): AsyncGenerator<PortEvent, void, undefined> {
    const open = openEvents(this.#scope.transport, `${this.#scope.prefix}/ports`, {}, options.signal);
    // Each connection begins with all there are, so there is nothing to resume after.
    const events = followEvents(this.#scope.transport, "the ports", { open: () => open(undefined), isLast: () => false, ...options });
    for await (const { event, data } of events) {
      if (event === "ports" || event === "opened" || event === "closed") {
        yield { type: event, ...fromWire(JSON.parse(data) as Wire["PortsEvent"] & Wire["PortRecord"]) };
      }
    }
  }

  /** Waits until the port takes a connection, or gives an HTTP status; running out of time is an answer. */
  wait(port: number, options: { http?: HttpCheck; timeoutMs?: number } & CallOptions = {}): Promise<PortWaitReply> {
    const { signal, ...json } = options;
    return this.#scope.post(`/ports/${port}/wait`, json, signal);
  }

  /** Makes a URL with a token of its own, for whoever has no token of the server. */
  expose(port: number, options: CallOptions = {}): Promise<PortExposure> {
    return this.#scope.transport.json("PUT", `${this.#scope.prefix}/ports/${port}`, options);
  }

  /** Takes that token away. */
  unexpose(port: number, options: CallOptions = {}): Promise<PortUnexposed> {
    return this.#scope.delete(`/ports/${port}`, options.signal);
  }

  /** A signed URL with a host name of its own; the hub needs `--preview-domain`. */
  preview(port: number, options: { ttlMs?: number } & CallOptions = {}): Promise<Preview> {
    const { signal, ...json } = options;
    return this.#scope.post(`/ports/${port}/preview`, json, signal);
  }

  /** Makes all such URLs of the port invalid. */
  revokePreviews(port: number, options: CallOptions = {}): Promise<PortUnexposed> {
    return this.#scope.delete(`/ports/${port}/preview`, options.signal);
  }

  /** The address of the server behind the port, for requests with the token. */
  url(port: number, path = "/"): string {
    return this.#scope.transport.address(`${this.#scope.prefix}/ports/${port}/proxy/${path.replace(/^\/+/, "")}`);
  }

  /** Sends a request to the server behind the port; the answer is the server's, whatever its status. */
  fetch(port: number, path = "/", init: RequestInit = {}): Promise<Response> {
    return this.#scope.transport.raw(init.method ?? "GET", this.url(port, path), init);
  }
}
