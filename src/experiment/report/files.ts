// The folder of an experiment's report.

import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isObject, isSystemError, writeFileAtomically } from "../../core/index.js";
import { csvLines, latexText, pageWithData, type Table } from "../../report/index.js";
import type { ExperimentReport } from "./data.js";
import { experimentMarkdown } from "./markdown.js";
import { experimentPage } from "./page.js";
import { scoresTable } from "./tables.js";

/** The data of the report; by it the next one knows which files this one wrote. */
const DATA = "report.json";

/**
 * Writes a report: the page, Markdown, every table as CSV and LaTeX, every score, all data as JSON. Tables that the report
 * before this one wrote, and this one has not, are removed; other files in the folder stay.
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
  // Last: were it cut short, the next report would still know what is to be removed.
  await writeFileAtomically(join(folder, DATA), `${JSON.stringify(report, null, 2)}\n`);
}

const csvText = (table: Table) => `${csvLines(table).join("\n")}\n`;

/** Files of the tables of the report that is there. */
async function tablesBefore(folder: string): Promise<string[]> {
  const tables = await readTables(join(folder, DATA));
  const ids = tables.flatMap((table) => (isObject(table) && typeof table.id === "string" ? [table.id] : []));
  // Only names as tables have them: somebody may have written to the file.
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
