import { describe, expect, it } from "vitest";
import { certaintyOf, missing, sampledRows } from "./sample.js";

describe("sampled rows", () => {
  it.each([
    [1, 0.02, 1],
    [320, 0.1, 32],
    [4096, 0.02, 82],
    [7, 1, 7],
    [3, 0.5, 2],
  ])("of %i rows a share of %d", (rows, share, wanted) => {
    const ranges = sampledRows("t", rows, { share, seed: 3 });
    expect(ranges.reduce((sum, { begin, end }) => sum + end - begin, 0)).toBe(wanted);
    let at = 0;
    for (const { begin, end } of ranges) {
      expect(begin).toBeGreaterThanOrEqual(at);
      expect(end).toBeGreaterThan(begin);
      at = end;
    }
    expect(at).toBeLessThanOrEqual(rows);
    expect(sampledRows("t", rows, { share, seed: 3 })).toEqual(ranges);
  });

  it("miss changed rows about as often as is said", () => {
    // Rows that are far apart, and three of 200 as in a change of 1.5%.
    const changed = [20, 90, 170];
    const seeds = Array.from({ length: 4000 }, (_, seed) => seed);
    const missed = seeds.filter((seed) => {
      const ranges = sampledRows("t", 200, { share: 0.1, seed });
      return changed.every((row) => !ranges.some(({ begin, end }) => row >= begin && row < end));
    });
    expect(missed.length / seeds.length).toBeCloseTo(missing(200, 20, 3), 1);
  });
});

describe("the probability to miss a change", () => {
  it("is that of drawing without putting back", () => {
    // C(7, 3) / C(10, 3) by hand.
    expect(missing(10, 3, 3)).toBeCloseTo(35 / 120, 12);
    expect(missing(10, 8, 3)).toBe(0);
    expect(missing(100, 0, 5)).toBe(1);
  });

  it("of one matrix is that of the one with the fewest rows in the sample", () => {
    const { missed, missedInOneMatrix } = certaintyOf("rows", [
      { all: 1000, sampled: 20 },
      { all: 100, sampled: 2 },
    ]);
    expect(missed).toBeCloseTo(missing(1100, 22, 11), 12);
    expect(missedInOneMatrix).toBeCloseTo(0.98, 12);
  });
});
