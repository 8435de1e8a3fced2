// Patches in the V4A format, which names places by their content instead of line numbers.
//
//   *** Begin Patch
//   *** Update File: src/app.py          or `*** Add File:`, `*** Delete File:`
//   *** Move to: src/main.py             renames it as well
//   @@ def greet():                      begins below this line; several go deeper
//    context                             a line that is there
//   -old                                 a line that goes
//   +new                                 a line that comes
//   *** End of File                      the piece stands at the end
//   *** End Patch

/** A patch that cannot be read, or does not fit the file. */
export class PatchError extends Error {
  override name = "PatchError";
}

export type PatchOperation =
  | { type: "create_file"; path: string; diff: string }
  | { type: "update_file"; path: string; diff: string; moveTo?: string }
  | { type: "delete_file"; path: string };

interface Hunk {
  anchors: string[];
  lines: { kind: " " | "-" | "+"; text: string }[];
  atEnd: boolean;
}

/** The operations of a whole patch. */
export function parsePatch(patch: string): PatchOperation[] {
  const lines = patch.trim().split("\n").map(withoutReturn);
  if (lines[0]?.trim() !== "*** Begin Patch" || lines.at(-1)?.trim() !== "*** End Patch") {
    throw new PatchError("a patch begins with `*** Begin Patch` and ends with `*** End Patch`");
  }
  const operations: PatchOperation[] = [];
  let diff: string[] = [];
  for (const line of lines.slice(1, -1)) {
    const header = /^\*\*\* (Add File|Update File|Delete File|Move to): (.+)$/.exec(line);
    const path = header?.[2]?.trim() ?? "";
    const current = operations.at(-1);
    if (header?.[1] === "Move to") {
      if (current?.type !== "update_file" || diff.length > 0) throw new PatchError("`*** Move to:` stands right below `*** Update File:`");
      current.moveTo = path;
    } else if (header) {
      finish(current, diff);
      diff = [];
      if (header[1] === "Delete File") operations.push({ type: "delete_file", path });
      else operations.push({ type: header[1] === "Add File" ? "create_file" : "update_file", path, diff: "" });
    } else if (!current) {
      throw new PatchError(`${JSON.stringify(line)} stands above the first file`);
    } else {
      diff.push(line);
    }
  }
  finish(operations.at(-1), diff);
  if (operations.length === 0) throw new PatchError("the patch has no file in it");
  return operations;
}

function finish(operation: PatchOperation | undefined, diff: string[]): void {
  if (!operation) return;
  if (operation.type !== "delete_file") operation.diff = diff.join("\n");
  else if (diff.some((line) => line.trim() !== "")) throw new PatchError(`nothing may stand below \`*** Delete File: ${operation.path}\``);
}

/** The content of a new file: every line begins with `+`. */
export function createdContent(diff: string): string {
  const lines = diff.split("\n").map(withoutReturn);
  if (lines.at(-1) === "") lines.pop();
  const content = lines.map((line) => {
    if (!line.startsWith("+")) throw new PatchError(`every line of a new file begins with "+", not as ${JSON.stringify(line)}`);
    return line.slice(1);
  });
  return content.map((line) => `${line}\n`).join("");
}

/** The text with the changes of a diff; all of them fit, or none is made. */
export function applyDiff(text: string, diff: string): string {
  const ended = text === "" || text.endsWith("\n");
  const original = text.split("\n");
  if (ended) original.pop();
  const eol = text.includes("\r\n") ? "\r" : "";
  const result: string[] = [];
  let position = 0;
  for (const hunk of parseHunks(diff)) {
    let start = position;
    for (const anchor of hunk.anchors) start = findLines(original, [anchor], start, false, `the line of "@@" is not`) + 1;
    const old = hunk.lines.filter(({ kind }) => kind !== "+").map((line) => line.text);
    let at: number;
    if (old.length > 0) at = findLines(original, old, start, hunk.atEnd, "these lines are not");
    else at = hunk.atEnd || hunk.anchors.length === 0 ? original.length : start;
    result.push(...original.slice(position, at));
    for (const { kind, text } of hunk.lines) {
      if (kind === "+") result.push(text + eol);
      else {
        // What stays is the file's own line, also where the patch has other white space.
        if (kind === " ") result.push(original[at] ?? "");
        at += 1;
      }
    }
    position = at;
  }
  result.push(...original.slice(position));
  return result.join("\n") + (ended && result.length > 0 ? "\n" : "");
}

function parseHunks(diff: string): Hunk[] {
  const lines = diff.split("\n").map(withoutReturn);
  if (lines.at(-1) === "") lines.pop();
  const hunks: Hunk[] = [];
  let hunk: Hunk | undefined;
  for (const line of lines) {
    if (line === "@@" || line.startsWith("@@ ")) {
      // Several in a row name one place.
      if (!hunk || hunk.lines.length > 0) hunks.push((hunk = { anchors: [], lines: [], atEnd: false }));
      const anchor = line.slice(3).replace(/ @@$/, "");
      // Line numbers, as other formats have them, say nothing here.
      if (anchor.trim() !== "" && !/^-\d+(,\d+)? \+\d+(,\d+)?/.test(anchor)) hunk.anchors.push(anchor);
      continue;
    }
    if (!hunk) hunks.push((hunk = { anchors: [], lines: [], atEnd: false }));
    if (line.trim() === "*** End of File") hunk.atEnd = true;
    else if (line === "") hunk.lines.push({ kind: " ", text: "" });
    else if (line[0] === " " || line[0] === "-" || line[0] === "+") hunk.lines.push({ kind: line[0], text: line.slice(1) });
    else throw new PatchError(`a line of a diff begins with " ", "-", "+" or "@@", not as ${JSON.stringify(line)}`);
  }
  if (!hunks.some(({ lines }) => lines.some(({ kind }) => kind !== " "))) throw new PatchError("the diff changes nothing");
  return hunks;
}

/** How strictly lines are compared, one way after another. */
const COMPARISONS: ((line: string) => string)[] = [(line) => line, (line) => line.trimEnd(), (line) => line.trim()];

/** Where the lines stand, from `start` on. */
function findLines(original: readonly string[], wanted: readonly string[], start: number, atEnd: boolean, what: string): number {
  for (const same of COMPARISONS) {
    const fits = (at: number): boolean => wanted.every((line, index) => same(line) === same(withoutReturn(original[at + index] ?? "\0")));
    const last = original.length - wanted.length;
    if (atEnd && last >= start && fits(last)) return last;
    for (let at = start; at <= last; at++) if (fits(at)) return at;
  }
  const below = start > 0 ? ` below line ${start}` : "";
  throw new PatchError(`${what} in the file${below}:\n${wanted.join("\n")}`);
}

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}
