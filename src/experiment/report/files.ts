import { mkdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import {
  csvLines,
  latexText,
  pageMarkdown,
  reportPage,
  type Section,
  type Table,
  tablesOf,
} from "../../figures/index.js";
import { readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { isObject } from "../../kit/index.js";
import { experimentPage } from "./page.js";
import { RECIPES, VARIANTS } from "./recipes.js";
import type { ExperimentReport } from "./report-data.js";
import { flipsTable, scoresTable } from "./tables.js";

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
  const page = experimentPage(report, isVariant);
  const [flips, recipes, variants] =
    report.kind === "plan" ? [report.flips, report.recipes, []] : [[], [], report.variants];
  const tables = [...tablesOf(page), ...(flips.length > 0 ? [flipsTable(flips)] : [])];
  const files: readonly (readonly [name: string, content: string])[] = [
    ["index.html", await reportPage({ ...page, sections: [...page.sections, ...paperSection(tables)] })],
    ["report.md", pageMarkdown(page)],
    ["scores.csv", csvText(scoresTable(report))],
    ...tables.flatMap((table) => [
      [`${table.id}.csv`, csvText(table)] as const,
      [`${table.id}.tex`, latexText(table)] as const,
    ]),
    ...recipes.map(({ id, text, command }) => [`${RECIPES}/${id}.yaml`, `# ${command}\n${text}`] as const),
  ];
  if (report.kind === "plan") await mkdir(join(folder, RECIPES), { recursive: true });
  for (const [name, content] of files) await writeFileAtomically(join(folder, name), content);
  for (const variant of variants) await writeOne(join(folder, VARIANTS, variant.id), variant.report, true);
  const written = files.map(([name]) => name);
  const kept = variants.map(({ id }) => id);
  for (const name of before.files) if (!written.includes(name)) await rm(join(folder, name), { force: true });
  for (const id of before.variants) if (!kept.includes(id)) await removeReport(join(folder, VARIANTS, id));
  // Last, so that after an interruption the next report still knows the old tables.
  const own = variants.map(({ report: _, ...variant }) => variant);
  const data = { ...report, ...(report.kind === "matrix" ? { variants: own } : {}), files: written };
  await writeFileAtomically(join(folder, DATA), `${JSON.stringify(data, null, 2)}\n`);
}

/** Tables that the page has as LaTeX, and characters of each; all are files. */
const [MAX_TABLES, MAX_LATEX] = [12, 20_000];

/** The tables as an author copies them into a paper. */
function paperSection(tables: readonly Table[]): Section[] {
  const shown = tables
    .map((table) => ({ ...table, text: latexText(table) }))
    .filter(({ text }) => text.length <= MAX_LATEX)
    .slice(0, MAX_TABLES);
  if (shown.length === 0) return [];
  const commands = shown.map(({ id, title, text }) => ({
    what: title ?? String(id),
    command: `\\input{${id}.tex}`,
    id: `latex-${id}`,
    file: { about: `File: ${id}.tex.`, text },
  }));
  const lead = `Each table as LaTeX, for the packages booktabs and adjustbox${shown.length < tables.length ? "; the others are in the report's folder" : ""}. Beside them are the same tables as CSV.`;
  return [{ id: "paper", title: "For a paper", lead, figures: [{ kind: "commands", commands }] }];
}

async function removeReport(folder: string): Promise<void> {
  const { files } = await readBefore(join(folder, DATA));
  for (const name of [...files, DATA]) await rm(join(folder, name), { force: true });
  // Not if there is anything else in them.
  for (const empty of [join(folder, RECIPES), folder]) await rmdir(empty).catch(() => undefined);
}

const csvText = (table: Table) => `${csvLines(table).join("\n")}\n`;

/** The files and variants of the previous report. Its data may have been edited; these names must not leave the folder. */
async function readBefore(file: string): Promise<Readonly<Record<"files" | "variants", readonly string[]>>> {
  const { files, variants }: Record<string, unknown> = await readJsonObject(file).catch(() => ({}));
  const named = (list: unknown, pattern: RegExp): string[] =>
    (Array.isArray(list) ? list : []).filter((name) => typeof name === "string" && pattern.test(name));
  const ids = (Array.isArray(variants) ? variants : []).map((one: unknown) => (isObject(one) ? one.id : undefined));
  return {
    files: named(files, /^(recipes\/)?[\p{L}\p{N}.+_-]+\.(html|md|csv|tex|yaml)$/u),
    variants: named(ids, /^[\p{L}\p{N}+_-][\p{L}\p{N}.+_-]*$/u),
  };
}
