// The paper's heatmap of an expert's change, layers by projections (arXiv 2410.01335, figures 4 to 9).
import type { TopLevelSpec } from "vega-lite";
import { drawSpec } from "./draw.js";

type UnitSpec = Extract<TopLevelSpec, { concat: unknown }>["concat"][number];

/** One expert's table. */
export interface HeatmapPanel {
  /** Heading of the panel. */
  readonly title: string;
  /** Reference of the values, such as "threshold 1.9e-5". */
  readonly subtitle?: string;
  /** `cells[layer][column]`, layer 0 first; null for an empty cell. */
  readonly cells: readonly (readonly (number | null)[])[];
}

export interface Heatmap {
  /** Empty if the page already has a heading. */
  readonly title: string;
  /** Meaning of the values, for the legend. */
  readonly legend: string;
  /** Column names, such as q k v o gate up down. */
  readonly columns: readonly string[];
  /** All panels share one scale. */
  readonly panels: readonly HeatmapPanel[];
}

/** White to green, as in the paper. */
export const GREENS = ["#ffffff", "#e3f4df", "#bfe5b9", "#8fd08f", "#57b567", "#238b45", "#00441b"] as const;

const FONT = "Inter, 'Helvetica Neue', Arial, sans-serif";
const INK = "#1b1f24";
const MUTED = "#667080";
/** Panels in a row; three fit a page. */
const PER_ROW = 3;
const CELL = { width: 40, height: 15 };

/** Largest value of all panels, at least 0.01 to keep a figure of zeros white. */
export function heatmapMaximum({ panels }: Heatmap): number {
  const values = panels.flatMap(({ cells }) => cells.flat().filter((cell) => cell !== null));
  return Math.max(0.01, ...values);
}

/** The figure as a Vega-Lite specification. */
export function heatmapSpec(heatmap: Heatmap): TopLevelSpec {
  const maximum = heatmapMaximum(heatmap);
  const panel = ({ title, subtitle, cells }: HeatmapPanel, index: number): UnitSpec => ({
    title: {
      // Vega looks titles up in plain objects, so a name of Object.prototype would be misread.
      text: title in {} ? `${title}\u00a0` : title,
      ...(subtitle === undefined ? {} : { subtitle }),
      anchor: "middle",
      fontSize: 13,
      fontWeight: "bold",
      subtitleFontSize: 10,
      subtitleColor: MUTED,
      offset: 8,
    },
    width: CELL.width * heatmap.columns.length,
    height: CELL.height * cells.length,
    data: {
      values: cells.flatMap((row, layer) =>
        row.map((value, column) => ({ layer, part: heatmap.columns[column], value })),
      ),
    },
    mark: { type: "rect", stroke: "#e3e6ea", strokeWidth: 0.5, invalid: null },
    encoding: {
      x: {
        field: "part",
        type: "ordinal",
        sort: [...heatmap.columns],
        axis: { title: null, labelAngle: 0, orient: "top", domain: false, ticks: false, labelPadding: 5 },
      },
      y: {
        field: "layer",
        type: "ordinal",
        sort: "descending",
        axis: {
          title: index % PER_ROW === 0 ? "layer" : null,
          labels: index % PER_ROW === 0,
          domain: false,
          ticks: false,
          labelPadding: 5,
          titlePadding: 8,
        },
      },
      color: {
        field: "value",
        type: "quantitative",
        scale: { domain: [0, maximum], range: [...GREENS], interpolate: "rgb" },
        // The same for every panel: they share one scale and so one legend.
        legend: {
          title: heatmap.legend,
          format: ".0%",
          gradientLength: Math.min(220, CELL.height * cells.length),
          gradientThickness: 12,
          titleLimit: 400,
          titlePadding: 8,
          offset: 22,
        },
      },
    },
  });
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    ...(heatmap.title === "" ? {} : { title: titleOf(heatmap.title) }),
    background: "#ffffff",
    padding: 20,
    concat: heatmap.panels.map(panel),
    columns: PER_ROW,
    spacing: 26,
    resolve: { scale: { color: "shared" } },
    config: {
      font: FONT,
      axis: { labelColor: MUTED, titleColor: MUTED, labelFontSize: 10, titleFontSize: 11, titleFontWeight: 400 },
      legend: { labelColor: MUTED, titleColor: INK, labelFontSize: 10, titleFontSize: 11, titleFontWeight: 500 },
      title: { color: INK },
      view: { stroke: null },
    },
  };
}

const titleOf = (text: string) =>
  ({ text, anchor: "start", fontSize: 16, fontWeight: 600, color: INK, offset: 14 }) as const;

/** The figure as SVG. */
export function heatmapSvg(heatmap: Heatmap): Promise<string> {
  return drawSpec(heatmapSpec(heatmap));
}
