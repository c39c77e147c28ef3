import { stripVTControlCharacters } from "node:util";
import { visible, widthOf, wrapped } from "../kit/printing/index.js";
import { type Cell, columnsOf, formatCell, isNumber, type Table } from "./table.js";

const isBest = (cell: Cell | undefined) => isNumber(cell) && cell.isBest === true;

/** Columns of words are not made narrower than this. */
const MIN_WORDS = 12;
const BETWEEN = "  ";

/**
 * Lines for a terminal: columns as wide as they need to be, a star after the best number of a column. Where they are wider than
 * the terminal, the widest columns of words are wrapped, or each row is a record of several lines.
 */
export function terminalLines(table: Table, width = widthOf()): string[] {
  const columns = columnsOf(table);
  const starred = columns.map((_, i) => table.rows.some((row) => isBest(row[i])));
  const texts = table.rows.map((row, at) => {
    const isRepeated = columns.every(({ isGroup }, i) => !isGroup || row[i] === table.rows[at - 1]?.[i]);
    return columns.map(({ isGroup }, i) => {
      const cell = row[i] ?? "";
      if (isGroup && isRepeated) return "";
      return formatCell(cell) + (starred[i] ? (isBest(cell) ? " *" : "  ") : "");
    });
  });
  const lines = [columns.map(({ label }, i) => label + (starred[i] ? "  " : "")), ...texts];
  const length = (text: string) => stripVTControlCharacters(text).length;
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => length(line[i] ?? ""))));
  const fits = narrow(widths, width, (i) => {
    const words = lines.flatMap((line) => (line[i] ?? "").split(" "));
    return columns[i]?.align === "right" ? undefined : Math.max(MIN_WORDS, ...words.map(length));
  });
  if (!fits)
    return texts.flatMap((row) =>
      recordLines(
        columns.map(({ label }) => label),
        row,
        width,
      ),
    );
  const padded = (text: string, i: number) => {
    const space = " ".repeat((widths[i] ?? 0) - length(text));
    return columns[i]?.align === "right" ? space + text : text + space;
  };
  return lines.flatMap((line) => {
    const cells = line.map((text, i) => (length(text) > (widths[i] ?? 0) ? wrapped(text, widths[i]) : [text]));
    return Array.from({ length: Math.max(...cells.map((cell) => cell.length)) }, (_, at) =>
      cells
        .map((cell, i) => padded(cell[at] ?? "", i))
        .join(BETWEEN)
        .trimEnd(),
    );
  });
}

/**
 * Makes the widest columns of words narrower until a line fits.
 * @param least width that a column needs; undefined if it cannot be wrapped
 * @returns whether it does
 */
function narrow(widths: number[], width: number, least: (column: number) => number | undefined): boolean {
  const wide = () => widths.reduce((sum, one) => sum + one + BETWEEN.length, -BETWEEN.length);
  if (wide() <= width) return true;
  const floors = widths.map((now, i) => Math.min(now, least(i) ?? now));
  while (wide() > width) {
    const widest = widths.reduce(
      (most, now, i) => (now > (floors[i] ?? now) && now > (widths[most] ?? -1) ? i : most),
      -1,
    );
    if (widest < 0) return false;
    widths[widest] = Math.max(floors[widest] ?? 0, (widths[widest] ?? 0) - (wide() - width));
  }
  return true;
}

/** A row of a table that is too wide: its first cell, and below it the others with their columns' names. */
function recordLines(labels: readonly string[], [first = "", ...cells]: readonly string[], width: number): string[] {
  const named = cells.flatMap((cell, i) => (cell.trim() === "" ? [] : `${labels[i + 1]} ${cell.trim()}`));
  return [first.trimEnd(), ...wrapped(`    ${named.join("; ")}`, width)];
}

export function escapeMarkdown(text: string): string {
  return visible(text)
    .replace(/\s*\n\s*/g, " ")
    .replace(/[\\`*_[\]<>|#~$]|&(?=#?\w+;)/g, "\\$&");
}

/** Lines of a Markdown table, without title and note. */
export function markdownLines(table: Table): string[] {
  const columns = columnsOf(table);
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const text = (cell: Cell) => {
    const own = escapeMarkdown(formatCell(cell));
    if (typeof cell === "string" || isNumber(cell)) return isBest(cell) ? `**${own}**` : own;
    const { small, href, lists } = cell;
    // It would unfold them.
    if (lists) return "";
    // A page that is linked to has its Markdown beside it.
    const linked = href === undefined ? own : `[${own}](<${href.replace(/index\.html$/, "report.md")}>)`;
    return small === undefined ? linked : `${linked} (${escapeMarkdown(small)})`;
  };
  return [
    line(columns.map(({ label }) => escapeMarkdown(label))),
    line(columns.map(({ align }) => (align === "right" ? "---:" : "---"))),
    ...table.rows.map((row) => line(row.map(text))),
  ];
}

type CsvField = string | number | null | undefined;

/** Spreadsheets evaluate text that starts like a formula; a leading apostrophe prevents it. */
function csvField(field: CsvField): string {
  if (typeof field !== "string") return Number.isFinite(field) ? String(field) : "";
  const text = /^[=+\-@\t\r]/.test(field) ? `'${field}` : field;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Lines of CSV (RFC 4180) with unrounded numbers. */
export function csvLines(table: Table): string[] {
  const line = (fields: readonly CsvField[]) => fields.map(csvField).join(",");
  const field = (cell: Cell): CsvField => (isNumber(cell) ? cell.value : formatCell(cell));
  const header = columnsOf(table).map(({ label }) => label);
  return [line(header), ...table.rows.map((row) => line(row.map(field)))];
}

const LATEX_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\\", "\\textbackslash{}"],
  ["^", "\\textasciicircum{}"],
  ["~", "\\textasciitilde{}"],
  ["–", "--"],
  ["…", "\\ldots{}"],
  ...["−", "±", "<", ">", "|"].map((sign) => [sign, `$${{ "−": "-", "±": "\\pm" }[sign] ?? sign}$`] as const),
  ...[..."{}$&#%_"].map((sign) => [sign, `\\${sign}`] as const),
]);

function escapeLatex(text: string): string {
  // An empty line would end the paragraph, which a caption must not.
  // Control characters are invalid.
  const line = text.replace(/\s*\n\s*/g, " ").replace(/\p{Cc}/gu, "");
  return line.replace(/[\\{}$&#%_^~–…−±<>|]/g, (sign) => LATEX_ESCAPES.get(sign) ?? sign);
}

/** A table as LaTeX, for the packages booktabs and adjustbox. */
export function latexText(table: Table): string {
  const { rows, title = "", note = "", id = "" } = table;
  const columns = columnsOf(table);
  const line = (cells: readonly string[]) => `${cells.join(" & ")} \\\\`;
  const text = (cell: Cell) => {
    const own = escapeLatex(formatCell(cell));
    return isBest(cell) ? `\\textbf{${own}}` : own;
  };
  return `${[
    "\\begin{table}[t]",
    "\\centering\\small",
    `\\caption{${escapeLatex(`${title}. ${note}`)}}`,
    `\\label{tab:${id}}`,
    "\\begin{adjustbox}{max width=\\linewidth}",
    `\\begin{tabular}{${columns.map(({ align }) => align.slice(0, 1)).join("")}}`,
    "\\toprule",
    line(columns.map(({ label }) => escapeLatex(label))),
    "\\midrule",
    ...rows.map((row) => line(row.map(text))),
    "\\bottomrule",
    "\\end{tabular}",
    "\\end{adjustbox}",
    "\\end{table}",
  ].join("\n")}\n`;
}
