// Output for a model: the beginning and the end of what is too long, and a line that says what is missing.

/** Shortens text to about `limit` characters. `missing` bytes were left out of its middle before. */
export function excerpt(text: string, limit: number, missing = 0): string {
  if (text.length <= limit && missing === 0) return text;
  const half = Math.floor(limit / 2);
  // At the end of a line where one is near, and never between the halves of a character.
  const head = atLineEnd(text, Math.min(half, text.length >> 1), -1);
  const tail = atLineEnd(text, Math.max(text.length - half, text.length >> 1), 1);
  const left = text.slice(head, tail);
  const lines = left.split("\n").length - 1;
  const more = missing > 0 ? ` and ${missing} bytes that were not kept` : "";
  const note = `[… ${left.length} characters (${lines} lines)${more} left out here …]`;
  const before = text.slice(0, head);
  return `${before}${before === "" || before.endsWith("\n") ? "" : "\n"}${note}\n${text.slice(tail)}`;
}

/** How far a cut may move to fall between two lines. */
const NEAR = 200;

function atLineEnd(text: string, at: number, direction: -1 | 1): number {
  const newline = direction < 0 ? text.lastIndexOf("\n", at - 1) : text.indexOf("\n", at);
  if (newline >= 0 && Math.abs(newline - at) < NEAR) return newline + 1;
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code < 0xe000 ? at + direction : at;
}
