// A run of training for people: its line of progress, and its loss over the samples as a figure.
import { Presets, SingleBar } from "cli-progress";
import type { TopLevelSpec } from "vega-lite";
import { formatCount, formatDuration } from "../core/format.js";
import { drawSpec } from "./draw.js";

/** What is shown after a step. */
export interface TrainingState {
  readonly step: number;
  readonly steps: number;
  readonly loss: number;
  readonly holdoutLoss?: number;
  readonly learningRate: number;
  readonly gradientNorm: number;
  readonly tokensPerSecond: number;
  readonly secondsLeft: number;
}

export interface TrainingDisplay {
  update(state: TrainingState): void;
  stop(): void;
}

/** A bar on a terminal, a line now and then elsewhere. */
export function showTraining(stream: NodeJS.WriteStream = process.stderr): TrainingDisplay {
  return stream.isTTY ? bar(stream) : lines(stream);
}

function describe(state: TrainingState): string {
  const held = state.holdoutLoss === undefined ? "" : `  held out ${state.holdoutLoss.toFixed(4)}`;
  return (
    `loss ${state.loss.toFixed(4)}${held}  lr ${state.learningRate.toExponential(1)}  |g| ${state.gradientNorm.toFixed(2)}  ` +
    `${formatCount(state.tokensPerSecond)} tokens/s  ${formatDuration(Math.ceil(state.secondsLeft))} left`
  );
}

function bar(stream: NodeJS.WriteStream): TrainingDisplay {
  let shown: SingleBar | undefined;
  return {
    update: (state) => {
      const payload = { text: describe(state) };
      if (!shown) {
        const format = "step {value} of {total} {bar} {text}";
        shown = new SingleBar(
          { format, stream, hideCursor: true, barsize: 16, linewrap: false },
          Presets.shades_classic,
        );
        shown.start(state.steps, state.step, payload);
      } else shown.update(state.step, payload);
    },
    stop: () => shown?.stop(),
  };
}

// Seldom enough not to fill a log, often enough to see that it lives.
const LINE_SECONDS = 5;

function lines(stream: NodeJS.WritableStream): TrainingDisplay {
  let last = Number.NEGATIVE_INFINITY;
  return {
    update: (state) => {
      const now = performance.now() / 1000;
      if (now - last < LINE_SECONDS && state.step < state.steps) return;
      last = now;
      stream.write(`step ${state.step} of ${state.steps}  ${describe(state)}\n`);
    },
    stop: () => undefined,
  };
}

/** A line of the log: of a step, or of a measurement on held-out data. */
export interface LogEntry {
  readonly samples: number;
  readonly loss?: number;
  readonly stream?: string;
  readonly holdoutLoss?: number;
}

/** Points of a curve that a reader can tell apart; more are averaged in equal stretches. */
const POINTS = 400;

/** The loss over the samples: each step's, faint, their running mean, and what was measured on held-out data. */
export function lossCurveSpec(log: readonly LogEntry[], title: string): TopLevelSpec {
  const series = new Map<string, { samples: number; loss: number }[]>();
  const add = (name: string, samples: number, loss: number) => {
    const list = series.get(name) ?? [];
    list.push({ samples, loss });
    series.set(name, list);
  };
  for (const { samples, loss, stream, holdoutLoss } of log) {
    if (loss !== undefined) add(stream ?? "training", samples, loss);
    if (holdoutLoss !== undefined) add("held out", samples, holdoutLoss);
  }
  const values = [...series].flatMap(([name, points]) => thinned(points).map((point) => ({ name, ...point })));
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    title: { text: title, anchor: "start", fontSize: 15, fontWeight: 600, offset: 12 },
    background: "#ffffff",
    padding: 20,
    width: 560,
    height: 280,
    data: { values },
    mark: { type: "line", interpolate: "monotone", strokeWidth: 2, point: values.length < 40 },
    encoding: {
      x: { field: "samples", type: "quantitative", title: "samples", axis: { grid: false } },
      y: { field: "loss", type: "quantitative", title: "loss (nats a token)", scale: { zero: false } },
      color: {
        field: "name",
        type: "nominal",
        title: null,
        sort: [...series.keys()],
        scale: { range: ["#238b45", "#d9822b", "#3b6fb6", "#8a4fae"] },
        legend: { orient: "top" },
      },
    },
    config: {
      font: "Inter, 'Helvetica Neue', Arial, sans-serif",
      axis: { labelColor: "#667080", titleColor: "#667080", titleFontWeight: 400, gridColor: "#eceef1" },
      view: { stroke: null },
    },
  };
}

function thinned(points: readonly { samples: number; loss: number }[]): { samples: number; loss: number }[] {
  const size = Math.ceil(points.length / POINTS);
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const part = points.slice(i * size, (i + 1) * size);
    const loss = part.reduce((sum, point) => sum + point.loss, 0) / part.length;
    return { samples: part.at(-1)?.samples ?? 0, loss };
  });
}

/** The figure as SVG. */
export function lossCurveSvg(log: readonly LogEntry[], title: string): Promise<string> {
  return drawSpec(lossCurveSpec(log, title));
}
