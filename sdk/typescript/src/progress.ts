// A request that tells how far it is. One that broke off is sent again with its key, which waits for the same work.

import { problemError } from "./errors.js";
import { followEvents } from "./resume.js";
import type { Problem } from "./schema.js";
import type { Scope } from "./scope.js";
import { fromWire } from "./wire.js";

export async function postWithProgress<Reply, Progress>(
  scope: Scope,
  path: string,
  json: unknown,
  done: string,
  onProgress: (progress: Progress) => void,
  signal?: AbortSignal,
): Promise<Reply> {
  const idempotencyKey = crypto.randomUUID();
  const open = (): Promise<Response> =>
    scope.transport.send("POST", scope.prefix + path, { json, accept: "text/event-stream", signal, idempotencyKey });
  const isLast = (event: { event: string }): boolean => event.event === done || event.event === "error";
  for await (const { event, data } of followEvents(scope.transport, path, { open, isLast, signal })) {
    const told: unknown = fromWire(JSON.parse(data) as object);
    if (event === "progress") onProgress(told as Progress);
    else if (event === "error") throw problemError(told as Problem);
    else if (event === done) return told as Reply;
  }
  throw new Error("unreachable: the events end with the last one");
}
