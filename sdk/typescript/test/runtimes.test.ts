// The same library in other runtimes, where they are installed.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
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
  test(name, { timeout: 60_000 }, async (context) => {
    const version = await run(name, ["--version"]).catch(() => undefined);
    if (!version) return context.skip(`SKIPPED: there is no ${name} here`);
    const { stdout } = await run(name, [...args, script, server.url, server.token, JSON.stringify(spec)]);
    assert.equal(stdout, "all right\n");
    context.diagnostic(version.stdout.split("\n")[0] ?? "");
  });
}
