// The loss curve of a training run.
import type { TopLevelSpec } from "vega-lite";
import { drawSpec } from "./draw.js";

/** A line of the log: of a step, or of a measurement on held-out data. */
export interface LogEntry {
  readonly samples: number;
  readonly loss?: number;
  readonly stream?: string;
  readonly holdoutLoss?: number;
}

type Layer = Extract<TopLevelSpec, { layer: unknown }>["layer"][number];
type LayerMark = Extract<Layer, { mark: unknown }>["mark"];

interface Point {
  readonly samples: number;
  readonly loss: number;
}

/** Maximum points of a curve; more would overlap, so they are averaged. */
const POINTS = 400;
/** The smoothed curve averages over one part in this many of a run, which removes noise and keeps the shape. */
const STRETCHES = 40;
/** Losses that differ by a larger factor get a logarithmic axis; on a linear one, small losses are a flat line. */
const LINEAR_FACTOR = 20;
const HELD_OUT = "held out";
const COLORS = ["#238b45", "#3b6fb6", "#8a4fae", "#b3533c"];
const HELD_OUT_COLOR = "#d9822b";
const MUTED = "#667080";

/**
 * The loss over the samples: of each step, faint; smoothed; and on held-out data, with a ring around the best.
 */
export function lossCurveSpec(log: readonly LogEntry[], title: string): TopLevelSpec {
  const steps = new Map<string, Point[]>();
  const held: Point[] = [];
  for (const { samples, loss, stream = "training", holdoutLoss } of log) {
    // NaN is null in the log.
    if (typeof loss === "number") {
      const points = steps.get(stream) ?? [];
      points.push({ samples, loss });
      steps.set(stream, points);
    }
    if (typeof holdoutLoss === "number") held.push({ samples, loss: holdoutLoss });
  }
  const best = held.reduce<Point | undefined>(
    (least, point) => (least && least.loss <= point.loss ? least : point),
    undefined,
  );
  const names = [...steps.keys(), ...(held.length > 0 ? [HELD_OUT] : [])];
  const drawn = new Map([...steps].map(([name, points]) => [name, inStretches(points, POINTS)]));
  const shown = [...drawn.values(), held].flat().map(({ loss }) => loss);
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  const isWide = low > 0 && high > LINEAR_FACTOR * low;
  const means = new Map([...drawn].map(([name, points]) => [name, smoothed(points, isWide)]));
  const encoding = {
    x: {
      field: "samples",
      type: "quantitative",
      title: "samples",
      scale: { nice: false },
      axis: { grid: false, tickCount: 8 },
    },
    y: {
      field: "loss",
      type: "quantitative",
      title: `loss, nats a token${isWide ? " (logarithmic)" : ""}`,
      scale: isWide ? { type: "log" as const, nice: false } : { zero: false },
      axis: isWide ? { values: logTicks(low, high), format: "~g" } : { tickCount: 6 },
    },
    color: {
      field: "name",
      type: "nominal",
      title: null,
      sort: names,
      scale: {
        domain: names,
        range: names.map((name, i) => (name === HELD_OUT ? HELD_OUT_COLOR : (COLORS[i % COLORS.length] ?? MUTED))),
      },
      legend: {
        orient: "top",
        symbolType: "stroke",
        symbolStrokeWidth: 3,
        symbolOpacity: 1,
        labelFontSize: 12,
        columnPadding: 24,
      },
    },
  } as const;
  const layer = (series: Iterable<readonly [string, readonly Point[]]>, mark: LayerMark): Layer => ({
    data: { values: [...series].flatMap(([name, points]) => points.map((point) => ({ name, ...point }))) },
    mark,
  });
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    title: {
      text: title,
      subtitle: subtitleOf(means, best),
      subtitleColor: MUTED,
      anchor: "start",
      fontSize: 15,
      fontWeight: 600,
      offset: 12,
    },
    background: "#ffffff",
    padding: 20,
    width: 560,
    height: 280,
    encoding,
    layer: [
      layer(drawn, { type: "line", strokeWidth: 1, opacity: 0.3 }),
      layer(means, { type: "line", strokeWidth: 2.5, strokeJoin: "round" }),
      layer([[HELD_OUT, held]], {
        type: "line",
        strokeWidth: 2,
        point: { filled: true, size: held.length > 60 ? 12 : 36 },
      }),
      layer(best ? [[HELD_OUT, [best]]] : [], { type: "point", size: 160, strokeWidth: 2, filled: false }),
    ],
    config: {
      font: "Inter, 'Helvetica Neue', Arial, sans-serif",
      axis: { labelColor: MUTED, titleColor: MUTED, titleFontWeight: 400, gridColor: "#eceef1" },
      view: { stroke: null },
    },
  };
}

/** The last and the best losses on separate lines, as a long line would widen the figure. */
function subtitleOf(means: ReadonlyMap<string, readonly Point[]>, best: Point | undefined): string[] {
  const ends = [...means].map(([name, points]) => `${name} ${formatLoss(points.at(-1)?.loss ?? Number.NaN)}`);
  const lines = ends.length > 0 ? [`at the end: ${ends.join(", ")}`] : [];
  if (!best) return lines;
  return [...lines, `best held out: ${formatLoss(best.loss)} after ${best.samples.toLocaleString("en-US")} samples`];
}

function formatLoss(loss: number): string {
  return loss >= 0.1 ? loss.toFixed(3) : loss.toPrecision(2);
}

/** Means of equal parts of a curve, each placed at the part's end. */
function inStretches(points: readonly Point[], most: number): Point[] {
  const size = Math.max(1, Math.ceil(points.length / most));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const part = points.slice(i * size, (i + 1) * size);
    return { samples: part.at(-1)?.samples ?? 0, loss: meanOf(part) };
  });
}

/** The weighted mean around each point, narrower at the ends of the curve. */
function smoothed(points: readonly Point[], ofLogarithms: boolean): Point[] {
  const reach = Math.ceil(points.length / STRETCHES);
  return points.map(({ samples }, i) => {
    const within = Math.min(reach, i, points.length - 1 - i);
    let [sum, weights] = [0, 0];
    for (let at = i - within; at <= i + within; at++) {
      const weight = within + 1 - Math.abs(at - i);
      const loss = points[at]?.loss ?? 0;
      sum += weight * (ofLogarithms ? Math.log(loss) : loss);
      weights += weight;
    }
    return { samples, loss: ofLogarithms ? Math.exp(sum / weights) : sum / weights };
  });
}

/** Powers of ten; with 2 and 5 between them where there are few. */
function logTicks(low: number, high: number): number[] {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const steps = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  const decades = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  return decades
    .flatMap((decade) => steps.map((step) => Number(`${step}e${decade}`)))
    .filter((tick) => tick >= low && tick <= high);
}

function meanOf(points: readonly Point[]): number {
  return points.reduce((sum, { loss }) => sum + loss, 0) / points.length;
}

/** The figure as SVG. */
export function lossCurveSvg(log: readonly LogEntry[], title: string): Promise<string> {
  return drawSpec(lossCurveSpec(log, title));
}
