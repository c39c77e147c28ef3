// The page of a run's losses, from lines of its log.
import { describe, expect, it } from "vitest";
import { drawnPage } from "../../test/support/drawn-page.js";
import { type LogEntry, lossPage } from "./loss-page.js";

function figureOf(log: readonly LogEntry[]) {
  const figure = lossPage(log, "Loss of run").sections[0]?.figures[0];
  if (figure?.kind !== "lines") throw new Error("no lines");
  return figure;
}

describe("the page of losses", () => {
  it("has each step, held-out losses, and the best of them", () => {
    const figure = figureOf([
      ...[4, 2, 3].map((loss, i) => ({ samples: 10 * i + 10, loss })),
      ...[2.5, 2.25, 3].map((holdoutLoss, i) => ({ samples: 10 * i + 10, holdoutLoss })),
    ]);
    const points = (losses: readonly number[]) => losses.map((mean, i) => ({ x: 10 * i + 10, mean }));
    expect(figure.lines).toEqual([
      { label: "training", points: points([4, 2, 3]) },
      { label: "held out", points: points([2.5, 2.25, 3]) },
    ]);
    expect(figure.verdict).toBe("At the end: training 3. Best held out: 2.25 after 20 samples.");
  });

  it("has a line for each stream, and leaves out NaN", () => {
    const { lines } = figureOf([
      { samples: 1, loss: 2, stream: "task" },
      { samples: 2, loss: 1, stream: "language" },
      { samples: 3, loss: null, stream: "task" },
    ]);
    expect(lines.map(({ label, points }) => [label, points])).toEqual([
      ["task", [{ x: 1, mean: 2 }]],
      ["language", [{ x: 2, mean: 1 }]],
    ]);
  });

  it("of a long run has means with the same overall mean", () => {
    const { lines } = figureOf(
      Array.from({ length: 3600 }, (_, i): LogEntry => ({ samples: i + 1, loss: 1 + (i % 3) })),
    );
    const points = lines[0]?.points ?? [];
    expect(points).toHaveLength(60);
    expect([...new Set(points.map(({ mean }) => mean))]).toEqual([2]);
    expect(points.at(-1)?.x).toBe(3600);
  });

  it("is drawn with its axes in words and four digits of each loss", async () => {
    const page = lossPage(
      [0.123456, 0.0456789].map((loss, i) => ({ samples: 8 * i, loss })),
      "Loss of a & b",
    );
    const drawn = await drawnPage(page);
    for (const text of [
      "Loss of a &amp; b",
      ">samples</text>",
      ">loss</text>",
      "samples 0: 0.1235",
      "samples 8: 0.04568",
    ])
      expect(drawn).toContain(text);
  });
});
