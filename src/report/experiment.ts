// An experiment's report as Markdown, CSV and LaTeX. Plain data in, text out; the page is experiment-page.ts.
import { formatDuration, plural } from "../core/format.js";
import type { Cell, ExperimentReport, ReportHeatmap, ReportTable } from "../experiment/report/data.js";

/** `43.2`: a share as percent, points with one digit; `…` for what is not known yet, `–` for what there is nothing of. */
export function formatCell(value: number | null | undefined, scale: Cell["scale"]): string {
  if (value === null) return "–";
  if (value === undefined || !Number.isFinite(value)) return "…";
  return (scale === "share" ? 100 * value : value).toFixed(1);
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

/** What merging cost, in a sentence. */
export function describeCost({ cost: { mergeSeconds, seconds, rows } }: ExperimentReport): string {
  const what = rows.map((row) => `${plural(row.steps, "step")} of ${row.what} in ${formatDuration(row.seconds)}`);
  if (seconds === 0) return "Nothing has been timed yet.";
  const share = (100 * mergeSeconds) / seconds;
  return `${what.join("; ")}. Making the merges took ${formatDuration(mergeSeconds)} of ${formatDuration(seconds)} (${share < 0.1 ? "under 0.1" : share.toFixed(1)}%).`;
}

const escapeMarkdown = (text: string) => text.replace(/([\\|*_`<>[\]])/g, "\\$1");

function markdownTable(columns: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(columns), line(columns.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line)];
}

function markdownCell({ value, scale, published, isBest }: Cell): string {
  const own = formatCell(value, scale);
  const text = isBest ? `**${own}**` : own;
  return published === undefined ? text : `${text} (${formatCell(published, scale)})`;
}

function hasPublished({ rows }: ReportTable): boolean {
  return rows.some(({ cells }) => cells.some(({ published }) => published !== undefined));
}

function markdownOf(table: ReportTable): string[] {
  const note = hasPublished(table) ? `${table.note} In parentheses: the paper's numbers.` : table.note;
  return [
    `## ${escapeMarkdown(table.title)}`,
    "",
    escapeMarkdown(note),
    "",
    ...markdownTable(
      table.columns.map(escapeMarkdown),
      table.rows.map(({ label, cells }) => [escapeMarkdown(label), ...cells.map(markdownCell)]),
    ),
    "",
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
      [`${rowTitle} \\ ${columnTitle}`, ...columns],
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
  const { overviews, heatmaps, searches, flips, experts, scores, failures } = report;
  const lines = [`# ${escapeMarkdown(report.title)}`, "", describeProgress(report), ""];
  for (const note of report.notes) lines.push(escapeMarkdown(note), "");
  for (const { title, protocol, items, bars, scale } of overviews) {
    if (bars.length === 0) continue;
    lines.push(`## ${escapeMarkdown(title)}`, "", escapeMarkdown(`${protocol}; ${items}.`), "");
    const rows = bars.map(({ label, mean, low, high, count, detail }) => [
      escapeMarkdown(detail === "" ? label : `${label} (${detail})`),
      ...[low, mean, high].map((value) => formatCell(value, scale)),
      String(count),
    ]);
    lines.push(...markdownTable(["", "min", "mean", "max", "models"], rows), "");
  }
  for (const table of report.tables) lines.push(...markdownOf(table));
  if (heatmaps.length > 0) lines.push("## Bottom layers against top layers", "");
  for (const heatmap of heatmaps) lines.push(...markdownHeatmap(heatmap));
  if (searches.length > 0) lines.push("## How configurations were chosen", "");
  for (const { group, configurations, chosen } of searches) {
    lines.push(
      `### ${escapeMarkdown(group)}`,
      "",
      chosen === undefined ? "Nothing is chosen yet." : `Chosen: ${escapeMarkdown(chosen)}.`,
      "",
    );
    const rows = configurations.map(({ label, mean, behind, margin, items, isDefault }) => [
      escapeMarkdown(isDefault ? `${label} (default)` : label),
      formatCell(mean, "share"),
      `${formatDifference(behind, "share")} ± ${formatCell(margin, "share")}`,
      String(items),
    ]);
    lines.push(...markdownTable(["configuration", "mean", "against the best", "items"], rows), "");
  }
  if (flips.length > 0) {
    lines.push("## What each merge gained and lost", "");
    const rows = flips.map(({ model, against, task, difference, interval, gained, lost, scale, pValue }) => [
      ...[model, against, task].map(escapeMarkdown),
      formatDifference(difference, scale),
      interval ? `${formatDifference(interval.low, scale)} to ${formatDifference(interval.high, scale)}` : "–",
      String(gained.length),
      String(lost.length),
      pValue === undefined ? "–" : pValue.toFixed(3),
    ]);
    lines.push(
      ...markdownTable(["merge", "against", "task", "difference", "95% interval", "gained", "lost", "p"], rows),
      "",
    );
  }
  if (experts.length > 0) {
    lines.push(
      "## The experts",
      "",
      ...markdownTable(
        ["expert", "family", "checkpoint"],
        experts.map(({ name, family, origin }) => [name, family, origin].map(escapeMarkdown)),
      ),
      "",
    );
  }
  lines.push("## Every score", "");
  const rows = scores.map(({ model, task, protocol, cell, items, of }) => [
    ...[model, task, protocol].map(escapeMarkdown),
    formatCell(cell.value, cell.scale),
    cell.interval
      ? `${formatCell(cell.interval.low, cell.scale)} to ${formatCell(cell.interval.high, cell.scale)}`
      : "–",
    items === of ? String(of) : `${items} of ${of}`,
  ]);
  lines.push(...markdownTable(["model", "task", "protocol", "score", "95% interval", "items"], rows), "");
  lines.push("## What it cost", "", describeCost(report), "");
  if (failures.length > 0)
    lines.push(
      "## What failed",
      "",
      ...failures.map(({ label, reason }) => `- ${escapeMarkdown(`${label}: ${reason}`)}`),
      "",
    );
  lines.push(`Made by layergraft ${report.layergraft}.`);
  return `${lines.join("\n")}\n`;
}

function csvLine(fields: readonly (string | number | null | undefined)[]): string {
  return fields
    .map((field) => {
      const text = field === null || field === undefined ? "" : String(field);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    })
    .join(",");
}

/** Every score as CSV, unrounded; shares from 0 to 1. */
export function scoresCsv({ scores }: ExperimentReport): string {
  const header = "model,kind,task,protocol,scale,score,low,high,items,of";
  const rows = scores.map(({ model, kind, task, protocol, cell: { value, scale, interval }, items, of }) =>
    csvLine([model, kind, task, protocol, scale, value, interval?.low, interval?.high, items, of]),
  );
  return `${[header, ...rows].join("\n")}\n`;
}

/** A table as CSV, unrounded; after each column of one's own the paper's, where it has any. */
export function tableCsv(table: ReportTable): string {
  const [first = "", ...columns] = table.columns;
  const printed = hasPublished(table);
  const header = [first, ...columns.flatMap((column) => (printed ? [column, `${column} (published)`] : [column]))];
  const rows = table.rows.map(({ label, cells }) =>
    csvLine([label, ...cells.flatMap(({ value, published }) => (printed ? [value, published] : [value]))]),
  );
  return `${[csvLine(header), ...rows].join("\n")}\n`;
}

const LATEX_ESCAPES: Readonly<Record<string, string>> = {
  ...{ "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_" },
  ...{ "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "–": "--", "…": "\\ldots{}", "−": "$-$" },
};

function escapeLatex(text: string): string {
  return text.replace(/[\\{}$&#%_^~–…−]/g, (character) => LATEX_ESCAPES[character] ?? character);
}

function latexCell({ value, scale, published, isBest }: Cell): string {
  const own = escapeLatex(formatCell(value, scale));
  const text = isBest ? `\\textbf{${own}}` : own;
  return published === undefined ? text : `${text} {\\scriptsize(${escapeLatex(formatCell(published, scale))})}`;
}

/** A table as LaTeX, for the packages booktabs and, where it is wide, adjustbox. */
export function tableLatex(table: ReportTable): string {
  const { columns, rows, title, note, id } = table;
  const line = (cells: readonly string[]) => `${cells.join(" & ")} \\\\`;
  const caption = hasPublished(table) ? `${title}. ${note} In parentheses: the paper's numbers.` : `${title}. ${note}`;
  return `${[
    "\\begin{table}[t]",
    "\\centering\\small",
    `\\caption{${escapeLatex(caption)}}`,
    `\\label{tab:${id}}`,
    "\\begin{adjustbox}{max width=\\linewidth}",
    `\\begin{tabular}{l${"r".repeat(columns.length - 1)}}`,
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
