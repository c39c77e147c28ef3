// What a verb shows of its result, and its lines for a terminal.

import { formatFixed } from "../kit/printing/index.js";
import { type Figure, tableOf } from "./figures.js";
import { type Heatmap, heatmapLines } from "./heatmap.js";
import { terminalLines } from "./render.js";
import { layerStrip, type Palette, PLAIN, type StripLayer } from "./strip.js";
import { type Cell, formatCell } from "./table.js";

/** A figure of a report, or one of those that stand alone. `isTight`: directly below the one before. */
export type Shown = (
  | Figure
  | { readonly kind: "heatmap"; readonly heatmap: Heatmap; readonly perRow?: number }
  | { readonly kind: "text"; readonly lines: readonly string[]; readonly tone?: "bold" }
  /** Whose each layer is. */
  | { readonly kind: "strip"; readonly layers: readonly StripLayer[] }
  /** Names with what there is to say of each. */
  | {
      readonly kind: "entries";
      readonly entries: readonly { readonly name: string; readonly lines: readonly string[] }[];
    }
) & { readonly isTight?: boolean };

export interface Colours {
  readonly palette: Palette;
  /** Whether the palette colours anything. */
  readonly hasColours: boolean;
}

/** Lines for a terminal, with an empty one between figures. */
export function shownLines(shown: readonly Shown[], colours: Colours): string[] {
  return shown.flatMap((one, i) => [...(i > 0 && !one.isTight ? [""] : []), ...linesOf(one, colours)]);
}

/** A figure without its form: words, or a table of texts. */
export type PlainFigure =
  | { readonly kind: "text"; readonly lines: readonly string[] }
  | {
      readonly kind: "entries";
      readonly entries: readonly { readonly name: string; readonly lines: readonly string[] }[];
    }
  | {
      readonly kind: "table";
      readonly title: string;
      readonly columns: readonly string[];
      readonly rows: readonly (readonly string[])[];
    };

/** Figures for a page that draws words and tables alone; a heatmap is a table of percentages, the output on top. */
export function plainFigures(shown: readonly Shown[]): PlainFigure[] {
  return shown.flatMap((one): PlainFigure[] => {
    if (one.kind === "text") return [{ kind: "text", lines: one.lines }];
    if (one.kind === "strip") return [{ kind: "text", lines: layerStrip(one.layers, PLAIN) }];
    if (one.kind === "entries") return [{ kind: "entries", entries: one.entries }];
    if (one.kind === "commands") return [{ kind: "text", lines: one.commands.map(({ command }) => command) }];
    if (one.kind === "heatmap") {
      const { columns, panels, legend } = one.heatmap;
      const percent = (value: number | null) => (value === null ? "" : formatFixed(100 * value, 1));
      return panels.map(({ title, subtitle, cells }) => ({
        kind: "table",
        title: `${title}${subtitle === undefined ? "" : ` (${subtitle})`}: ${legend}, in percent`,
        columns: ["layer", ...columns],
        rows: cells.map((row, layer) => [String(layer), ...row.map(percent)]).reverse(),
      }));
    }
    const table = tableOf(one);
    if (!table) return [];
    const columns = table.columns.map((column) => (typeof column === "string" ? column : column.label));
    return [{ kind: "table", title: table.title, columns, rows: table.rows.map((row) => row.map(formatCell)) }];
  });
}

function linesOf(one: Shown, { palette, hasColours }: Colours): readonly string[] {
  if (one.kind === "text") return one.tone === "bold" ? one.lines.map(palette.bold) : one.lines;
  if (one.kind === "strip") return layerStrip(one.layers, palette);
  if (one.kind === "heatmap") return heatmapLines(one.heatmap, hasColours, one.perRow);
  if (one.kind === "entries")
    return one.entries.flatMap(({ name, lines }) => [palette.bold(name), ...lines.map((line) => `  ${line}`)]);
  if (one.kind === "commands") return one.commands.map(({ command }) => command);
  const table = tableOf(one);
  if (!table) return [];
  const coloured = (cell: Cell) =>
    typeof cell === "object" && "tone" in cell && cell.tone ? palette[cell.tone](cell.text) : cell;
  return [table.title, table.note]
    .filter((text) => text !== "")
    .concat(terminalLines({ ...table, rows: table.rows.map((row) => row.map(coloured)) }));
}
