// OpenAI's tools of the Responses API: `shell` (and the older `local_shell`) and `apply_patch`.

import { toText } from "../bytes.js";
import type { Computer } from "../computer.js";
import { ApiError } from "../errors.js";
import type { Files } from "../files.js";
import type { CallOptions } from "../schema.js";
import { PatchError, type PatchOperation, applyDiff, createdContent, parsePatch } from "./patch.js";
import { ModelShell, type ShellOptions } from "./shell.js";

export interface ShellCall {
  type: "shell_call";
  call_id: string;
  action: { commands: string[]; timeout_ms?: number | null; max_output_length?: number | null };
}

export interface ShellCallOutput {
  type: "shell_call_output";
  call_id: string;
  max_output_length?: number;
  output: { stdout: string; stderr: string; outcome: { type: "exit"; exit_code: number } | { type: "timeout" } }[];
}

export interface LocalShellCall {
  type: "local_shell_call";
  call_id: string;
  action: { command: string[]; env?: Record<string, string>; timeout_ms?: number | null; working_directory?: string | null };
}

export interface LocalShellCallOutput {
  type: "local_shell_call_output";
  call_id: string;
  output: string;
}

export interface ApplyPatchCall {
  type: "apply_patch_call";
  call_id: string;
  operation: { type: "create_file" | "update_file"; path: string; diff: string } | { type: "delete_file"; path: string };
}

export interface ApplyPatchCallOutput {
  type: "apply_patch_call_output";
  call_id: string;
  status: "completed" | "failed";
  output: string;
}

export type OpenAIToolCall = ShellCall | LocalShellCall | ApplyPatchCall;
export type OpenAIToolOutput = ShellCallOutput | LocalShellCallOutput | ApplyPatchCallOutput;

/** Commands that share a shell, one after another. */
export class ShellTool {
  readonly definition = { type: "shell" } as const;
  readonly #shell: ModelShell;

  constructor(computer: Computer, options: ShellOptions = {}) {
    this.#shell = new ModelShell(computer, options);
  }

  async run({ call_id, action }: ShellCall, options: CallOptions = {}): Promise<ShellCallOutput> {
    const limit = action.max_output_length ?? this.#shell.maxCharacters;
    const output: ShellCallOutput["output"] = [];
    for (const command of action.commands) {
      const result = await this.#shell.exec(command, { timeoutMs: action.timeout_ms ?? undefined, signal: options.signal });
      output.push({
        stdout: this.#shell.stdout(result, limit),
        stderr: this.#shell.stderr(result, limit),
        outcome: result.timedOut ? { type: "timeout" } : { type: "exit", exit_code: result.exitCode },
      });
    }
    const made: ShellCallOutput = { type: "shell_call_output", call_id, output };
    if (action.max_output_length != null) made.max_output_length = action.max_output_length;
    return made;
  }

  /** The older shape: one program with its arguments, in the same shell. */
  async runLocal({ call_id, action }: LocalShellCall, options: CallOptions = {}): Promise<LocalShellCallOutput> {
    const result = await this.#shell.exec(action.command.map(quote).join(" "), {
      timeoutMs: action.timeout_ms ?? undefined,
      ...(action.working_directory ? { cwd: action.working_directory } : {}),
      ...(action.env ? { env: action.env } : {}),
      signal: options.signal,
    });
    const output = {
      stdout: this.#shell.stdout(result), stderr: this.#shell.stderr(result), exit_code: result.exitCode, timed_out: result.timedOut,
    };
    return { type: "local_shell_call_output", call_id, output: JSON.stringify(output) };
  }

  /** Ends the shell. */
  close(): Promise<void> {
    return this.#shell.restart();
  }
}

function quote(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

/** Creates, changes and deletes files by patches. */
export class ApplyPatchTool {
  readonly definition = { type: "apply_patch" } as const;
  readonly #files: Files;

  constructor(computer: Computer) {
    this.#files = computer.files;
  }

  async run({ call_id, operation }: ApplyPatchCall, options: CallOptions = {}): Promise<ApplyPatchCallOutput> {
    try {
      const output = await this.#apply([operation], options);
      return { type: "apply_patch_call_output", call_id, status: "completed", output };
    } catch (error) {
      // A patch that does not fit is told to the model; a lost connection is the caller's matter.
      if (error instanceof PatchError) return { type: "apply_patch_call_output", call_id, status: "failed", output: error.message };
      if (!(error instanceof ApiError) || error.status >= 500) throw error;
      return { type: "apply_patch_call_output", call_id, status: "failed", output: error.detail };
    }
  }

  /** Applies a whole patch (`*** Begin Patch` …). Nothing is changed when a part of it does not fit. */
  applyPatch(patch: string, options: CallOptions = {}): Promise<string> {
    return this.#apply(parsePatch(patch), options);
  }

  async #apply(operations: readonly PatchOperation[], options: CallOptions): Promise<string> {
    const steps: { say: string; act: () => Promise<unknown> }[] = [];
    for (const operation of operations) steps.push(await this.#plan(operation, options));
    for (const { act } of steps) await act();
    return steps.map(({ say }) => say).join("\n");
  }

  /** What is to be done, after a look at whether it can be. */
  async #plan(operation: PatchOperation, options: CallOptions): Promise<{ say: string; act: () => Promise<unknown> }> {
    const { path } = operation;
    if (operation.type === "delete_file") {
      const { kind } = await this.#files.stat(path, { follow: false, ...options });
      if (kind === "directory") throw new PatchError(`${path} is a directory`);
      return { say: `deleted ${path}`, act: () => this.#files.remove(path, options) };
    }
    if (operation.type === "create_file") {
      if (await this.#files.exists(path, options)) throw new PatchError(`${path} is there already; update it instead`);
      const content = createdContent(operation.diff);
      return { say: `created ${path}`, act: () => this.#files.write(path, content, { ifAbsent: true, ...options }) };
    }
    const changed = this.#changed(path, operation.diff, toText(await this.#files.readBytes(path, options)));
    const { moveTo } = operation;
    if (moveTo === undefined) return { say: `updated ${path}`, act: () => this.#files.write(path, changed, options) };
    if (await this.#files.exists(moveTo, options)) throw new PatchError(`${moveTo} is there already`);
    const act = async (): Promise<void> => {
      await this.#files.move(path, moveTo, { parents: true, ...options });
      await this.#files.write(moveTo, changed, options);
    };
    return { say: `updated ${path} and moved it to ${moveTo}`, act };
  }

  #changed(path: string, diff: string, text: string): string {
    try {
      return applyDiff(text, diff);
    } catch (error) {
      throw error instanceof PatchError ? new PatchError(`${path}: ${error.message}`) : error;
    }
  }
}

/** Both tools: `definitions` for the request, `run` for each call of the answer. */
export class OpenAITools {
  readonly shell: ShellTool;
  readonly applyPatch: ApplyPatchTool;
  readonly definitions;

  constructor(computer: Computer, options: ShellOptions = {}) {
    this.shell = new ShellTool(computer, options);
    this.applyPatch = new ApplyPatchTool(computer);
    this.definitions = [this.shell.definition, this.applyPatch.definition] as const;
  }

  /** Runs a call; the output goes into the input of the next request. */
  run(call: OpenAIToolCall, options: CallOptions = {}): Promise<OpenAIToolOutput> {
    if (call.type === "shell_call") return this.shell.run(call, options);
    if (call.type === "local_shell_call") return this.shell.runLocal(call, options);
    return this.applyPatch.run(call, options);
  }

  /** Ends the shell. */
  close(): Promise<void> {
    return this.shell.close();
  }
}
