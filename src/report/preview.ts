// Shows a training example as the model sees it: learned text is colored or between marks, the rest is dim.
import { visible } from "../core/index.js";
import type { Palette } from "./strip.js";

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
