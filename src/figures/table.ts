import { formatDuration, formatFixed } from "../kit/printing/index.js";
import type { Scale, Span } from "./scores.js";

export interface NumberCell {
  /** Undefined: not known yet. Null: there is none. */
  readonly value: number | null | undefined;
  /** `setting`: a value as a plan has it. */
  readonly scale: Scale | "count" | "seconds" | "probability" | "setting";
  /** Digits after the point of scores. Default: 1 of shares, in percent, and 2 of points. */
  readonly digits?: number;
  /** Whether a positive number has a plus sign. */
  readonly isSigned?: boolean;
  readonly isBest?: boolean;
  /** Words after the number, such as `default`; CSV has the number alone. */
  readonly marks?: readonly string[];
  /** 95% interval over items. */
  readonly interval?: Span | undefined;
  /** Smallest and largest over models. */
  readonly range?: (Span & { readonly count: number }) | undefined;
}

/** Words with more than their text. A table that is not on a page has the text or counts only. */
export interface TextCell {
  readonly text: string;
  /** A smaller line below. */
  readonly small?: string;
  /** Its colour in a terminal. */
  readonly tone?: "dim" | "green";
  /** Of the first cell of a row: target of a link. */
  readonly href?: string;
  /** Counts, in place of the text as bars to both sides of a line. */
  readonly balance?: { readonly lost: number; readonly gained: number };
  /** Lists that the text unfolds. */
  readonly lists?: readonly { readonly label: string; readonly items: readonly string[]; readonly more: number }[];
}

export type Cell = string | TextCell | NumberCell;

export const isNumber = (cell: Cell | undefined): cell is NumberCell => typeof cell === "object" && "scale" in cell;

export interface Column {
  readonly label: string;
  /** Default: right for numbers, left for words. */
  readonly align?: "left" | "right";
  /** The terminal leaves these cells empty in a row where all of them repeat the row above. */
  readonly isGroup?: boolean;
}

export interface Table {
  /** File name and link target: `table-1`. */
  readonly id?: string;
  readonly title?: string;
  readonly note?: string;
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly (readonly Cell[])[];
}

/** A column aligned to the right, for words such as `2.4 GB`. */
export const right = (label: string): Column => ({ label, align: "right" });

export const count = (value: number | null | undefined): NumberCell => ({ value, scale: "count" });

/** A cell of a table that is only written as CSV, where numbers have no format. */
export const plainCell = (value: string | number | null | undefined): Cell =>
  typeof value === "string" ? value : count(value);

/** Columns with their alignment. */
export function columnsOf({ columns, rows }: Table): Required<Column>[] {
  return columns.map((column, i) => {
    const align = rows.length > 0 && rows.every((row) => isNumber(row[i])) ? "right" : "left";
    return { align, isGroup: false, ...(typeof column === "string" ? { label: column } : column) };
  });
}

/** `43.2`, `< 0.001`, `3 min 20 s`; `…` for a number that is not known yet, `–` for none. */
export function formatNumber({ value, scale, digits, isSigned = false }: NumberCell): string {
  if (value === null) return "–";
  if (value === undefined || !Number.isFinite(value)) return "…";
  if (scale === "count") return value.toLocaleString("en-US");
  if (scale === "setting") return String(value);
  if (scale === "seconds") return formatDuration(value);
  if (scale === "probability") return value < 0.001 ? "< 0.001" : value.toFixed(3);
  const text = scale === "share" ? formatFixed(100 * value, digits ?? 1) : formatFixed(value, digits ?? 2);
  return isSigned && Number(text) > 0 ? `+${text}` : text;
}

/** `35.0 to 50.0`, or `–`. */
export function formatSpan(span: Span | undefined, cell: Omit<NumberCell, "value">): string {
  if (!span) return "–";
  return `${formatNumber({ ...cell, value: span.low })} to ${formatNumber({ ...cell, value: span.high })}`;
}

/** A cell as text, without marks. */
export function formatCell(cell: Cell): string {
  if (typeof cell === "string") return cell;
  if (isNumber(cell)) return formatNumber(cell) + (cell.marks ? ` (${cell.marks.join(", ")})` : "");
  return cell.balance ? `${cell.balance.lost} | ${cell.balance.gained}` : cell.text;
}
