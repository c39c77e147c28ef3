// Loss curves from lines of the log.
import { describe, expect, it } from "vitest";
import { type LogEntry, lossCurve, lossCurveSvg } from "./loss-curve.js";

const drawn = (log: readonly LogEntry[]) => lossCurve(log, "Loss of run");

describe("a loss curve", () => {
  it("has each step, their mean, held-out losses, and the best of them", () => {
    const log: LogEntry[] = [4, 2, 3].map((loss, i) => ({ samples: 10 * i + 10, loss }));
    const figure = drawn([
      ...log,
      { samples: 10, holdoutLoss: 2.5 },
      { samples: 20, holdoutLoss: 2.25 },
      { samples: 30, holdoutLoss: 3 },
    ]);
    // The middle counts twice: (4 + 2 * 2 + 3) / 4.
    const means = [4, 2.75, 3].map((loss, i) => ({ samples: 10 * i + 10, loss }));
    expect(figure.streams).toEqual([{ name: "training", steps: log, means }]);
    expect(figure.held).toEqual([
      { samples: 10, loss: 2.5 },
      { samples: 20, loss: 2.25 },
      { samples: 30, loss: 3 },
    ]);
    expect(figure.best).toEqual({ samples: 20, loss: 2.25 });
    expect(figure.subtitle).toEqual(["at the end: training 3.000", "best held out: 2.250 after 20 samples"]);
    expect([figure.isLogarithmic, figure.ticks]).toEqual([false, [2, 2.5, 3, 3.5, 4]]);
  });

  it("has a colour for each stream, and leaves out NaN", () => {
    const figure = drawn([
      { samples: 1, loss: 2, stream: "task" },
      { samples: 2, loss: 1, stream: "language" },
      { samples: 3, loss: null as unknown as number, stream: "task" },
    ]);
    expect(figure.streams.map(({ name, steps }) => [name, steps])).toEqual([
      ["task", [{ samples: 1, loss: 2 }]],
      ["language", [{ samples: 2, loss: 1 }]],
    ]);
  });

  it("of a long run has means with the same overall mean; of a deep fall it is logarithmic", () => {
    const log = Array.from({ length: 1200 }, (_, i): LogEntry => ({ samples: i + 1, loss: 1 + (i % 3) }));
    const { steps = [], means = [] } = drawn(log).streams[0] ?? {};
    expect([steps.length, means.length]).toEqual([400, 400]);
    expect([...new Set([...steps, ...means].map(({ loss }) => loss))]).toEqual([2]);
    expect(steps.at(-1)?.samples).toBe(1200);
    const deep = drawn([8, 0.5, 0.02].map((loss, samples) => ({ samples, loss })));
    expect(deep.isLogarithmic).toBe(true);
    expect(deep.ticks).toEqual([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]);
    // Of logarithms, the mean is the geometric one: (8 * 0.5^2 * 0.02)^(1/4).
    expect(deep.streams[0]?.means[1]?.loss).toBeCloseTo(0.04 ** 0.25, 6);
  });

  it("is drawn with its lowest loss at the bottom, the first sample at the left, and a name for each line", () => {
    const svg = lossCurveSvg(
      [
        { samples: 0, loss: 4 },
        { samples: 100, loss: 2 },
        { samples: 50, holdoutLoss: 3 },
      ],
      "Loss of a & b",
    );
    expect(svg).toContain("<title>Loss of a &amp; b</title>");
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
    expect(texts).toEqual(expect.arrayContaining(["training", "held out", "2.5", "80", "loss, nats per token"]));
    // The plot is 560 wide and 280 high, from 78 at the left and 110 at the top.
    expect(svg).toContain('d="M78.0 110.0L638.0 390.0"');
    expect(svg.match(/<circle cx="358" cy="250" r="[\d.]+"/g)).toHaveLength(2);
    expect(svg).toMatch(/class="stroke" stroke="#238b45" fill="none" style="--dark:#6cc47c"/);
  });
});
