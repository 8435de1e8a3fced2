// Cloudflare's own client against our server, over each of its transports.
//
// BASE is the address of one sandbox's dialect; nothing else is known of the server.
import "./workers.mjs";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket;
const { SandboxClient } = await import("@cloudflare/sandbox");

const BASE = process.env.BASE;
assert.ok(BASE, "BASE is the address of a sandbox");

/** The events of a stream. */
async function* events(stream) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of stream) {
    text += decoder.decode(piece, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const frame = text.slice(0, end);
      assert.ok(frame.startsWith("data: "), frame);
      yield JSON.parse(frame.slice(6));
    }
  }
  assert.equal(text, "", "a stream ends with a whole event");
}

async function all(stream) {
  const found = [];
  for await (const event of events(stream)) found.push(event);
  return found;
}

const textOf = (found, type) => found.filter((e) => e.type === type).map((e) => e.data).join("");

for (const transport of ["http", "websocket"]) {
  describe(transport, () => {
    let client;
    const s = `work-${transport}`;
    const dir = `/workspace/${transport}`;
    before(() => {
      const options = { baseUrl: BASE, retryTimeoutMs: 1000 };
      if (transport === "websocket") {
        options.transportMode = "websocket";
        options.wsUrl = `${BASE.replace(/^http/, "ws")}/ws`;
      }
      client = new SandboxClient(options);
    });
    after(() => client.disconnect?.());

    /** The failure of a call has this class and code. */
    async function fails(call, name, code) {
      await assert.rejects(call, (error) => {
        assert.equal(error.constructor.name, name, error.stack);
        assert.equal(error.code ?? error.errorResponse?.code, code);
        assert.ok(error.message.length > 0);
        return true;
      });
    }

    test("says that it is there", async () => {
      assert.equal(await client.utils.ping(), "pong");
      assert.equal(await client.utils.getVersion(), "0.12.10");
      assert.ok((await client.utils.getCommands()).includes("bash"));
    });

    test("a command has its streams and its code", async () => {
      const done = await client.commands.execute("echo out; echo err >&2; exit 3", s);
      assert.equal(done.stdout, "out\n");
      assert.equal(done.stderr, "err\n");
      assert.equal(done.exitCode, 3);
      assert.equal(done.success, false);
      assert.equal((await client.commands.execute("printf abc", s)).stdout, "abc", "no newline is added");
    });

    test("a session keeps its state, also after exit and errors", async () => {
      await client.commands.execute("cd /tmp; export A=1; f() { echo f-$1; }", s);
      assert.equal((await client.commands.execute("pwd; echo $A; f x", s)).stdout, "/tmp\n1\nf-x\n");
      assert.equal((await client.commands.execute("exit 7", s)).exitCode, 7);
      assert.equal((await client.commands.execute("echo $A", s)).stdout, "1\n");
      const open = await client.commands.execute("echo 'unclosed", s);
      assert.notEqual(open.exitCode, 0);
      assert.equal((await client.commands.execute("echo on", s)).stdout, "on\n");
    });

    test("environment and directory of one command are its own", async () => {
      const one = await client.commands.execute("echo $B; pwd", s, { env: { B: "2" }, cwd: "/usr" });
      assert.equal(one.stdout, "2\n/usr\n");
      assert.equal((await client.commands.execute("echo [$B]; pwd", s)).stdout, "[]\n/tmp\n");
    });

    test("no session is no state", async () => {
      const none = "__DISABLE_SESSION__";
      await client.commands.execute("X=1; cd /", none);
      assert.equal((await client.commands.execute("echo [$X]", none)).stdout, "[]\n");
    });

    test("a timeout ends the command, and the session goes on", async () => {
      const mark = `90${Date.now() % 100000}`;
      await fails(client.commands.execute(`sleep ${mark}`, s, { timeoutMs: 300 }), "CommandError", "COMMAND_EXECUTION_ERROR");
      const left = await client.commands.execute(`ps -eo args | grep -c '[s]leep ${mark}'`, s);
      assert.equal(left.stdout, "0\n");
    });

    test("sessions are made once, listed by use, and deleted", async () => {
      const id = `made-${transport}`;
      await client.utils.createSession({ id, env: { HERE: "yes" }, cwd: "/usr" });
      assert.equal((await client.commands.execute("echo $HERE; pwd", id)).stdout, "yes\n/usr\n");
      await fails(client.utils.createSession({ id }), "SessionAlreadyExistsError", "SESSION_ALREADY_EXISTS");
      await client.utils.deleteSession(id);
      assert.equal((await client.commands.execute("echo [$HERE]", id)).stdout, "[]\n");
    });

    test("output is streamed as it comes", async () => {
      const stream = await client.commands.executeStream("echo a; sleep 0.2; echo b >&2; printf '\\303'; sleep 0.2; printf '\\251'; exit 4", s);
      const found = await all(stream);
      assert.equal(found[0].type, "start");
      assert.equal(textOf(found, "stdout"), "a\né");
      assert.equal(textOf(found, "stderr"), "b\n");
      assert.ok(!textOf(found, "stdout").includes("\ufffd"), "a character cut in two is whole");
      assert.deepEqual([found.at(-1).type, found.at(-1).exitCode], ["complete", 4]);
    });

    test("a stream holds up no other command of its session", async () => {
      const stream = await client.commands.executeStream("echo on; sleep 1000", s);
      const iterator = events(stream);
      assert.equal((await iterator.next()).value.type, "start");
      assert.equal((await client.commands.execute("echo meanwhile", s)).stdout, "meanwhile\n");
      await client.processes.killAllProcesses();
      let last;
      for await (const event of iterator) last = event;
      assert.equal(last.type, "complete");
    });

    test("a process is started, seen, followed and killed with all it started", async () => {
      const mark = `80${Date.now() % 100000}`;
      const id = `job-${transport}`;
      const started = await client.processes.startProcess(
        `echo up; setsid sleep ${mark} & sleep ${mark}`, s, { processId: id, env: { P: "1" } },
      );
      assert.equal(started.processId, id);
      assert.ok(started.pid > 0);
      const listed = await client.processes.listProcesses();
      assert.ok(listed.processes.some((one) => one.id === id && one.status === "running"));
      const stream = events(await client.processes.streamProcessLogs(id));
      assert.equal((await stream.next()).value.type, "process_info");
      assert.equal((await stream.next()).value.data, "up\n");
      await client.processes.killProcess(id);
      const left = await client.commands.execute(`ps -eo args | grep -c '[s]leep ${mark}'`, s);
      assert.equal(left.stdout, "0\n", "its children are gone too");
      let last;
      for await (const event of stream) last = event;
      assert.equal(last.type, "exit");
      const { process } = await client.processes.getProcess(id);
      assert.equal(process.status, "killed");
      assert.deepEqual((await client.processes.getProcessLogs(id)).stdout, "up\n");
    });

    test("two hundred thousand lines arrive whole", async () => {
      const stream = await client.commands.executeStream("seq 1 200000", s);
      let text = "";
      for await (const event of events(stream)) if (event.type === "stdout") text += event.data;
      const lines = text.split("\n");
      assert.equal(lines.length, 200_001);
      assert.equal(lines[199_999], "200000");
    });

    test("files: text, bytes, lists, moves, removal", async () => {
      await client.files.mkdir(dir, s, { recursive: true });
      await client.files.writeFile(`${dir}/a.txt`, "hé\n", s);
      const text = await client.files.readFile(`${dir}/a.txt`, s);
      assert.deepEqual([text.content, text.encoding, text.isBinary, text.size], ["hé\n", "utf-8", false, 4]);
      const bytes = randomBytes(5000);
      await client.files.writeFile(`${dir}/b.bin`, bytes.toString("base64"), s, { encoding: "base64" });
      const back = await client.files.readFile(`${dir}/b.bin`, s);
      assert.equal(back.encoding, "base64");
      assert.deepEqual(Buffer.from(back.content, "base64"), bytes);
      await client.files.writeFile(`${dir}/.hidden`, "", s);
      await client.files.mkdir(`${dir}/sub`, s);
      await client.files.renameFile(`${dir}/a.txt`, `${dir}/sub/c.txt`, s);
      await client.files.moveFile(`${dir}/b.bin`, `${dir}/d.bin`, s);
      const names = async (options) => {
        const { files } = await client.files.listFiles(dir, s, options);
        return files.map((one) => one.relativePath).sort();
      };
      assert.deepEqual(await names(), ["d.bin", "sub"]);
      assert.deepEqual(await names({ recursive: true, includeHidden: true }), [".hidden", "d.bin", "sub", "sub/c.txt"]);
      assert.equal((await client.files.exists(`${dir}/a.txt`, s)).exists, false);
      assert.equal((await client.files.exists(`${dir}/d.bin`, s)).exists, true);
      await client.files.deleteFile(`${dir}/d.bin`, s);
      assert.deepEqual(await names(), ["sub"]);
      const relative = await client.files.readFile("hosts", await inEtc());
      assert.ok(relative.content.includes("localhost"));
    });

    async function inEtc() {
      const id = `etc-${transport}`;
      await client.commands.execute("cd /etc", id);
      return id;
    }

    test("a file of 50 MB goes in and comes out", async () => {
      const bytes = randomBytes(50_000_000);
      await client.files.writeFile(`${dir}/big`, bytes.toString("base64"), s, { encoding: "base64" });
      const pieces = [];
      let metadata;
      for await (const event of events(await client.files.readFileStream(`${dir}/big`, s))) {
        if (event.type === "metadata") metadata = event;
        if (event.type === "chunk") pieces.push(Buffer.from(event.data, "base64"));
        if (event.type === "complete") assert.equal(event.bytesRead, bytes.length);
      }
      assert.deepEqual([metadata.size, metadata.isBinary], [bytes.length, true]);
      assert.ok(Buffer.concat(pieces).equals(bytes));
      await client.files.deleteFile(`${dir}/big`, s);
    });

    test("changes are watched", async () => {
      const place = `${dir}/watched`;
      await client.files.mkdir(place, s, { recursive: true });
      const changes = events(await client.watch.watch({ path: place, recursive: true }));
      assert.equal((await changes.next()).value.type, "watching");
      await client.files.writeFile(`${place}/new`, "x", s);
      const { value } = await changes.next();
      assert.deepEqual([value.type, value.path, value.isDirectory], ["event", `${place}/new`, false]);
      await changes.return();
      const first = await client.watch.checkChanges({ path: place });
      const same = await client.watch.checkChanges({ path: place, since: first.version });
      assert.equal(same.status, "unchanged");
      await client.files.writeFile(`${place}/new`, "y", s);
      const changed = await client.watch.checkChanges({ path: place, since: first.version });
      assert.equal(changed.status, "changed");
    });

    test("a directory is archived and restored", async () => {
      await client.files.mkdir(`${dir}/tree/sub`, s, { recursive: true });
      await client.files.writeFile(`${dir}/tree/sub/kept`, "kept", s);
      const made = await client.backup.createArchive(`${dir}/tree`, "/tmp/tree.archive", s, { excludes: [] });
      assert.ok(made.sizeBytes > 0);
      await client.backup.restoreArchive(`${dir}/again`, "/tmp/tree.archive", s);
      assert.equal((await client.files.readFile(`${dir}/again/sub/kept`, s)).content, "kept");
    });

    test("a port is waited for, and so is the end of its process", async () => {
      const port = transport === "http" ? 8101 : 8102;
      const server = `python3 -m http.server ${port}`;
      const { processId } = await client.processes.startProcess(server, s, { cwd: "/etc/skel" });
      const seen = await all(await client.ports.watchPort({ port, mode: "http", path: "/", processId }));
      assert.deepEqual(seen.map((e) => e.type), ["watching", "ready"]);
      assert.equal(seen[1].statusCode, 200);
      await client.processes.killProcess(processId);
      const gone = await client.processes.startProcess("exit 5", s);
      const ended = await all(await client.ports.watchPort({ port: port + 10, mode: "tcp", processId: gone.processId }));
      assert.deepEqual([ended.at(-1).type, ended.at(-1).exitCode], ["process_exited", 5]);
    });

    test("a repository is cloned", async () => {
      const origin = `${dir}/origin`;
      const make = `git init -q -b trunk ${origin} && cd ${origin} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; cd /tmp`;
      assert.equal((await client.commands.execute(make, s)).exitCode, 0);
      const done = await client.git.checkout(`file://${origin}`, s, { targetDir: `${dir}/clone` });
      assert.deepEqual([done.branch, done.targetDir], ["trunk", `${dir}/clone`]);
    });

    test("code keeps its variables", async () => {
      const context = await client.interpreter.createCodeContext({ language: "javascript", cwd: "/tmp" });
      const said = { stdout: "", results: [], errors: [] };
      const callbacks = {
        onStdout: (o) => { said.stdout += o.text; },
        onResult: (r) => { said.results.push(r); },
        onError: (e) => { said.errors.push(e); },
      };
      await client.interpreter.runCodeStream(context.id, "globalThis.x = 20; console.log('hi')", "javascript", callbacks);
      await client.interpreter.runCodeStream(context.id, "x + 1", "javascript", callbacks);
      await client.interpreter.runCodeStream(context.id, "throw new TypeError('no')", "javascript", callbacks);
      assert.equal(said.stdout, "hi\n");
      assert.equal(said.results.at(-1).text, "21");
      assert.deepEqual([said.errors[0].name, said.errors[0].message], ["TypeError", "no"]);
      const contexts = await client.interpreter.listCodeContexts();
      assert.ok(contexts.some((one) => one.id === context.id));
      await client.interpreter.deleteCodeContext(context.id);
      await fails(client.interpreter.deleteCodeContext(context.id), "ContextNotFoundError", "CONTEXT_NOT_FOUND");
    });

    test("each mistake has its own class", async () => {
      await fails(client.files.readFile(`${dir}/none`, s), "FileNotFoundError", "FILE_NOT_FOUND");
      await fails(client.files.readFile(dir, s), "FileSystemError", "IS_DIRECTORY");
      await fails(client.files.deleteFile(dir, s), "FileSystemError", "IS_DIRECTORY");
      await fails(client.files.listFiles("/etc/hosts", s), "FileSystemError", "NOT_DIRECTORY");
      await fails(client.files.mkdir(dir, s), "FileExistsError", "FILE_EXISTS");
      await fails(client.files.writeFile("/etc/hosts/x", "", s), "FileSystemError", "NOT_DIRECTORY");
      await fails(client.files.writeFile("/usr/new", "", s), "PermissionDeniedError", "PERMISSION_DENIED");
      await fails(client.files.readFile("", s), "ValidationFailedError", "VALIDATION_FAILED");
      await fails(client.processes.getProcess("none"), "ProcessNotFoundError", "PROCESS_NOT_FOUND");
      await fails(client.processes.killProcess("none"), "ProcessNotFoundError", "PROCESS_NOT_FOUND");
      await fails(client.commands.execute("", s), "ValidationFailedError", "VALIDATION_FAILED");
      await fails(client.commands.execute("true", "no such id!"), "ValidationFailedError", "VALIDATION_FAILED");
      await fails(client.git.checkout(`file://${dir}/nowhere`, s, { targetDir: `${dir}/x` }), "GitRepositoryNotFoundError", "GIT_REPOSITORY_NOT_FOUND");
    });
  });
}

describe("terminal", () => {
  /** A socket whose frames can be waited for. */
  function open(path) {
    const socket = new WebSocket(`${BASE.replace(/^http/, "ws")}${path}`);
    const seen = { text: "", frames: [], closed: undefined };
    const waiters = new Set();
    const woken = () => { for (const waiter of [...waiters]) waiter(); };
    socket.on("message", (data, binary) => {
      if (binary) seen.text += data.toString();
      else seen.frames.push(JSON.parse(data.toString()));
      woken();
    });
    socket.on("close", (code) => { seen.closed = code; woken(); });
    const until = (what) => new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`not seen: ${what}; ${JSON.stringify(seen)}`)), 150_000);
      const look = () => {
        if (!what(seen)) return;
        waiters.delete(look);
        clearTimeout(timer);
        resolve();
      };
      waiters.add(look);
      look();
    });
    return { socket, seen, until };
  }

  test("types, resizes, is seen again, and tells its end", async () => {
    const first = open("/ws/pty?sessionId=tty&cols=80&rows=24");
    await first.until((seen) => seen.frames.some((frame) => frame.type === "ready"));
    first.socket.send(Buffer.from("echo two-$((1+1)); set -o | grep monitor\r"));
    await first.until((seen) => seen.text.includes("two-2") && /monitor\s+on[^]*\x1b\[\?2004h/.test(seen.text));
    first.socket.send(JSON.stringify({ type: "resize", cols: 100, rows: 30 }));
    first.socket.send(Buffer.from("stty size\r"));
    await first.until((seen) => seen.text.includes("30 100"));
    first.socket.close();
    await first.until((seen) => seen.closed !== undefined);
    const again = open("/ws/pty?sessionId=tty");
    await again.until((seen) => seen.text.includes("two-2"));
    again.socket.send(Buffer.from("exit 6\r"));
    await again.until((seen) => seen.closed !== undefined);
    assert.deepEqual(again.seen.frames.at(-1), { type: "exit", code: 6 });
    assert.equal(again.seen.closed, 1000);
  });
});
