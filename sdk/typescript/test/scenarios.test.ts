// Every scenario of sdk/scenarios, played with this library against a live hub.

import { readFile, readdir } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Hub } from "sandshell";
import { type Server, startHub } from "./support/hub.js";
import { type Scenario, play } from "./support/scenario.js";

const directory = new URL("../../../scenarios/", import.meta.url);
const files = (await readdir(directory)).filter((name) => name.endsWith(".json")).sort();

let server: Server;
before(async () => void (server = await startHub()));
after(() => server.stop());

for (const file of files) {
  test(file.replace(".json", ""), { timeout: 300_000 }, async (context) => {
    const scenario = JSON.parse(await readFile(new URL(file, directory), "utf8")) as Scenario;
    const skipped = await play(new Hub(server), scenario);
    for (const step of skipped) context.diagnostic(`SKIPPED: ${step}`);
    context.diagnostic(`${scenario.steps.length - skipped.length} steps`);
  });
}
