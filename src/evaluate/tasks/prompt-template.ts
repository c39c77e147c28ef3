// Prompts with fields of a row in them: `Q: {{question}}`. Only places, no logic: what a prompt is can be seen.
import { didYouMean, formatSome } from "../../core/index.js";
import { dataError, type Row } from "./task-data.js";

const PLACE = /\{\{\s*([^{}]*?)\s*\}\}/g;

/** The fields that a template names, such as `question` or `choices[0]`. */
export function placesOf(template: string): string[] {
  return [...template.matchAll(PLACE)].map((match) => match[1] ?? "");
}

/**
 * A template with a row's fields put in.
 * @param where for messages: file and row
 * @throws {LayergraftError} code "data" where the row lacks a field, or it is neither text nor a number
 */
export function fill(template: string, row: Row, where: string): string {
  return template.replace(PLACE, (_, path: string) => {
    const value = valueAt(row, path);
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return String(value);
    const found = value === undefined || value === null ? `has no field ${path}` : `has no text at ${path}`;
    throw dataError(
      `${where} ${found}${didYouMean(path, Object.keys(row))} (its fields are ${formatSome(Object.keys(row), 12)})`,
      { field: path },
    );
  });
}

/** The value of a field, or of a field within it: `a.b`, `choices[0]`. Only what the row itself has. */
export function valueAt(row: Row, path: string): unknown {
  const keys = path.match(/[^.[\]]+/g) ?? [];
  return keys.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string, unknown>)[key]
        : undefined,
    row,
  );
}
