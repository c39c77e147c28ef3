// Draws a heatmap in the terminal, as numbers in cells that are colored if the terminal has colors.
import type { Heatmap } from "./heatmap.js";
import { GREENS, heatmapMaximum } from "./heatmap.js";

const CELL_WIDTH = 6;

/** Lines of the figure. @param colors whether to color the cells */
export function heatmapLines(heatmap: Heatmap, colors: boolean): string[] {
  const maximum = heatmapMaximum(heatmap);
  const lines = [heatmap.title];
  for (const { title, subtitle, cells } of heatmap.panels) {
    const numberWidth = String(cells.length - 1).length;
    lines.push("", subtitle === undefined ? title : `${title} (${subtitle})`);
    lines.push(
      `${" ".repeat(numberWidth + 1)}${heatmap.columns.map((name) => center(name, CELL_WIDTH)).join("")}`.trimEnd(),
    );
    for (let layer = cells.length - 1; layer >= 0; layer--) {
      const row = (cells[layer] ?? []).map((value) => cell(value, maximum, colors)).join("");
      lines.push(`${String(layer).padStart(numberWidth)} ${row}`.trimEnd());
    }
  }
  return [...lines, "", `cells: ${heatmap.legend}`];
}

function center(text: string, width: number): string {
  const left = Math.floor((width - text.length) / 2);
  return " ".repeat(Math.max(0, left)) + text + " ".repeat(Math.max(0, width - text.length - left));
}

function cell(value: number | null, maximum: number, colors: boolean): string {
  if (value === null) return " ".repeat(CELL_WIDTH);
  const percent = 100 * value;
  const text = center(
    percent === 0 ? "·" : percent < 0.95 ? percent.toFixed(1) : String(Math.round(percent)),
    CELL_WIDTH,
  );
  if (!colors) return text;
  const [red, green, blue] = colorAt(value / maximum);
  const ink = 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "30" : "97"; // black on light, white on dark
  return `\u001b[48;2;${red};${green};${blue};${ink}m${text}\u001b[0m`;
}

/** A colour of the ramp, interpolated. */
function colorAt(share: number): [number, number, number] {
  const at = Math.min(1, Math.max(0, share)) * (GREENS.length - 1);
  const index = Math.min(GREENS.length - 2, Math.floor(at));
  const channel = (color: string, i: number) => Number.parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mix = (i: number) => {
    const [from, to] = [channel(GREENS[index] ?? "#ffffff", i), channel(GREENS[index + 1] ?? "#ffffff", i)];
    return Math.round(from + (at - index) * (to - from));
  };
  return [mix(0), mix(1), mix(2)];
}
