// Bytes, text and base64.

/** What can be written: text goes as UTF-8. */
export type Data = string | Uint8Array | ArrayBuffer;

/** What can be sent as the body of a request, of any length. */
export type StreamData = Data | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

const encoder = new TextEncoder();

export function toBytes(data: Data): Uint8Array {
  if (typeof data === "string") return encoder.encode(data);
  return data instanceof Uint8Array ? data : new Uint8Array(data);
}

/** Text of bytes; what is not UTF-8 becomes U+FFFD, and a mark at the beginning stays. */
export function toText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

export function toBase64(bytes: Uint8Array): string {
  // In pieces: a call takes only so many arguments.
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Data of the wire in its stated encoding. */
export function decode(data: string, encoding: "utf8" | "base64"): Uint8Array {
  return encoding === "base64" ? fromBase64(data) : encoder.encode(data);
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** The pieces of a stream; leaving the loop cancels it. Not every runtime can iterate a stream by itself. */
export async function* pieces(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  let whole = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        whole = true;
        return;
      }
      yield value;
    }
  } catch (error) {
    whole = true;
    throw error;
  } finally {
    if (!whole) await reader.cancel().catch(() => undefined);
    reader.releaseLock();
  }
}

/** A stream of what a generator gives, which is asked only when somebody reads. */
export function toStream(generator: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await generator.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await generator.return();
      },
    },
    { highWaterMark: 0 },
  );
}

/** Browsers send the body of a request as a stream only over HTTP/2, or not at all; everything else does. */
const streamsRequests = !("document" in globalThis || "importScripts" in globalThis);

/** What `fetch` sends; DOM's own name for it is not everywhere. */
export type Body = NonNullable<RequestInit["body"]>;

/** Data as the body of a request, and whether it can be sent a second time. */
export async function toBody(data: StreamData): Promise<{ body: Body; repeatable: boolean }> {
  if (typeof data === "string") return { body: encoder.encode(data), repeatable: true };
  if (data instanceof Uint8Array) return { body: data as Uint8Array<ArrayBuffer>, repeatable: true };
  if (data instanceof ArrayBuffer) return { body: data, repeatable: true };
  if (data instanceof Blob) return { body: data, repeatable: true };
  const generator = data instanceof ReadableStream ? pieces(data) : iterate(data);
  if (streamsRequests) return { body: toStream(generator), repeatable: false };
  const collected: BlobPart[] = [];
  for await (const piece of generator) collected.push(piece as Uint8Array<ArrayBuffer>);
  return { body: new Blob(collected), repeatable: true };
}

async function* iterate(data: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  yield* data;
}
