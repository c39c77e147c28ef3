// An example as the model will see it, on the terminal: what is learned stands out, the rest is dim. Without colours,
// what is learned stands between marks.
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

/** Data is from strangers: control characters, which could move the cursor or worse, are shown as pictures. */
function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is to be replaced
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, (char) => {
    const code = char.charCodeAt(0);
    if (code === 9) return "\t";
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\u2421";
  });
}
