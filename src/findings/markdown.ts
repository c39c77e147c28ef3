import { formatDuration, plural } from "../core/index.js";
import { escapeMarkdown, gridTable, markdownLines, type Table } from "../report/index.js";
import { moreRecipes, RECIPES_LEAD, VARIANTS } from "./recipes.js";
import type { ExperimentReport, ReportTable } from "./report-data.js";
import { expertsTable, scoreList } from "./tables.js";

export function describeProgress({ progress: { done, failed, left, waiting } }: ExperimentReport): string {
  if (failed + left + waiting === 0) return `Complete: ${plural(done, "step")}.`;
  const part = (count: number, text: string) => (count > 0 ? [text.replace("#", count.toLocaleString("en-US"))] : []);
  const parts = [
    `${done.toLocaleString("en-US")} done`,
    ...part(left, "# left"),
    ...part(waiting, "about # that depend on results"),
    ...part(failed, "# failed"),
  ];
  return `Incomplete. Steps: ${parts.join(", ")}. A number that is not known yet is written as …`;
}

export function describeBackend({ backend }: ExperimentReport): string {
  return `Evaluated with: ${backend}.`;
}

export function describeCost({ cost: { mergeSeconds, seconds } }: ExperimentReport): string {
  if (seconds === 0) return "Nothing has been timed yet.";
  const share = (100 * mergeSeconds) / seconds;
  return `Making the merges took ${formatDuration(mergeSeconds)} of ${formatDuration(seconds)} (${share < 0.1 ? "under 0.1" : share.toFixed(1)}%).`;
}

/** Rows of a long table; its CSV file has all. */
const MAX_ROWS = 60;

/** @param paragraphs in Markdown */
function section(title: string, paragraphs: readonly string[], table: Table, level = "##"): string[] {
  const text = paragraphs.flatMap((paragraph) => [paragraph, ""]);
  return [`${level} ${escapeMarkdown(title)}`, "", ...text, ...markdownLines(table), ""];
}

function tableSection(table: ReportTable, level?: string): string[] {
  // The main tables have a row for each name of the plan; the others one for each model.
  const max =
    table.kind === "search" || table.kind === "flips" || table.kind === "language" ? MAX_ROWS : table.rows.length;
  const more = table.rows.length - max;
  const note = escapeMarkdown(table.note);
  return [
    ...section(table.title, [note], { ...table, rows: table.rows.slice(0, max) }, level),
    ...(more > 0 ? [`${plural(more, "more row")} in ${escapeMarkdown(`${table.id}.csv`)}.`, ""] : []),
  ];
}

function recipeSection(recipes: ExperimentReport["recipes"]): string[] {
  if (recipes.length === 0) return [];
  const shown = recipes.slice(0, MAX_ROWS);
  // A fence longer than any in the texts.
  const ticks = Math.max(
    2,
    ...shown.flatMap(({ text, command }) => `${text}${command}`.match(/`+/g) ?? []).map((run) => run.length),
  );
  const fence = "`".repeat(ticks + 1);
  return [
    ...["## Recipes", "", RECIPES_LEAD + moreRecipes(recipes.length - shown.length), ""],
    ...shown.flatMap(({ model, rows, text, command }) => [
      ...[`### ${escapeMarkdown(model)}`, ""],
      ...(rows.length === 0 ? [] : [escapeMarkdown(`Rows: ${rows.join("; ")}.`), ""]),
      ...[`${fence}yaml`, text.trimEnd(), fence, "", `${fence}sh`, command, fence, ""],
    ]),
  ];
}

function variantSection(variants: ExperimentReport["variants"]): string[] {
  if (variants.length === 0) return [];
  return [
    ...["## The variants", ""],
    ...variants.map(({ id, title }) => `- [${escapeMarkdown(title)}](<${VARIANTS}/${id}/report.md>)`),
    "",
  ];
}

export function experimentMarkdown(report: ExperimentReport): string {
  const { tables, heatmaps, searches, experts, failures } = report;
  const of = (kind: ReportTable["kind"], level?: string) =>
    tables.filter((table) => table.kind === kind).flatMap((table) => tableSection(table, level));
  const scores = scoreList(report, MAX_ROWS);
  const lines = [
    ...[`# ${escapeMarkdown(report.title)}`, "", describeProgress(report), escapeMarkdown(describeBackend(report)), ""],
    ...(report.warnings.length > 0 ? [`**${escapeMarkdown(report.warnings.join(" "))}**`, ""] : []),
    ...report.notes.flatMap((note) => [escapeMarkdown(note), ""]),
    ...of("variants"),
    ...variantSection(report.variants),
    ...of("scores"),
    ...of("lead"),
    ...of("published"),
    ...of("line"),
    ...of("overlap"),
    ...(heatmaps.length > 0 ? ["## Scores over the grid", ""] : []),
    ...heatmaps.flatMap((grid) => section(grid.title, [escapeMarkdown(grid.note)], gridTable(grid), "###")),
    ...(searches.length > 0 ? ["## How configurations were chosen", "", ...of("search", "###")] : []),
    ...searches
      .filter(({ configurations }) => configurations.length === 0)
      .flatMap(({ group, summary }) => [escapeMarkdown(`${group}: ${summary}`), ""]),
    ...recipeSection(report.recipes),
    ...of("flips"),
    ...of("language"),
    ...of("selection"),
    ...(experts.length > 0 ? section("The experts", [], expertsTable(report)) : []),
    // The variants' own reports list theirs.
    ...(report.variants.length > 0
      ? []
      : section(
          "Every score",
          [report.intervals, scores.note].filter((note) => note !== ""),
          scores,
        )),
    ...(report.cost.rows.length > 0 ? of("cost") : ["## What it cost", ""]),
    ...[describeCost(report), ""],
    ...(failures.length > 0 ? ["## What failed", ""] : []),
    ...failures.map(({ label, reason }) => `- ${escapeMarkdown(`${label}: ${reason}`)}`),
    ...(failures.length > 0 ? [""] : []),
    `Made by layergraft ${report.layergraft}.`,
  ];
  return `${lines.join("\n")}\n`;
}
