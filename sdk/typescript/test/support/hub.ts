// A hub of the test's own: the real binary, in a directory that goes with it.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, watch } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SandboxSpec } from "sandshell";

export interface Server {
  url: string;
  token: string;
  /** Kills it; its sandboxes go on. */
  crash(): Promise<void>;
  /** Starts it again, at the same address. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export function binary(): string {
  const path = process.env["SANDSHELL_BIN"];
  if (!path) throw new Error("set SANDSHELL_BIN to the sandshell binary");
  return path;
}

/** What a sandbox of a test is made with: an ordinary user cannot have every protection. */
export const spec: SandboxSpec = process.getuid?.() === 0 ? {} : { isolation: { policy: "best_effort" } };

export const startHub = (...more: string[]): Promise<Server> => start("serve", ["--destroy-on-exit", ...more]);
export const startAgent = (...more: string[]): Promise<Server> => start("agent", more);

async function start(command: string, more: string[]): Promise<Server> {
  const directory = await mkdtemp(join(tmpdir(), "sandshell-ts-"));
  const file = (name: string): string => join(directory, name);
  let child: ChildProcess;
  const launch = async (listen: string): Promise<string> => {
    const args = [command, "--listen", listen, "--state-dir", file("state"), "--token-file", file("token"), "--ready-file", file("ready"), ...more];
    child = spawn(binary(), args, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    child.stderr?.on("data", (bytes: Buffer) => (log = (log + bytes.toString()).slice(-4000)));
    const ready = await readyFile(directory, child).catch((error: Error) => {
      throw new Error(`${error.message}\n${log}`);
    });
    return (JSON.parse(ready) as { url: string }).url;
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
    child.kill(signal);
    await ended;
  };
  const url = await launch("127.0.0.1:0");
  return {
    url,
    token: (await readFile(file("token"), "utf8")).trim(),
    async crash() {
      await end("SIGKILL");
      await rm(file("ready"));
    },
    async restart() {
      await launch(new URL(url).host);
    },
    async stop() {
      await end("SIGTERM");
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The content of the file that says that requests are served. */
async function readyFile(directory: string, child: ChildProcess): Promise<string> {
  const path = join(directory, "ready");
  const stop = new AbortController();
  const changes = watch(directory);
  try {
    const exited = once(child, "exit", { signal: stop.signal }).then(() => {
      throw new Error("the server ended before it was ready");
    });
    exited.catch(() => undefined);
    for (;;) {
      if (existsSync(path)) {
        const text = await readFile(path, "utf8");
        if (text.trim().endsWith("}")) return text;
      }
      await Promise.race([once(changes, "change", { signal: stop.signal }), exited]);
    }
  } finally {
    stop.abort();
    changes.close();
  }
}
