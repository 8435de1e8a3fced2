// Makes src/generated/api.ts from the hub's OpenAPI document, whose schemas include those of the agent.
// With --check it changes nothing and fails when the file is not what it would make.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../../openapi/hub-v1.json", import.meta.url);
const target = new URL("../src/generated/api.ts", import.meta.url);

const document = JSON.parse(await readFile(source, "utf8"));
// The client is written by hand; of the document it takes the shapes of what goes over the wire.
document.paths = {};
const banner = "// Made by `npm run gen` from openapi/hub-v1.json. Change that, not this.\n\n";
const made = banner + astToString(await openapiTS(document, { emptyObjectsUnknown: true, defaultNonNullable: false }));

if (process.argv.includes("--check")) {
  const present = await readFile(target, "utf8").catch(() => "");
  if (present !== made) {
    console.error("src/generated/api.ts is not up to date: run `npm run gen`");
    process.exit(1);
  }
} else {
  await writeFile(target, made);
}
