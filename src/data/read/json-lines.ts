// JSON Lines (one object a line) and plain text (one row a line, in the column "text").
import { isObject } from "../../core/index.js";
import { readRecords } from "./records.js";
import { type FileReader, NOT_UTF8, type Row } from "./row.js";

/** Rows of a JSON Lines file. Blank lines are skipped. */
export async function* readJsonLines(bytes: AsyncIterable<Buffer>, file: string): FileReader {
  for await (const records of readRecords(bytes, file)) {
    const written = records.filter(({ text }) => text?.trim() !== "");
    yield { found: written.map(({ text, line }) => ({ line, row: text === undefined ? NOT_UTF8 : parseRow(text) })) };
  }
}

/** A row, or what is wrong with it. */
export function parseRow(text: string): Row | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `it is not valid JSON (${(error as Error).message})`;
  }
  if (isObject(value)) return value;
  return `it is ${Array.isArray(value) ? "a list" : value === null ? "null" : `a ${typeof value}`}, not an object`;
}

/** Lines of a text file as rows of one column, `text`. Empty lines are skipped. */
export async function* readText(bytes: AsyncIterable<Buffer>, file: string): FileReader {
  for await (const records of readRecords(bytes, file)) {
    yield { found: records.map(({ text, line }) => ({ line, row: text === undefined ? NOT_UTF8 : { text } })) };
  }
}
