// Daytona's own TypeScript client against our hub.
//
// API_URL is the address of the dialect, API_KEY a token of the hub, TARGET what is said of isolation; nothing
// else is known of the server.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import * as sdk from "@daytonaio/sdk";
import WebSocket from "ws";

const { API_URL, API_KEY, TARGET } = process.env;
assert.ok(API_URL && API_KEY, "API_URL and API_KEY say where the hub is");

const LARGE = 50 << 20;
const SMALLER = 2 << 20;
const CROWD = 20;

const client = (changes = {}) =>
  new sdk.Daytona({ apiKey: API_KEY, apiUrl: API_URL, target: TARGET, ...changes });

/** The error of a call, which must be of exactly this type. */
async function raises(kind, call) {
  const error = await call().then(
    () => assert.fail(`no ${kind.name}`),
    (error) => error,
  );
  assert.equal(error.constructor.name, kind.name, `${error.stack}`);
  return error;
}

/**
 * A terminal. The client gives up after 10 s, which a machine may stand still for; then it may be there or not. Where
 * it is, to create it fails, and it is joined.
 */
async function opened(create, join) {
  const named = (error, kind) => error.constructor.name === kind.name;
  const end = Date.now() + 150_000;
  for (let connect = create, late = false; ; ) {
    try {
      return await connect();
    } catch (error) {
      if (Date.now() < end && named(error, sdk.DaytonaTimeoutError)) {
        late = true;
        connect = create;
      } else if (late && connect !== join && named(error, sdk.DaytonaConnectionError)) {
        connect = join;
      } else {
        throw error;
      }
    }
  }
}

const mark = () => String(1e8 + Math.floor(Math.random() * 9e8));

/** How many processes of the sandbox have this in their command line. */
async function alive(box, number) {
  const spelled = `${number.slice(0, -1)}[${number.at(-1)}]`;
  const found = await box.process.executeCommand(
    `grep -laz -- '${spelled}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l`,
  );
  return Number(found.result);
}

const scenarios = {
  async commands(box) {
    const run = (...args) => box.process.executeCommand(...args);
    const done = await run("echo out; echo err >&2; exit 3");
    assert.deepEqual([done.exitCode, done.result, done.artifacts.stdout], [3, "out\nerr\n", "out\nerr\n"]);
    assert.equal((await run("echo $A; pwd", "/tmp", { A: "wörd" })).result, "wörd\n/tmp\n");
    assert.equal((await run("seq 1 100000")).result.split("\n").length, 100001);
    const secret = mark();
    await raises(sdk.DaytonaProcessExecutionTimeoutError, () =>
      run(`sleep ${secret} & sleep ${secret}`, undefined, undefined, 1),
    );
    assert.equal(await alive(box, secret), 0);
    await raises(sdk.DaytonaValidationError, () => run("true", "/no/such/place"));
    const code = await box.process.codeRun("import sys\nprint(sys.argv[1:])", { argv: ["x y"] });
    assert.equal(code.result, "['x y']\n");
    assert.equal((await box.process.codeRun("raise SystemExit(5)")).exitCode, 5);
  },

  async sessions(box) {
    const { process } = box;
    await process.createSession("work");
    const run = (command, runAsync = false) => process.executeSessionCommand("work", { command, runAsync });
    const first = await run("cd /tmp; export KEPT=yes; echo one; echo two >&2");
    assert.deepEqual([first.exitCode, first.stdout, first.stderr], [0, "one\n", "two\n"]);
    assert.equal((await run("echo $KEPT; pwd")).stdout, "yes\n/tmp\n");
    assert.equal((await run("exit 3")).exitCode, 3);
    assert.equal((await run("echo $KEPT")).stdout, "yes\n");
    // Output comes while the command runs: it waits for an answer to it.
    const talk = await run("echo question; echo aside >&2; read answer; echo $answer; printf 'a\\1\\1\\1b\\2\\2\\2c'", true);
    let out = "";
    let err = "";
    let sent;
    await process.getSessionCommandLogs(
      "work",
      talk.cmdId,
      (text) => {
        out += text;
        if (out === "question\n") sent = process.sendSessionCommandInput("work", talk.cmdId, "answer\n");
      },
      (text) => (err += text),
    );
    await sent;
    assert.deepEqual([out, err], ["question\nanswer\na\x01\x01\x01b\x02\x02\x02c", "aside\n"]);
    const kept = await process.getSessionCommandLogs("work", talk.cmdId);
    assert.deepEqual([kept.stdout, kept.stderr], [out, err]);
    assert.equal((await process.getSessionCommand("work", talk.cmdId)).exitCode, 0);
    await raises(sdk.DaytonaCommandAlreadyCompletedError, () =>
      process.sendSessionCommandInput("work", talk.cmdId, "late"),
    );
    assert.equal((await process.getSession("work")).commands.length, 5);
    const secret = mark();
    // The shell stays: a program that is being replaced has no command line for a moment.
    const sleep = `sh -c 'echo up; sleep ${secret}; :'`;
    const trees = await run(`${sleep} & setsid ${sleep} & ${sleep}`, true);
    await raises(sdk.DaytonaConflictError, () => process.createSession("work"));
    let ups = "";
    let ended;
    const up = (text) => {
      ups += text;
      if (ups !== "up\n".repeat(3)) return;
      ended = alive(box, secret).then((count) => {
        assert.ok(count >= 3, `${count} are alive`);
        return process.deleteSession("work");
      });
    };
    await process.getSessionCommandLogs("work", trees.cmdId, up, up);
    await ended;
    assert.equal(await alive(box, secret), 0);
    await raises(sdk.DaytonaNotFoundError, () => process.getSession("work"));
    assert.deepEqual(await process.listSessions(), []);
  },

  async terminals(box) {
    const { process } = box;
    let seen = "";
    let woken = () => {};
    const decoder = new TextDecoder();
    const onData = (data) => {
      seen += decoder.decode(data, { stream: true });
      woken();
    };
    const shown = async (words) => {
      while (!seen.includes(words)) await new Promise((resolve) => (woken = resolve));
    };
    const join = () => process.connectPty("main", { onData });
    const given = { id: "main", cwd: "/tmp", envs: { GIVEN: "wörd" }, cols: 111, rows: 33, onData };
    const pty = await opened(() => process.createPty(given), join);
    await pty.sendInput("echo $GIVEN-$PWD; stty size\n");
    // Before it says the last of this, bash reads the size and sets it again: a change in between would be lost.
    await shown("wörd-/tmp\r\n33 111\r\n\x1b[?2004h");
    const info = await pty.resize(90, 20);
    assert.deepEqual([info.cols, info.rows, info.active], [90, 20, true]);
    await pty.sendInput("stty size\n");
    await shown("20 90\r\n");
    assert.deepEqual((await process.listPtySessions()).map((one) => one.id), ["main"]);
    let drawn = "";
    let redrawn;
    const ready = new Promise((resolve) => (redrawn = resolve));
    const joinAgain = () =>
      process.connectPty("main", {
        onData: (data) => {
          drawn += new TextDecoder().decode(data);
          if (drawn.includes("33 111")) redrawn();
        },
      });
    const second = await opened(joinAgain, joinAgain);
    await ready;
    await second.disconnect();
    await pty.sendInput("exit 5\n");
    assert.equal((await pty.wait()).exitCode, 5);
    await pty.disconnect();
    const secret = mark();
    const killed = await opened(() => process.createPty({ id: "main", onData }), join);
    seen = "";
    await killed.sendInput(`sh -c 'echo u''p; sleep ${secret}; :'\n`);
    await shown("up\r\n");
    assert.ok((await alive(box, secret)) >= 1);
    await killed.kill();
    assert.equal((await killed.wait()).exitCode, 137);
    assert.equal(await alive(box, secret), 0);
    await killed.disconnect();
    await raises(sdk.DaytonaNotFoundError, () => process.getPtySessionInfo("main"));
    await raises(sdk.DaytonaNotFoundError, () => process.killPtySession("main"));
  },

  async interpreter(box) {
    const interpreter = box.codeInterpreter;
    let live = "";
    const done = await interpreter.runCode("import sys\nx = 20\nprint(x)\nprint('oops', file=sys.stderr)", {
      onStdout: (message) => void (live += message.output),
    });
    assert.deepEqual([done.stdout, done.stderr, done.error, live], ["20\n", "oops\n", undefined, "20\n"]);
    const failed = await interpreter.runCode("print(x)\n1 / 0");
    assert.deepEqual([failed.stdout, failed.error.name], ["20\n", "ZeroDivisionError"]);
    const own = await interpreter.createContext("/tmp");
    assert.equal((await interpreter.runCode("print('x' in dir())", { context: own })).stdout, "False\n");
    assert.deepEqual((await interpreter.listContexts()).map((one) => one.id), [own.id]);
    await raises(sdk.DaytonaTimeoutError, () => interpreter.runCode("while True: pass", { timeout: 1 }));
    await interpreter.deleteContext(own);
    await raises(sdk.DaytonaConnectionError, () => interpreter.runCode("1", { context: own }));
    await raises(sdk.DaytonaNotFoundError, () => interpreter.deleteContext(own));
  },

  async files(box, size) {
    const { fs } = box;
    await fs.createFolder("things", "750");
    await fs.uploadFile(Buffer.from("text ä\n"), "things/a.txt");
    assert.equal((await fs.downloadFile("things/a.txt")).toString(), "text ä\n");
    const odd = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
    await fs.uploadFile(odd, 'things/sp ace ü.bin');
    assert.deepEqual(await fs.downloadFile('things/sp ace ü.bin'), odd);
    const piece = randomBytes(1 << 20);
    const large = Buffer.concat(Array(size >> 20).fill(piece));
    await fs.uploadFile(large, "things/large");
    assert.ok((await fs.downloadFile("things/large")).equals(large));
    await fs.uploadFiles([0, 1, 2].map((n) => ({ source: Buffer.from(`${n}`), destination: `things/many/${n}` })));
    const got = await fs.downloadFiles([{ source: "things/many/2" }, { source: "things/none" }]);
    assert.equal(got[0].result.toString(), "2");
    assert.equal(got[1].errorDetails.code, "FILE_NOT_FOUND");
    const names = (await fs.listFiles("things")).map((one) => one.name).sort();
    assert.deepEqual(names, ["a.txt", "large", "many", "sp ace ü.bin"]);
    assert.equal((await fs.listFiles("things", { depth: 2 })).length, 7);
    assert.equal((await fs.getFileDetails("things")).permissions, "0750");
    assert.equal((await fs.searchFiles("things", "*.txt")).files.length, 1);
    assert.deepEqual((await fs.findFiles("things", "text")).map((one) => [one.line, one.content]), [[1, "text ä"]]);
    assert.ok((await fs.replaceInFiles(["things/a.txt"], "text", "word"))[0].success);
    await fs.setFilePermissions("things/a.txt", { mode: "600" });
    await fs.moveFiles("things/a.txt", "things/b.txt");
    assert.equal((await fs.downloadFile("things/b.txt")).toString(), "word ä\n");
    assert.equal((await fs.getFileDetails("things/b.txt")).permissions, "0600");
    await raises(sdk.DaytonaFileNotFoundError, () => fs.downloadFile("things/a.txt"));
    await raises(sdk.DaytonaFileNotFoundError, () => fs.getFileDetails("things/a.txt"));
    await raises(sdk.DaytonaInvalidFilePathError, () => fs.listFiles("things/b.txt"));
    await raises(sdk.DaytonaConflictError, () => fs.deleteFile("things"));
    await fs.deleteFile("things", true);
    await raises(sdk.DaytonaFileNotFoundError, () => fs.listFiles("things"));
  },

  async repositories(box) {
    const { git, fs } = box;
    await raises(sdk.DaytonaGitRepoNotFoundError, () => git.status("/tmp"));
    await git.init("repo", false, "main");
    await fs.uploadFile(Buffer.from("a\n"), "repo/a");
    await git.add("repo", ["a"]);
    assert.equal((await git.status("repo")).fileStatus[0].staging, "Added");
    assert.equal((await git.commit("repo", "First", "Ann", "ann@example.org")).sha.length, 40);
    await git.createBranch("repo", "side");
    await raises(sdk.DaytonaGitBranchExistsError, () => git.createBranch("repo", "side"));
    await git.checkoutBranch("repo", "side");
    assert.equal((await git.branches("repo")).current, "side");
    await raises(sdk.DaytonaGitBranchNotFoundError, () => git.checkoutBranch("repo", "none"));
    await git.clone("repo", "copy", "main");
    assert.equal((await fs.downloadFile("copy/a")).toString(), "a\n");
  },
};

describe("one client", () => {
  let daytona;
  let box;
  before(async () => {
    daytona = client();
    box = await daytona.create();
  });
  after(async () => {
    await box.delete();
    await daytona[Symbol.asyncDispose]();
  });
  for (const [name, scenario] of Object.entries(scenarios)) {
    test(name, () => scenario(box, LARGE));
  }
});

test("twenty clients at once", async () => {
  const one = async () => {
    const daytona = client();
    const box = await daytona.create();
    try {
      for (const scenario of Object.values(scenarios)) await scenario(box, SMALLER);
    } finally {
      await box.delete();
      await daytona[Symbol.asyncDispose]();
    }
  };
  await Promise.all(Array.from({ length: CROWD }, one));
});

test("a life from its making to its end", async () => {
  const daytona = client();
  const name = `life-js-${process.pid}-${Date.now()}`;
  const box = await daytona.create({ name, envVars: { MADE: "so" }, labels: { team: name }, autoStopInterval: 30 });
  assert.deepEqual([box.name, box.state, box.autoStopInterval], [name, "started", 30]);
  const again = await daytona.get(name);
  assert.equal((await again.process.executeCommand("echo $MADE")).result, "so\n");
  await raises(sdk.DaytonaConflictError, () => daytona.create({ name }));
  assert.deepEqual(await box.setLabels({ team: name }), { team: name });
  const listed = [];
  for await (const one of daytona.list({ labels: { team: name } })) listed.push(one.id);
  assert.deepEqual(listed, [box.id]);
  await box.setAutostopInterval(45);
  await box.refreshData();
  assert.equal(box.autoStopInterval, 45);
  assert.ok((await box.getPreviewLink(3000)).url);
  assert.ok((await box.getWorkDir()).startsWith("/"));
  await box.delete();
  assert.equal(box.state, "destroyed");
  await raises(sdk.DaytonaNotFoundError, () => daytona.get(name));
  await raises(sdk.DaytonaNotFoundError, () => box.process.executeCommand("true"));
  await daytona[Symbol.asyncDispose]();
});

test("other languages", async (t) => {
  const daytona = client();
  for (const [language, code] of [
    ["javascript", "console.log(process.argv.slice(2), 6 * 7)"],
    ["typescript", "const n: number = 6 * 7; console.log([], n)"],
  ]) {
    const box = await daytona.create({ language });
    t.after(() => box.delete());
    const done = await box.process.codeRun(code);
    assert.deepEqual([done.exitCode, done.result], [0, "[] 42\n"], language);
    assert.equal((await box.process.codeRun("throw new Error('no')")).exitCode, 1, language);
  }
  await daytona[Symbol.asyncDispose]();
});

test("mistakes", async () => {
  const daytona = client();
  await raises(sdk.DaytonaNotFoundError, () => daytona.get("no-such-sandbox"));
  await raises(sdk.DaytonaValidationError, () => daytona.create({ public: true }));
  await raises(sdk.DaytonaNotFoundError, () => daytona.create({ snapshot: "no-such-image" }));
  const stranger = client({ apiKey: "sk_wrong" });
  await raises(sdk.DaytonaAuthenticationError, () => stranger.get("any"));
  const nowhere = client({ apiUrl: "http://127.0.0.1:9/api" });
  await raises(sdk.DaytonaConnectionError, () => nowhere.get("any"));
  for (const one of [daytona, stranger, nowhere]) await one[Symbol.asyncDispose]();
});

test("events are listened for by whoever shows a token", async (t) => {
  // That client's socket does not keep a program alive.
  const awake = setInterval(() => {}, 1000);
  t.after(() => clearInterval(awake));
  const daytona = client();
  await daytona.eventDispatcher.connect();
  assert.ok(daytona.eventDispatcher.isConnected);
  await daytona[Symbol.asyncDispose]();
  const stranger = client({ apiKey: "sk_wrong" });
  await assert.rejects(stranger.eventDispatcher.connect(), /Unauthorized/);
  await stranger[Symbol.asyncDispose]();
  // Whoever shows nothing is not kept.
  const address = `${API_URL.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`;
  const silent = new WebSocket(address);
  await new Promise((resolve) => silent.once("close", resolve));
});

test("a socket ends with its token", async () => {
  const hub = API_URL.replace("/daytona/api", "");
  const headers = { Authorization: `Bearer ${API_KEY}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ scopes: ["create"] });
  const made = await (await fetch(`${hub}/v1/tokens`, { method: "POST", headers, body })).json();
  const daytona = client({ apiKey: made.token });
  const box = await daytona.create();
  const onData = () => {};
  const pty = await opened(
    () => box.process.createPty({ id: "t", onData }),
    () => box.process.connectPty("t", { onData }),
  );
  const ended = pty.wait();
  await fetch(`${hub}/v1/tokens/${made.id}`, { method: "DELETE", headers });
  assert.equal((await ended).exitCode, undefined);
  await raises(sdk.DaytonaAuthenticationError, () => box.process.executeCommand("true"));
  await daytona[Symbol.asyncDispose]();
  const admin = client();
  await (await admin.get(box.id)).delete();
  await admin[Symbol.asyncDispose]();
});
