// What parsed JSON is, for those that read it field by field, and mappings whose names come from elsewhere: a tensor may be
// called `__proto__` or `constructor`, as members that every object inherits.
import { z } from "zod";

/** Whether a value is an object with fields: no array, not null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a field that a mapping itself has; undefined for what every object inherits. */
export function own<T>(mapping: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}

/** The schema of a mapping by names from elsewhere. `z.record` drops the name `__proto__`. */
export function recordOf<T extends z.ZodType>(value: T) {
  const entries = z.map(z.string(), value);
  return z
    .preprocess((json) => (isObject(json) ? new Map(Object.entries(json)) : json), entries)
    .transform((map): Record<string, z.output<T>> => Object.fromEntries(map));
}
