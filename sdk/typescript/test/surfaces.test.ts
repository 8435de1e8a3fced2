// What scenarios do not reach: aborts, disposal, concurrency, both kinds of server, and every operation there is.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Agent, Hub, IsolationError, NotFoundError, Sandbox, type SessionEvent } from "sandshell";
import { type Server, spec, startAgent, startHub } from "./support/hub.js";

let server: Server;
let sandbox: Sandbox;
/** Method and path of every request made through `hub()`. */
const requests: string[] = [];

function hub(): Hub {
  const recording: typeof fetch = (input, init) => {
    requests.push(`${init?.method ?? "GET"} ${new URL(String(input)).pathname}`);
    return fetch(input, init);
  };
  return new Hub({ ...server, fetch: recording });
}

before(async () => {
  server = await startHub("--preview-domain", "localhost:4999");
  sandbox = await hub().create(spec);
});
after(() => server.stop());

const text = (stream: ReadableStream<Uint8Array>): Promise<string> => new Response(stream).text();

test("an abort kills an exec", async () => {
  const stop = new AbortController();
  const running = sandbox.exec("echo $$ > pid; exec sleep 1000", { id: "aborted", signal: stop.signal });
  await seen(sandbox, "pid");
  stop.abort(new Error("enough"));
  await assert.rejects(running, /enough/);
  const record = await sandbox.process("aborted").record();
  assert.deepEqual([record.state, record.signal], ["exited", "SIGKILL"]);
  await assert.rejects(sandbox.exec("touch never", { signal: AbortSignal.abort(new Error("early")) }), /early/);
  assert.equal(await sandbox.files.exists("never"), false);
});

test("an abort, or leaving the loop, interrupts a command of a session and keeps the shell", async () => {
  await using session = await sandbox.createSession();
  await session.exec("x=1");
  const stop = new AbortController();
  const running = session.exec("x=2; touch began; sleep 1000", { signal: stop.signal });
  await seen(sandbox, "began");
  stop.abort(new Error("enough"));
  await assert.rejects(running, /enough/);
  assert.equal((await session.exec("echo $x")).stdout, "2\n");
  for await (const event of session.execStream("x=3; echo go; sleep 1000")) if (event.type === "output") break;
  assert.equal((await session.exec("echo $x")).stdout, "3\n");
  assert.deepEqual((await session.commands()).map((command) => command.exitCode), [0, 130, 0, 130, 0]);
});

test("leaving the loop kills a streamed exec", async () => {
  for await (const event of sandbox.execStream("echo go; sleep 1000", { id: "left" })) if (event.type === "output") break;
  assert.equal((await sandbox.process("left").record()).state, "exited");
});

test("what is disposed of is gone", async () => {
  let inner: Sandbox;
  {
    await using box = await Sandbox.create({ ...server, ...spec });
    inner = box;
    await using session = await box.createSession();
    await using process = await box.startProcess("sleep 1000");
    await using terminal = await box.terminal();
    await using context = await box.contexts.create("bash");
    assert.equal((await session.record()).state, "idle");
    assert.equal((await process.record()).state, "running");
    assert.equal((await terminal.record()).state, "running");
    assert.equal((await context.record()).state, "idle");
    await session.delete();
  }
  assert.equal((await inner.record()).state, "gone");
});

test("text or bytes, as asked for", async () => {
  const result = await sandbox.exec("printf 'a\\377b'; printf ü >&2");
  assert.deepEqual([...result.stdoutBytes], [0x61, 0xff, 0x62]);
  assert.equal(result.stdout, "a\ufffdb");
  assert.deepEqual([...result.stderrBytes], [0xc3, 0xbc]);
  assert.equal(result.stderr, "ü");
  assert.equal((await sandbox.exec("wc -c", { stdin: new Uint8Array([0, 255, 10]) })).stdout.trim(), "3");
  const large = new Uint8Array(3_000_000).map((_, index) => index * 7);
  const echoed = await sandbox.exec(["cat"], { stdin: large });
  assert.deepEqual(Buffer.from(echoed.stdoutBytes), Buffer.from(large));
});

test("streams of any length, in and out", async () => {
  const piece = new Uint8Array(1 << 20).fill(7);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let n = 0; n < 50; n++) yield piece;
  }
  const entry = await sandbox.files.write("large", pieces());
  assert.equal(entry.size, 50 << 20);
  let length = 0;
  for await (const chunk of sandbox.files.readStream("large")) length += chunk.length;
  assert.equal(length, 50 << 20);
  await sandbox.files.write("blob", new Blob(["bl", "ob"]));
  await sandbox.files.write("readable", new Response("readable").body as ReadableStream<Uint8Array>);
  assert.equal((await sandbox.files.readText("blob")) + (await sandbox.files.readText("readable")), "blobreadable");
  await sandbox.files.write("empty", "");
  assert.equal(await sandbox.files.readText("empty", { length: 10 }), "");
  assert.equal(await sandbox.files.readText("blob", { offset: 2, length: 100 }), "ob");
  // A loop that is left early ends the request, and a stream that is cancelled, too.
  for await (const chunk of sandbox.files.readStream("large")) if (chunk.length > 0) break;
  await sandbox.files.remove("large");
});

test("sessions and commands side by side", async () => {
  const results = await Promise.all(Array.from({ length: 40 }, async (_, index) => {
    await using session = await sandbox.createSession();
    await session.exec(`n=${index}`);
    // Those of one session run in the order of the calls.
    const stop = new AbortController();
    const calls = [session.exec("n=$((n + 1)); echo $n"), session.exec("n=wrong", { signal: stop.signal }), session.exec("echo $n")];
    stop.abort(new Error("given up"));
    const [first, second, third] = await Promise.allSettled(calls);
    assert.deepEqual([first?.status, second?.status, third?.status], ["fulfilled", "rejected", "fulfilled"]);
    return [first, third].map((call) => (call?.status === "fulfilled" ? call.value.stdout : ""));
  }));
  assert.deepEqual(results, Array.from({ length: 40 }, (_, index) => [`${index + 1}\n`, `${index + 1}\n`]));
});

test("a streamed command begins with its id and ends with its exit", async () => {
  await using session = await sandbox.createSession();
  const events: SessionEvent[] = [];
  for await (const event of session.execStream("echo out; echo err >&2", { id: "mine" })) events.push(event);
  assert.deepEqual(events[0], { type: "command", commandId: "mine" });
  assert.equal(events.at(-1)?.type, "exit");
  assert.equal(await text(session.commandOutput("mine", "stderr")), "err\n");
  await assert.rejects(async () => {
    for await (const event of session.execStream("exit 3", { check: true })) assert.ok(event);
  }, /exit code 3/);
});

test("waiting for lines, by expressions of this language", async () => {
  await using process = await sandbox.startProcess("echo one; echo TWO; echo three >&2; sleep 1000");
  assert.equal(await process.waitForLog(/^t.o$/i), "TWO");
  assert.equal(await process.waitForLog("thr", { stream: "stderr" }), "three");
  assert.equal((await process.collect({ follow: false })).stdout, "one\nTWO\n");
  const part = process.output("stdout", { offset: 4, follow: false });
  assert.equal(await text(part), "TWO\n");
});

test("a server behind a port", async () => {
  const source = "require('http').createServer((q, s) => s.end(q.method + ' ' + q.url)).listen(8080, '127.0.0.1')";
  const program = (await sandbox.exec("command -v node")).ok ? ["node", "-e", source] : ["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"];
  const opened = (async () => {
    for await (const event of sandbox.ports.events()) if (event.type === "opened") return event.port;
    return 0;
  })();
  await using process = await sandbox.startProcess(program);
  await process.waitForPort(8080, { http: { path: "/" }, timeoutMs: 120_000 });
  assert.equal(await opened, 8080);
  const direct = await sandbox.ports.fetch(8080, "/some/where?x=1", { method: "PUT", body: "data" });
  if (program[0] === "node") assert.equal(await direct.text(), "PUT /some/where?x=1");
  const exposure = await sandbox.ports.expose(8080);
  assert.equal((await fetch(exposure.url)).status, 200);
  await sandbox.ports.unexpose(8080);
  const preview = await sandbox.ports.preview(8080, { ttlMs: 60_000 });
  assert.match(preview.url, new RegExp(`^http://8080-${sandbox.id}-.*localhost:4999/`));
  await sandbox.ports.revokePreviews(8080);
});

test("progress of a backup and a clone", async () => {
  await sandbox.exec("mkdir -p repo && cd repo && git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one", { check: true });
  const backup = await sandbox.backups.create("repo", { onProgress: (progress) => assert.ok(progress.stage) });
  assert.equal(backup.state, "ready");
  assert.equal((await new Response(sandbox.backups.download(backup.id)).arrayBuffer()).byteLength, backup.size);
  const restored = await sandbox.backups.restore(backup.id, { path: "again", onProgress: () => undefined });
  assert.equal(restored.path, "/workspace/again");
  const clone = await sandbox.git.clone("/workspace/repo", { path: "clone", onProgress: (progress) => assert.ok(progress.phase) });
  assert.equal(clone.path, "/workspace/clone");
  await assert.rejects(sandbox.git.clone("/none", { path: "x", onProgress: () => undefined }), { code: "git_not_found" });
  assert.equal((await sandbox.git.pull({ path: "clone" })).updated, false);
});

test("searching as it goes", async () => {
  await sandbox.files.write("search/a.txt", "needle\nhay\nneedle\n");
  const found: number[] = [];
  const matches = sandbox.files.searchStream("search", "needle");
  for (let next = await matches.next(); ; next = await matches.next()) {
    if (next.done) {
      assert.equal(next.value.matchedLines, 2);
      break;
    }
    found.push(next.value.line);
  }
  assert.deepEqual(found, [1, 3]);
  const { version } = await sandbox.files.changes("search");
  await sandbox.files.write("search/b.txt", "");
  assert.equal((await sandbox.files.changes("search", { since: version })).status, "changed");
});

test("a terminal: screens, recordings, viewers", async () => {
  await using terminal = await sandbox.terminal({ command: ["bash", "--norc", "--noprofile", "--noediting"], cols: 60, rows: 10, env: { PS1: "% " } });
  await terminal.write("printf '\\033[31mred\\033[0m %s\\n' $((1 + 1))\n");
  await terminal.waitForText("red\u001b[0m 2");
  assert.match((await terminal.screen({ scrollback: 5 })).text, /red 2/);
  assert.match(await terminal.screenAnsi(), /red/);
  assert.match(await terminal.recording(), /^\{[^\n]*"version":2/);
  const both = await Promise.all([terminal, sandbox.attachTerminal(terminal.id)].map((one) => one.waitForText(/red\S+ 2/)));
  assert.equal(both[0], both[1]);
  await terminal.write("exit 2\n");
  assert.equal((await terminal.waitForExit()).exitCode, 2);
  await assert.rejects(terminal.write("late"), { code: "terminal_ended", status: 410 });
  await assert.rejects(terminal.waitForText("never"), /ended without never/);
});

test("images, tokens, audit", async () => {
  const admin = hub();
  await sandbox.exec("mkdir -p root/bin root/tmp; cp \"$(command -v busybox || command -v true)\" root/bin/sh", { check: true });
  const archive = sandbox.files.downloadArchive("root");
  const image = await admin.images.import("tiny", archive);
  assert.equal((await admin.images.get("tiny")).digest, image.digest);
  assert.ok((await admin.images.list()).some(({ name }) => name === "tiny"));
  await admin.images.remove("tiny");
  await assert.rejects(admin.images.create("nowhere", "/no/such/directory"));

  const { id, token } = await admin.tokens.create({ name: "one", scopes: [`sandbox:${sandbox.id}`] });
  assert.equal((await admin.tokens.get(id)).name, "one");
  const limited = new Hub({ url: server.url, token });
  assert.equal((await limited.sandbox(sandbox.id).exec("echo hi")).stdout, "hi\n");
  const terminal = await limited.sandbox(sandbox.id).terminal({ command: "echo over the wire" });
  await terminal.waitForText("wire");
  await assert.rejects(limited.create(), { status: 403 });
  await admin.tokens.revoke(id);
  await assert.rejects(limited.list(), { status: 401 });
  for await (const entry of admin.audit({ target: sandbox.id })) {
    assert.equal(entry.target, sandbox.id);
    break;
  }
  assert.match((await admin.version()).api, /v1/);
});

test("an agent without a hub", async (context) => {
  const lone = await startAgent().catch((error: Error) => error);
  if (lone instanceof Error) return context.diagnostic(`SKIPPED: an agent does not start here: ${lone.message}`);
  try {
    const agent = new Agent(lone);
    assert.match((await agent.version()).api, /v1/);
    assert.equal((await agent.exec("echo $((20 + 1))", { cwd: "/" })).stdout, "21\n");
    await using session = await agent.createSession();
    await session.exec("x=5");
    assert.equal((await session.exec("echo $x")).stdout, "5\n");
    await using terminal = await agent.terminal({ command: "echo seen; exit 4" });
    assert.match(await terminal.waitForText("seen"), /seen/);
    assert.equal((await terminal.waitForExit()).exitCode, 4);
    assert.ok((await agent.protections()).length > 5);
  } finally {
    await lone.stop();
  }
});

test("every operation of the API is reached", async () => {
  // The rest, for whose sake no test of its own is worth while.
  const box = await hub().create({ ...spec, labels: { kind: "rest" } });
  await box.update({ labels: { kind: "other" } });
  await box.keepalive();
  // Without a control group of its own a sandbox cannot be frozen.
  await box.pause().catch((error: unknown) => assert.ok(error instanceof IsolationError && "isolation" in spec));
  await box.resume();
  assert.equal((await hub().list({ labels: { kind: "other" } })).length, 1);
  const process = await box.startProcess("cat", { stdinOpen: true });
  await process.write("x");
  await process.closeStdin();
  await process.waitForExit();
  await box.processes();
  await box.process((await box.startProcess("sleep 1000")).id).signal("KILL");
  await process.kill();
  await process.delete();
  const session = await box.createSession();
  await session.update({ env: { A: "1" } });
  await (await session.fork()).delete();
  await session.interrupt();
  await session.record();
  await box.sessions();
  await box.terminals();
  const terminal = await box.terminal({ command: "sleep 1000" });
  await terminal.resize(90, 30);
  await terminal.record();
  await terminal.delete();
  await box.files.write("a", "a");
  await box.files.chmod("a", "0600");
  await box.files.copy("a", "b");
  await box.files.move("b", "c");
  await box.files.mkdir("d");
  await box.files.stat("c");
  await box.files.list(".");
  await box.files.find(".", { patterns: ["*"] });
  await box.files.search(".", "a");
  await box.files.uploadArchive("d", await new Response(box.files.downloadArchive(".")).arrayBuffer());
  await (await box.files.watch(".")).close();
  await box.files.remove("c");
  const repo = { path: "repo" };
  const person = { name: "a", email: "a@example.org" };
  await box.exec("git init -q --bare origin; git clone -q origin repo; echo > repo/f", { check: true });
  await box.git.add({ ...repo, all: true });
  await box.git.commit("one", { ...repo, author: person, committer: person });
  await box.git.push({ ...repo, setUpstream: true });
  await box.git.status(repo);
  await box.git.diff(repo);
  await box.git.log(repo);
  await box.git.branches(repo);
  await box.git.checkout("topic", { ...repo, create: true });
  const backup = await box.backups.create("repo");
  await box.backups.list();
  await box.backups.get(backup.id);
  await box.backups.delete(backup.id);
  await box.ports.list();
  await box.ports.wait(1, { timeoutMs: 1 });
  assert.equal((await box.ports.fetch(1)).status, 404);
  const context = await box.contexts.create("bash");
  await context.run("true");
  for await (const event of context.runStream("true")) assert.ok(event);
  await context.interrupt();
  await context.restart();
  await box.contexts.list();
  await context.record();
  await context.delete();
  await box.env.update({ A: "1" });
  await box.env.get();
  for await (const event of box.events({ from: 0 })) if (event.type === "ready") break;
  await box.stats();
  await box.protections();
  await box.record();
  await box.destroy();
  await assert.rejects(hub().tokens.get("none"), NotFoundError);
  await hub().tokens.list();

  const document = JSON.parse(await readFile(new URL("../../../../openapi/hub-v1.json", import.meta.url), "utf8")) as { paths: Record<string, object> };
  // Pages and probes are for browsers and supervisors; sockets are no requests.
  const others = new Set(["GET /docs", "GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.json", "GET /v1/sandboxes/{sandbox}/terminals/{id}/connect"]);
  const missing: string[] = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    const pattern = path.replace(/\{rest\}/, ".*").replace(/\{\w+\}/g, "[^/]+");
    for (const method of Object.keys(operations)) {
      const name = `${method.toUpperCase()} ${path}`;
      const expression = new RegExp(`^${method.toUpperCase()} ${pattern}$`);
      if (!others.has(name) && !requests.some((request) => expression.test(request))) missing.push(name);
    }
  }
  assert.deepEqual(missing, []);
});

/** Resolved when the file is there. */
async function seen(box: Sandbox, path: string): Promise<void> {
  await using watch = await box.files.watch(".", { recursive: false });
  if (await box.files.exists(path)) return;
  for await (const event of watch) if ("path" in event && event.path.endsWith(`/${path}`)) return;
}
