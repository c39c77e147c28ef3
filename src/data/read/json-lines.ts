// JSON Lines (one object a line) and plain text (one row a line, in the column "text").
import { NOT_UTF8, readRecords } from "./records.js";
import { asRow, type ReadContext, type Row, type RowBatch, RowCollector } from "./row.js";

/** Rows of a JSON Lines file. Lines of white space alone are no rows. */
export async function* readJsonLines(bytes: AsyncIterable<Buffer>, context: ReadContext): AsyncGenerator<RowBatch> {
  const { file, bad } = context;
  const rows = new RowCollector(file);
  for await (const records of readRecords(bytes, file)) {
    for (const { text, line } of records) {
      if (text === undefined) {
        bad(line, NOT_UTF8);
        continue;
      }
      if (text.trim() === "") continue;
      const row = parseRow(text);
      if (typeof row === "string") {
        bad(line, row);
        continue;
      }
      const full = rows.add(row, line);
      if (full) yield full;
    }
  }
  const rest = rows.rest();
  if (rest) yield rest;
}

/** A row, or what is wrong with it. */
export function parseRow(text: string): Row | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `it is not valid JSON (${(error as Error).message})`;
  }
  return (
    asRow(value) ??
    `it is ${Array.isArray(value) ? "a list" : value === null ? "null" : `a ${typeof value}`}, not an object`
  );
}

/** Lines of a text file as rows of one column, `text`. */
export async function* readText(bytes: AsyncIterable<Buffer>, context: ReadContext): AsyncGenerator<RowBatch> {
  const { file, bad } = context;
  const rows = new RowCollector(file, ["text"]);
  for await (const records of readRecords(bytes, file)) {
    for (const { text, line } of records) {
      if (text === undefined) {
        bad(line, NOT_UTF8);
        continue;
      }
      const full = rows.add({ text }, line);
      if (full) yield full;
    }
  }
  const rest = rows.rest();
  if (rest) yield rest;
}
