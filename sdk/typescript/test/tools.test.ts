// Tools for models: what they are told is exact, bounded and honest.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Hub, type Sandbox } from "sandshell";
import { AnthropicTools, OpenAITools, PatchError, type ShellCallOutput, applyDiff, excerpt, parsePatch } from "sandshell/tools";
import { type Server, spec, startHub } from "./support/hub.js";

/** For a command that is to be cut off when it has begun; tried in turn until it has. */
const TOO_SHORT_MS = [300, 3_000, 30_000, 90_000];

let server: Server;
let sandbox: Sandbox;
before(async () => {
  server = await startHub();
  sandbox = await new Hub(server).create(spec);
});
after(() => server.stop());

test("bash keeps its state, tells exit codes and restarts", async () => {
  const tools = new AnthropicTools(sandbox);
  assert.deepEqual(tools.definitions[0], { type: "bash_20250124", name: "bash" });
  const bash = async (input: object): Promise<{ content: string; is_error: boolean }> => tools.run({ id: "1", name: "bash", input });
  assert.deepEqual(await bash({ command: "cd /tmp; x=1" }), { type: "tool_result", tool_use_id: "1", content: "[no output]", is_error: false });
  assert.equal((await bash({ command: "echo $PWD $x; echo warn >&2; (exit 3)" })).content, "/tmp 1\nwarn\n[exit code 3]");
  assert.equal((await bash({ command: "echo $x" })).content, "1");
  assert.equal((await bash({ restart: true })).content, "the shell was restarted");
  assert.equal((await bash({ command: "echo \"<$x>\" $PWD" })).content, "<> /workspace");
  assert.equal((await bash({})).is_error, true);
  assert.equal((await tools.run({ id: "2", name: "python", input: {} })).is_error, true);
  await tools.close();
  assert.equal((await sandbox.sessions()).length, 0);
});

test("a command that takes too long is interrupted, and the shell is kept", async () => {
  await using session = await sandbox.createSession();
  await session.exec("x=1");
  let shown = "";
  for (const timeoutMs of TOO_SHORT_MS) {
    const tools = new AnthropicTools(sandbox, { session, timeoutMs });
    const slow = await tools.run({ id: "1", name: "bash", input: { command: "echo begun; sleep 1000" } });
    const note = `[interrupted after ${timeoutMs} ms; the shell and its state are kept]`;
    assert.ok(slow.is_error && slow.content.endsWith(note), slow.content);
    shown = slow.content.slice(0, -note.length);
    if (shown) break;
  }
  assert.equal(shown, "begun\n");
  const tools = new AnthropicTools(sandbox, { session });
  assert.equal((await tools.run({ id: "2", name: "bash", input: { command: "echo $x" } })).content, "1");
});

test("long output is shown from both ends, with the count of what is missing", async () => {
  const tools = new AnthropicTools(sandbox, { maxCharacters: 2000 });
  const { content } = await tools.run({ id: "1", name: "bash", input: { command: "seq 1 2000000" } });
  assert.ok(content.length < 2200, String(content.length));
  assert.match(content, /^1\n2\n3\n/);
  assert.match(content, /\n2000000$/);
  const note = /\n\[… (\d+) characters \((\d+) lines\) and (\d+) bytes that were not kept left out here …\]\n/.exec(content);
  assert.ok(note, content);
  const shown = content.replace(note[0], "\n").length + 1;
  assert.equal(shown + Number(note[1]) + Number(note[3]), 14_888_896);
  await tools.close();
});

test("an excerpt is at most so long, cut between lines, and counts", () => {
  assert.equal(excerpt("short\n", 10), "short\n");
  const text = Array.from({ length: 1000 }, (_, index) => `line ${index}\n`).join("");
  const cut = excerpt(text, 300);
  const [head, tail] = cut.split(/\[…[^\n]*\n/) as [string, string];
  assert.ok(text.startsWith(head) && text.endsWith(tail) && head.endsWith("\n"));
  assert.match(cut, new RegExp(`\\[… ${text.length - head.length - tail.length} characters`));
  // No half of a character.
  const oysters = excerpt("🦪".repeat(1000), 101);
  assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(oysters));
});

test("the text editor views, creates, replaces and inserts", async () => {
  const { editor } = new AnthropicTools(sandbox);
  assert.equal(editor.definition.type, "text_editor_20250728");
  const path = "/workspace/edit/a.txt";
  assert.equal((await editor.run({ command: "create", path, file_text: "one\ntwo\nthree\ntwo" })).content, `${path} was created`);
  assert.equal((await editor.run({ command: "view", path })).content, "     1\tone\n     2\ttwo\n     3\tthree\n     4\ttwo");
  assert.equal((await editor.run({ command: "view", path, view_range: [2, 3] })).content, "     2\ttwo\n     3\tthree");
  assert.equal((await editor.run({ command: "view", path, view_range: [4, -1] })).content, "     4\ttwo");
  assert.match((await editor.run({ command: "view", path: "/workspace/edit" })).content, /\/workspace\/edit\/a\.txt/);

  const twice = await editor.run({ command: "str_replace", path, old_str: "two", new_str: "2" });
  assert.deepEqual([twice.isError, /2 times .* lines 2, 4/.test(twice.content)], [true, true]);
  const once = await editor.run({ command: "str_replace", path, old_str: "one\ntwo", new_str: "uno\ndue" });
  assert.match(once.content, /1\tuno\n {5}2\tdue\n {5}3\tthree/);
  await editor.run({ command: "insert", path, insert_line: 0, insert_text: "zero" });
  await editor.run({ command: "insert", path, insert_line: 2, insert_text: "half\n" });
  await editor.run({ command: "insert", path, insert_line: 6, insert_text: "last\n" });
  assert.equal(await sandbox.files.readText(path), "zero\nuno\nhalf\ndue\nthree\ntwo\nlast");
  assert.equal((await editor.run({ command: "str_replace", path, old_str: "half\n" })).isError, false);
  assert.equal(await sandbox.files.readText(path), "zero\nuno\ndue\nthree\ntwo\nlast");

  await sandbox.files.mkdir("locked", { mode: "0555" });
  const mistakes = [
    { command: "str_replace", path, old_str: "absent", new_str: "" },
    { command: "insert", path, insert_line: 99, insert_text: "x" },
    { command: "view", path, view_range: [9, 10] as [number, number] },
    { command: "view", path: "/workspace/none" },
    { command: "create", path: "/workspace/locked/file", file_text: "" },
    { command: "undo_edit", path },
    { command: "create", path },
  ];
  for (const input of mistakes) {
    const result = await editor.run(input);
    assert.equal(result.isError, true, JSON.stringify(input));
    assert.ok(result.content.length > 10);
  }
  await sandbox.files.write("binary", new Uint8Array([0xff, 0xfe]));
  assert.match((await editor.run({ command: "view", path: "/workspace/binary" })).content, /not a text file/);
});

test("OpenAI's shell", async () => {
  const tools = new OpenAITools(sandbox);
  assert.deepEqual(tools.definitions, [{ type: "shell" }, { type: "apply_patch" }]);
  const commands = ["cd /tmp; x=5", "echo $PWD $x; echo err >&2; (exit 4)", "seq 1 1000; sleep 1000"];
  let told: ShellCallOutput["output"] = [];
  for (const timeout_ms of TOO_SHORT_MS) {
    const output = await tools.run({ type: "shell_call", call_id: "c", action: { commands, timeout_ms, max_output_length: 100 } });
    assert.ok(output.type === "shell_call_output");
    assert.equal(output.max_output_length, 100);
    told = output.output;
    assert.deepEqual(told[2]?.outcome, { type: "timeout" });
    // Each of the first two was in time, and the third has written all.
    if (told.filter(({ outcome }) => outcome.type === "exit").length === 2 && told[2]?.stdout.endsWith("1000\n")) break;
  }
  assert.deepEqual(told.slice(0, 2), [
    { stdout: "", stderr: "", outcome: { type: "exit", exit_code: 0 } },
    { stdout: "/tmp 5\n", stderr: "err\n", outcome: { type: "exit", exit_code: 4 } },
  ]);
  assert.match(told[2]?.stdout ?? "", /^1\n[^]*left out here[^]*1000\n$/);
  const local = await tools.run({ type: "local_shell_call", call_id: "l", action: { command: ["printf", "%s|", "a b", "it's", "$x"] } });
  assert.ok(local.type === "local_shell_call_output");
  assert.equal((JSON.parse(local.output) as { stdout: string }).stdout, "a b|it's|$x|");
  await tools.close();
});

test("OpenAI's apply_patch", async () => {
  const { applyPatch } = new OpenAITools(sandbox);
  const call = (operation: Parameters<typeof applyPatch.run>[0]["operation"]) => applyPatch.run({ type: "apply_patch_call", call_id: "p", operation });
  assert.equal((await call({ type: "create_file", path: "app.py", diff: "+def greet():\n+    print('Hi')\n+\n+greet()\n" })).status, "completed");
  assert.equal((await call({ type: "create_file", path: "app.py", diff: "+x" })).status, "failed");
  assert.equal((await call({ type: "update_file", path: "app.py", diff: "@@ def greet():\n-    print('Hi')\n+    print('Hello')\n" })).status, "completed");
  assert.equal(await sandbox.files.readText("app.py"), "def greet():\n    print('Hello')\n\ngreet()\n");
  const failed = await call({ type: "update_file", path: "app.py", diff: "@@\n-not there\n+x\n" });
  assert.equal(failed.status, "failed");
  assert.match(failed.output, /app\.py: these lines are not in the file:\nnot there/);
  assert.equal((await call({ type: "update_file", path: "none.py", diff: "@@\n-a\n+b\n" })).status, "failed");

  const patch = "*** Begin Patch\n*** Add File: new/b.txt\n+b\n*** Update File: app.py\n*** Move to: main.py\n@@\n-greet()\n+greet()  # go\n*** End Patch";
  assert.equal(await applyPatch.applyPatch(patch), "created new/b.txt\nupdated app.py and moved it to main.py");
  assert.equal(await sandbox.files.readText("main.py"), "def greet():\n    print('Hello')\n\ngreet()  # go\n");
  assert.equal(await sandbox.files.exists("app.py"), false);
  // One part that does not fit, and nothing is changed.
  const bad = "*** Begin Patch\n*** Delete File: new/b.txt\n*** Update File: main.py\n@@\n-absent\n+x\n*** End Patch";
  await assert.rejects(applyPatch.applyPatch(bad), PatchError);
  assert.equal(await sandbox.files.readText("new/b.txt"), "b\n");
  assert.equal((await call({ type: "delete_file", path: "new/b.txt" })).status, "completed");
});

test("diffs find their place by content", () => {
  const text = "class A:\n  def f(self):\n    return 1\nclass B:\n  def f(self):\n    return 1\n";
  assert.equal(applyDiff(text, "@@ class B:\n@@   def f(self):\n-    return 1\n+    return 2"), text.slice(0, -2) + "2\n");
  assert.equal(applyDiff(text, "@@ class B:\n   def f(self):\n-    return 1\n+    return 3\n"), text.slice(0, -2) + "3\n");
  // Two places in order, context kept as the file has it.
  assert.equal(applyDiff("a \nb\nc\nd\ne\n", "@@\n a\n-b\n+B\n@@\n d\n+D\n"), "a \nB\nc\nd\nD\ne\n");
  assert.equal(applyDiff("x\ny\nx\n", "@@\n-x\n+z\n*** End of File"), "x\ny\nz\n");
  assert.equal(applyDiff("a\nb", "@@\n-b\n+c"), "a\nc");
  assert.equal(applyDiff("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d"), "a\r\nc\r\nd\r\n");
  assert.equal(applyDiff("", "+first\n"), "first\n");
  assert.equal(applyDiff("a\n", "+last\n"), "a\nlast\n");
  assert.equal(applyDiff("a\n\nb\n", "@@\n a\n\n-b\n+c\n"), "a\n\nc\n");
  assert.throws(() => applyDiff("a\n", "@@\n a\n"), PatchError);
  assert.throws(() => applyDiff("a\n", "@@ nowhere\n+b\n"), /the line of "@@" is not in the file:\nnowhere/);
  assert.throws(() => applyDiff("a\n", "?what\n"), PatchError);
  assert.throws(() => parsePatch("*** Update File: x"), PatchError);
  assert.deepEqual(parsePatch("*** Begin Patch\r\n*** Delete File: x\r\n*** End Patch\r\n"), [{ type: "delete_file", path: "x" }]);
});
