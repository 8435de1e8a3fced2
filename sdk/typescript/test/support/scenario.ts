// Plays a scenario of sdk/scenarios with this library. The format is described there.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { ApiError, type Hub, type Sandbox, type Terminal, type Watch } from "sandshell";
import { calls } from "./calls.js";
import { spec } from "./hub.js";

export interface Scenario {
  name: string;
  about: string;
  sandbox?: Record<string, unknown>;
  requires?: string[];
  steps: Step[];
}

export interface Step {
  name: string;
  call: string;
  args?: Record<string, unknown>;
  expect?: unknown;
  error?: unknown;
  save?: Record<string, string>;
  start?: string;
  eventually?: boolean;
  needs?: string[];
}

/** What calls work on. */
export class Stage {
  readonly terminals = new Map<string, Terminal>();
  readonly watches = new Map<string, Watch>();
  readonly begun = new Map<string, Promise<unknown>>();
  readonly others: Sandbox[] = [];

  constructor(
    readonly hub: Hub,
    readonly sandbox: Sandbox,
  ) {}
}

type Values = Record<string, unknown>;
const STEP_FIELDS = new Set(["name", "call", "args", "expect", "error", "save", "start", "eventually", "needs"]);
const SCENARIO_FIELDS = new Set(["name", "about", "sandbox", "requires", "steps"]);
const PATIENCE_MS = 120_000;

/** Plays it; gives the steps that were skipped, with the reason. */
export async function play(hub: Hub, scenario: Scenario): Promise<string[]> {
  const values: Values = { random: randomBytes(4).toString("hex") };
  const made = camel(fill(scenario.sandbox ?? {}, values)) as Record<string, unknown>;
  const sandbox = await hub.create({ ...spec, ...made });
  values["sandbox"] = sandbox.id;
  for (const field of Object.keys(scenario)) assert.ok(SCENARIO_FIELDS.has(field), `${scenario.name}: unknown field ${field}`);
  const stage = new Stage(hub, sandbox);
  const skipped: string[] = [];
  try {
    const enforced = (await sandbox.protections()).filter(({ status }) => status === "enforced").map(({ name }) => name as string);
    const lacking = scenario.requires?.find((name) => !enforced.includes(name));
    if (lacking) return scenario.steps.map(({ name }) => `${name} (${lacking} is not enforced here)`);
    for (const step of scenario.steps) {
      for (const field of Object.keys(step)) assert.ok(STEP_FIELDS.has(field), `${step.name}: unknown field ${field}`);
      const missing = await firstMissing(sandbox, step.needs ?? []);
      if (missing) {
        skipped.push(`${step.name} (no ${missing} in the sandbox)`);
        continue;
      }
      try {
        await playStep(stage, step, values);
      } catch (error) {
        throw new Error(`${scenario.name}, step ${JSON.stringify(step.name)} (${step.call}): ${(error as Error).message}`, { cause: error });
      }
    }
  } finally {
    for (const watch of stage.watches.values()) await watch.close();
    for (const terminal of stage.terminals.values()) terminal.close();
    for (const other of [...stage.others, sandbox]) await other[Symbol.asyncDispose]();
  }
  return skipped;
}

async function firstMissing(sandbox: Sandbox, programs: string[]): Promise<string | undefined> {
  for (const program of programs) {
    if ((await sandbox.exec(["sh", "-c", 'command -v "$0"', program])).exitCode !== 0) return program;
  }
  return undefined;
}

async function playStep(stage: Stage, step: Step, values: Values): Promise<void> {
  const args = fill(step.args ?? {}, values) as Values;
  if (step.start) {
    const begun = call(stage, step.call, args);
    begun.catch(() => undefined);
    stage.begun.set(step.start, begun);
    return;
  }
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      const result = await attempt(stage, step, args, values);
      for (const [name, path] of Object.entries(step.save ?? {})) values[name] = part(result, path);
      return;
    } catch (error) {
      if (!step.eventually || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function attempt(stage: Stage, step: Step, args: Values, values: Values): Promise<unknown> {
  let result: unknown;
  try {
    result = await call(stage, step.call, args);
  } catch (error) {
    if (step.error === undefined || !(error instanceof ApiError)) throw error;
    const like = why(snake(error.problem), fill(step.error, values), "error");
    assert.ok(!like, like);
    return undefined;
  }
  assert.ok(step.error === undefined, `it succeeded: ${JSON.stringify(result)}`);
  if (step.expect !== undefined) {
    const like = why(result, fill(step.expect, values), "result");
    assert.ok(!like, `${like}\nin ${JSON.stringify(result)?.slice(0, 2000)}`);
  }
  return result;
}

async function call(stage: Stage, name: string, args: Values): Promise<unknown> {
  if (name === "join") return stage.begun.get(args["start"] as string);
  const made = calls[name];
  assert.ok(made, `unknown call ${name}`);
  return snake(await made(stage, camel(args) as Values));
}

/** Why a value is not like what is expected, if it is not. */
export function why(value: unknown, expected: unknown, at: string): string | undefined {
  const no = (what: string): string => `${at} is ${JSON.stringify(value)}, not ${what}`;
  if (expected === null) return value === undefined || value === null ? undefined : no("absent");
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return no(`a list of ${expected.length}`);
    for (const [index, item] of expected.entries()) {
      const reason = why(value[index], item, `${at}.${index}`);
      if (reason) return reason;
    }
    return undefined;
  }
  if (typeof expected !== "object") return value === expected ? undefined : no(JSON.stringify(expected));
  const [first] = Object.entries(expected as object);
  if (first?.[0].startsWith("$")) return test(first[0], first[1], value, at) ? undefined : no(JSON.stringify(expected));
  if (typeof value !== "object" || value === null) return no("an object");
  for (const [key, member] of Object.entries(expected as object)) {
    const reason = why((value as Values)[key], member, `${at}.${key}`);
    if (reason) return reason;
  }
  return undefined;
}

function test(name: string, wanted: unknown, value: unknown, at: string): boolean {
  switch (name) {
    case "$type":
      return (Array.isArray(value) ? "list" : typeof value) === wanted;
    case "$matches":
      return typeof value === "string" && new RegExp(wanted as string).test(value);
    case "$contains":
      return contains(value, wanted);
    case "$excludes":
      return (typeof value === "string" || Array.isArray(value)) && !contains(value, wanted);
    case "$length":
      return (typeof value === "string" || Array.isArray(value)) && value.length === wanted;
    case "$at_least":
      return typeof value === "number" && value >= (wanted as number);
    case "$at_most":
      return typeof value === "number" && value <= (wanted as number);
    case "$not":
      return why(value, wanted, at) !== undefined;
    default:
      throw new Error(`unknown test ${name}`);
  }
}

function contains(value: unknown, wanted: unknown): boolean {
  if (typeof value === "string") return value.includes(wanted as string);
  return Array.isArray(value) && value.some((item) => !why(item, wanted, ""));
}

function part(value: unknown, path: string): unknown {
  if (path === "") return value;
  return path.split(".").reduce<unknown>((at, key) => (at as Values | undefined)?.[key], value);
}

/** Puts kept values in the place of their names. */
function fill(value: unknown, values: Values): unknown {
  if (typeof value === "string") {
    const whole = /^\$\{(\w+)\}$/.exec(value);
    if (whole && (whole[1] as string) in values) return values[whole[1] as string];
    return value.replace(/\$\{(\w+)\}/g, (text, name: string) => (name in values ? String(values[name]) : text));
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, fill(member, values)]));
}

/** Names of the wire and of the library, changed here by other code than the library's own. */
const FREE = new Set(["env", "base", "labels", "data"]);
export const camel = (value: unknown): unknown => rename(value, (key) => key.split("_").map((word, at) => (at ? word[0]?.toUpperCase() + word.slice(1) : word)).join(""));
export const snake = (value: unknown): unknown => rename(value, (key) => [...key].map((letter) => (letter === letter.toLowerCase() ? letter : `_${letter.toLowerCase()}`)).join(""));

function rename(value: unknown, name: (key: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => rename(item, name));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [name(key), FREE.has(key) ? member : rename(member, name)]));
}

