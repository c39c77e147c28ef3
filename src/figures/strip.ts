// The layer strip of a plan: one cell per layer from the input to the output, and a legend. Pages draw the output at the top; here 80
// layers in a column would push the plan off the screen, so the ends are named instead. Green is what the merge computes.

import { own } from "../kit/index.js";
import { formatRanges, visible } from "../kit/printing/index.js";

/** Colours to paint with; the identity for plain text. */
export interface Palette {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly green: (text: string) => string;
  readonly cyan: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly magenta: (text: string) => string;
  readonly red: (text: string) => string;
}

const plain = (text: string) => text;
/** No colours. */
export const PLAIN: Palette = {
  bold: plain,
  dim: plain,
  green: plain,
  cyan: plain,
  yellow: plain,
  magenta: plain,
  red: plain,
};

/** One layer, or null for tensors outside the layers: the distinct origins of its tensors, each one source or several. */
export interface StripLayer {
  readonly layer: number | null;
  readonly origins: readonly (readonly string[])[];
  /** Whether several sources are combined by more than an average. */
  readonly combined?: boolean;
}

type Kind = "task" | "language" | "base" | "average" | "combined" | "mixed" | "mixed average" | "other";

const CELLS: Readonly<Record<Exclude<Kind, "other">, readonly [cell: string, colour: keyof Palette]>> = {
  task: ["░", "cyan"],
  language: ["█", "yellow"],
  base: ["·", "dim"],
  average: ["▒", "green"],
  combined: ["▓", "green"],
  mixed: ["▚", "magenta"],
  "mixed average": ["▞", "magenta"],
};
const CELL_WIDTH = 2;

/** Cells of other sources, such as those of a passthrough, in order of appearance. */
const OTHER_CELLS = ["░", "█", "▄", "▌", "▀", "═"];

type Drawing = (entry: StripLayer) => string;

/** How each layer is drawn: by kind, and for kind `other` by source. */
function drawingOf(ownership: readonly StripLayer[], palette: Palette): Drawing {
  const colours = ["cyan", "green", "magenta", "yellow", "red"] as const;
  const others = [...new Set(ownership.filter((entry) => kindOf(entry) === "other").map(describeOrigin))];
  return (entry) => {
    const kind = kindOf(entry);
    const other = others.indexOf(describeOrigin(entry));
    const [cell, colour] =
      kind === "other" ? [OTHER_CELLS[other % OTHER_CELLS.length], colours[other % colours.length]] : CELLS[kind];
    return palette[colour ?? "cyan"]((cell ?? "").repeat(CELL_WIDTH));
  };
}

function kindOf({ origins, combined = false }: StripLayer): Kind {
  const [first = []] = origins;
  if (origins.length > 1) return origins.some((origin) => origin.length > 1) ? "mixed average" : "mixed";
  if (first.length > 1) return combined ? "combined" : "average";
  return first[0] === "task" || first[0] === "language" || first[0] === "base" ? first[0] : "other";
}

/** Layers in a row; a deeper model has several rows. */
const PER_ROW = 36;

/**
 * Lines of the strip, ruler first, and its legend.
 * @param names what the legend calls sources; default: their own names
 */
export function layerStrip(
  ownership: readonly StripLayer[],
  palette: Palette,
  names: Readonly<Record<string, string>> = {},
): string[] {
  const layers = ownership.filter((entry) => entry.layer !== null);
  const draw = drawingOf(ownership, palette);
  const lines: string[] = [];
  for (let from = 0; from < layers.length; from += PER_ROW) {
    const row = layers.slice(from, from + PER_ROW);
    const isLast = from + PER_ROW >= layers.length;
    const numbers = row.map((entry) => entry.layer ?? 0);
    lines.push(palette.dim(`  ${ruler(numbers, from === 0 ? " input" : "", isLast ? "output " : "")}`));
    lines.push(`  ${row.map(draw).join("")}`);
  }
  return [...lines, "", ...legend(ownership, draw, names)];
}

/** Numbers over the cells, every fourth and the last, and words beside the first and the last. */
function ruler(layers: readonly number[], afterFirst: string, beforeLast: string): string {
  const [first, last] = [`${layers[0]}${afterFirst}`, `${beforeLast}${layers.at(-1)}`];
  const end = layers.length * CELL_WIDTH - last.length;
  let text = first;
  for (let i = 4; i < layers.length; i += 4) {
    const [at, label] = [i * CELL_WIDTH, String(layers[i])];
    if (at > text.length && at + label.length < end) text = text.padEnd(at) + label;
  }
  return text.padEnd(Math.max(end, text.length + 1)) + last;
}

function legend(ownership: readonly StripLayer[], draw: Drawing, names: Readonly<Record<string, string>>): string[] {
  const groups = new Map<string, { cells: string; name: string; layers: number[]; outside: boolean }>();
  for (const entry of ownership) {
    if (entry.origins.length === 0) continue;
    const origins = entry.origins.map((origin) => origin.map((source) => own(names, source) ?? source));
    const name = describeOrigin({ ...entry, origins });
    const group = groups.get(name) ?? { cells: draw(entry), name, layers: [], outside: false };
    if (entry.layer === null) group.outside = true;
    else group.layers.push(entry.layer);
    groups.set(name, group);
  }
  const width = Math.max(...[...groups.keys()].map((name) => name.length));
  return [...groups.values()].map(({ cells, name, layers, outside }) => {
    const where = [
      ...(layers.length > 0 ? [`${layers.length === 1 ? "layer" : "layers"} ${formatRanges(layers)}`] : []),
      ...(outside ? ["tensors outside the layers"] : []),
    ].join(", and ");
    return `  ${cells} ${name.padEnd(width)}  ${where}`;
  });
}

function describeOrigin({ origins, combined = false }: StripLayer): string {
  const described = origins.map((origin) => describeOne(origin, combined));
  return described.length === 1 ? (described[0] ?? "") : `parts: ${described.join(", ")}`;
}

function describeOne(origin: readonly string[], combined: boolean): string {
  const [only = "", ...others] = origin;
  if (others.length === 0) return only;
  const all = origin.length > 3 ? `${origin.length} models` : origin.join(" and ");
  return combined ? `${all}, combined` : `average of ${all}`;
}

interface Piece {
  readonly text: string;
  readonly loss: boolean;
}

/** Marks that are rare in text. */
const OPEN = "⟦";
const CLOSE = "⟧";

/** Lines of an example's text. @param palette the identity for plain text */
export function renderPreview(pieces: readonly Piece[], palette: Palette): string[] {
  const hasColors = palette.green("x") !== "x";
  const paint = ({ text, loss }: Piece) => {
    const shown = visible(text);
    if (!hasColors) return loss ? `${OPEN}${shown}${CLOSE}` : shown;
    // Line by line, as pagers colour their own frame if a colour spans a line break.
    const color = loss ? palette.green : palette.dim;
    return shown
      .split("\n")
      .map((line) => (line === "" ? "" : color(line)))
      .join("\n");
  };
  return pieces.map(paint).join("").split("\n");
}

/** Explains the two kinds of text in `renderPreview`. */
export function previewLegend(palette: Palette): string {
  return palette.green("x") === "x"
    ? `learned text is between ${OPEN} and ${CLOSE}`
    : `${palette.green("learned")}, ${palette.dim("only read")}`;
}
