// The paper's heatmap of an expert's change, layers by projections (arXiv 2410.01335, figures 4 to 9). As SVG it needs nothing
// else: system fonts, light and dark colours, and a description for those who cannot see it.
import { ticksWithin } from "./scores.js";
import { type Attributes, element, escaped, textWidth } from "./svg.js";

export interface HeatmapPanel {
  readonly title: string;
  /** Reference of the values, such as "threshold 1.9e-5". */
  readonly subtitle?: string;
  /** `cells[layer][column]`, layer 0 first; null for an empty cell. */
  readonly cells: readonly (readonly (number | null)[])[];
}

export interface Heatmap {
  readonly title: string;
  /** Meaning of the values, for the legend. */
  readonly legend: string;
  readonly columns: readonly string[];
  /** All panels share one scale. */
  readonly panels: readonly HeatmapPanel[];
}

/** White to green, as in the paper. */
const GREENS = ["#ffffff", "#e3f4df", "#bfe5b9", "#8fd08f", "#57b567", "#238b45", "#00441b"] as const;
/** The same on dark paper, where more is brighter. */
const DARK_GREENS = ["#171b20", "#1c2f27", "#20452f", "#2a663f", "#3b9154", "#6cc47c", "#c9f2c4"] as const;

/** A colour on light pages and on dark ones. */
type Colour = readonly [light: string, dark: string];

const PAPER: Colour = ["#ffffff", "#171b20"];
const INK: Colour = ["#1b1f24", "#e8ecf1"];
const SOFT: Colour = ["#5c6673", "#a3aebb"];
const LINE: Colour = ["#e3e6ea", "#303841"];

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
// Attributes have the light colours, as editors and LaTeX read no media queries.
const STYLE = "@media (prefers-color-scheme: dark) { .fill { fill: var(--dark) } .stroke { stroke: var(--dark) } }";

const PADDING = 20;
/** Between panels. */
const GAP = 26;
/** Panels in a row; three fit a page. */
const PER_ROW = 3;
const CELL = { width: 40, height: 15 };
/** Room for the numbers of the layers, and for the headings above the cells. */
const [LAYERS, HEADINGS] = [36, 54];
const RAMP = { width: 200, height: 10, steps: 100 };
/** Where the panels begin, below title and legend. */
const PANELS = PADDING + 90;

/** Largest value of all panels, at least 0.01 to keep a figure of zeros white. */
export function heatmapMaximum({ panels }: Heatmap): number {
  return Math.max(0.01, ...panels.flatMap(({ cells }) => cells.flat().filter((cell) => cell !== null)));
}

/** The colour of a share of the maximum, interpolated, as red, green and blue. */
export function greenAt(share: number, ramp: readonly string[] = GREENS): number[] {
  const at = Math.min(1, Math.max(0, share)) * (ramp.length - 1);
  const index = Math.min(ramp.length - 2, Math.floor(at));
  const [from = "", to = ""] = ramp.slice(index);
  return [1, 3, 5].map((i) => {
    const [low, high] = [from, to].map((color) => Number.parseInt(color.slice(i, i + 2), 16)) as [number, number];
    return Math.round(low + (at - index) * (high - low));
  });
}

function colourOf(share: number): Colour {
  const hex = (ramp: readonly string[]) =>
    `#${greenAt(share, ramp)
      .map((channel) => channel.toString(16).padStart(2, "0"))
      .join("")}`;
  return [hex(GREENS), hex(DARK_GREENS)];
}

const percent = (value: number) => `${Math.round(100 * value)}%`;

export function heatmapSvg(heatmap: Heatmap): string {
  const { title, legend, columns, panels } = heatmap;
  const maximum = heatmapMaximum(heatmap);
  const cells = { width: CELL.width * columns.length, height: CELL.height * layersOf(panels) };
  const width = Math.max(cells.width, ...panels.map((panel) => textWidth(panel.title, 13)));
  const height = HEADINGS + cells.height;
  const rows = Math.ceil(panels.length / PER_ROW);
  const across = LAYERS + Math.min(PER_ROW, panels.length) * (width + GAP) - GAP;
  const size = {
    width: Math.ceil(2 * PADDING + Math.max(across, RAMP.width, textWidth(title, 16), textWidth(legend, 11))),
    height: PANELS + rows * (height + GAP) - GAP + PADDING,
  };
  const words = [`Layers by projections. Cells: ${legend}.`, ...panels.map((panel) => inWords(panel, columns))];
  const head = {
    xmlns: "http://www.w3.org/2000/svg",
    role: "img",
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
  };
  const shapes = [
    element("title", {}, escaped(title)),
    element("desc", {}, escaped(words.join(" "))),
    element("style", {}, STYLE),
    element("rect", { width: "100%", height: "100%", ...fill(PAPER) }),
    text(PADDING, PADDING + 14, title, { "font-size": 16, "font-weight": 600 }, INK),
    ...legendShapes(legend, maximum),
    ...panels.flatMap((panel, i) => {
      const [row, column] = [Math.floor(i / PER_ROW), i % PER_ROW];
      const x = PADDING + LAYERS + column * (width + GAP) + (width - cells.width) / 2;
      const y = PANELS + HEADINGS + row * (height + GAP);
      return panelShapes(panel, { x, y, columns, maximum, hasLayers: column === 0 });
    }),
  ];
  return `${element("svg", { ...head, "font-family": FONT }, shapes.join("\n"))}\n`;
}

const fill = ([light, dark]: Colour) => ({ class: "fill", fill: light, style: `--dark:${dark}` });
const OUTLINE = { class: "stroke", stroke: LINE[0], fill: "none", style: `--dark:${LINE[1]}` };

/** A line of text whose baseline is at `y`. */
function text(x: number, y: number, content: string, style: Attributes = {}, colour = SOFT): string {
  const common = { "font-size": 10, "font-weight": 400, "text-anchor": "start", ...style };
  return element("text", { x, y, ...common, ...fill(colour) }, escaped(content));
}

const layersOf = (panels: readonly HeatmapPanel[]) => Math.max(0, ...panels.map(({ cells }) => cells.length));

/** A panel in a sentence: its largest cell. */
function inWords({ title, cells }: HeatmapPanel, columns: readonly string[]): string {
  const all = cells.flatMap((row, layer) =>
    row.flatMap((value, column) => (value === null ? [] : [{ value, at: `layer ${layer}, ${columns[column]}` }])),
  );
  if (all.length === 0) return `${title}: empty.`;
  const largest = all.reduce((most, one) => (one.value > most.value ? one : most));
  return `${title}: at most ${percent(largest.value)} (${largest.at}).`;
}

function legendShapes(legend: string, maximum: number): string[] {
  const [top, bottom] = [PADDING + 46, PADDING + 46 + RAMP.height];
  const step = RAMP.width / RAMP.steps;
  return [
    text(PADDING, top - 7, legend, { "font-size": 11 }),
    ...Array.from({ length: RAMP.steps }, (_, i) => {
      // The next one covers the half: edges that only touch let the paper shine through.
      const width = i < RAMP.steps - 1 ? 1.5 * step : step;
      const box = { x: PADDING + i * step, y: top, width, height: RAMP.height };
      return element("rect", { ...box, ...fill(colourOf((i + 0.5) / RAMP.steps)) });
    }),
    element("rect", { x: PADDING, y: top, width: RAMP.width, height: RAMP.height, "stroke-width": 0.5, ...OUTLINE }),
    ...ticksWithin(0, maximum, 0.01, 5).map((tick) =>
      text(PADDING + (RAMP.width * tick) / maximum, bottom + 12, percent(tick), {
        "text-anchor": tick === 0 ? "start" : "middle",
      }),
    ),
  ];
}

const MIDDLE = { "text-anchor": "middle" };

interface PanelPlace {
  /** Of the upper left corner of the cells. */
  readonly x: number;
  readonly y: number;
  readonly columns: readonly string[];
  readonly maximum: number;
  readonly hasLayers: boolean;
}

function panelShapes({ title, subtitle, cells }: HeatmapPanel, place: PanelPlace): string[] {
  const { x, y, columns, maximum, hasLayers } = place;
  const middle = x + (CELL.width * columns.length) / 2;
  const rowAt = (layer: number) => y + (cells.length - 1 - layer) * CELL.height;
  const drawn = cells.flatMap((row, layer) =>
    row.flatMap((value, column) => {
      if (value === null) return [];
      const box = { x: x + column * CELL.width, y: rowAt(layer), ...CELL, ...fill(colourOf(value / maximum)) };
      const tooltip = `layer ${layer}, ${columns[column]}: ${percent(value)}`;
      return [element("rect", box, element("title", {}, escaped(tooltip)))];
    }),
  );
  return [
    text(middle, y - 38, title, { "font-size": 13, "font-weight": 600, ...MIDDLE }, INK),
    ...(subtitle === undefined ? [] : [text(middle, y - 24, subtitle, MIDDLE)]),
    ...columns.map((name, column) => text(x + (column + 0.5) * CELL.width, y - 6, name, MIDDLE)),
    ...(hasLayers
      ? ["layer", ...cells.keys()].map((label) =>
          text(x - 7, typeof label === "string" ? y - 6 : rowAt(label) + 11, String(label), { "text-anchor": "end" }),
        )
      : []),
    element("g", { ...OUTLINE, "stroke-width": 0.5 }, drawn.join("")),
  ];
}

/**
 * Muted to vivid, legible on light terminals and on dark ones: which one it is cannot be known, so shares below `FAINT` have the
 * terminal's own background.
 */
const TERMINAL_GREENS = ["#5f6b63", "#4f7a5d", "#3f8a57", "#2f9a50", "#1faa49"] as const;
const FAINT = 0.04;

/** Characters of a cell, and between panels. */
const [CELL_WIDTH, BETWEEN] = [6, 3];

/** Lines of the figure. @param colors whether to color the cells @param perRow panels side by side */
export function heatmapLines(heatmap: Heatmap, colors: boolean, perRow = 1): string[] {
  const maximum = heatmapMaximum(heatmap);
  const { columns, panels } = heatmap;
  const lines = [heatmap.title];
  for (let first = 0; first < panels.length; first += perRow) {
    const row = panels.slice(first, first + perRow);
    const layers = layersOf(row);
    const numberWidth = String(layers - 1).length;
    const width = CELL_WIDTH * columns.length + BETWEEN;
    const join = (start: string, parts: readonly string[]) =>
      [start.padEnd(numberWidth + 1), ...parts].join("").trimEnd();
    const titles = row.map(({ title, subtitle }) => (subtitle === undefined ? title : `${title} (${subtitle})`));
    lines.push(
      "",
      titles.length === 1
        ? (titles[0] ?? "")
        : join(
            "",
            titles.map((title) => title.padEnd(width)),
          ),
    );
    const heading = columns.map((name) => center(name, CELL_WIDTH)).join("");
    lines.push(
      join(
        "",
        row.map(() => heading.padEnd(width)),
      ),
    );
    for (let layer = layers - 1; layer >= 0; layer--) {
      const own = row.map(({ cells }) => (cells[layer] ?? []).map((value) => cell(value, maximum, colors)).join(""));
      lines.push(join(String(layer).padStart(numberWidth), [own.join(" ".repeat(BETWEEN))]));
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
  const share = value / maximum;
  if (!colors || share < FAINT) return text;
  const [red = 0, green = 0, blue = 0] = greenAt((share - FAINT) / (1 - FAINT), TERMINAL_GREENS);
  const ink = 0.3 * red + 0.59 * green + 0.11 * blue > 110 ? "30" : "97"; // black on light, white on dark
  return `\u001b[48;2;${red};${green};${blue};${ink}m${text}\u001b[0m`;
}
