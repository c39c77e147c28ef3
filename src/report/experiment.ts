// An experiment's report as Markdown, CSV and LaTeX. Plain data in, text out; the page is experiment-page.ts.
import { formatDuration, formatFixed, formatShare, plural } from "../core/format.js";
import type { Cell, ExperimentReport, ReportHeatmap, ReportTable, ScoreRow } from "../experiment/report/data.js";

/** How many items a score is of: `250`, `100 of 250`, and how many of them had no answer that could be judged. */
export function itemsText({ items, of, unanswered }: Pick<ScoreRow, "items" | "of" | "unanswered">): string {
  const asked = items === of ? String(of) : `${items} of ${of}`;
  return unanswered === 0 ? asked : `${asked}, ${unanswered} unanswered`;
}

/**
 * `43.2`: a share as percent, points with one digit, a probability with three; `…` for what is not known yet, `–` for
 * what there is nothing of.
 */
export function formatCell(value: number | null | undefined, scale: Cell["scale"]): string {
  if (value === null) return "–";
  if (value === undefined || !Number.isFinite(value)) return "…";
  if (scale === "count") return value.toLocaleString("en-US");
  if (scale === "seconds") return formatDuration(value);
  if (scale === "probability") return value < 0.001 ? "< 0.001" : value.toFixed(3);
  return scale === "share" ? formatShare(value) : formatFixed(value, 1);
}

/** `+3.2` */
export function formatDifference(value: number, scale: Cell["scale"]): string {
  const text = formatCell(Math.abs(value), scale);
  return value < 0 ? `−${text}` : `+${text}`;
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
  return `Not complete: of its steps ${parts.join(", ")}. Numbers that are missing are written as …`;
}

/** What merging cost, in a sentence; what the steps cost stands in a table. */
export function describeCost({ cost: { mergeSeconds, seconds } }: ExperimentReport): string {
  if (seconds === 0) return "Nothing has been timed yet.";
  const share = (100 * mergeSeconds) / seconds;
  return `Making the merges took ${formatDuration(mergeSeconds)} of ${formatDuration(seconds)} (${share < 0.1 ? "under 0.1" : share.toFixed(1)}%).`;
}

const escapeMarkdown = (text: string) => text.replace(/([\\|*_`<>[\]])/g, "\\$1");

/** @param textColumns those that are aligned to the left; the first one always is */
function markdownTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  textColumns: ReadonlySet<number> = new Set(),
): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = columns.map((_, i) => (i === 0 || textColumns.has(i) ? "---" : "---:"));
  return [line(columns), line(rule), ...rows.map(line)];
}

function markdownCell({ value, scale, published, isBest, text }: Cell): string {
  if (text !== undefined) return escapeMarkdown(text);
  const own = escapeMarkdown(formatCell(value, scale));
  const marked = isBest ? `**${own}**` : own;
  return published === undefined ? marked : `${marked} (${formatCell(published, scale)})`;
}

function hasPublished({ rows }: ReportTable): boolean {
  return rows.some(({ cells }) => cells.some(({ published }) => published !== undefined));
}

/** Places of the columns of words, from 0 for the first column. */
export function textColumnsOf({ columns, rows }: ReportTable): Set<number> {
  const places = columns.map((_, i) => i);
  return new Set(places.filter((i) => i === 0 || rows.some(({ cells }) => cells[i - 1]?.text !== undefined)));
}

/** Rows of a long table, and of the list of scores, that Markdown has; files beside it have all of them. */
const MOST_ROWS = 60;

/** Scores as far as a page lists them: all, or, where there are more than `most`, those of reported models, as many at most. */
export function listedScores({ scores }: Pick<ExperimentReport, "scores">, most: number) {
  const listed = scores.length > most ? scores.filter(({ isReported }) => isReported).slice(0, most) : scores;
  const note =
    listed.length === scores.length
      ? ""
      : `The first ${plural(listed.length, "score")} of models that are reported; all ${scores.length.toLocaleString("en-US")}, with those of the searches, are in scores.csv.`;
  return { listed, note };
}

function markdownOf(table: ReportTable, level = "##"): string[] {
  const note = hasPublished(table) ? `${table.note} In parentheses: the paper's numbers.` : table.note;
  // The main tables and the paper's have a row for each name of the plan; the others one for each model.
  const most = table.kind === "search" || table.kind === "flips" ? MOST_ROWS : table.rows.length;
  const more = table.rows.length - most;
  return [
    `${level} ${escapeMarkdown(table.title)}`,
    "",
    escapeMarkdown(note),
    "",
    ...markdownTable(
      table.columns.map(escapeMarkdown),
      table.rows.slice(0, most).map(({ label, cells }) => [escapeMarkdown(label), ...cells.map(markdownCell)]),
      textColumnsOf(table),
    ),
    "",
    ...(more > 0 ? [`${plural(more, "more row")} in ${escapeMarkdown(`${table.id}.csv`)}.`, ""] : []),
  ];
}

function markdownHeatmap({
  title,
  note,
  rowTitle,
  columnTitle,
  rows,
  columns,
  cells,
  marked,
}: ReportHeatmap): string[] {
  const markOf = (row: number, column: number) => {
    const marks = marked.filter((mark) => mark.row === row && mark.column === column).map(({ what }) => what);
    return marks.length === 0 ? "" : ` (${marks.join(", ")})`;
  };
  return [
    `### ${escapeMarkdown(title)}`,
    "",
    escapeMarkdown(note),
    "",
    ...markdownTable(
      [rowTitle === "" ? escapeMarkdown(columnTitle) : escapeMarkdown(`${rowTitle} \\ ${columnTitle}`), ...columns],
      rows.map((label, row) => [
        label,
        ...columns.map((_, column) => formatCell(cells[row]?.[column], "share") + markOf(row, column)),
      ]),
    ),
    "",
  ];
}

/** The whole report as Markdown. */
export function experimentMarkdown(report: ExperimentReport): string {
  const { tables, heatmaps, experts, failures } = report;
  const lines = [`# ${escapeMarkdown(report.title)}`, "", describeProgress(report), ""];
  for (const note of report.notes) lines.push(escapeMarkdown(note), "");
  const of = (kind: ReportTable["kind"], level?: string) =>
    tables.filter((table) => table.kind === kind).flatMap((table) => markdownOf(table, level));
  lines.push(...of("scores"), ...of("paper"));
  if (heatmaps.length > 0) lines.push("## Scores over the grid", "");
  for (const heatmap of heatmaps) lines.push(...markdownHeatmap(heatmap));
  if (report.searches.length > 0) lines.push("## How configurations were chosen", "", ...of("search", "###"));
  for (const { group, summary, configurations } of report.searches) {
    if (configurations.length === 0) lines.push(escapeMarkdown(`${group}: ${summary}`), "");
  }
  lines.push(...of("flips"));
  if (experts.length > 0) {
    const rows = experts.map(({ name, family, origin }) => [name, family, origin].map(escapeMarkdown));
    lines.push("## The experts", "", ...markdownTable(["expert", "family", "checkpoint"], rows, new Set([1, 2])), "");
  }
  lines.push("## Every score", "", report.intervals, "", ...scoresMarkdown(report), "");
  lines.push(...(report.cost.rows.length > 0 ? of("cost") : ["## What it cost", ""]), describeCost(report), "");
  if (failures.length > 0) {
    const told = failures.map(({ label, reason }) => `- ${escapeMarkdown(`${label}: ${reason}`)}`);
    lines.push("## What failed", "", ...told, "");
  }
  lines.push(`Made by layergraft ${report.layergraft}.`);
  return `${lines.join("\n")}\n`;
}

function scoresMarkdown(report: ExperimentReport): string[] {
  const { listed, note } = listedScores(report, MOST_ROWS);
  const rows = listed.map(({ model, task, protocol, cell, ...row }) => [
    ...[model, task, protocol].map(escapeMarkdown),
    formatCell(cell.value, cell.scale),
    cell.interval
      ? `${formatCell(cell.interval.low, cell.scale)} to ${formatCell(cell.interval.high, cell.scale)}`
      : "–",
    itemsText(row),
  ]);
  return [
    ...(note === "" ? [] : [note, ""]),
    ...markdownTable(["model", "task", "protocol", "score", "95% interval", "items"], rows, new Set([1, 2])),
  ];
}

/** Spreadsheets take a text that begins like this for a formula, and compute it; with an apostrophe it is a text. */
function asWords(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

function csvLine(fields: readonly (string | number | null | undefined)[]): string {
  return fields
    .map((field) => {
      const text = typeof field === "string" ? asWords(field) : String(field ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    })
    .join(",");
}

/** Every score as CSV, unrounded; shares from 0 to 1. Names that spreadsheets would compute begin with an apostrophe. */
export function scoresCsv({ scores }: ExperimentReport): string {
  const header = "model,kind,task,protocol,scale,score,low,high,items,of,unanswered";
  const rows = scores.map(({ model, kind, task, protocol, cell: { value, scale, interval }, items, of, unanswered }) =>
    csvLine([model, kind, task, protocol, scale, value, interval?.low, interval?.high, items, of, unanswered]),
  );
  return `${[header, ...rows].join("\n")}\n`;
}

/** A table as CSV, unrounded; after each column of one's own the paper's, where it has any. */
export function tableCsv(table: ReportTable): string {
  const [first = "", ...columns] = table.columns;
  const printed = hasPublished(table);
  const header = [first, ...columns.flatMap((column) => (printed ? [column, `${column} (published)`] : [column]))];
  const rows = table.rows.map(({ label, cells }) =>
    csvLine([
      label,
      ...cells.flatMap(({ value, text, published }) => (printed ? [text ?? value, published] : [text ?? value])),
    ]),
  );
  return `${[csvLine(header), ...rows].join("\n")}\n`;
}

const LATEX_ESCAPES: Readonly<Record<string, string>> = {
  ...{ "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_" },
  ...{
    "^": "\\textasciicircum{}",
    "~": "\\textasciitilde{}",
    "–": "--",
    "…": "\\ldots{}",
    "−": "$-$",
    "±": "$\\pm$",
    "<": "$<$",
    ">": "$>$",
  },
};

function escapeLatex(text: string): string {
  return text.replace(/[\\{}$&#%_^~–…−±<>]/g, (character) => LATEX_ESCAPES[character] ?? character);
}

function latexCell({ value, scale, published, isBest, text: words }: Cell): string {
  if (words !== undefined) return escapeLatex(words);
  const own = escapeLatex(formatCell(value, scale));
  const text = isBest ? `\\textbf{${own}}` : own;
  return published === undefined ? text : `${text} {\\scriptsize(${escapeLatex(formatCell(published, scale))})}`;
}

/** A table as LaTeX, for the packages booktabs and, where it is wide, adjustbox. */
export function tableLatex(table: ReportTable): string {
  const { columns, rows, title, note, id } = table;
  const textColumns = textColumnsOf(table);
  const line = (cells: readonly string[]) => `${cells.join(" & ")} \\\\`;
  const caption = hasPublished(table) ? `${title}. ${note} In parentheses: the paper's numbers.` : `${title}. ${note}`;
  return `${[
    "\\begin{table}[t]",
    "\\centering\\small",
    `\\caption{${escapeLatex(caption)}}`,
    `\\label{tab:${id}}`,
    "\\begin{adjustbox}{max width=\\linewidth}",
    `\\begin{tabular}{${columns.map((_, i) => (textColumns.has(i) ? "l" : "r")).join("")}}`,
    "\\toprule",
    line(columns.map(escapeLatex)),
    "\\midrule",
    ...rows.map(({ label, cells }) => line([escapeLatex(label), ...cells.map(latexCell)])),
    "\\bottomrule",
    "\\end{tabular}",
    "\\end{adjustbox}",
    "\\end{table}",
  ].join("\n")}\n`;
}
