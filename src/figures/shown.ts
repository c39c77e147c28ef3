// What a verb shows of its result, and its lines for a terminal.
import { type Figure, tableOf } from "./figures.js";
import { type Heatmap, heatmapLines } from "./heatmap.js";
import { terminalLines } from "./render.js";
import type { Palette } from "./strip.js";

/** A figure of a report, or one of those that stand alone. */
export type Shown =
  | Figure
  | { readonly kind: "heatmap"; readonly heatmap: Heatmap; readonly perRow?: number }
  | { readonly kind: "text"; readonly lines: readonly string[] }
  /** Names with what there is to say of each. */
  | {
      readonly kind: "entries";
      readonly entries: readonly { readonly name: string; readonly lines: readonly string[] }[];
    };

export interface Colours {
  readonly palette: Palette;
  /** Whether the palette colours anything. */
  readonly hasColours: boolean;
}

/** Lines for a terminal, with an empty one between figures. */
export function shownLines(shown: readonly Shown[], colours: Colours): string[] {
  return shown.map((one) => linesOf(one, colours)).flatMap((lines, i) => (i > 0 ? ["", ...lines] : lines));
}

function linesOf(one: Shown, { palette, hasColours }: Colours): readonly string[] {
  if (one.kind === "text") return one.lines;
  if (one.kind === "heatmap") return heatmapLines(one.heatmap, hasColours, one.perRow);
  if (one.kind === "entries")
    return one.entries.flatMap(({ name, lines }) => [palette.bold(name), ...lines.map((line) => `  ${line}`)]);
  if (one.kind === "commands") return one.commands.map(({ command }) => command);
  const table = tableOf(one);
  if (!table) return [];
  return [table.title, table.note].filter((text) => text !== "").concat(terminalLines(table));
}
