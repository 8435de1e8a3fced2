// Anthropic's tools: bash (`bash_20250124`) and the text editor (`text_editor_20250728`).

import { type Computer } from "../computer.js";
import { ApiError } from "../errors.js";
import type { Files } from "../files.js";
import type { CallOptions } from "../schema.js";
import { toText } from "../bytes.js";
import { excerpt } from "./excerpt.js";
import { ModelShell, type ShellOptions } from "./shell.js";

/** What a model is told. */
export interface ToolResult {
  content: string;
  isError: boolean;
}

export interface BashInput {
  command?: string;
  restart?: boolean;
}

/** The bash tool: commands that share a shell. */
export class BashTool {
  readonly definition = { type: "bash_20250124", name: "bash" } as const;
  readonly #shell: ModelShell;

  constructor(computer: Computer, options: ShellOptions = {}) {
    this.#shell = new ModelShell(computer, options);
  }

  async run(input: BashInput, options: CallOptions = {}): Promise<ToolResult> {
    if (input.restart) {
      await this.#shell.restart();
      return { content: "the shell was restarted", isError: false };
    }
    if (typeof input.command !== "string") return { content: "`command` is missing", isError: true };
    const result = await this.#shell.exec(input.command, options);
    const half = result.stdout && result.stderr ? Math.floor(this.#shell.maxCharacters / 2) : this.#shell.maxCharacters;
    const parts = [this.#shell.stdout(result, half), this.#shell.stderr(result, half)].filter((part) => part !== "");
    if (result.timedOut) parts.push(`[interrupted after ${this.#shell.timeoutMs} ms; the shell and its state are kept]`);
    else if (result.exitCode !== 0) parts.push(`[exit code ${result.exitCode}]`);
    if (result.sessionState !== "kept") parts.push(`[the shell ended; its state: ${result.sessionState}]`);
    const content = parts.map((part) => (part.endsWith("\n") ? part : `${part}\n`)).join("").trimEnd();
    return { content: content || "[no output]", isError: result.timedOut };
  }

  /** Ends the shell. */
  close(): Promise<void> {
    return this.#shell.restart();
  }
}

export interface EditorInput {
  command: string;
  path: string;
  view_range?: [number, number] | undefined;
  file_text?: string | undefined;
  old_str?: string | undefined;
  new_str?: string | undefined;
  insert_line?: number | undefined;
  insert_text?: string | undefined;
}

/** A mistake that the model can correct. */
class EditorMistake extends Error {}

/** The text editor: view, create, str_replace, insert. */
export class TextEditorTool {
  readonly definition: { readonly type: "text_editor_20250728"; readonly name: "str_replace_based_edit_tool"; readonly max_characters?: number };
  readonly #files: Files;
  readonly #maxCharacters: number;

  constructor(computer: Computer, options: { maxCharacters?: number | undefined } = {}) {
    this.#files = computer.files;
    this.#maxCharacters = options.maxCharacters ?? 30_000;
    this.definition = { type: "text_editor_20250728", name: "str_replace_based_edit_tool" };
    if (options.maxCharacters !== undefined) this.definition = { ...this.definition, max_characters: options.maxCharacters };
  }

  async run(input: EditorInput, options: CallOptions = {}): Promise<ToolResult> {
    try {
      return { content: await this.#run(input, options), isError: false };
    } catch (error) {
      if (error instanceof EditorMistake) return { content: error.message, isError: true };
      // What the sandbox refuses is told to the model; a lost connection is the caller's matter.
      if (error instanceof ApiError && error.status < 500) return { content: error.detail, isError: true };
      throw error;
    }
  }

  #run(input: EditorInput, options: CallOptions): Promise<string> {
    if (typeof input.path !== "string") throw new EditorMistake("`path` is missing");
    switch (input.command) {
      case "view":
        return this.#view(input, options);
      case "create":
        return this.#create(input, options);
      case "str_replace":
        return this.#replace(input, options);
      case "insert":
        return this.#insert(input, options);
      default:
        throw new EditorMistake(`there is no command ${JSON.stringify(input.command)}: it is view, create, str_replace or insert`);
    }
  }

  async #view({ path, view_range }: EditorInput, options: CallOptions): Promise<string> {
    const { kind } = await this.#files.stat(path, options);
    if (kind === "directory") return this.#directory(path, options);
    const text = await this.#text(path, options);
    const lines = text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    let [first, last] = [1, lines.length];
    if (view_range) {
      [first, last] = [view_range[0], view_range[1] === -1 ? lines.length : view_range[1]];
      if (first < 1 || last < first || first > Math.max(1, lines.length)) {
        throw new EditorMistake(`view_range [${view_range.join(", ")}] is not within the ${lines.length} lines of ${path}`);
      }
    }
    const numbered = lines.slice(first - 1, last).map((line, index) => `${String(first + index).padStart(6)}\t${line}`);
    return excerpt(numbered.join("\n"), this.#maxCharacters) || "[the file is empty]";
  }

  async #directory(path: string, options: CallOptions): Promise<string> {
    const { items, truncated } = await this.#files.find(path, { maxDepth: 2, hidden: false, gitignore: false, limit: 1000, ...options });
    const names = items.map((entry) => (entry.kind === "directory" ? `${entry.path}/` : entry.path)).sort();
    if (truncated) names.push("[… more than these …]");
    return excerpt([`${path}, up to two levels deep, without hidden names:`, ...names].join("\n"), this.#maxCharacters);
  }

  async #create({ path, file_text }: EditorInput, options: CallOptions): Promise<string> {
    if (typeof file_text !== "string") throw new EditorMistake("`file_text` is missing");
    const existed = await this.#files.exists(path, options);
    await this.#files.write(path, file_text, options);
    return existed ? `${path} was replaced` : `${path} was created`;
  }

  async #replace({ path, old_str, new_str = "" }: EditorInput, options: CallOptions): Promise<string> {
    if (typeof old_str !== "string" || old_str === "") throw new EditorMistake("`old_str` is missing");
    const text = await this.#text(path, options);
    const at = text.indexOf(old_str);
    if (at < 0) throw new EditorMistake(`\`old_str\` is not in ${path}; it must match exactly, white space included. Nothing was changed`);
    const lines = placesOf(text, old_str);
    if (lines.length > 1) {
      throw new EditorMistake(`\`old_str\` is ${lines.length} times in ${path}, at lines ${lines.join(", ")}; add lines around it until it is there once. Nothing was changed`);
    }
    const changed = text.slice(0, at) + new_str + text.slice(at + old_str.length);
    await this.#files.write(path, changed, options);
    return `${path} was changed:\n${around(changed, at, new_str.length)}`;
  }

  async #insert({ path, insert_line, insert_text, new_str }: EditorInput, options: CallOptions): Promise<string> {
    const inserted = insert_text ?? new_str;
    if (typeof insert_line !== "number" || typeof inserted !== "string") throw new EditorMistake("`insert_line` or `insert_text` is missing");
    const text = await this.#text(path, options);
    const lines = text.split("\n");
    const count = lines.at(-1) === "" ? lines.length - 1 : lines.length;
    if (!Number.isInteger(insert_line) || insert_line < 0 || insert_line > count) {
      throw new EditorMistake(`insert_line ${insert_line} is not between 0 and ${count}, the number of lines of ${path}. Nothing was changed`);
    }
    const before = lines.slice(0, insert_line).map((line) => `${line}\n`).join("");
    // The last line may have no end of its own, and then the text ends without one, too.
    const after = lines.slice(insert_line).join("\n");
    const piece = after === "" && !text.endsWith("\n") && text !== "" ? inserted.replace(/\n$/, "") : inserted.endsWith("\n") ? inserted : `${inserted}\n`;
    const changed = before + piece + after;
    await this.#files.write(path, changed, options);
    return `${path} was changed:\n${around(changed, before.length, piece.length)}`;
  }

  async #text(path: string, options: CallOptions): Promise<string> {
    const bytes = await this.#files.readBytes(path, options);
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new EditorMistake(`${path} is not a text file`);
    }
    return toText(bytes);
  }
}

/** The lines where a text begins. */
function placesOf(text: string, part: string): number[] {
  const lines: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) lines.push(text.slice(0, at).split("\n").length);
  return lines;
}

/** The changed lines with four around them, numbered. */
function around(text: string, at: number, length: number): string {
  const lines = text.split("\n");
  const first = text.slice(0, at).split("\n").length;
  const last = text.slice(0, at + length).split("\n").length;
  const from = Math.max(1, first - 4);
  const shown = lines.slice(from - 1, last + 4).map((line, index) => `${String(from + index).padStart(6)}\t${line}`);
  return excerpt(shown.join("\n"), 4000);
}

/** A `tool_use` block of a message. */
export interface ToolUse {
  id: string;
  name: string;
  input: unknown;
}

export interface ToolResultBlock {
  type: "tool_result";
  tool_use_id: string;
  content: string;
  is_error: boolean;
}

/** Both tools: `definitions` for the request, `run` for each `tool_use` of the answer. */
export class AnthropicTools {
  readonly bash: BashTool;
  readonly editor: TextEditorTool;
  readonly definitions;

  constructor(computer: Computer, options: ShellOptions = {}) {
    this.bash = new BashTool(computer, options);
    this.editor = new TextEditorTool(computer, options);
    this.definitions = [this.bash.definition, this.editor.definition] as const;
  }

  /** Whether the call is one of these tools'. */
  has(name: string): boolean {
    return this.definitions.some((definition) => definition.name === name);
  }

  async run(use: ToolUse, options: CallOptions = {}): Promise<ToolResultBlock> {
    let result: ToolResult;
    if (use.name === this.bash.definition.name) result = await this.bash.run(use.input as BashInput, options);
    else if (use.name === this.editor.definition.name) result = await this.editor.run(use.input as EditorInput, options);
    else result = { content: `there is no tool ${JSON.stringify(use.name)}`, isError: true };
    return { type: "tool_result", tool_use_id: use.id, content: result.content, is_error: result.isError };
  }

  /** Ends the shell. */
  close(): Promise<void> {
    return this.bash.close();
  }
}
