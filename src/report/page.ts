// Self-contained HTML pages: a template of assets/ with its data inside.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { PlacedLines } from "./lines.js";
import { type Cell, columnsOf, formatNumber, formatSpan, type Table } from "./table.js";

/** A conclusion. */
interface Verdict {
  readonly title: string;
  readonly text: string;
  /** Whether it leaves the question open, as a tie does. Default: false. */
  readonly isOpen?: boolean;
}

/** Data of assets/report.html. */
export interface Page {
  /** A link above the title. */
  readonly up?: { readonly text: string; readonly href: string };
  readonly title: string;
  readonly lead: string;
  /** The conclusions, each in a sentence or two: what one reads if one reads nothing else. */
  readonly verdicts: readonly Verdict[];
  /** How far the work is, or how it ended. Default: nothing. */
  readonly state?: { readonly text: string; readonly isOpen: boolean };
  readonly notes: readonly string[];
  readonly sections: readonly Section[];
  readonly footer: string;
}

export interface Section {
  /** Link target. */
  readonly id: string;
  readonly title: string;
  readonly lead?: string;
  /** Legend of the bar colors. */
  readonly legend?: readonly { readonly kind: string; readonly label: string }[];
  readonly figures: readonly Figure[];
}

interface Captioned {
  readonly id?: string;
  readonly title?: string;
  /** Language of the title, such as `sw`. Default: English. */
  readonly lang?: string;
  readonly caption?: string;
}

export type Figure = TableFigure | BarFigure | GridFigure | LinesFigure | CommandsFigure;

export interface TableFigure extends Captioned {
  readonly kind: "table";
  readonly columns: readonly { readonly label: string; readonly align: "left" | "right" }[];
  readonly rows: readonly (readonly PageCell[])[];
  /** Noun for a row, such as `model`, for the link that expands a long table. */
  readonly what: string;
  /** Whether a long table is shown whole. */
  readonly isWhole?: boolean;
}

/** Points on an axis. Positions are shares of the axis. */
export interface BarFigure extends Captioned {
  readonly kind: "bars";
  /** Conclusion, in a sentence or two. */
  readonly conclusion: string;
  /** At even distances, from one end of the axis to the other. */
  readonly ticks: readonly string[];
  readonly rows: readonly {
    readonly label: string;
    /** Target of a link from the label. */
    readonly target?: string;
    readonly about: string;
    /** Colour. */
    readonly kind: string;
    readonly value: PageCell;
    readonly at: number;
    /** The interval in words. */
    readonly span?: string;
    readonly interval?: readonly [from: number, to: number];
    /** Band from the smallest to the largest. */
    readonly range?: readonly [from: number, to: number];
  }[];
}

export interface GridFigure extends Captioned {
  readonly kind: "grid";
  readonly rowTitle: string;
  readonly columnTitle: string;
  readonly columns: readonly string[];
  /** Small cells without marks. */
  readonly isDense?: boolean;
  /** Null if there is no number. */
  readonly rows: readonly { readonly label: string; readonly cells: readonly (GridCell | null)[] }[];
}

export interface GridCell {
  readonly text: string;
  /** Words below the text. */
  readonly marks?: readonly string[];
  /** Strength of the colour, from 0 to 1. */
  readonly depth?: number;
  /** Another colour, such as that of the source of a layer. */
  readonly kind?: string;
}

/** Lines with bands of their intervals. */
export interface LinesFigure extends Captioned, PlacedLines {
  readonly kind: "lines";
  /** Conclusion, in a sentence or two. */
  readonly conclusion: string;
}

/** Commands to copy. */
export interface CommandsFigure extends Captioned {
  readonly kind: "commands";
  readonly commands: readonly {
    readonly what: string;
    readonly command: string;
    /** Link target. Then it is folded below `what`. */
    readonly id?: string;
    /** Text of a file that the command reads, shown above it, and a line about it. */
    readonly file?: { readonly about: string; readonly text: string };
  }[];
}

export interface PageCell {
  readonly text: string;
  /** Of the first cell of a row: target of a link. */
  readonly href?: string;
  /** A smaller line below. */
  readonly small?: string;
  /** Tooltip. */
  readonly hint?: string;
  readonly isBest?: boolean;
  /** Bars to both sides of a line; their lengths are shares of the longest. */
  readonly balance?: { readonly lost: number; readonly gained: number; readonly counts: readonly [number, number] };
  /** Collapsible lists. */
  readonly lists?: readonly { readonly label: string; readonly items: readonly string[]; readonly more: number }[];
}

export function pageCell(cell: Cell): PageCell {
  if (typeof cell === "string") return { text: cell };
  const { interval, range, isBest } = cell;
  const hint = [
    ...(range ? [`${formatSpan(range, cell)} over ${range.count} models`] : []),
    ...(interval ? [`95% interval over items ${formatSpan(interval, cell)}`] : []),
  ].join("; ");
  return {
    text: formatNumber(cell),
    ...(hint === "" ? {} : { hint }),
    ...(isBest ? { isBest } : {}),
  };
}

/** A table with its rounded numbers. */
export function tableFigure(table: Table, what: string, captioned: Captioned = {}): TableFigure {
  const rows = table.rows.map((row) => row.map(pageCell));
  return { kind: "table", ...captioned, columns: columnsOf(table), rows, what };
}

/**
 * Puts data, and the tokens and components that all pages share, into the template of a page.
 * @param template an import of package.json, such as `#analysis-page`
 * @param data plain JSON
 */
export async function pageWithData(template: string, data: unknown): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const files = [template, "#page-tokens", "#page-components"].map((name) => readFile(resolve(name), "utf8"));
  const [text = "", ...styles] = await Promise.all(files);
  // Only "<" can end a script element early; JSON allows it as an escape.
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return text.replace("/* __TOKENS__ */", () => styles.join("\n")).replace('"__DATA__"', () => json);
}
