// The same library in other runtimes, where they are installed.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Server, spec, startHub } from "./support/hub.js";

const run = promisify(execFile);
const script = fileURLToPath(new URL("../../test/support/runtime.mjs", import.meta.url));
const runtimes: Record<string, string[]> = {
  node: [],
  bun: ["run"],
  deno: ["run", "--no-config", "--allow-net", "--allow-env", "--allow-read"],
};

let server: Server;
before(async () => void (server = await startHub()));
after(() => server.stop());

for (const [name, args] of Object.entries(runtimes)) {
  test(name, { timeout: 300_000 }, async (context) => {
    const version = await run(name, ["--version"]).catch(() => undefined);
    if (!version) return context.skip(`SKIPPED: there is no ${name} here`);
    const { stdout } = await run(name, [...args, script, server.url, server.token, JSON.stringify(spec)]);
    assert.equal(stdout, "all right\n");
    context.diagnostic(version.stdout.split("\n")[0] ?? "");
  });
}

test("chromium", { timeout: 300_000 }, async (context) => {
  const version = await run("chromium", ["--version"]).catch(() => undefined);
  if (!version) return context.skip("SKIPPED: there is no chromium here");
  const home = fileURLToPath(new URL("../..", import.meta.url));
  let report = (_text: string): void => undefined;
  const reported = new Promise<string>((resolve) => (report = resolve));
  const pages = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://localhost");
    if (pathname === "/report") {
      request.setEncoding("utf8").on("data", report);
      return void response.end();
    }
    const script = 'const say = (body) => fetch("/report", { method: "POST", body: String(body) });import("/test/support/runtime.mjs").then(() => say("all right"), (error) => say(error.stack));';
    if (pathname === "/") return void response.setHeader("content-type", "text/html").end(`<script type="module">${script}</script>`);
    readFile(join(home, pathname)).then(
      (bytes) => response.setHeader("content-type", "text/javascript").end(bytes),
      () => response.writeHead(404).end(),
    );
  }).listen(0, "127.0.0.1");
  await once(pages, "listening");
  const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  const profile = await mkdtemp(join(tmpdir(), "sandshell-ts-browser-"));
  const open = await startHub("--cors-origin", origin);
  const query = new URLSearchParams({ url: open.url, token: open.token, spec: JSON.stringify(spec) });
  // The browser's own sandbox cannot be had by root, nor in most containers; the page is ours.
  const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`, `${origin}/?${query}`];
  const browser = spawn("chromium", args, { stdio: "ignore", detached: true });
  const ended = once(browser, "exit");
  try {
    assert.equal(await reported, "all right");
    context.diagnostic(version.stdout.trim());
  } finally {
    // With all its processes: it was given a group of its own.
    if (browser.pid) process.kill(-browser.pid, "SIGKILL");
    await ended;
    pages.closeAllConnections();
    pages.close();
    await open.stop();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});
