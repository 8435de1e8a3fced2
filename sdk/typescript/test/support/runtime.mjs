// A little of everything, for a runtime given the address of a hub: fetch both ways, events, sockets, disposal.
import { Sandbox, NotFoundError } from "../../dist/index.js";
import { AnthropicTools } from "../../dist/tools/index.js";

const [url, token, spec] = globalThis.Deno?.args ?? globalThis.process?.argv.slice(2) ?? new URLSearchParams(location.search).values();
const check = (name, actual, expected) => {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error(`${name}: ${JSON.stringify(actual)}`);
};

const sandbox = await Sandbox.create({ url, token, ...JSON.parse(spec) });
try {
  check("exec", (await sandbox.exec("cat; exit 3", { stdin: new Uint8Array([255, 0]) })).stdoutBytes.join(), "255,0");
  let text = "";
  for await (const event of sandbox.execStream("seq 1 1000")) if (event.type === "output") text += event.text;
  check("stream", text.length, 3893);
  async function* pieces() {
    for (let n = 0; n < 20; n++) yield new Uint8Array(100_000).fill(n);
  }
  check("write", (await sandbox.files.write("file", pieces())).size, 2_000_000);
  let length = 0;
  for await (const piece of sandbox.files.readStream("file")) length += piece.length;
  check("read", length, 2_000_000);
  const session = await sandbox.createSession();
  await session.exec("x=1");
  check("session", (await session.exec("echo $x")).stdout, "1\n");
  const terminal = await sandbox.terminal({ command: "read line; echo got $line; exit 4" });
  await terminal.write("typed\n");
  check("terminal", (await terminal.waitForText("got typed")).includes("got typed"), true);
  check("exit", (await terminal.waitForExit()).exitCode, 4);
  check("error", await sandbox.files.readText("none").catch((error) => error instanceof NotFoundError && error.code), "file_not_found");
  const stop = new AbortController();
  const running = sandbox.exec("sleep 1000", { signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 100);
  check("abort", await running.catch((error) => error.message), "enough");
  check("tools", (await new AnthropicTools(sandbox).bash.run({ command: "echo hi" })).content, "hi");
} finally {
  await sandbox[Symbol.asyncDispose ?? "destroy"]();
}
console.log("all right");
