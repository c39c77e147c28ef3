// The folder of an experiment's report.

import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isObject, isSystemError, writeFileAtomically } from "../../core/index.js";
import { csvLines, latexText, pageWithData, type Table } from "../../report/index.js";
import { experimentMarkdown } from "./markdown.js";
import { experimentPage } from "./page.js";
import type { ExperimentReport } from "./report-data.js";
import { scoresTable } from "./tables.js";

/** Data of the report, from which the next report knows the files of this one. */
const DATA = "report.json";

/**
 * Writes a report: the page, Markdown, every table as CSV and LaTeX, every score, all data as JSON. Removes tables of the
 * previous report that this one does not have. Other files in the folder stay.
 */
export async function writeReport(folder: string, report: ExperimentReport): Promise<void> {
  await mkdir(folder, { recursive: true });
  const before = await tablesBefore(folder);
  const files: readonly (readonly [name: string, content: string])[] = [
    ["index.html", await pageWithData("#report-page", experimentPage(report))],
    ["report.md", experimentMarkdown(report)],
    ["scores.csv", csvText(scoresTable(report.scores))],
    ...report.tables.flatMap((table) => [
      [`${table.id}.csv`, csvText(table)] as const,
      [`${table.id}.tex`, latexText(table)] as const,
    ]),
  ];
  for (const [name, content] of files) await writeFileAtomically(join(folder, name), content);
  const written = new Set(files.map(([name]) => name));
  for (const name of before) if (!written.has(name)) await rm(join(folder, name), { force: true });
  // Last, so that after an interruption the next report still knows the old tables.
  await writeFileAtomically(join(folder, DATA), `${JSON.stringify(report, null, 2)}\n`);
}

const csvText = (table: Table) => `${csvLines(table).join("\n")}\n`;

/** Table files of the previous report. */
async function tablesBefore(folder: string): Promise<string[]> {
  const tables = await readTables(join(folder, DATA));
  const ids = tables.flatMap((table) => (isObject(table) && typeof table.id === "string" ? [table.id] : []));
  // The file may have been edited; its names must not leave the folder.
  return ids.filter((id) => /^[\w.+-]+$/.test(id)).flatMap((id) => [`${id}.csv`, `${id}.tex`]);
}

async function readTables(file: string): Promise<readonly unknown[]> {
  try {
    const report: unknown = JSON.parse(await readFile(file, "utf8"));
    return isObject(report) && Array.isArray(report.tables) ? report.tables : [];
  } catch (error) {
    if (isSystemError(error, "ENOENT") || error instanceof SyntaxError) return [];
    throw error;
  }
}
