import { stripVTControlCharacters } from "node:util";
import { visible } from "../kit/printing/index.js";
import { type Cell, columnsOf, formatCell, isNumber, type Table } from "./table.js";

const isBest = (cell: Cell | undefined) => isNumber(cell) && cell.isBest === true;

/** Lines for a terminal: columns as wide as they need to be, a star after the best number of a column. */
export function terminalLines(table: Table): string[] {
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
  const padded = (text: string, i: number) => {
    const space = " ".repeat((widths[i] ?? 0) - length(text));
    return columns[i]?.align === "right" ? space + text : text + space;
  };
  return lines.map((line) => line.map(padded).join("  ").trimEnd());
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
