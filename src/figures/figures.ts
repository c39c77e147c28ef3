// A report as plain values: sections of figures. Renderers round numbers and place them on axes.
import type { Scale, Score, Span } from "./scores.js";
import { type Cell, count, type NumberCell, right, type Table } from "./table.js";

export interface Verdict {
  readonly title: string;
  readonly text: string;
  /** What is said below it, smaller: what limits it, and what to do next. Default: nothing. */
  readonly more?: string;
  /** Whether it leaves the question open, as a tie does. Default: false. */
  readonly isOpen?: boolean;
}

export interface Page {
  readonly up?: { readonly text: string; readonly href: string };
  readonly title: string;
  /** A file beside the page that links to it are shown with. Default: none. */
  readonly picture?: string;
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
  readonly id: string;
  readonly title: string;
  readonly lead?: string;
  /** Whether the first figure is narrow and the others are beside it, where there is room. */
  readonly isBeside?: boolean;
  readonly figures: readonly Figure[];
}

export type Figure =
  | (TableFigure & { readonly kind: "table" })
  | (Bars & { readonly kind: "bars" })
  | (Grid & { readonly kind: "grid" })
  | (Lines & { readonly kind: "lines" })
  | (Commands & { readonly kind: "commands" });

interface Captioned {
  /** Link target, and name of the files that have its numbers as a table. Default: neither. */
  readonly id?: string;
  readonly title?: string;
  readonly note?: string;
}

export interface TableFigure extends Table {
  /** Noun for a row, such as `model`, for the link that expands a long table. */
  readonly what: string;
  /** Whether a long table is shown whole. */
  readonly isWhole?: boolean;
  /** Whether a column has the intervals of the scores. */
  readonly hasIntervals?: boolean;
}

/** Scores on one axis. */
export interface Bars extends Captioned {
  readonly verdict: string;
  /** What to do next, which a table of the numbers leaves out. Default: nothing. */
  readonly next?: string;
  /** What is said below them, such as how they were chosen. Default: nothing. */
  readonly below?: string;
  readonly scale: Scale;
  readonly rows: readonly (Score & {
    readonly label: string;
    /** Target of a link from the label. */
    readonly target?: string | undefined;
    readonly detail: string;
    readonly kind: string;
    readonly count: number;
    readonly isBest: boolean;
  })[];
}

/** Shares over two fields, or over one in a single row. */
export interface Grid extends Captioned {
  /** Empty for a single row. */
  readonly rowTitle: string;
  readonly columnTitle: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** `cells[row][column]`: a share from 0 to 1, null if there is none, or words with a colour. */
  readonly cells: readonly (readonly (number | null | { readonly text: string; readonly kind: string })[])[];
  /** Words below cells. */
  readonly marked: readonly { readonly row: number; readonly column: number; readonly what: string }[];
  /** Values without colour and with all of it. Default: the lowest and highest. */
  readonly span?: Span;
  /** Digits after the point, in percent. Default: 1. */
  readonly digits?: number;
  readonly isDense?: boolean;
  /** Whose shares they are, as a class of colours: `own-1` of the first expert. Default: the report's own colour. */
  readonly own?: string;
}

/** Scores over a number, with bands of their intervals. */
export interface Lines extends Captioned {
  readonly verdict: string;
  /** `setting`: numbers as they are. */
  readonly scale: Scale | "setting";
  readonly xTitle: string;
  /** Default: what the scale's scores are. */
  readonly yTitle?: string;
  readonly lines: readonly {
    /** Empty if there is one line. */
    readonly label: string;
    /** In ascending order of `x`. */
    readonly points: readonly (Pick<Score, "mean" | "interval"> & { readonly x: number })[];
  }[];
  /** Dashed lines across the figure. */
  readonly references: readonly { readonly label: string; readonly mean: number }[];
  /** Its numbers, for those who do not draw it. Default: none. */
  readonly table?: Table;
}

export interface Commands extends Captioned {
  readonly commands: readonly {
    readonly what: string;
    readonly command: string;
    /** Link target. Then it is folded below `what`. */
    readonly id?: string;
    /** Text of a file that the command reads, shown above it, and a line about it. */
    readonly file?: { readonly about: string; readonly text: string };
  }[];
}

/** A grid of layers, from the top of the model, by its projections. @param cells `cells[layer][column]` */
export function layerGrid<C extends Grid["cells"][number][number]>(
  columns: readonly string[],
  cells: readonly (readonly C[])[],
  columnTitle = "",
) {
  const rows = cells.map((_, layer) => String(layer)).reverse();
  return { rowTitle: "layer", columnTitle, columns, marked: [], rows, cells: cells.toReversed() };
}

export const marksOf = ({ marked }: Pick<Grid, "marked">, row: number, column: number): string[] =>
  marked.filter((mark) => mark.row === row && mark.column === column).map(({ what }) => what);

/** A grid as a table; marks follow their numbers, except in CSV. */
export function gridTable(grid: Grid): Table {
  const { rowTitle, columnTitle, rows, columns, cells } = grid;
  const cellAt = (row: number, column: number): Cell => {
    const value = cells[row]?.[column] ?? null;
    if (typeof value === "object" && value !== null) return value.text;
    const marks = marksOf(grid, row, column);
    const number = { value, scale: "share" } as const;
    return marks.length === 0 ? number : { ...number, marks };
  };
  return {
    columns: [rowTitle === "" ? columnTitle : `${rowTitle} \\ ${columnTitle}`, ...columns.map(right)],
    rows: rows.map((label, row) => [label, ...columns.map((_, column) => cellAt(row, column))]),
  };
}

/** The numbers of bars, over one model or several. */
function barsTable({ scale, rows }: Bars): Table {
  const hasSeveral = rows.some((row) => row.count > 1);
  const hasDetail = rows.some(({ detail }) => detail !== "");
  const number = (value: number | null | undefined): NumberCell => ({ value: value ?? null, scale });
  return {
    columns: [
      ...["", ...(hasDetail ? ["what it is"] : []), hasSeveral ? "mean" : "score", "95% from", "95% to"],
      ...(hasSeveral ? ["min", "max", "models"] : []),
    ],
    rows: rows.map(({ label, detail, mean, isBest, interval, low, high, ...row }): Cell[] => [
      label,
      ...(hasDetail ? [detail] : []),
      { ...number(mean), isBest },
      ...[interval?.low, interval?.high].map(number),
      ...(hasSeveral ? [low, high].map((value) => number(row.count > 1 ? value : null)) : []),
      ...(hasSeveral ? [count(row.count)] : []),
    ]),
  };
}

function numbersOf(figure: Exclude<Figure, { kind: "commands" }>): Table | undefined {
  if (figure.kind === "bars") return barsTable(figure);
  if (figure.kind === "grid") return gridTable(figure);
  return figure.kind === "lines" ? figure.table : figure;
}

/**
 * The numbers of a figure, under its title and all that is said about it, which may be empty. Undefined if it has none.
 */
export function tableOf(figure: Figure): Required<Table> | undefined {
  if (figure.kind === "commands") return undefined;
  const table = numbersOf(figure);
  const { id = "", title = "", note = "" } = figure;
  const verdict = "verdict" in figure ? figure.verdict : "";
  const below = figure.kind === "bars" ? (figure.below ?? "") : "";
  const said = [note, verdict, below].filter((text) => text !== "").join(" ");
  return table && { id, title, note: said, columns: table.columns, rows: table.rows };
}

/** The tables of a page that have files, each with what its section says. */
export function tablesOf({ sections }: Pick<Page, "sections">): Required<Table>[] {
  return sections.flatMap(({ title, lead = "", figures }) => {
    const tables = figures.flatMap((figure) => tableOf(figure) ?? []);
    return tables
      .filter(({ id, rows }) => id !== "" && rows.length > 0)
      .map((table) => ({ ...table, title: table.title || title, note: `${lead} ${table.note}`.trim() }));
  });
}
