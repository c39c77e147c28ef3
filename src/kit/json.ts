// Parsed JSON, groups, and mappings with foreign keys: a tensor may be called `__proto__` or `constructor`.

import { parseWritten } from "./numbers/index.js";

/** A JSON object as it was parsed. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a value is an object with fields, not an array or null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Fields of two mappings: those of the second override those of the first, and mappings in both are merged. */
export function mergeObjects(
  below: Readonly<Record<string, unknown>>,
  above: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged = new Map(Object.entries(below));
  for (const [key, value] of Object.entries(above)) {
    const under = merged.get(key);
    merged.set(key, isObject(under) && isObject(value) ? mergeObjects(under, value) : value);
  }
  return Object.fromEntries(merged);
}

/** The value of a mapping's own key; undefined for inherited ones. */
export function own<T>(mapping: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}

/** Whether a value has more than this many levels; one that contains itself has. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  const isDeeper = (inner: unknown) => isDeeperThan(inner, levels - 1);
  if (Array.isArray(value)) return value.some(isDeeper);
  // A list of a vocabulary's values, or of its entries, takes seconds to make.
  const mapping = value as Readonly<Record<string, unknown>>;
  return Object.keys(mapping).some((key) => isDeeper(mapping[key]));
}

/** Parses JSON as Python writes it, with numbers as written: `NaN` and `Infinity`, which JSON does not have, become null. @throws SyntaxError */
export function parsePythonJson(text: string): unknown {
  try {
    return parseWritten(text);
  } catch (error) {
    if (!/\b(NaN|Infinity)\b/.test(text)) throw error;
    let isInString = false;
    // One pattern for a whole string would overflow the stack on a long one.
    const plain = text.replace(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (found) => {
      if (found === '"') isInString = !isInString;
      return isInString || /^["\\]/.test(found) ? found : "null";
    });
    return parseWritten(plain);
  }
}

/** An object without its undefined fields. */
export function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never;
}

/** A field that differs; undefined where it is missing. */
export interface Difference {
  /** Such as `optimizer.lr` or `data[1].weight`. */
  readonly field: string;
  readonly saved: unknown;
  readonly current: unknown;
}

/** The fields in which two values of JSON differ, in the order of the first, then what only the second has. */
export function differencesOf(saved: unknown, current: unknown, field = ""): Difference[] {
  if (Array.isArray(saved) && Array.isArray(current)) {
    const length = Math.max(saved.length, current.length);
    return Array.from({ length }, (_, i) => i).flatMap((i) => differencesOf(saved[i], current[i], `${field}[${i}]`));
  }
  if (isObject(saved) && isObject(current)) {
    const keys = new Set([...Object.keys(saved), ...Object.keys(current)]);
    return [...keys].flatMap((key) =>
      differencesOf(own(saved, key), own(current, key), field === "" ? key : `${field}.${key}`),
    );
  }
  return JSON.stringify(saved) === JSON.stringify(current) ? [] : [{ field, saved, current }];
}

/** Items by key, as Map.groupBy of Node.js 21. */
export function groupBy<T, K>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
