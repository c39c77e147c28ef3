import { z } from "zod";
import { isObject } from "../core/index.js";

/** The schema of a mapping with foreign keys. `z.record` drops the key `__proto__`. */
export function recordOf<T extends z.ZodType>(value: T) {
  const entries = z.map(z.string(), value);
  return z
    .preprocess((json) => (isObject(json) ? new Map(Object.entries(json)) : json), entries)
    .transform((map): Record<string, z.output<T>> => Object.fromEntries(map));
}
