// An example as the model will see it, on the terminal: what is learned stands out, the rest is dim. Without colours,
// what is learned stands between marks.
import { visible } from "../core/index.js";
import type { Palette } from "./strip.js";

/** Part of an example's text, as data/preview.ts makes it. */
interface Piece {
  readonly text: string;
  readonly loss: boolean;
}

/** Marks that hardly any text has. */
const OPEN = "⟦";
const CLOSE = "⟧";

/** Lines of an example's text. @param palette the identity for plain text */
export function renderPreview(pieces: readonly Piece[], palette: Palette): string[] {
  const hasColors = palette.green("x") !== "x";
  const paint = ({ text, loss }: Piece) => {
    const shown = visible(text);
    if (!hasColors) return loss ? `${OPEN}${shown}${CLOSE}` : shown;
    // Line by line: a colour that runs over a line break would paint what a pager or a frame puts there.
    const color = loss ? palette.green : palette.dim;
    return shown
      .split("\n")
      .map((line) => (line === "" ? "" : color(line)))
      .join("\n");
  };
  return pieces.map(paint).join("").split("\n");
}

/** What the two kinds of text in `renderPreview` are. */
export function previewLegend(palette: Palette): string {
  return palette.green("x") === "x"
    ? `learned text stands between ${OPEN} and ${CLOSE}`
    : `${palette.green("learned")}, ${palette.dim("only read")}`;
}
