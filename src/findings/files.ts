import { mkdir, readFile, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { isObject, isSystemError, writeFileAtomically } from "../core/index.js";
import { csvLines, latexText, reportPage, type Table } from "../report/index.js";
import { experimentMarkdown } from "./markdown.js";
import { experimentPage } from "./page.js";
import { RECIPES, VARIANTS } from "./recipes.js";
import type { ExperimentReport } from "./report-data.js";
import { scoresTable } from "./tables.js";

/** Data of the report, from which the next report knows the files of this one. */
const DATA = "report.json";

/**
 * Writes a report: the page, Markdown, every table as CSV and LaTeX, every score, the recipes, all data as JSON; and the same
 * for each variant of a matrix, in `variants`. Removes tables, recipes and variants of the previous report that this one
 * does not have. Other files in the folder stay.
 */
export async function writeReport(folder: string, report: ExperimentReport): Promise<void> {
  await writeOne(folder, report, false);
}

/** @param isVariant whether a report of all variants links to it */
async function writeOne(folder: string, report: ExperimentReport, isVariant: boolean): Promise<void> {
  await mkdir(folder, { recursive: true });
  const before = await readBefore(join(folder, DATA));
  const files: readonly (readonly [name: string, content: string])[] = [
    ["index.html", await reportPage(experimentPage(report, isVariant))],
    ["report.md", experimentMarkdown(report)],
    ["scores.csv", csvText(scoresTable(report))],
    ...report.tables.flatMap((table) => [
      [`${table.id}.csv`, csvText(table)] as const,
      [`${table.id}.tex`, latexText(table)] as const,
    ]),
    ...report.recipes.map(({ id, text, command }) => [recipeFile(id), `# ${command}\n${text}`] as const),
  ];
  if (report.variants.length === 0) await mkdir(join(folder, RECIPES), { recursive: true });
  for (const [name, content] of files) await writeFileAtomically(join(folder, name), content);
  for (const variant of report.variants) await writeOne(join(folder, VARIANTS, variant.id), variant.report, true);
  const written = new Set(files.map(([name]) => name));
  for (const name of filesOf(before)) if (!written.has(name)) await rm(join(folder, name), { force: true });
  const kept = new Set(report.variants.map(({ id }) => id));
  for (const id of idsOf(before.variants)) if (!kept.has(id)) await removeReport(join(folder, VARIANTS, id));
  // Last, so that after an interruption the next report still knows the old tables.
  const data = { ...report, variants: report.variants.map(({ report: _, ...variant }) => variant) };
  await writeFileAtomically(join(folder, DATA), `${JSON.stringify(data, null, 2)}\n`);
}

async function removeReport(folder: string): Promise<void> {
  const names = [...filesOf(await readBefore(join(folder, DATA))), "index.html", "report.md", "scores.csv", DATA];
  for (const name of names) await rm(join(folder, name), { force: true });
  // Not if there is anything else in them.
  for (const empty of [join(folder, RECIPES), folder]) await rmdir(empty).catch(() => undefined);
}

const recipeFile = (id: string) => join(RECIPES, `${id}.yaml`);
const csvText = (table: Table) => `${csvLines(table).join("\n")}\n`;

function filesOf(report: Readonly<Record<string, unknown>>): string[] {
  return [
    ...idsOf(report.tables).flatMap((id) => [`${id}.csv`, `${id}.tex`]),
    ...idsOf(report.recipes).map((id) => recipeFile(id)),
  ];
}

/** The file may have been edited; its names must not leave the folder. */
function idsOf(list: unknown): string[] {
  const ids = (Array.isArray(list) ? list : []).map((one: unknown) => (isObject(one) ? one.id : undefined));
  return ids.filter((id) => typeof id === "string").filter((id) => /^[\p{L}\p{N}.+_-]+$/u.test(id));
}

async function readBefore(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const report: unknown = JSON.parse(await readFile(file, "utf8"));
    return isObject(report) ? report : {};
  } catch (error) {
    if (isSystemError(error, "ENOENT") || error instanceof SyntaxError) return {};
    throw error;
  }
}
