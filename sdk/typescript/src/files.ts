/// <reference lib="esnext.disposable" preserve="true" />

// Files of the sandbox, with the rights of its user.

import { type StreamData, concat, pieces, toStream, toText } from "./bytes.js";
import { InvalidRequestError, NotFoundError, SandshellError, problemError } from "./errors.js";
import { followBytes, followEvents, openEvents } from "./resume.js";
import type {
  ArchiveCounts, CallOptions, ChangesReply, CopyReply, FileEntry, FileEvent, FindReply, Problem, RemoveReply, RequestOptions, SearchMatch,
  SearchReply, SearchSummary, WatchReady, Wire,
} from "./schema.js";
import type { Scope } from "./scope.js";
import { type ServerEvent, readEvents } from "./sse.js";
import { type Camel, fromWire, toWire } from "./wire.js";
import type { Query } from "./transport.js";

/** Whose rights and which directory a call has. */
export interface FileOptions extends CallOptions {
  /** A name or uid; the sandbox's user by default. */
  user?: string | undefined;
  /** Relative paths start at this session's directory. */
  session?: string | undefined;
}

export interface ReadOptions extends FileOptions {
  /** The first byte, 0 by default. */
  offset?: number | undefined;
  /** At most so many bytes. */
  length?: number | undefined;
}

export interface WriteOptions extends FileOptions {
  /** Permission bits in octal, such as `0755`. */
  mode?: string | undefined;
  /** `false`: missing directories are not made. */
  parents?: boolean | undefined;
  /** Adds to the end instead of replacing. */
  append?: boolean | undefined;
  /** Answers when the bytes are on the disk. */
  durable?: boolean | undefined;
  modifiedAt?: string | undefined;
  /** Writes only over the version with this ETag. */
  ifMatch?: string | undefined;
  /** Writes only where nothing is. */
  ifAbsent?: boolean | undefined;
}

export interface ListOptions extends FileOptions {
  recursive?: boolean | undefined;
  /** `false` leaves out names that begin with a dot. */
  hidden?: boolean | undefined;
}

export interface ArchiveOptions extends FileOptions {
  format?: "tar" | "tar.gz" | "tar.zst" | undefined;
  exclude?: readonly string[] | undefined;
  gitignore?: boolean | undefined;
  skipUnreadable?: boolean | undefined;
}

export interface WatchOptions extends FileOptions {
  /** `false`: only what is in the directory itself. */
  recursive?: boolean | undefined;
  include?: readonly string[] | undefined;
  exclude?: readonly string[] | undefined;
}

type PathRequest<Name extends keyof Wire> = RequestOptions<Name, "path" | "pathBase64" | "from" | "fromBase64" | "to" | "toBase64"> & CallOptions;

/** A change of a file; or that some were missed (`rescan`: list again); or that the watch is over. */
export type WatchEvent =
  | FileEvent
  | ({ change: "rescan" } & Camel<Wire["RescanEvent"]>)
  | ({ change: "end" } & Camel<Wire["WatchEndEvent"]>);

export class Files {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** The file as text. */
  async readText(path: string, options: ReadOptions = {}): Promise<string> {
    return toText(await this.readBytes(path, options));
  }

  /** The file's bytes. */
  async readBytes(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const collected: Uint8Array[] = [];
    for await (const piece of this.#read(path, options)) collected.push(piece);
    return concat(collected);
  }

  /** The file's bytes, as they are read; of any length. */
  readStream(path: string, options: ReadOptions = {}): ReadableStream<Uint8Array> {
    return toStream(this.#read(path, options));
  }

  async *#read(path: string, options: ReadOptions): AsyncGenerator<Uint8Array, void, undefined> {
    const { user, session, signal, offset = 0, length } = options;
    if (length === 0) return;
    const end = length === undefined ? undefined : offset + length;
    let etag: string | null = null;
    const open = async (at: number): Promise<Response> => {
      const headers: Record<string, string> = {};
      if (at > 0 || end !== undefined) headers["range"] = `bytes=${at}-${end === undefined ? "" : end - 1}`;
      // The rest of a file that has changed meanwhile would not be the rest.
      if (etag) headers["if-match"] = etag;
      try {
        const response = await this.#scope.transport.send("GET", `${this.#scope.prefix}/files/content`, {
          query: { path, user, session }, headers, accept: "application/octet-stream", signal,
        });
        etag ??= response.headers.get("etag");
        return response;
      } catch (error) {
        // Of an empty file no byte can be asked for, nor behind the last.
        const nothingLeft = error instanceof InvalidRequestError && error.code === "range_not_satisfiable" && (offset === 0 || at > offset);
        if (nothingLeft) return new Response(new Uint8Array());
        throw error;
      }
    };
    yield* followBytes(this.#scope.transport, JSON.stringify(path), open, offset, signal);
  }

  /** Writes a file, all of it or nothing: readers see the old content or the new. Missing directories are made. */
  write(path: string, data: StreamData, options: WriteOptions = {}): Promise<FileEntry> {
    const { signal, ifMatch, ifAbsent, ...rest } = options;
    const headers: Record<string, string> = {};
    if (ifMatch) headers["if-match"] = ifMatch;
    if (ifAbsent) headers["if-none-match"] = "*";
    const query = toWire({ path, ...rest }) as Query;
    // A second try of these would not do the same.
    const repeatable = !options.append && !ifMatch && !ifAbsent;
    return this.#scope.transport.json("PUT", `${this.#scope.prefix}/files/content`, { query, data, headers, signal, repeatable });
  }

  /** What is in a directory, in the order of names; what is below comes right after its directory. */
  list(path: string, options: ListOptions = {}): Promise<FileEntry[]> {
    const { signal, ...query } = options;
    return this.#scope.list("/files", { path, ...query }, signal);
  }

  /** The same one by one, without holding all of it. */
  entries(path: string, options: ListOptions = {}): AsyncGenerator<FileEntry, void, undefined> {
    const { signal, ...query } = options;
    return this.#scope.transport.items(`${this.#scope.prefix}/files`, { path, ...query }, signal);
  }

  /** What is at a path; `follow: false` for a symbolic link itself. */
  stat(path: string, options: FileOptions & { follow?: boolean } = {}): Promise<FileEntry> {
    const { signal, ...query } = options;
    return this.#scope.get("/files/stat", { query: { path, ...query }, signal });
  }

  /** Whether something is at a path. */
  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof NotFoundError && error.code === "file_not_found") return false;
      throw error;
    }
  }

  mkdir(path: string, options: PathRequest<"MkdirRequest"> = {}): Promise<FileEntry> {
    return this.#post("mkdir", { path, ...options });
  }

  /** `to` is the new path itself, not a directory to put it in. */
  move(from: string, to: string, options: PathRequest<"MoveRequest"> = {}): Promise<FileEntry> {
    return this.#post("move", { from, to, ...options });
  }

  copy(from: string, to: string, options: PathRequest<"CopyRequest"> = {}): Promise<CopyReply> {
    return this.#post("copy", { from, to, ...options });
  }

  remove(path: string, options: PathRequest<"RemoveRequest"> = {}): Promise<RemoveReply> {
    return this.#post("remove", { path, ...options });
  }

  /** Sets permission bits, in octal, such as `0755`. */
  chmod(path: string, mode: string, options: Omit<PathRequest<"ChmodRequest">, "mode"> = {}): Promise<{ changed: number }> {
    return this.#post("chmod", { path, mode, ...options });
  }

  /** Entries below a directory, by globs and kind. */
  find(path: string, options: PathRequest<"FindRequest"> = {}): Promise<FindReply> {
    return this.#post("find", { path, ...options });
  }

  /** Lines below a path that match a pattern. */
  search(path: string, pattern: string, options: Omit<PathRequest<"SearchRequest">, "pattern"> = {}): Promise<SearchReply> {
    return this.#post("search", { path, pattern, ...options });
  }

  /** The same as they are found; the summary is what the loop returns. */
  async *searchStream(
    path: string, pattern: string, options: Omit<PathRequest<"SearchRequest">, "pattern"> = {},
  ): AsyncGenerator<SearchMatch, SearchSummary, undefined> {
    const { signal, ...json } = options;
    const response = await this.#scope.transport.send("POST", `${this.#scope.prefix}/files/search`, {
      json: { path, pattern, ...json }, accept: "text/event-stream", signal,
    });
    for await (const event of readEvents(response.body as ReadableStream<Uint8Array>)) {
      if (event.event === "match") yield fromWire(JSON.parse(event.data) as Wire["SearchMatch"]);
      else if (event.event === "done") return fromWire(JSON.parse(event.data) as Wire["SearchSummary"]);
      else if (event.event === "error") throw problemError(fromWire(JSON.parse(event.data)) as Problem);
    }
    throw new SandshellError("the search broke off");
  }

  #post<T>(verb: string, options: CallOptions & Record<string, unknown>): Promise<T> {
    const { signal, ...json } = options;
    return this.#scope.post(`/files/${verb}`, json, signal);
  }

  /** A directory as a tar archive. */
  downloadArchive(path: string, options: ArchiveOptions = {}): ReadableStream<Uint8Array> {
    const { signal, exclude, ...rest } = options;
    const query = toWire({ path, ...rest, exclude: exclude?.join(",") }) as Query;
    const scope = this.#scope;
    // An archive is made while it is sent, so one that breaks off begins anew, with the next call.
    async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
      const response = await scope.transport.send("GET", `${scope.prefix}/files/archive`, { query, accept: "*/*", signal });
      if (response.body) yield* pieces(response.body);
    }
    return toStream(read());
  }

  /** Unpacks a tar archive (plain, gzip or zstd) into a directory, all of it or nothing. */
  uploadArchive(path: string, data: StreamData, options: FileOptions = {}): Promise<ArchiveCounts> {
    const { signal, ...query } = options;
    const headers = { "content-type": "application/x-tar" };
    return this.#scope.transport.json("PUT", `${this.#scope.prefix}/files/archive`, { query: { path, ...query }, data, headers, signal });
  }

  /** Whether anything changed since a version; without `since` a version to begin with. */
  changes(path: string, options: PathRequest<"ChangesRequest"> = {}): Promise<ChangesReply> {
    return this.#post("changes", { path, ...options });
  }

  /** Watches a path; resolved when every change from now on will be told. */
  async watch(path: string, options: WatchOptions = {}): Promise<Watch> {
    const { signal, include, exclude, ...rest } = options;
    const stop = new AbortController();
    const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
    const query: Query = { path, ...rest, include: include?.join(","), exclude: exclude?.join(",") };
    const open = openEvents(this.#scope.transport, `${this.#scope.prefix}/files/watch`, query, both);
    const events = followEvents(this.#scope.transport, "the watch", { open, isLast: (event) => event.event === "end", signal: both });
    for await (const event of keepOpen(events)) {
      if (event.event === "ready") return new Watch(fromWire(JSON.parse(event.data) as Wire["WatchReadyEvent"]), events, stop);
    }
    throw new SandshellError("the watch ended before it began");
  }
}

/** Iterates without ending the generator when the loop is left. */
function keepOpen<T>(generator: AsyncGenerator<T, void, undefined>): AsyncIterable<T> {
  return { [Symbol.asyncIterator]: () => ({ next: () => generator.next() }) };
}

/** Changes below a path, over as many connections as it takes. */
export class Watch implements AsyncIterable<WatchEvent>, AsyncDisposable {
  readonly #events: AsyncGenerator<ServerEvent, void, undefined>;
  readonly #stop: AbortController;

  /** @internal */
  constructor(
    /** Where it began. */
    readonly ready: WatchReady,
    events: AsyncGenerator<ServerEvent, void, undefined>,
    stop: AbortController,
  ) {
    this.#events = events;
    this.#stop = stop;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent, void, undefined> {
    try {
      for await (const { event, data } of keepOpen(this.#events)) {
        // A resumed stream says `ready` again.
        if (event === "ready") continue;
        const told = fromWire(JSON.parse(data) as object);
        yield (event === "rescan" || event === "end" ? { change: event, ...told } : told) as WatchEvent;
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  /** Ends the watch, and the loop over it. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#events.return().catch(() => undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
