// Results of the census: a line for each row; of a family with several, the last counts.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const RESULTS = fileURLToPath(new URL("../../dist.census.jsonl", import.meta.url));

/** @param {string} [path] @returns {any[]} */
export function readRows(path = RESULTS) {
  const lines = readFileSync(path, "utf8").trim().split("\n");
  const last = new Map(lines.map((line) => JSON.parse(line)).map((row) => [row.id, row]));
  return [...last.values()].sort((a, b) => a.id.localeCompare(b.id, "en"));
}
