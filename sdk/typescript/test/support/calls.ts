// The calls of scenarios, each as a user of the library would write it. Arguments come in this library's names.

import { isUtf8 } from "node:buffer";
import { type CodeResult, type Command, type CommandResult, type OutputEvent, type Sandbox, SessionExecResult, ExecResult } from "sandshell";
import { type Stage, snake, why } from "./scenario.js";

// What a scenario holds is checked by the server; types would have to be asserted one by one.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Args = Record<string, any>;

const bytesOf = (args: Args): Uint8Array => Buffer.from(args["data"] as string, args["dataEncoding"] === "base64" ? "base64" : "utf8");

function told(bytes: Uint8Array, encoding?: "utf8" | "base64"): { data: string; encoding: string } {
  const chosen = encoding ?? (isUtf8(bytes) ? "utf8" : "base64");
  return { data: Buffer.from(bytes).toString(chosen), encoding: chosen };
}

async function all(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const commandOf = (args: Args): Command => (args["argv"] ?? args["command"]) as Command;

/** A result with its output as it stands on the wire. */
function plain(result: CommandResult | CodeResult): object {
  const out = told(result.stdoutBytes, result.stdoutEncoding);
  const err = told(result.stderrBytes, result.stderrEncoding);
  return { ...result, stdout: out.data, stderr: err.data };
}

/** A call to one thing, whose id is in the argument of that name. */
function on(name: string, use: (stage: Stage, id: string, rest: Args) => unknown): Call {
  return async (stage, { [name]: id, ...rest }) => use(stage, id as string, rest);
}

function inputOf({ command, argv, stdin, stdinEncoding, ...rest }: Args): Args {
  if (stdin === undefined) return rest;
  return { ...rest, stdin: stdinEncoding === "base64" ? Buffer.from(stdin as string, "base64") : stdin };
}

async function joined(events: AsyncIterable<OutputEvent | { type: "command" }>): Promise<Args> {
  const streams: Record<string, Buffer[]> = { stdout: [], stderr: [] };
  let rest: Args = {};
  for await (const event of events) {
    if (event.type === "output") streams[event.stream]?.push(Buffer.from(event.bytes));
    else if (event.type === "truncated") rest = { ...rest, truncated: true };
    else rest = { ...rest, ...event };
  }
  return { ...rest, stdout: told(Buffer.concat(streams["stdout"] ?? [])).data, stderr: told(Buffer.concat(streams["stderr"] ?? [])).data };
}

const box = (stage: Stage, id: unknown): Sandbox => (id ? stage.hub.sandbox(id as string) : stage.sandbox);

type Call = (stage: Stage, args: Args) => Promise<unknown>;

export const calls: Record<string, Call> = {
  "sandbox.create": async ({ hub, others }, args) => {
    const { spec } = await import("./hub.js");
    const made = await hub.create({ ...spec, ...args });
    others.push(made);
    return made.record();
  },
  "sandbox.get": on("sandbox", (stage, id) => box(stage, id).record()),
  "sandbox.update": on("sandbox", (stage, id, patch) => box(stage, id).update(patch)),
  "sandbox.pause": on("sandbox", (stage, id) => box(stage, id).pause()),
  "sandbox.resume": on("sandbox", (stage, id) => box(stage, id).resume()),
  "sandbox.keepalive": on("sandbox", (stage, id) => box(stage, id).keepalive()),
  "sandbox.destroy": on("sandbox", (stage, id) => box(stage, id).destroy()),
  "sandbox.list": async ({ hub }, { label, ...rest }) => {
    const [name, value] = label ? (label as string).split("=") : [];
    return { items: await hub.list({ ...rest, ...(name && value ? { labels: { [name]: value } } : {}) }) };
  },
  "token.create": async ({ hub }, args) => hub.tokens.create(args as { scopes: string[] }),
  "token.list": async ({ hub }) => ({ items: await hub.tokens.list() }),
  "token.revoke": on("token", ({ hub }, id) => hub.tokens.revoke(id)),

  "exec.run": async ({ sandbox }, args) => {
    const result = await sandbox.exec(commandOf(args), inputOf(args));
    return result instanceof ExecResult && plain(result);
  },
  "exec.stream": async ({ sandbox }, args) => joined(sandbox.execStream(commandOf(args), inputOf(args))),

  "process.start": async ({ sandbox }, args) => (await sandbox.startProcess(commandOf(args), inputOf(args))).record(),
  "process.list": async ({ sandbox }, args) => ({ items: await sandbox.processes(args) }),
  "process.get": on("process", ({ sandbox }, id) => sandbox.process(id).record()),
  "process.kill": on("process", ({ sandbox }, id, args) => sandbox.process(id).kill(args)),
  "process.delete": on("process", ({ sandbox }, id) => sandbox.process(id).delete()),
  "process.wait": on("process", ({ sandbox }, id, args) => sandbox.process(id).wait(args)),
  "process.signal": on("process", ({ sandbox }, id, { signal, ...rest }) => sandbox.process(id).signal(signal as string, rest)),
  "process.output": on("process", ({ sandbox }, id, args) => joined(sandbox.process(id).events(args))),
  "process.read": on("process", async ({ sandbox }, id, { stream, offset, encoding }) =>
    told(await all(sandbox.process(id).output(stream as "stdout", { offset: offset as number, follow: false })), encoding as "utf8")),
  "process.stdin": on("process", async ({ sandbox }, id, args) => ({
    offset: await sandbox.process(id).write(bytesOf(args), { offset: args["offset"] as number }),
  })),
  "process.close_stdin": on("process", async ({ sandbox }, id) => ({ offset: await sandbox.process(id).closeStdin() })),

  "session.create": async ({ sandbox }, args) => (await sandbox.createSession(args)).record(),
  "session.list": async ({ sandbox }) => ({ items: await sandbox.sessions() }),
  "session.get": on("session", ({ sandbox }, id) => sandbox.session(id).record()),
  "session.update": on("session", ({ sandbox }, id, args) => sandbox.session(id).update(args)),
  "session.exec": on("session", async ({ sandbox }, id, args) => {
    const result = await sandbox.session(id).exec(args["command"] as string, inputOf(args));
    return result instanceof SessionExecResult && plain(result);
  }),
  "session.stream": on("session", ({ sandbox }, id, args) =>
    joined(sandbox.session(id).execStream(args["command"] as string, inputOf(args)) as AsyncIterable<OutputEvent>)),
  "session.interrupt": on("session", ({ sandbox }, id) => sandbox.session(id).interrupt()),
  "session.fork": on("session", async ({ sandbox }, id, args) => (await sandbox.session(id).fork(args)).record()),
  "session.delete": on("session", ({ sandbox }, id) => sandbox.session(id).delete()),
  "session.commands": on("session", async ({ sandbox }, id) => ({ items: await sandbox.session(id).commands() })),
  "session.output": on("session", async ({ sandbox }, id, { command, stream }) =>
    told(await all(sandbox.session(id).commandOutput(command as string, stream as "stdout")))),

  "terminal.create": async ({ sandbox, terminals }, { argv, command, ...rest }) => {
    const terminal = await sandbox.terminal({ ...rest, command: (argv ?? command) as Command });
    terminals.set(terminal.id, terminal);
    return terminal.record();
  },
  "terminal.list": async ({ sandbox }) => ({ items: await sandbox.terminals() }),
  "terminal.get": on("terminal", ({ sandbox }, id) => sandbox.attachTerminal(id).record()),
  "terminal.resize": on("terminal", ({ sandbox }, id, { cols, rows }) => sandbox.attachTerminal(id).resize(cols as number, rows as number)),
  "terminal.screen": on("terminal", ({ sandbox }, id, args) => sandbox.attachTerminal(id).screen(args)),
  "terminal.delete": on("terminal", ({ sandbox }, id) => sandbox.attachTerminal(id).delete()),
  "terminal.type": on("terminal", ({ terminals }, id, args) => terminals.get(id)?.write(bytesOf(args))),
  "terminal.read_until": on("terminal", async ({ sandbox }, id, { text }) => ({
    data: await sandbox.attachTerminal(id).waitForText(text as string), encoding: "utf8",
  })),
  "terminal.wait": on("terminal", ({ sandbox }, id) => sandbox.attachTerminal(id).waitForExit()),

  "file.write": async ({ sandbox }, { path, data, dataEncoding, ...rest }) => sandbox.files.write(path as string, bytesOf({ data, dataEncoding }), rest),
  "file.read": async ({ sandbox }, { path, range, encoding }) => {
    const [first, last] = (range as [number, number] | undefined) ?? [];
    const part = first === undefined || last === undefined ? {} : { offset: first, length: last - first + 1 };
    return told(await sandbox.files.readBytes(path as string, part), encoding as "utf8");
  },
  "file.list": async ({ sandbox }, { path, ...rest }) => ({ items: await sandbox.files.list(path as string, rest) }),
  "file.stat": async ({ sandbox }, { path, ...rest }) => sandbox.files.stat(path as string, rest),
  "file.mkdir": async ({ sandbox }, { path, ...rest }) => sandbox.files.mkdir(path as string, rest),
  "file.move": async ({ sandbox }, { from, to, ...rest }) => sandbox.files.move(from as string, to as string, rest),
  "file.copy": async ({ sandbox }, { from, to, ...rest }) => sandbox.files.copy(from as string, to as string, rest),
  "file.remove": async ({ sandbox }, { path, ...rest }) => sandbox.files.remove(path as string, rest),
  "file.chmod": async ({ sandbox }, { path, mode, ...rest }) => sandbox.files.chmod(path as string, mode as string, rest),
  "file.find": async ({ sandbox }, { path, ...rest }) => sandbox.files.find(path as string, rest),
  "file.search": async ({ sandbox }, { path, pattern, ...rest }) => sandbox.files.search(path as string, pattern as string, rest),
  "file.pack": async ({ sandbox }, { path, ...rest }) => told(await all(sandbox.files.downloadArchive(path as string, rest)), "base64"),
  "file.unpack": async ({ sandbox }, { path, data, dataEncoding, ...rest }) =>
    sandbox.files.uploadArchive(path as string, bytesOf({ data, dataEncoding }), rest),

  "watch.open": async ({ sandbox, watches }, { path, as, ...rest }) => {
    const watch = await sandbox.files.watch(path as string, rest);
    watches.set(as as string, watch);
    return watch.ready;
  },
  "watch.until": on("watch", async ({ watches }, name, { event }) => ({ events: await until(watches.get(name) ?? none(), event) })),
  "watch.close": on("watch", async ({ watches }, name) => watches.get(name)?.close()),

  "git.clone": async ({ sandbox }, { url, ...rest }) => sandbox.git.clone(url as string, rest),
  "git.status": async ({ sandbox }, args) => sandbox.git.status(args),
  "git.diff": async ({ sandbox }, args) => sandbox.git.diff(args),
  "git.log": async ({ sandbox }, args) => sandbox.git.log(args),
  "git.branches": async ({ sandbox }, args) => sandbox.git.branches(args),
  "git.checkout": async ({ sandbox }, { target, ...rest }) => sandbox.git.checkout(target as string, rest),
  "git.add": async ({ sandbox }, args) => sandbox.git.add(args),
  "git.commit": async ({ sandbox }, { message, ...rest }) => sandbox.git.commit(message as string, rest),
  "git.pull": async ({ sandbox }, args) => sandbox.git.pull(args),
  "git.push": async ({ sandbox }, args) => sandbox.git.push(args),

  "backup.create": async ({ sandbox }, { path, ...rest }) => sandbox.backups.create(path as string, rest),
  "backup.list": async ({ sandbox }) => ({ items: await sandbox.backups.list() }),
  "backup.get": on("backup", ({ sandbox }, id) => sandbox.backups.get(id)),
  "backup.restore": on("backup", ({ sandbox }, id, args) => sandbox.backups.restore(id, args)),
  "backup.delete": on("backup", ({ sandbox }, id) => sandbox.backups.delete(id)),

  "port.list": async ({ sandbox }) => ({ items: await sandbox.ports.list() }),
  "port.wait": async ({ sandbox }, { port, ...rest }) => sandbox.ports.wait(port as number, rest),
  "port.expose": async ({ sandbox }, { port }) => sandbox.ports.expose(port as number),
  "port.unexpose": async ({ sandbox }, { port }) => sandbox.ports.unexpose(port as number),
  "port.fetch": async ({ sandbox }, { port, path, method, data }) => {
    const init = { ...(method ? { method: method as string } : {}), ...(data ? { body: data as string } : {}) };
    const response = await sandbox.ports.fetch(port as number, path as string, init);
    return { status: response.status, body: await response.text() };
  },

  "context.create": async ({ sandbox }, { language, ...rest }) => (await sandbox.contexts.create(language as "bash", rest)).record(),
  "context.list": async ({ sandbox }) => ({ items: await sandbox.contexts.list() }),
  "context.get": on("context", ({ sandbox }, id) => sandbox.contexts.get(id).record()),
  "context.run": on("context", async ({ sandbox }, id, { code, ...rest }) => plain(await sandbox.contexts.get(id).run(code as string, rest))),
  "context.stream": on("context", async ({ sandbox }, id, { code, ...rest }) => {
    const told: Args = { stdout: "", stderr: "", results: [] };
    for await (const event of sandbox.contexts.get(id).runStream(code as string, rest)) {
      if (event.type === "stdout" || event.type === "stderr") told[event.type] += event.text;
      else if (event.type === "result") told["results"].push(event);
      else if (event.type === "error") told["error"] = event;
      else Object.assign(told, event);
    }
    return told;
  }),
  "context.interrupt": on("context", ({ sandbox }, id) => sandbox.contexts.get(id).interrupt()),
  "context.restart": on("context", ({ sandbox }, id) => sandbox.contexts.get(id).restart()),
  "context.delete": on("context", ({ sandbox }, id) => sandbox.contexts.get(id).delete()),

  "env.get": async ({ sandbox }) => sandbox.env.get(),
  "env.update": async ({ sandbox }, { env }) => sandbox.env.update(env as Record<string, string>),
  "events.until": async ({ sandbox }, { event, ...rest }) => ({ events: await until(sandbox.events(rest), event) }),
  "stats.get": async ({ sandbox }) => sandbox.stats(),
  "protections.get": async ({ sandbox }) => ({ protections: await sandbox.protections() }),
};

async function until(events: AsyncIterable<unknown>, wanted: unknown): Promise<unknown[]> {
  const seen: unknown[] = [];
  for await (const event of events) {
    seen.push(event);
    if (!why(snake(event), wanted, "event")) return seen;
  }
  throw new Error(`the events ended without it: ${JSON.stringify(seen)}`);
}

async function* none(): AsyncGenerator<never> {}
