// The addon with xterm.js itself, without a window.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import headless from "@xterm/headless";
import { Hub, type Sandbox, type TerminalExit } from "sandshell";
import { SandshellAddon } from "sandshell/xterm";
import { type Server, spec, startHub } from "./support/hub.js";

let server: Server;
let sandbox: Sandbox;
before(async () => {
  server = await startHub();
  sandbox = await new Hub(server).create(spec);
});
after(() => server.stop());

function screen(xterm: headless.Terminal): string {
  const buffer = xterm.buffer.active;
  return Array.from({ length: xterm.rows }, (_, row) => buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "").join("\n").trimEnd();
}

/** Resolved when the screen has the text on it. */
function shows(xterm: headless.Terminal, text: string): Promise<void> {
  return new Promise((resolve) => {
    const write = xterm.write.bind(xterm);
    const look = (): void => {
      if (screen(xterm).includes(text)) resolve();
    };
    xterm.write = (data, callback) => write(data, () => (callback?.(), look()));
    look();
  });
}

test("shows, types, resizes and ends", { timeout: 300_000 }, async () => {
  const terminal = await sandbox.terminal({ command: ["bash", "--norc", "--noprofile"], env: { PS1: "% " } });
  // A shell that is about to read a line may set the size it has found before: it is changed when the prompt is there.
  await terminal.waitForText("% ");
  const xterm = new headless.Terminal({ cols: 100, rows: 30, allowProposedApi: true });
  const errors: unknown[] = [];
  const exited = new Promise<TerminalExit>((resolve) => {
    xterm.loadAddon(new SandshellAddon(terminal, { onExit: resolve, onError: (error) => errors.push(error) }));
  });
  await shows(xterm, "%");
  await sandboxSize(100, 30);
  xterm.input("echo $((6 * 7)); stty size\r");
  await shows(xterm, "42\n30 100\n%");
  xterm.resize(90, 20);
  await sandboxSize(90, 20);
  xterm.input("clear; stty size\r");
  await shows(xterm, "20 90");
  // The program asks where the cursor is; the emulator answers.
  xterm.input("clear; IFS='[;R' read -rs -d R -p $'\\e[6n' _ row col; echo at $row $col\r");
  await shows(xterm, "at 1 1\n%");
  assert.equal((await terminal.screen()).text.trimEnd(), screen(xterm));

  // A second one sees the same screen, and does not type.
  const viewer = new headless.Terminal({ cols: 10, rows: 5, allowProposedApi: true });
  const addon = new SandshellAddon(terminal, { readOnly: true });
  viewer.loadAddon(addon);
  await shows(viewer, "at 1 1");
  assert.deepEqual([viewer.cols, viewer.rows], [90, 20]);
  viewer.input("echo not typed\r");
  addon.dispose();

  xterm.input("exit 3\r");
  assert.equal((await exited).exitCode, 3);
  assert.ok(!screen(xterm).includes("not typed"));
  assert.deepEqual(errors, []);

  async function sandboxSize(cols: number, rows: number): Promise<void> {
    for await (const event of terminal.events({ from: "screen" })) if (event.type === "resize" && event.cols === cols && event.rows === rows) return;
  }
});
