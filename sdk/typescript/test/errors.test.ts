// Mistakes, each with the class, code and advice that a program or a person needs.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as sandshell from "sandshell";
import { ApiError, CommandFailedError, ConnectionError, Hub, Sandbox, SandshellError, WaitError } from "sandshell";
import { type Server, spec, startHub } from "./support/hub.js";

let server: Server;
let hub: Hub;
let sandbox: Sandbox;
before(async () => {
  server = await startHub();
  hub = new Hub(server);
  sandbox = await hub.create(spec);
  await sandbox.files.write("file", "content");
  await sandbox.files.write("directory/inner", "");
  await sandbox.files.mkdir("locked", { mode: "0555" });
  await sandbox.startProcess("true", { id: "ended" });
  await sandbox.process("ended").waitForExit();
});
after(() => server.stop());

type ClassName =
  | "InvalidRequestError" | "AuthenticationError" | "PermissionDeniedError" | "NotFoundError" | "ConflictError" | "GoneError" | "UnprocessableError"
  | "ProgramError" | "GitError" | "LimitError" | "IsolationError" | "TimedOutError" | "ServerError";

const mistakes: [name: string, act: () => Promise<unknown>, Class: ClassName, code: string, status: number, pointer?: string][] = [
  ["a wrong token", () => Sandbox.list({ ...server, token: "sk_wrong" }), "AuthenticationError", "unauthorized", 401],
  ["an unknown field", () => sandbox.exec("true", { comand: 1 } as object), "InvalidRequestError", "invalid_request", 400, "/comand"],
  ["an empty argv", () => sandbox.exec([]), "InvalidRequestError", "invalid_request", 400, "/argv"],
  ["no such directory", () => sandbox.exec("true", { cwd: "/none" }), "InvalidRequestError", "invalid_cwd", 400, "/cwd"],
  ["no such user", () => sandbox.exec("true", { user: "nobody-here" }), "InvalidRequestError", "user_not_found", 400],
  ["no such program", () => sandbox.exec(["no-such-program"]), "ProgramError", "program_not_found", 422],
  ["no program", () => sandbox.exec(["/workspace/file"]), "ProgramError", "program_not_executable", 422],
  ["no such process", () => sandbox.process("none").record(), "NotFoundError", "process_not_found", 404],
  ["no such session", () => sandbox.session("none").exec("true"), "NotFoundError", "session_not_found", 404],
  ["no such terminal", () => sandbox.attachTerminal("none").waitForExit(), "NotFoundError", "terminal_not_found", 404],
  ["no such context", () => sandbox.contexts.get("none").run("1"), "NotFoundError", "context_not_found", 404],
  ["no such backup", () => sandbox.backups.restore("none"), "NotFoundError", "backup_not_found", 404],
  ["no such file", () => sandbox.files.readText("none"), "NotFoundError", "file_not_found", 404],
  ["no such sandbox", () => Sandbox.connect("none", server), "NotFoundError", "sandbox_not_found", 404],
  ["no such image", () => hub.create({ ...spec, image: "none" }), "NotFoundError", "image_not_found", 404],
  ["a directory is no file", () => sandbox.files.readText("directory"), "UnprocessableError", "is_a_directory", 422],
  ["a file is no directory", () => sandbox.files.list("file"), "UnprocessableError", "not_a_directory", 422],
  ["no right to it", () => sandbox.files.write("locked/file", ""), "PermissionDeniedError", "permission_denied", 403],
  ["it is there", () => sandbox.files.mkdir("directory"), "ConflictError", "file_exists", 409],
  ["it is not empty", () => sandbox.files.remove("directory"), "ConflictError", "directory_not_empty", 409],
  ["not the version known", () => sandbox.files.write("file", "x", { ifMatch: '"other"' }), "ConflictError", "precondition_failed", 412],
  ["not absent", () => sandbox.files.write("file", "x", { ifAbsent: true }), "ConflictError", "precondition_failed", 412],
  ["no archive", () => sandbox.files.uploadArchive("directory", "no archive"), "UnprocessableError", "invalid_archive", 422],
  ["a range beyond the end", () => sandbox.files.readText("file", { offset: 99 }), "InvalidRequestError", "range_not_satisfiable", 416],
  ["an ended process", () => sandbox.process("ended").signal("TERM"), "ConflictError", "process_ended", 409],
  ["an id that is taken", () => sandbox.startProcess("false", { id: "ended" }), "ConflictError", "id_conflict", 409, "/command"],
  ["an id that is none", () => sandbox.createSession({ id: "no id" }), "InvalidRequestError", "invalid_request", 400, "/id"],
  ["no repository", () => sandbox.git.status({ path: "/tmp" }), "GitError", "git_not_found", 422],
  ["a password in the URL", () => sandbox.git.clone("https://me:secret@example.org/x"), "InvalidRequestError", "invalid_request", 400, "/url"],
  ["no such language", () => sandbox.contexts.create("cobol" as "bash"), "InvalidRequestError", "invalid_request", 400, "/language"],
];

for (const [name, act, Class, code, status, pointer] of mistakes) {
  test(name, async () => {
    const error = await act().then((result) => assert.fail(`it succeeded: ${JSON.stringify(result)}`), (error: unknown) => error);
    assert.ok(error instanceof sandshell[Class], `${String(error)} is no ${Class}`);
    assert.ok(error instanceof ApiError && error instanceof SandshellError && error instanceof Error);
    assert.deepEqual({ name: error.name, code: error.code, status: error.status }, { name: Class, code, status });
    if (pointer) assert.equal(error.pointer, pointer);
    assert.match(error.requestId ?? "", /^req_/);
    assert.ok(error.message.includes(error.detail) && error.message.includes(code));
    if (error.hint) assert.ok(error.message.includes(error.hint));
  });
}

test("a sandbox that is over", async () => {
  const brief = await hub.create(spec);
  await brief.destroy();
  await assert.rejects(brief.exec("true"), (error) => error instanceof sandshell.GoneError && error.code === "sandbox_gone");
  await assert.rejects(Sandbox.connect(brief.id, server), sandshell.GoneError);
  await brief[Symbol.asyncDispose]();
});

test("a command that has to succeed", async () => {
  const error = await sandbox.exec("echo out; echo why >&2; exit 7", { check: true }).catch((error: unknown) => error);
  assert.ok(error instanceof CommandFailedError);
  assert.equal(error.exitCode, 7);
  assert.equal(error.result.stdout, "out\n");
  assert.match(error.message, /exit code 7: why/);
});

test("what is waited for and does not come", async () => {
  const process = await sandbox.startProcess("echo begun; sleep 1000");
  await assert.rejects(process.waitForExit({ timeoutMs: 50 }), (error) => error instanceof WaitError && error.outcome === "timeout");
  await process.kill();
  await assert.rejects(process.waitForLog("never"), (error) => error instanceof WaitError && error.outcome === "exit");
});

test("nobody there", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  taken.close();
  await once(taken, "close");
  const url = `http://127.0.0.1:${port}`;
  await assert.rejects(
    Sandbox.list({ url, token: "x", retries: 1 }),
    (error) => error instanceof ConnectionError && error.message.includes(`${url}: `) && error.message.includes("no hub runs there"),
  );
});

test("the token of the environment, and its file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sandshell-ts-token-"));
  const file = join(directory, "token");
  const list = (token?: string): Promise<unknown> => Sandbox.list({ url: server.url, token });
  const unauthorized = (error: unknown): boolean =>
    error instanceof sandshell.AuthenticationError && error.message.includes("SANDSHELL_TOKEN, ") && error.message.includes("SANDSHELL_TOKEN_FILE");
  const notRead = (error: unknown): boolean =>
    error instanceof SandshellError && error.message.includes(`${file} (SANDSHELL_TOKEN_FILE) `);
  delete process.env["SANDSHELL_TOKEN"];
  delete process.env["SANDSHELL_TOKEN_FILE"];
  try {
    await assert.rejects(list(), unauthorized);
    process.env["SANDSHELL_TOKEN_FILE"] = file;
    await assert.rejects(list(), notRead);
    await writeFile(file, "\n");
    await assert.rejects(list(), notRead);
    await list(server.token);
    await writeFile(file, `${server.token}\n`);
    await list();
    await assert.rejects(list("sk_wrong"), unauthorized);
    process.env["SANDSHELL_TOKEN"] = "sk_wrong";
    await assert.rejects(list(), unauthorized);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("another server, which says other things", async () => {
  let requests = 0;
  const other = createServer((request, response) => {
    requests += 1;
    if (request.url?.startsWith("/v1/tokens")) return void response.writeHead(200).end("<html>");
    if (request.method === "DELETE") return void response.writeHead(503, { "retry-after": "0" }).end();
    response.writeHead(500, { "x-request-id": "theirs" }).end("oops");
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  const odd = new Hub({ url: `http://127.0.0.1:${(other.address() as AddressInfo).port}`, token: "x", retries: 2 });
  await assert.rejects(odd.list(), (error) => error instanceof sandshell.ServerError && error.status === 500 && error.requestId === "theirs");
  assert.equal(requests, 1);
  await assert.rejects(odd.tokens.list(), /not JSON/);
  requests = 0;
  // A server that is busy is asked again.
  await assert.rejects(odd.sandbox("x").destroy(), (error) => error instanceof sandshell.ServerError && error.status === 503);
  assert.equal(requests, 3);
  other.close();
});
