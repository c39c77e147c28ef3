// Templates such as "Q: {question}": text with fields of a row in braces.
// A field is all that a template can insert; there is no other logic.

import { z } from "zod";

/** A part of a template: text, or the name of a field. */
export type TemplatePart = string | { readonly name: string };

/** Text and names of a template, in order. `{{` and `}}` are literal braces, and so is a brace without its partner. */
export function parseTemplate(template: string): TemplatePart[] {
  return [...template.matchAll(/\{\{|\}\}|\{([^{}]+)\}|[^{}]+|[{}]/g)].map(([text, name]) =>
    name === undefined ? (text === "{{" ? "{" : text === "}}" ? "}" : text) : { name },
  );
}

/** A template in a file. Doubled braces around a name, as other tools write fields, are refused if nothing is inserted. */
export const templateSchema = z
  .string()
  .min(1)
  .refine((text) => templateProblem(text) === undefined, { error: ({ input }) => templateProblem(String(input)) });

function templateProblem(template: string): string | undefined {
  if (parseTemplate(template).some((part) => typeof part !== "string")) return undefined;
  const [found, name] = /\{\{\s*([\w.[\]]+)\s*\}+/.exec(template) ?? [];
  return found === undefined ? undefined : `${found} does not insert a field; write {${name}}`;
}

export function fillTemplate(parts: readonly TemplatePart[], textOf: (name: string) => string): string {
  return parts.map((part) => (typeof part === "string" ? part : textOf(part.name))).join("");
}

/**
 * The value of a row's field, or of a field within it: `translation.en`, `choices[0]`. A field whose whole name is the path
 * comes first.
 */
export function valueAt(row: Readonly<Record<string, unknown>>, path: string): unknown {
  if (Object.hasOwn(row, path)) return row[path];
  let value: unknown = row;
  for (const key of path.match(/[^.[\]]+/g) ?? [path]) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** The text of a field; undefined for null, lists and objects. */
export function scalarText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
