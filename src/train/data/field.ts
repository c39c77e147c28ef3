// A value of a row: a column, a template such as "{question}", or a constant.
import { z } from "zod";
import { fillTemplate, parseTemplate, scalarText, templateSchema, valueAt } from "../../kit/settings/index.js";
import { RowProblem } from "./example.js";
import type { Row } from "./read/row.js";

export const fieldSchema = z.union([
  templateSchema.describe("the name of a column, or a template with names of columns in braces"),
  z.strictObject({ column: z.string().min(1).describe("a column, whatever its name looks like") }),
  z.strictObject({ template: templateSchema.describe("a template; {{ and }} stand for braces") }),
  z.strictObject({ constant: z.string().describe("the same text in every row") }),
]);

export type FieldDeclaration = z.output<typeof fieldSchema>;

export interface Field {
  readonly columns: readonly string[];
  /** The column that it is, unless it is a template or a constant. */
  readonly column?: string;
  /** The text in a row; undefined if a column is missing or null. @throws RowProblem for a list or an object */
  readonly textOf: (row: Row) => string | undefined;
}

/** A text with `{name}` in it is a template, any other the name of a column. */
export function compileField(declaration: FieldDeclaration): Field {
  if (typeof declaration !== "string") {
    if ("constant" in declaration) return { columns: [], textOf: () => declaration.constant };
    return "column" in declaration ? columnField(declaration.column) : templateField(declaration.template);
  }
  return /\{[^{}]+\}/.test(declaration) ? templateField(declaration) : columnField(declaration);
}

function columnField(column: string): Field {
  return { columns: [column], column, textOf: (row) => textAt(row, column) };
}

function templateField(template: string): Field {
  const parts = parseTemplate(template);
  const columns = [...new Set(parts.flatMap((part) => (typeof part === "string" ? [] : [part.name])))];
  const textOf = (row: Row) => {
    const texts = new Map(columns.map((column) => [column, textAt(row, column)]));
    return [...texts.values()].includes(undefined) ? undefined : fillTemplate(parts, (name) => texts.get(name) ?? "");
  };
  return { columns, textOf };
}

function textAt(row: Row, column: string): string | undefined {
  const value = valueAt(row, column);
  if (typeof value !== "object" || value === null || (Array.isArray(value) && value.length === 0))
    return scalarText(value);
  const [what, inner] = Array.isArray(value)
    ? ["a list", `${column}[0]`]
    : ["an object", `${column}.${Object.keys(value)[0]}`];
  throw new RowProblem(`${column} holds ${what}, not a text; map one value of it, such as ${inner}`);
}

/** Whether a column of this name exists, or one that the path begins in. */
export function isPresent(path: string, columns: ReadonlySet<string>): boolean {
  return columns.has(path) || columns.has(path.match(/[^.[\]]+/)?.[0] ?? "");
}

/** Whether a value is more than null, an empty text or an empty list. */
export function isFilled(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && value.length === 0);
}
