// Backups of directories.

import { pieces, toStream } from "./bytes.js";
import { postWithProgress } from "./progress.js";
import type { BackupProgress, BackupRecord, CallOptions, RequestOptions, RestoreReply } from "./schema.js";
import type { Scope } from "./scope.js";
import { segment } from "./transport.js";

export interface BackupOptions extends RequestOptions<"BackupRequest", "path">, CallOptions {
  onProgress?: ((progress: BackupProgress) => void) | undefined;
}

export interface RestoreOptions extends RequestOptions<"RestoreRequest">, CallOptions {
  onProgress?: ((progress: BackupProgress) => void) | undefined;
}

export class Backups {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Saves a directory; answers when that is done. */
  create(path: string, options: BackupOptions = {}): Promise<BackupRecord> {
    const { signal, onProgress, ...rest } = options;
    const json = { path, ...rest };
    if (!onProgress) return this.#scope.post("/backups", json, signal);
    return postWithProgress(this.#scope, "/backups", json, "backup", onProgress, signal);
  }

  list(options: CallOptions = {}): Promise<BackupRecord[]> {
    return this.#scope.list("/backups", {}, options.signal);
  }

  get(id: string, options: CallOptions = {}): Promise<BackupRecord> {
    return this.#scope.get(`/backups/${segment(id)}`, options);
  }

  /** Puts it in the place of the directory it was made of, or of `path`; all of it or nothing. */
  restore(id: string, options: RestoreOptions = {}): Promise<RestoreReply> {
    const { signal, onProgress, ...json } = options;
    const path = `/backups/${segment(id)}/restore`;
    if (!onProgress) return this.#scope.post(path, json, signal);
    return postWithProgress(this.#scope, path, json, "restored", onProgress, signal);
  }

  /** Its archive, a zstd tar. */
  download(id: string, options: CallOptions = {}): ReadableStream<Uint8Array> {
    const scope = this.#scope;
    async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
      const path = `${scope.prefix}/backups/${segment(id)}/content`;
      const response = await scope.transport.send("GET", path, { accept: "*/*", signal: options.signal });
      if (response.body) yield* pieces(response.body);
    }
    return toStream(read());
  }

  delete(id: string, options: CallOptions = {}): Promise<BackupRecord> {
    return this.#scope.delete(`/backups/${segment(id)}`, options.signal);
  }
}
