import type { Heatmap } from "./heatmap.js";
import { greenAt, heatmapMaximum } from "./heatmap.js";

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
  const [red = 0, green = 0, blue = 0] = greenAt(value / maximum);
  const ink = 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "30" : "97"; // black on light, white on dark
  return `\u001b[48;2;${red};${green};${blue};${ink}m${text}\u001b[0m`;
}
