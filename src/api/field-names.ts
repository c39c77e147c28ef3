// Field names: camelCase in code, snake_case in files. The one place where recipes and runs cross over.
import { isDeeperThan, RecipeError } from "../core/index.js";

// Deeper than any recipe or run; their checks refuse what nests deeper.
const MOST_DEPTH = 60;

/**
 * The same value with every field named as in files. Names that are in snake_case already stay.
 * @throws RecipeError if a field is given under both names
 */
export function snakeFields(value: unknown): unknown {
  return renamed(value, (name) => name.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

/** The same value with every field named as in code. */
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
