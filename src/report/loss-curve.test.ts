// Specifications of loss curves from lines of the log.
import { describe, expect, it } from "vitest";
import { type LogEntry, lossCurveSpec } from "./loss-curve.js";

interface Drawn {
  readonly title: { readonly text: string; readonly subtitle: readonly string[] };
  readonly encoding: {
    readonly y: {
      readonly title: string;
      readonly scale: { readonly type?: string };
      readonly axis: { values?: number[] };
    };
    readonly color: { readonly scale: { readonly domain: readonly string[] } };
  };
  readonly layer: readonly {
    readonly data: { readonly values: readonly { name: string; samples: number; loss: number }[] };
  }[];
}
const drawn = (log: readonly LogEntry[]) => lossCurveSpec(log, "Loss of run") as unknown as Drawn;
const valuesOf = ({ layer }: Drawn) => layer.map(({ data }) => data.values);

describe("a loss curve", () => {
  it("has each step, their mean, held-out losses, and the best of them", () => {
    const log: LogEntry[] = [4, 2, 3].map((loss, i) => ({ samples: 10 * i + 10, loss }));
    const figure = drawn([
      ...log,
      { samples: 10, holdoutLoss: 2.5 },
      { samples: 20, holdoutLoss: 2.25 },
      { samples: 30, holdoutLoss: 3 },
    ]);
    const [steps, means, held, best] = valuesOf(figure);
    expect(steps).toEqual(log.map((entry) => ({ name: "training", ...entry })));
    // The middle counts twice: (4 + 2 * 2 + 3) / 4.
    expect(means?.map(({ loss }) => loss)).toEqual([4, 2.75, 3]);
    expect(held?.map(({ samples, loss }) => [samples, loss])).toEqual([
      [10, 2.5],
      [20, 2.25],
      [30, 3],
    ]);
    expect(best).toEqual([{ name: "held out", samples: 20, loss: 2.25 }]);
    expect(figure.encoding.color.scale.domain).toEqual(["training", "held out"]);
    expect(figure.title.subtitle).toEqual(["at the end: training 3.000", "best held out: 2.250 after 20 samples"]);
    expect(figure.encoding.y.scale.type).toBeUndefined();
  });

  it("has a colour for each stream, and leaves out NaN", () => {
    const figure = drawn([
      { samples: 1, loss: 2, stream: "task" },
      { samples: 2, loss: 1, stream: "language" },
      { samples: 3, loss: null as unknown as number, stream: "task" },
    ]);
    expect(figure.encoding.color.scale.domain).toEqual(["task", "language"]);
    expect(valuesOf(figure)[0]).toEqual([
      { name: "task", samples: 1, loss: 2 },
      { name: "language", samples: 2, loss: 1 },
    ]);
  });

  it("of a long run has means with the same overall mean; of a deep fall it is logarithmic", () => {
    const log = Array.from({ length: 1200 }, (_, i): LogEntry => ({ samples: i + 1, loss: 1 + (i % 3) }));
    const [steps = [], means = []] = valuesOf(drawn(log));
    expect([steps.length, means.length]).toEqual([400, 400]);
    expect([...new Set([...steps, ...means].map(({ loss }) => loss))]).toEqual([2]);
    expect(steps.at(-1)?.samples).toBe(1200);
    const deep = drawn([8, 0.5, 0.02].map((loss, samples) => ({ samples, loss })));
    expect(deep.encoding.y.scale.type).toBe("log");
    expect(deep.encoding.y.axis.values).toEqual([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]);
    // Of logarithms, the mean is the geometric one: (8 * 0.5^2 * 0.02)^(1/4).
    expect(valuesOf(deep)[1]?.[1]?.loss).toBeCloseTo(0.04 ** 0.25, 6);
  });
});
