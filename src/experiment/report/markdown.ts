// An experiment's report as Markdown.
import { formatDuration, plural } from "../../core/index.js";
import {
  escapeMarkdown,
  formatNumber,
  formatSpan,
  hasPublished,
  markdownLines,
  PUBLISHED_NOTE,
  right,
  type Table,
} from "../../report/index.js";
import type { ExperimentReport, ReportHeatmap, ReportTable, ScoreRow } from "./data.js";

/** `250`, `100 of 250, 3 unanswered` */
export function itemsText({ items, of, unanswered }: Pick<ScoreRow, "items" | "of" | "unanswered">): string {
  const asked = items === of ? String(of) : `${items} of ${of}`;
  return unanswered === 0 ? asked : `${asked}, ${unanswered} unanswered`;
}

/** Where the experiment stands, in a sentence. */
export function describeProgress({ progress: { done, failed, left, waiting } }: ExperimentReport): string {
  if (failed + left + waiting === 0) return `Complete: ${plural(done, "step")}.`;
  const parts = [
    `${done.toLocaleString("en-US")} done`,
    ...(left > 0 ? [`${left.toLocaleString("en-US")} left`] : []),
    ...(waiting > 0 ? [`about ${waiting.toLocaleString("en-US")} that depend on results`] : []),
    ...(failed > 0 ? [`${failed.toLocaleString("en-US")} failed`] : []),
  ];
  return `Incomplete. Steps: ${parts.join(", ")}. A number that is not known yet is written as …`;
}

/** What merging cost, in a sentence. */
export function describeCost({ cost: { mergeSeconds, seconds } }: ExperimentReport): string {
  if (seconds === 0) return "Nothing has been timed yet.";
  const share = (100 * mergeSeconds) / seconds;
  return `Making the merges took ${formatDuration(mergeSeconds)} of ${formatDuration(seconds)} (${share < 0.1 ? "under 0.1" : share.toFixed(1)}%).`;
}

/** Rows of a long table, and of the list of scores, that Markdown has; files beside it have all of them. */
const MOST_ROWS = 60;

/** All scores, or, where there are more than `most`, the first of reported models. */
export function listedScores({ scores }: Pick<ExperimentReport, "scores">, most: number) {
  const listed = scores.length > most ? scores.filter(({ isReported }) => isReported).slice(0, most) : scores;
  const note =
    listed.length === scores.length
      ? ""
      : `The first ${plural(listed.length, "score")} of models that are reported; all ${scores.length.toLocaleString("en-US")}, with those of the searches, are in scores.csv.`;
  return { listed, note };
}

function section(table: ReportTable, level = "##"): string[] {
  // The main tables and the paper's have a row for each name of the plan; the others one for each model.
  const most = table.kind === "search" || table.kind === "flips" ? MOST_ROWS : table.rows.length;
  const more = table.rows.length - most;
  return [
    `${level} ${escapeMarkdown(table.title)}`,
    "",
    escapeMarkdown(table.note) + (hasPublished(table) ? ` ${PUBLISHED_NOTE}` : ""),
    "",
    ...markdownLines({ ...table, rows: table.rows.slice(0, most) }),
    "",
    ...(more > 0 ? [`${plural(more, "more row")} in ${escapeMarkdown(`${table.id}.csv`)}.`, ""] : []),
  ];
}

/** A grid as a table; marks follow their numbers. */
function heatmapTable({ rowTitle, columnTitle, rows, columns, cells, marked }: ReportHeatmap): Table {
  const text = (row: number, column: number) => {
    const marks = marked.filter((mark) => mark.row === row && mark.column === column).map(({ what }) => what);
    const number = formatNumber({ value: cells[row]?.[column], scale: "share" });
    return marks.length === 0 ? number : `${number} (${marks.join(", ")})`;
  };
  return {
    columns: [rowTitle === "" ? columnTitle : `${rowTitle} \\ ${columnTitle}`, ...columns.map(right)],
    rows: rows.map((label, row) => [label, ...columns.map((_, column) => text(row, column))]),
  };
}

function scoreList(listed: readonly ScoreRow[]): Table {
  return {
    columns: ["model", "task", "protocol", right("score"), right("95% interval"), right("items")],
    rows: listed.map(({ model, task, protocol, cell, ...row }) => [
      ...[model, task, protocol, cell, formatSpan(cell.interval, cell), itemsText(row)],
    ]),
  };
}

/** The whole report as Markdown. */
export function experimentMarkdown(report: ExperimentReport): string {
  const { tables, heatmaps, experts, failures } = report;
  const lines = [`# ${escapeMarkdown(report.title)}`, "", describeProgress(report), ""];
  for (const note of report.notes) lines.push(escapeMarkdown(note), "");
  const of = (kind: ReportTable["kind"], level?: string) =>
    tables.filter((table) => table.kind === kind).flatMap((table) => section(table, level));
  lines.push(...of("scores"), ...of("paper"));
  if (heatmaps.length > 0) lines.push("## Scores over the grid", "");
  for (const heatmap of heatmaps) {
    lines.push(`### ${escapeMarkdown(heatmap.title)}`, "", escapeMarkdown(heatmap.note), "");
    lines.push(...markdownLines(heatmapTable(heatmap)), "");
  }
  if (report.searches.length > 0) lines.push("## How configurations were chosen", "", ...of("search", "###"));
  for (const { group, summary, configurations } of report.searches) {
    if (configurations.length === 0) lines.push(escapeMarkdown(`${group}: ${summary}`), "");
  }
  lines.push(...of("flips"));
  if (experts.length > 0) {
    const rows = experts.map(({ name, family, origin }) => [name, family, origin]);
    lines.push("## The experts", "", ...markdownLines({ columns: ["expert", "family", "checkpoint"], rows }), "");
  }
  const { listed, note } = listedScores(report, MOST_ROWS);
  lines.push("## Every score", "", report.intervals, "", ...(note === "" ? [] : [note, ""]));
  lines.push(...markdownLines(scoreList(listed)), "");
  lines.push(...(report.cost.rows.length > 0 ? of("cost") : ["## What it cost", ""]), describeCost(report), "");
  if (failures.length > 0) {
    const told = failures.map(({ label, reason }) => `- ${escapeMarkdown(`${label}: ${reason}`)}`);
    lines.push("## What failed", "", ...told, "");
  }
  lines.push(`Made by layergraft ${report.layergraft}.`);
  return `${lines.join("\n")}\n`;
}
