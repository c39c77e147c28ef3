// Converts field names between camelCase in code and snake_case in files.
import { isDeeperThan, RecipeError } from "../core/index.js";

// Deeper than any valid recipe or run; their checks reject deeper ones.
const MOST_DEPTH = 60;

/**
 * Renames every field to snake_case. Names already in snake_case stay.
 * @throws RecipeError if a field is given under both names
 */
export function snakeFields(value: unknown): unknown {
  return renamed(value, (name) => name.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

/** Renames every field to camelCase. */
export function camelFields(value: unknown): unknown {
  return renamed(value, (name) => name.replace(/(?<=[a-z0-9])_([a-z])/g, (_, letter: string) => letter.toUpperCase()));
}

function renamed(value: unknown, nameOf: (name: string) => string): unknown {
  return isDeeperThan(value, MOST_DEPTH) ? value : rename(value, nameOf);
}

function rename(value: unknown, nameOf: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((entry) => rename(entry, nameOf));
  if (typeof value !== "object" || value === null) return value;
  const fields = new Map<string, unknown>();
  for (const [name, field] of Object.entries(value)) {
    const other = nameOf(name);
    if (fields.has(other)) throw new RecipeError(`${other} is given twice, in camelCase and in snake_case`);
    fields.set(other, rename(field, nameOf));
  }
  return Object.fromEntries(fields);
}
