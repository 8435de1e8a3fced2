// The two spellings of names: `snake_case` on the wire, `camelCase` here, for types and for values.
//
// The change is mechanical, so that the HTTP reference can be read as that of this library. What users
// name themselves (variables, labels, MIME types) is left alone: such maps are found by their keys below.

type CamelName<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelName<Tail>>}` : S;

/** A shape of the wire with names in camelCase; maps with free keys stay as they are. */
export type Camel<T> = T extends readonly (infer Item)[]
  ? Camel<Item>[]
  : T extends object
    ? string extends keyof T
      ? T
      : { [K in keyof T as K extends string ? CamelName<K> : K]: Camel<T[K]> }
    : T;

/** Members whose keys are the user's own. */
const FREE_KEYS = new Set(["env", "base", "labels", "data"]);

const toCamel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const toSnake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function rename(value: unknown, name: (key: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => rename(item, name));
  if (value === null || typeof value !== "object") return value;
  const renamed: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    renamed[name(key)] = FREE_KEYS.has(key) ? member : rename(member, name);
  }
  return renamed;
}

/** What came over the wire, for the program. */
export function fromWire<T>(value: T): Camel<T> {
  return rename(value, toCamel) as Camel<T>;
}

/** What the program gave, for the wire. Members that are `undefined` are left out. */
export function toWire(value: unknown): unknown {
  return rename(value, toSnake);
}
