// A WebSocket for Node 20, which has none of its own. Later versions, and all other runtimes, never come here.
//
// It is the client's side of RFC 6455 as far as terminals need it: text and binary messages, fragments, pings, close;
// no extensions. Node's modules are taken at run time, so that a bundle for browsers has nothing of them.

import { concat, toBase64, toBytes, toText } from "./bytes.js";

/** What terminals use of a WebSocket. */
export interface Socket {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
}

export type SocketClass = new (url: string) => Socket;

interface NodeStream {
  readonly writableLength: number;
  write(data: Uint8Array): boolean;
  end(): void;
  destroy(): void;
  on(event: string, listener: (argument: Uint8Array) => void): void;
  setNoDelay?(on: boolean): void;
}
interface NodeRequest {
  on(event: string, listener: (...argument: never[]) => void): void;
  end(): void;
}
interface NodeModules {
  getBuiltinModule?(name: string): {
    request(url: string, options: object): NodeRequest;
    createHash(name: string): { update(text: string): { digest(encoding: string): string } };
  };
}

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

class NodeSocket implements Socket {
  binaryType = "arraybuffer";
  readyState = 0;
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;
  #stream: NodeStream | undefined;
  /** Received and not yet a whole frame. */
  #pending: Uint8Array = new Uint8Array();
  /** The frames so far of a message in fragments. */
  #fragments: Uint8Array[] = [];
  #opcode = 0;
  #code = 1006;
  #reason = "";

  constructor(url: string) {
    const node = (globalThis as { process?: NodeModules }).process;
    const target = url.replace(/^ws/, "http");
    const http = node?.getBuiltinModule?.(target.startsWith("https:") ? "node:https" : "node:http");
    const hashes = node?.getBuiltinModule?.("node:crypto");
    if (!http || !hashes) throw new Error("this runtime has no WebSocket; pass one as `WebSocket`");
    const key = toBase64(crypto.getRandomValues(new Uint8Array(16)));
    const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": key };
    const expected = hashes.createHash("sha1").update(key + ACCEPT_SALT).digest("base64");
    const request = http.request(target, { headers, agent: false });
    request.on("upgrade", (response: { headers: Record<string, string> }, stream: NodeStream, head: Uint8Array) => {
      if (response.headers["sec-websocket-accept"] !== expected) {
        stream.destroy();
        return this.#end();
      }
      this.#open(stream, head);
    });
    request.on("response", (response: NodeStream) => {
      response.destroy();
      this.#end();
    });
    request.on("error", () => this.#end());
    request.end();
  }

  get bufferedAmount(): number {
    return this.#stream?.writableLength ?? 0;
  }

  #open(stream: NodeStream, head: Uint8Array): void {
    if (this.readyState !== 0) return stream.destroy();
    this.#stream = stream;
    this.readyState = 1;
    stream.setNoDelay?.(true);
    stream.on("data", (bytes) => this.#receive(bytes));
    stream.on("error", () => this.#end());
    stream.on("close", () => this.#end());
    stream.on("end", () => this.#end());
    this.onopen?.(undefined as never);
    if (head.length > 0) this.#receive(head);
  }

  #receive(bytes: Uint8Array): void {
    this.#pending = this.#pending.length > 0 ? concat([this.#pending, bytes]) : bytes;
    for (;;) {
      const frame = parseFrame(this.#pending);
      if (!frame) return;
      this.#pending = this.#pending.subarray(frame.size);
      this.#take(frame);
    }
  }

  #take({ final, opcode, payload }: Frame): void {
    if (opcode === PING) return this.#write(PONG, payload);
    if (opcode === CLOSE) {
      if (payload.length >= 2) {
        this.#code = ((payload[0] ?? 0) << 8) | (payload[1] ?? 0);
        this.#reason = toText(payload.subarray(2));
      } else this.#code = 1005;
      this.#write(CLOSE, payload.subarray(0, 2));
      this.#stream?.end();
      return this.#end();
    }
    if (opcode > BINARY) return;
    if (opcode !== 0) this.#opcode = opcode;
    // A copy: the frame lies in a buffer that Node uses again.
    this.#fragments.push(payload.slice());
    if (!final) return;
    const message = concat(this.#fragments);
    this.#fragments = [];
    this.onmessage?.({ data: this.#opcode === TEXT ? toText(message) : message.buffer });
  }

  send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.readyState === 1) this.#write(typeof data === "string" ? TEXT : BINARY, toBytes(data));
  }

  close(code = 1000): void {
    if (this.readyState >= 2) return;
    const open = this.readyState === 1;
    this.readyState = 2;
    if (!open) return this.#end();
    this.#write(CLOSE, new Uint8Array([code >> 8, code & 0xff]));
    this.#stream?.end();
  }

  #write(opcode: number, payload: Uint8Array): void {
    const extended = payload.length < 126 ? 0 : payload.length < 0x1_0000 ? 2 : 8;
    const frame = new Uint8Array(6 + extended + payload.length);
    const view = new DataView(frame.buffer);
    frame[0] = 0x80 | opcode;
    frame[1] = 0x80 | (extended === 0 ? payload.length : extended === 2 ? 126 : 127);
    if (extended === 2) view.setUint16(2, payload.length);
    if (extended === 8) view.setBigUint64(2, BigInt(payload.length));
    const mask = crypto.getRandomValues(frame.subarray(2 + extended, 6 + extended));
    const body = frame.subarray(6 + extended);
    for (let at = 0; at < payload.length; at++) body[at] = (payload[at] ?? 0) ^ (mask[at & 3] ?? 0);
    this.#stream?.write(frame);
  }

  #end(): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.#stream?.destroy();
    this.onclose?.({ code: this.#code, reason: this.#reason });
  }
}

interface Frame {
  final: boolean;
  opcode: number;
  payload: Uint8Array;
  /** How many bytes it took. */
  size: number;
}

/** The first frame of the bytes, if it is there as a whole. */
function parseFrame(bytes: Uint8Array): Frame | undefined {
  const [first, second] = bytes;
  if (first === undefined || second === undefined) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let length = second & 0x7f;
  let start = 2;
  if (length === 126) {
    if (bytes.length < 4) return undefined;
    length = view.getUint16(2);
    start = 4;
  } else if (length === 127) {
    if (bytes.length < 10) return undefined;
    length = Number(view.getBigUint64(2));
    start = 10;
  }
  const size = start + length;
  if (bytes.length < size) return undefined;
  return { final: (first & 0x80) !== 0, opcode: first & 0x0f, payload: bytes.subarray(start, size), size };
}

/** The WebSocket that was chosen, the runtime's own, or this one. */
export function socketClass(chosen: (new (url: string) => object) | undefined): SocketClass {
  const own = (globalThis as { WebSocket?: unknown }).WebSocket;
  return ((chosen ?? own) as SocketClass | undefined) ?? NodeSocket;
}
