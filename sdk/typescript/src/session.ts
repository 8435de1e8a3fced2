// A session: commands that share one shell.
//
// A command has an id from the start, chosen here. So one whose connection was lost is found again: its
// output goes on after the last event, and the same request once more gives its result.
//
// The server runs commands in the order of their arrival. Requests may overtake each other on the way, so
// of one `Session` the next is sent when the one before has been answered.

import { ApiError, CommandFailedError } from "./errors.js";
import { OutputReader, type OutputChunk, type OutputGap, SessionExecResult, type StreamName } from "./output.js";
import { type Command, type InputOptions, Process, type ProcessOptions, type RawOutputOptions, commandFields, ignoreMissing, outputBytes } from "./process.js";
import { followEvents, openEvents } from "./resume.js";
import type { CallOptions, CommandRecord, InterruptReply, KillReply, ProcessRecord, RequestOptions, SessionRecord, Wire } from "./schema.js";
import type { Scope } from "./scope.js";
import { delay, segment } from "./transport.js";
import { type Camel, fromWire } from "./wire.js";

export interface SessionOptions extends RequestOptions<"SessionRequest">, CallOptions {}

export interface SessionExecOptions
  extends RequestOptions<"SessionExecRequest", "command" | "stdin" | "stdinEncoding" | "encoding">, InputOptions, CallOptions {
  /** An exit code other than 0 is thrown as a `CommandFailedError`. */
  check?: boolean | undefined;
}

/** The end of a command of a session; always last. */
export type SessionExit = { readonly type: "exit" } & Camel<Wire["SessionExitEvent"]>;

export type SessionEvent = { readonly type: "command"; readonly commandId: string } | OutputChunk | OutputGap | SessionExit;

export class Session implements AsyncDisposable {
  readonly id: string;
  readonly #scope: Scope;
  readonly #path: string;
  /** Resolved when the last command that was called for has arrived. */
  #arrived: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(scope: Scope, id: string) {
    this.id = id;
    this.#scope = scope;
    this.#path = `/sessions/${segment(id)}`;
  }

  /** What is known of it now, with what runs in the foreground. */
  record(options: CallOptions = {}): Promise<SessionRecord> {
    return this.#scope.get(this.#path, options);
  }

  /** Changes environment, timeout, cap, idle timeout or limits, from the next command on. */
  update(patch: RequestOptions<"SessionPatch"> & CallOptions): Promise<SessionRecord> {
    const { signal, ...json } = patch;
    return this.#scope.patch(this.#path, json, signal);
  }

  /** Runs a command in its turn and gives the result. An abort interrupts it; the shell stays. */
  async exec(command: string, options: SessionExecOptions = {}): Promise<SessionExecResult> {
    const { signal, check, ...json } = this.#request(command, options);
    const arrived = await this.#turn(signal);
    try {
      const result = new SessionExecResult(await this.#scope.post(`${this.#path}/exec`, json, signal));
      if (check && !result.ok) throw new CommandFailedError(command, result);
      return result;
    } catch (error) {
      if (signal?.aborted) await this.#cancel(json.id);
      throw error;
    } finally {
      arrived();
    }
  }

  /**
   * Runs a command in its turn and tells what it writes, as it writes it, and at last how it ended.
   * Leaving the loop early interrupts the command; the shell stays.
   */
  async *execStream(command: string, options: SessionExecOptions = {}): AsyncGenerator<SessionEvent, void, undefined> {
    const { signal, check, ...json } = this.#request(command, options);
    const { transport, prefix } = this.#scope;
    const path = `${prefix}${this.#path}/exec`;
    const resume = openEvents(transport, `${prefix}${this.#path}/commands/${segment(json.id)}/output`, {}, signal);
    let resumed = false;
    let accepted = false;
    let over = false;
    const open = async (lastId: string | undefined): Promise<Response> => {
      resumed = accepted;
      if (accepted) return resume(lastId);
      const response = await transport.send("POST", path, { json, accept: "text/event-stream", signal });
      accepted = true;
      arrived();
      return response;
    };
    const reader = new OutputReader();
    const arrived = await this.#turn(signal);
    let begun = false;
    try {
      for await (const event of followEvents(transport, "the command", { open, isLast: (event) => event.event === "exit", signal })) {
        if (!begun) yield { type: "command", commandId: json.id };
        begun = true;
        const output = reader.read(event);
        if (output) yield output;
        if (event.event !== "exit") continue;
        over = true;
        // The exit of a resumed stream says less; the same request again gives all of it, and runs nothing.
        const exit: SessionExit = resumed
          ? { type: "exit", ...withoutOutput(await transport.json<Camel<Wire["SessionExecResult"]>>("POST", path, { json, signal })) }
          : { type: "exit", ...fromWire(JSON.parse(event.data) as Wire["SessionExitEvent"]) };
        yield exit;
        if (check && exit.exitCode !== 0) throw new CommandFailedError(command, { exitCode: exit.exitCode ?? -1, stdout: "", stderr: "" });
      }
    } catch (error) {
      if (error instanceof ApiError && !accepted) over = true;
      throw error;
    } finally {
      arrived();
      if (!over) await this.#cancel(json.id);
    }
  }

  /** Waits until the commands before have arrived; what it gives is called when this one has. */
  async #turn(signal?: AbortSignal): Promise<() => void> {
    const before = this.#arrived;
    let arrived = (): void => undefined;
    this.#arrived = new Promise((resolve) => (arrived = resolve));
    if (!signal) {
      await before;
      return arrived;
    }
    let stop = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason as Error);
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
    });
    try {
      await Promise.race([before, aborted]);
      return arrived;
    } catch (error) {
      // Given up before its turn: those behind it still wait for those before it.
      void before.then(arrived);
      throw error;
    } finally {
      signal.removeEventListener("abort", stop);
      aborted.catch(() => undefined);
    }
  }

  #request(command: string, options: SessionExecOptions) {
    const { stdin, id, ...rest } = options;
    return { ...rest, ...commandFields(command, stdin), id: id ?? `cmd_${crypto.randomUUID().replaceAll("-", "")}` };
  }

  /** Interrupts a command of ours if it runs, or as soon as its turn has come; its request may still be on the way. */
  async #cancel(id: string): Promise<void> {
    for (let missing = 0; missing < 5; ) {
      const state = await this.command(id).then((record) => record.state, (error: unknown) => (isMissing(error) ? "missing" : "unknown"));
      if (state === "running") await this.interrupt().catch(() => undefined);
      if (state !== "queued" && state !== "missing") return;
      if (state === "missing") missing += 1;
      await delay(20);
    }
  }

  /** Ends the command that runs, if one does; answers when it is really over. The shell stays. */
  interrupt(options: CallOptions = {}): Promise<InterruptReply> {
    return this.#scope.post(`${this.#path}/interrupt`, undefined, options.signal);
  }

  /** Another session with a copy of the state. */
  async fork(options: { id?: string } & CallOptions = {}): Promise<Session> {
    const { signal, ...json } = options;
    const record = await this.#scope.post<SessionRecord>(`${this.#path}/fork`, json, signal);
    return new Session(this.#scope, record.id);
  }

  /** Starts a process from a copy of the session's state; it writes nothing back. */
  async startProcess(command: Command, options: Omit<ProcessOptions, "session"> = {}): Promise<Process> {
    const { signal, stdin, ...rest } = options;
    const json = { ...rest, ...commandFields(command, stdin), session: this.id };
    const record = await this.#scope.post<ProcessRecord>("/processes", json, signal);
    return new Process(this.#scope, record.id);
  }

  /** Its history, oldest first. */
  commands(options: CallOptions = {}): Promise<CommandRecord[]> {
    return this.#scope.list(`${this.#path}/commands`, {}, options.signal);
  }

  /** One command of its history. */
  command(id: string, options: CallOptions = {}): Promise<CommandRecord> {
    return this.#scope.get(`${this.#path}/commands/${segment(id)}`, options);
  }

  /** The bytes of one stream of a command; `late_stdout` and `late_stderr` are of what it left behind. */
  commandOutput(id: string, stream: StreamName = "stdout", options: RawOutputOptions = {}): ReadableStream<Uint8Array> {
    return outputBytes(this.#scope, `${this.#path}/commands/${segment(id)}/output`, stream, options);
  }

  /** Ends the session and all it runs. */
  delete(options: CallOptions = {}): Promise<KillReply> {
    return this.#scope.delete(this.#path, options.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.code === "command_not_found";
}

function withoutOutput(result: Camel<Wire["SessionExecResult"]>): Camel<Wire["SessionExitEvent"]> {
  const { stdout, stderr, stdoutEncoding, stderrEncoding, truncated, ...exit } = result;
  return exit;
}
