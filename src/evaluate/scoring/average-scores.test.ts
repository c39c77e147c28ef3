import { describe, expect, it } from "vitest";
import { Random } from "../../kit/index.js";
import type { Metric } from "../tasks/task.js";
import { averageScore, type ScoredItems } from "./average-scores.js";
import { type JudgedItem, scoreItems } from "./scores.js";

const MEAN: Metric = { name: "m", title: "", of: "value", by: "mean", scale: "share" };
const GROUPS: Metric = { ...MEAN, by: "group mean" };
/** Matches per word, as corpus scores count. */
const CORPUS: Metric = {
  ...{ name: "c", title: "", of: "value", by: "corpus", scale: "points" },
  score: ([matches = 0, words = 0]) => (100 * matches) / words,
};

const itemsOf = (values: readonly (number | number[] | null)[], prefix = "", groups: readonly string[] = []) =>
  values.map(
    (value, i): JudgedItem => ({
      ...{ id: `${prefix}${i}`, group: groups[i] },
      verdict: value === null ? null : { value: value as number },
    }),
  );
const variance = (values: readonly number[]) => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
};
const random = Random.of(1, "average");
const draws = (count: number) => Array.from({ length: count }, () => random.float());
const deviationOf = (scores: readonly ScoredItems[]) => averageScore(scores).interval?.deviation ?? Number.NaN;

describe("averageScore", () => {
  it("of one score is that score with its interval", () => {
    const items = itemsOf([1, 0, 1, 1, 0, 1]);
    const [score] = scoreItems([MEAN], items);
    expect(averageScore([{ metric: MEAN, items }])).toEqual({ value: score?.value, interval: score?.interval });
  });

  it("of models on the same items has the interval of the items' means", () => {
    const [first, second] = [draws(40), draws(40)];
    const means = first.map((value, i) => (value + (second[i] ?? 0)) / 2);
    const [expected] = scoreItems([MEAN], itemsOf(means));
    const { value, interval } = averageScore(
      [first, second].map((values) => ({ metric: MEAN, items: itemsOf(values) })),
    );
    expect(value).toBeCloseTo(expected?.value ?? Number.NaN, 12);
    expect(interval?.low).toBeCloseTo(expected?.interval?.low ?? Number.NaN, 12);
    expect(interval?.high).toBeCloseTo(expected?.interval?.high ?? Number.NaN, 12);
  });

  it("of tasks with other items has the variance of independent means", () => {
    const [small, large] = [draws(30), draws(200)];
    const scores = [
      { metric: MEAN, items: itemsOf(small, "small") },
      { metric: MEAN, items: itemsOf(large, "large") },
    ];
    const expected = Math.sqrt(variance(small) / 30 + variance(large) / 200) / 2;
    expect(Math.abs(deviationOf(scores) / expected - 1)).toBeLessThan(0.1);
    expect(averageScore(scores).value).toBeCloseTo(
      (small.reduce((sum, one) => sum + one, 0) / 30 + large.reduce((sum, one) => sum + one, 0) / 200) / 2,
      12,
    );
    // 3 to 1: sqrt(9 v1 / n1 + v2 / n2) / 4.
    const weighted = scores.map((score, i) => ({ ...score, weight: i === 0 ? 3 : 1 }));
    const wider = Math.sqrt((9 * variance(small)) / 30 + variance(large) / 200) / 4;
    expect(Math.abs(deviationOf(weighted) / wider - 1)).toBeLessThan(0.1);
  });

  it("resamples translations of a question together", () => {
    const values = draws(50);
    const both = (other: readonly number[]) => [
      { metric: MEAN, items: itemsOf(values) },
      { metric: MEAN, items: itemsOf(other) },
    ];
    // The same answers in both languages tell nothing new, and opposite ones cancel.
    expect(deviationOf(both(values))).toBeCloseTo(deviationOf([{ metric: MEAN, items: itemsOf(values) }]), 10);
    const opposite = averageScore(both(values.map((value) => 1 - value)));
    expect(opposite.value).toBeCloseTo(0.5, 12);
    expect((opposite.interval?.high ?? 0.5) - (opposite.interval?.low ?? 0.5)).toBeLessThan(1e-12);
  });

  it("takes means of groups, and scores of a corpus", () => {
    const groups = ["a", "a", "a", "b"];
    const grouped = { metric: GROUPS, items: itemsOf([1, 1, 0, 0], "", groups) };
    expect(averageScore([grouped, grouped]).value).toBeCloseTo((2 / 3 + 0) / 2, 12);
    const corpus = (values: number[][]) => ({ metric: CORPUS, items: itemsOf(values) });
    const two = [
      corpus([
        [1, 2],
        [3, 8],
        [2, 4],
      ]),
      corpus([
        [2, 2],
        [0, 8],
        [4, 4],
      ]),
    ];
    expect(averageScore(two).value).toBeCloseTo((100 * (6 / 14 + 6 / 14)) / 2, 12);
    const { low = 0, high = 0 } = averageScore(two).interval ?? {};
    expect(low).toBeLessThan(600 / 14);
    expect(high).toBeGreaterThan(600 / 14);
  });

  it("leaves out items without a verdict, and has no interval of fewer than two", () => {
    const scores = [itemsOf([1, null, 0]), itemsOf([1, 1, null])].map((items) => ({ metric: MEAN, items }));
    expect(averageScore(scores).value).toBeCloseTo((1 / 2 + 1) / 2, 12);
    const one = [itemsOf([1]), itemsOf([0])].map((items) => ({ metric: MEAN, items }));
    expect(averageScore(one)).toEqual({ value: 0.5, interval: undefined });
  });

  it("covers the true average in 95 of 100 samples", () => {
    // Two tasks of 40 items in common, whose difficulty is shared, and one of 60 others; true means 0.5, 0.5 and 0.3.
    const draw = Random.of(2, "coverage");
    let covered = 0;
    const times = 300;
    for (let time = 0; time < times; time++) {
      const hard = Array.from({ length: 40 }, () => draw.float());
      const answers = () => hard.map((share) => Number(draw.chance(share)));
      const others = Array.from({ length: 60 }, () => Number(draw.chance(0.3)));
      const { interval } = averageScore(
        [itemsOf(answers()), itemsOf(answers()), itemsOf(others, "other")].map((items) => ({ metric: MEAN, items })),
        { resamples: 200, seed: time },
      );
      const truth = (0.5 + 0.5 + 0.3) / 3;
      if (interval && interval.low <= truth && truth <= interval.high) covered++;
    }
    // The simulation's own error is 1.3 points; the percentile bootstrap of 40 items is a point or two short.
    expect(covered / times).toBeGreaterThan(0.9);
    expect(covered / times).toBeLessThan(0.99);
  });
});
