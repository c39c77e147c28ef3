// The losses of a training run as a page: each stream of data in means over parts of the run, and the held-out losses.
import type { Page } from "./figures.js";

/** A line of the log: of a step, or of a measurement on held-out data. */
export interface LogEntry {
  readonly samples: number;
  /** Null for NaN, which JSON does not have. */
  readonly loss?: number | null | undefined;
  readonly stream?: string | undefined;
  readonly holdoutLoss?: number | null | undefined;
}

interface Point {
  readonly samples: number;
  readonly loss: number;
}

/** Points of a line; the losses of more steps are averaged, which also removes noise. */
const MAX_POINTS = 60;
const HELD_OUT = "held out";

export function lossPage(log: readonly LogEntry[], title: string): Page {
  const lines = new Map<string, Point[]>();
  for (const { samples, loss, stream = "training", holdoutLoss } of log) {
    for (const [name, value] of [[stream, loss] as const, [HELD_OUT, holdoutLoss] as const]) {
      if (typeof value === "number") lines.set(name, [...(lines.get(name) ?? []), { samples, loss: value }]);
    }
  }
  const held = lines.get(HELD_OUT) ?? [];
  lines.delete(HELD_OUT);
  const streams = [...lines].map(([name, points]) => ({ name, points: averaged(points) }));
  const [best] = held.toSorted((a, b) => a.loss - b.loss);
  const ends = streams.map(({ name, points }) => `${name} ${rounded(points.at(-1)?.loss ?? Number.NaN)}`);
  const verdict = [
    ...(ends.length > 0 ? [`At the end: ${ends.join(", ")}.`] : []),
    ...(best ? [`Best held out: ${rounded(best.loss)} after ${best.samples.toLocaleString("en-US")} samples.`] : []),
  ].join(" ");
  const drawn = [...streams, ...(held.length > 0 ? [{ name: HELD_OUT, points: held }] : [])];
  return {
    title,
    lead: "",
    verdicts: [],
    notes: [],
    sections: [
      {
        id: "loss",
        title: "Loss",
        figures: [
          {
            kind: "lines",
            title: "",
            note: "Nats per token, over the samples. Where there are more steps than points, a point is a mean of steps.",
            verdict,
            scale: "setting",
            xTitle: "samples",
            yTitle: "loss",
            references: [],
            lines: drawn.map(({ name, points }) => ({
              label: name,
              points: points.map(({ samples, loss }) => ({ x: samples, mean: rounded(loss) })),
            })),
          },
        ],
      },
    ],
    footer: "",
  };
}

const rounded = (loss: number) => Number(loss.toPrecision(4));

/** Means of equal parts of a curve, each placed at the part's end. */
function averaged(points: readonly Point[]): Point[] {
  const size = Math.max(1, Math.ceil(points.length / MAX_POINTS));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) => {
    const part = points.slice(i * size, (i + 1) * size);
    const loss = part.reduce((sum, point) => sum + point.loss, 0) / part.length;
    return { samples: part.at(-1)?.samples ?? 0, loss };
  });
}
