import { placeOn, ticksWithin } from "./scores.js";
import { type Colour, fill, INK, LINE, type Shape, SOFT, shape, stroke, svgOf, text, textWidth } from "./svg.js";

/** A line of the log: of a step, or of a measurement on held-out data. */
export interface LogEntry {
  readonly samples: number;
  readonly loss?: number;
  readonly stream?: string;
  readonly holdoutLoss?: number;
}

interface Point {
  readonly samples: number;
  readonly loss: number;
}

export interface LossCurve {
  readonly title: string;
  /** The last and the best losses, on separate lines. */
  readonly subtitle: readonly string[];
  /** One for each stream of data: the loss of each step, and the same smoothed. */
  readonly streams: readonly {
    readonly name: string;
    readonly steps: readonly Point[];
    readonly means: readonly Point[];
  }[];
  readonly held: readonly Point[];
  readonly best: Point | undefined;
  readonly isLogarithmic: boolean;
  /** Round losses, for the axis. */
  readonly ticks: readonly number[];
}

/** Maximum points of a curve; more would overlap, so they are averaged. */
const POINTS = 400;
/** The smoothed curve averages over one part in this many of a run, which removes noise and keeps the shape. */
const STRETCHES = 40;
/** Losses that differ by a larger factor get a logarithmic axis; on a linear one, small losses are a flat line. */
const LINEAR_FACTOR = 20;
const COLOURS: readonly Colour[] = [
  ["#238b45", "#6cc47c"],
  ["#3b6fb6", "#7aa7e8"],
  ["#8a4fae", "#c79be6"],
  ["#b3533c", "#ef9a84"],
];
const HELD_OUT: Colour = ["#d9822b", "#f2ad68"];
const AXIS: Colour = ["#808890", "#76818d"];

/** The loss over the samples: of each step; smoothed; and on held-out data, with the best. */
export function lossCurve(log: readonly LogEntry[], title: string): LossCurve {
  const byStream = new Map<string, Point[]>();
  const held: Point[] = [];
  for (const { samples, loss, stream = "training", holdoutLoss } of log) {
    // NaN is null in the log.
    if (typeof loss === "number") {
      const points = byStream.get(stream) ?? [];
      points.push({ samples, loss });
      byStream.set(stream, points);
    }
    if (typeof holdoutLoss === "number") held.push({ samples, loss: holdoutLoss });
  }
  const best = held.reduce<Point | undefined>(
    (least, point) => (least && least.loss <= point.loss ? least : point),
    undefined,
  );
  const drawn = [...byStream].map(([name, points]) => ({ name, steps: inStretches(points, POINTS) }));
  const shown = [...drawn.flatMap(({ steps }) => steps), ...held].map(({ loss }) => loss);
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  const isLogarithmic = low > 0 && high > LINEAR_FACTOR * low;
  const streams = drawn.map((stream) => ({ ...stream, means: smoothed(stream.steps, isLogarithmic) }));
  const ticks = isLogarithmic ? logTicks(low, high) : ticksWithin(low, high, 0, 6);
  return { title, subtitle: subtitleOf(streams, best), streams, held, best, isLogarithmic, ticks };
}

const PADDING = 20;
const PLOT = { width: 560, height: 280 };
/** Room for the marks of the loss axis, and for those of the samples. */
const [LEFT, BOTTOM] = [58, 44];
const LINE_HEIGHT = 15;

/** Where the figure has its lines. */
interface Frame {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly xOf: (samples: number) => number;
  readonly yOf: (loss: number) => number;
}

export function lossCurveSvg(log: readonly LogEntry[], title: string): string {
  const curve = lossCurve(log, title);
  const { subtitle, streams, held, isLogarithmic } = curve;
  const points = [...streams.flatMap(({ steps }) => steps), ...held];
  const samples = points.map((point) => point.samples);
  const [left, top] = [PADDING + LEFT, PADDING + 60 + LINE_HEIGHT * subtitle.length];
  const [right, bottom] = [left + PLOT.width, top + PLOT.height];
  const scaled = isLogarithmic ? Math.log : (loss: number) => loss;
  const losses = points.map(({ loss }) => scaled(loss));
  const [xOf, at] = [placer(samples, left, right), placer(losses, bottom, top)];
  const frame: Frame = { left, right, top, bottom, xOf, yOf: (loss) => at(scaled(loss)) };
  const coloured = streams.map((stream, i) => ({ ...stream, colour: COLOURS[i % COLOURS.length] ?? SOFT }));
  const names = held.length > 0 ? [...coloured, { name: "held out", colour: HELD_OUT }] : coloured;
  const yTitle = `loss, nats per token${isLogarithmic ? " (logarithmic)" : ""}`;
  const widths = [textWidth(title, 15), ...subtitle.map((line) => textWidth(line, 12))];
  return svgOf({
    title,
    description: [`The ${yTitle}, over the samples.`, ...subtitle.map((line) => `${line}.`)].join(" "),
    width: Math.ceil(Math.max(right, ...widths.map((width) => PADDING + width))) + PADDING,
    height: bottom + BOTTOM + PADDING,
    shapes: [
      text(PADDING, PADDING + 14, title, { size: 15, weight: 600, colour: INK }),
      ...subtitle.map((line, i) => text(PADDING, PADDING + 32 + LINE_HEIGHT * i, line, { size: 12 })),
      ...legend(names, left, top - 18),
      ...axes(curve, ticksWithin(Math.min(...samples), Math.max(...samples), 1), yTitle, frame),
      ...coloured.map(({ steps, colour }) => line(steps, colour, frame, { "stroke-width": 1, opacity: 0.35 })),
      ...coloured.map(({ means, colour }) => line(means, colour, frame, { "stroke-width": 2.5 })),
      ...heldOut(curve, frame),
    ],
  });
}

function axes(curve: LossCurve, samples: readonly number[], yTitle: string, frame: Frame): Shape[] {
  const { left, right, top, bottom, xOf, yOf } = frame;
  const rule = (d: string, colour: Colour) => shape("path", { d, ...stroke(colour) });
  const middle = { size: 11, anchor: "middle" } as const;
  const digits = Math.max(...curve.ticks.map((tick) => String(tick).split(".")[1]?.length ?? 0));
  return [
    ...curve.ticks.flatMap((loss) => [
      rule(`M${left} ${fixed(yOf(loss))}H${right}`, LINE),
      text(left - 8, yOf(loss) + 3.5, curve.isLogarithmic ? String(loss) : loss.toFixed(digits), { anchor: "end" }),
    ]),
    ...samples.flatMap((count) => [
      rule(`M${fixed(xOf(count))} ${bottom}v5`, AXIS),
      text(xOf(count), bottom + 17, count.toLocaleString("en-US"), { anchor: "middle" }),
    ]),
    rule(`M${left} ${top}V${bottom}H${right}`, AXIS),
    text((left + right) / 2, bottom + 36, "samples", middle),
    shape(
      "g",
      { transform: `translate(${PADDING + 10} ${(top + bottom) / 2}) rotate(-90)` },
      text(0, 0, yTitle, middle),
    ),
  ];
}

/** The line of the held-out losses, a dot for each, and a ring around the best. */
function heldOut({ held, best }: LossCurve, frame: Frame): Shape[] {
  const dot = ({ samples, loss }: Point, r: number, paint: Shape["attributes"]) =>
    shape("circle", { cx: frame.xOf(samples), cy: frame.yOf(loss), r, ...paint });
  if (!best) return [];
  return [
    line(held, HELD_OUT, frame, { "stroke-width": 2 }),
    ...held.map((point) => dot(point, held.length > 60 ? 2 : 3.5, fill(HELD_OUT))),
    dot(best, 7, { ...stroke(HELD_OUT), "stroke-width": 2 }),
  ];
}

const fixed = (place: number) => place.toFixed(1);

function line(points: readonly Point[], colour: Colour, { xOf, yOf }: Frame, style: Shape["attributes"]): Shape {
  const places = points.map(({ samples, loss }) => `${fixed(xOf(samples))} ${fixed(yOf(loss))}`);
  return shape("path", { d: `M${places.join("L")}`, ...stroke(colour), "stroke-linejoin": "round", ...style });
}

function legend(
  lines: readonly { readonly name: string; readonly colour: Colour }[],
  left: number,
  y: number,
): Shape[] {
  let x = left;
  return lines.flatMap(({ name, colour }) => {
    const from = x;
    x += 16 + textWidth(name, 12) + 22;
    return [
      shape("path", { d: `M${from} ${y - 4}h10`, ...stroke(colour), "stroke-width": 3 }),
      text(from + 16, y, name, { size: 12, colour: INK }),
    ];
  });
}

/** Maps the lowest and the highest of some values to two places; equal values are halfway. */
function placer(values: readonly number[], from: number, to: number): (value: number) => number {
  const axis = { low: Math.min(...values), high: Math.max(...values) };
  return (value) => from + placeOn(axis, value) * (to - from);
}

function subtitleOf(streams: LossCurve["streams"], best: Point | undefined): string[] {
  const ends = streams.map(({ name, means }) => `${name} ${formatLoss(means.at(-1)?.loss ?? Number.NaN)}`);
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
    const loss = part.reduce((sum, point) => sum + point.loss, 0) / part.length;
    return { samples: part.at(-1)?.samples ?? 0, loss };
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
