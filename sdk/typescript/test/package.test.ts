// What is published: the package is made, installed into an empty project, and there every example of the README runs.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Server, spec, startHub } from "./support/hub.js";

const run = promisify(execFile);
const home = fileURLToPath(new URL("../..", import.meta.url));
const readme = await readFile(join(home, "README.md"), "utf8");

interface Example {
  title: string;
  code: string;
  output: string;
}

/** Each block of code with the block of its output. */
const examples: Example[] = [...readme.matchAll(/```ts\n([^]*?)```\n\n```text\n([^]*?)```/g)].map((match) => ({
  title: readme.slice(0, match.index).match(/^#+ (.*)$/gm)?.at(-1) ?? "",
  code: match[1] ?? "",
  output: match[2] ?? "",
}));

let server: Server;
let project: string;

before(async () => {
  server = await startHub();
  project = await mkdtemp(join(tmpdir(), "sandshell-ts-project-"));
});
after(async () => {
  await server.stop();
  await rm(project, { recursive: true, force: true });
});

test("the package has what it needs and installs into an empty project", async () => {
  // Built already; a second build would write under the feet of the tests beside this one.
  const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], { cwd: home });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  const paths = packed.files.map((file) => file.path);
  for (const path of ["LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts", "dist/xterm.js", "dist/tools/index.js"]) {
    assert.ok(paths.includes(path), `${path} is missing`);
  }
  assert.ok(paths.every((path) => /^(dist\/|LICENSE|README|package\.json)/.test(path)), paths.join());
  await writeFile(join(project, "package.json"), '{"name":"empty","private":true,"type":"module"}');
  await run("npm", ["install", "--no-audit", "--no-fund", "--offline", `./${packed.filename}`], { cwd: project });
  assert.deepEqual((await readdir(join(project, "node_modules"))).filter((name) => !name.startsWith(".")), ["sandshell"]);
});

test("the core imports nothing of Node", async () => {
  const directory = join(project, "node_modules/sandshell/dist");
  for (const path of (await readdir(directory, { recursive: true })).filter((name) => name.endsWith(".js"))) {
    for (const [, name] of (await readFile(join(directory, path), "utf8")).matchAll(/(?:from|import\()\s*"([^"]+)"/g)) {
      assert.ok(name?.startsWith("."), `${path} imports ${name}`);
    }
  }
});

test("every example of the README, type-checked strictly", async () => {
  assert.equal(examples.length, readme.match(/```ts/g)?.length);
  await symlink(join(home, "node_modules/@types"), join(project, "node_modules/@types"));
  for (const [index, { code }] of examples.entries()) {
    await writeFile(join(project, `example-${index}.ts`), `${patient(withSpec(code))}\nexport {};\n`);
  }
  const options = { target: "ES2022", module: "NodeNext", strict: true, skipLibCheck: true, types: ["node"], lib: ["ES2022", "ESNext.Disposable", "DOM", "DOM.AsyncIterable"] };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
  await run(process.execPath, [join(home, "node_modules/typescript/bin/tsc"), "-p", project]).catch((error: { stdout: string }) => assert.fail(error.stdout));
});

test("the types need no more than the library of a browser or of Node, each by itself", async () => {
  const source = ["sandshell", "sandshell/xterm", "sandshell/tools"].map((name, index) => `export * as part${index} from "${name}";\n`).join("");
  await writeFile(join(project, "all.mts"), source);
  const tsc = async (lib: string[], types: string[]): Promise<void> => {
    const compilerOptions = { strict: true, noEmit: true, target: "ES2022", module: "NodeNext", lib, types };
    const config = join(project, "tsconfig.types.json");
    await writeFile(config, JSON.stringify({ compilerOptions, files: ["all.mts"] }));
    await run(process.execPath, [join(home, "node_modules/typescript/bin/tsc"), "-p", config]).catch((error: { stdout: string }) => assert.fail(error.stdout));
  };
  await tsc(["ES2022", "DOM"], []);
  await tsc(["ES2022"], ["node"]);
});

for (const [index, { title, output }] of examples.entries()) {
  test(`example: ${title}`, { timeout: 300_000 }, async () => {
    const env = { ...process.env, SANDSHELL_URL: server.url, SANDSHELL_TOKEN: server.token, NO_COLOR: "1" };
    const { stdout } = await run(process.execPath, [`example-${index}.js`], { cwd: project, env });
    const pattern = output.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("[^]*?");
    assert.match(stdout, new RegExp(`^${pattern}$`));
  });
}

/** What comes soon comes late on a machine that stands still for a while. */
const patient = (code: string): string => code.replace(/timeoutMs: [12]0_000/g, "timeoutMs: 120_000");

/** An ordinary user cannot have every protection, and says so. */
function withSpec(code: string): string {
  if (!("isolation" in spec)) return code;
  return code.replace("Sandbox.create()", `Sandbox.create(${JSON.stringify(spec)})`);
}
