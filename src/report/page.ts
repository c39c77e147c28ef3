// Pages that need no network: a template of assets/ with its data inside. assets/report.html draws a Page.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { type Cell, columnsOf, formatNumber, formatSpan, type Table } from "./table.js";

/** A report as assets/report.html draws it. */
export interface Page {
  readonly title: string;
  readonly lead: string;
  /** Where the work stands. */
  readonly state: { readonly text: string; readonly isOpen: boolean };
  readonly notes: readonly string[];
  readonly sections: readonly Section[];
  readonly footer: string;
}

export interface Section {
  /** Link target. */
  readonly id: string;
  readonly title: string;
  readonly lead?: string;
  /** What the colours of bars mean. */
  readonly legend?: readonly { readonly kind: string; readonly label: string }[];
  readonly figures: readonly Figure[];
}

interface Captioned {
  readonly id?: string;
  readonly title?: string;
  readonly caption?: string;
}

export type Figure = TableFigure | BarFigure | GridFigure;

export interface TableFigure extends Captioned {
  readonly kind: "table";
  readonly columns: readonly { readonly label: string; readonly align: "left" | "right" }[];
  readonly rows: readonly (readonly PageCell[])[];
  /** What a row is, for the link that unfolds a long table. */
  readonly what: string;
}

/** Bars from zero. Places are shares of the axis. */
export interface BarFigure extends Captioned {
  readonly kind: "bars";
  readonly said: string;
  readonly ticks: readonly string[];
  readonly rows: readonly {
    readonly label: string;
    readonly about: string;
    /** Colour. */
    readonly kind: string;
    readonly value: PageCell;
    readonly width: number;
    readonly interval?: readonly [from: number, to: number];
    /** Dots at the smallest and the largest. */
    readonly range?: readonly [from: number, to: number];
  }[];
}

export interface GridFigure extends Captioned {
  readonly kind: "grid";
  readonly rowTitle: string;
  readonly columnTitle: string;
  readonly columns: readonly string[];
  /** Null where there is no number. Depth of the colour is from 0 to 1. */
  readonly rows: readonly {
    readonly label: string;
    readonly cells: readonly ({ text: string; marks: readonly string[]; depth: number } | null)[];
  }[];
}

export interface PageCell {
  readonly text: string;
  /** A smaller line below. */
  readonly small?: string;
  /** Shown when one points at it. */
  readonly hint?: string;
  readonly isBest?: boolean;
  /** Bars to both sides of a line; lengths are shares. */
  readonly balance?: { readonly lost: number; readonly gained: number; readonly counts: readonly [number, number] };
  /** Lists that unfold. */
  readonly lists?: readonly { readonly label: string; readonly items: readonly string[]; readonly more: number }[];
}

export function pageCell(cell: Cell): PageCell {
  if (typeof cell === "string") return { text: cell };
  const { interval, range, published, isBest } = cell;
  const hint = [
    ...(range ? [`${formatSpan(range, cell)} over ${range.count} models`] : []),
    ...(interval ? [`95% interval over items ${formatSpan(interval, cell)}`] : []),
  ].join("; ");
  return {
    text: formatNumber(cell),
    ...(published === undefined ? {} : { small: formatNumber({ ...cell, value: published }) }),
    ...(hint === "" ? {} : { hint }),
    ...(isBest ? { isBest } : {}),
  };
}

/** A table with its rounded numbers. */
export function tableFigure(table: Table, what: string, captioned: Captioned = {}): TableFigure {
  const rows = table.rows.map((row) => row.map(pageCell));
  return { kind: "table", ...captioned, columns: columnsOf(table), rows, what };
}

/** Puts data, which must be plain JSON, into a template of the package's imports, such as `#analysis-page`. */
export async function pageWithData(template: string, data: unknown): Promise<string> {
  const text = await readFile(createRequire(import.meta.url).resolve(template), "utf8");
  // Inside a script element only "<" could end the data early; JSON allows it to be written as an escape.
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return text.replace('"__DATA__"', () => json);
}
