// Scores and comparisons of verdicts, by hand.
import { describe, expect, it } from "vitest";
import { bleuStatistics, corpusBleu } from "../metrics/bleu.js";
import { bleuMetric } from "../tasks/flores.js";
import type { Metric } from "../tasks/open-tasks.js";
import { compareItems, type JudgedItem, scoreItems, turned } from "./scores.js";
import { wilsonInterval } from "./statistics.js";

const accuracy: Metric = { name: "accuracy", title: "accuracy", of: "accuracy", by: "mean", scale: "share" };
const bySubject: Metric = { ...accuracy, name: "by_subject", by: "group mean" };
const items = (verdicts: string, group?: string): JudgedItem[] =>
  [...verdicts].map((sign, i) => ({
    id: `${group ?? ""}${i}`,
    group,
    verdict: sign === "?" ? undefined : { accuracy: Number(sign) },
  }));

describe("scoreItems", () => {
  it("averages, and names what was not judged", () => {
    const [score] = scoreItems([accuracy], items("1101?"));
    expect(score).toMatchObject({ metric: "accuracy", value: 0.75, items: 4, unscored: 1 });
    // Deviations 1/4, 1/4, 3/4, 1/4: squares sum to 3/4; sqrt(3/4 / 3 / 4).
    expect(score?.standardError).toBeCloseTo(0.25, 12);
    expect(score?.groups).toBeUndefined();
    // Wilson's: (3/4 + z^2 / 8) / (1 + z^2 / 4), plus or minus z / (1 + z^2 / 4) sqrt(3 / 64 + z^2 / 64).
    expect(score?.interval).toMatchObject({
      ...{ level: 0.95, low: expect.closeTo(0.30064, 5), high: expect.closeTo(0.95441, 5) },
    });
  });

  it("weighs groups alike where the metric says so", () => {
    const all = [...items("1111", "a"), ...items("10", "b")];
    const scores = scoreItems([accuracy, bySubject], all, { seed: 7 });
    expect(scores.map(({ value }) => value)).toEqual([5 / 6, 0.75]);
    expect(scores[1]?.groups).toEqual({ a: { value: 1, items: 4 }, b: { value: 0.5, items: 2 } });
    // Group b is 0, 1/2 or 1 when it is resampled, so the mean of both is from 1/2 to 1.
    expect(scores[1]?.interval).toMatchObject({ low: 0.5, high: 1, seed: 7 });
    expect(scores[1]?.standardError).toBeCloseTo(Math.sqrt(1 / 8) / 2, 1);
  });

  it("makes a corpus score of sums, not a mean of sentences", () => {
    const pairs = [
      ["the cat is on the mat now", "the cat is on the mat now"],
      ["a dog", "it is a dog"],
      ["we saw a red house there", "we saw the red house there today"],
    ] as const;
    const count = bleuStatistics({ tokenize: "13a" });
    const judged = pairs.map(([own, other], i) => ({ id: String(i), verdict: { bleu: count(own, other) } }));
    const [score] = scoreItems([bleuMetric("bleu", "BLEU", { tokenize: "13a" })], judged);
    const expected = corpusBleu(
      pairs.map(([own]) => own),
      pairs.map(([, other]) => other),
    );
    expect(score?.value).toBeCloseTo(expected.score, 12);
    expect(score?.signature).toBe(expected.signature);
    expect(score?.interval?.low).toBeLessThan(expected.score);
    expect(score?.standardError).toBe(score?.interval?.deviation);
  });

  it("has no number where nothing was judged", () => {
    const [score] = scoreItems([accuracy], items("??"));
    expect(score).toMatchObject({ value: Number.NaN, items: 0, unscored: 2, interval: undefined });
  });
});

describe("compareItems", () => {
  it("finds what flipped, and how sure the difference is", () => {
    const [first, second] = [items("110000000011"), items("011111110011")];
    const found = compareItems(accuracy, first, second, { seed: 1 });
    expect(found).toMatchObject({ items: 12, first: 4 / 12, second: 9 / 12, leftOut: 0 });
    expect(found.difference).toBeCloseTo(5 / 12, 12);
    expect(found.gained).toEqual(["2", "3", "4", "5", "6", "7"]);
    expect(found.lost).toEqual(["0"]);
    expect(found.pValue).toBeCloseTo((2 * (1 + 7)) / 2 ** 7, 12);
    expect(found.interval?.low).toBeGreaterThan(-0.1);
    expect(found.interval?.high).toBeLessThanOrEqual(1);
  });

  it("is the comparison of the other with the one, turned around", () => {
    const [first, second] = [items("1100000000110"), items("0111111100111")];
    const { interval, ...found } = turned(compareItems(accuracy, first, second));
    const { interval: wanted, ...other } = compareItems(accuracy, second, first);
    expect(found).toEqual({ ...other, difference: expect.closeTo(other.difference, 12) });
    expect([interval?.low, interval?.high]).toEqual(
      [wanted?.low, wanted?.high].map((end) => expect.closeTo(end ?? 9, 12)),
    );
  });

  it("has an interval with 0 where the test does not reject it, of few items that are right, wrong or graded", () => {
    const [first, second] = [items("111111110000"), items("111100000000")];
    const graded = (from: JudgedItem[]) =>
      from.map((item) => ({ ...item, verdict: { accuracy: item.verdict?.accuracy ? 0.5 : 0 } }));
    const whole = compareItems(accuracy, first, second);
    expect(whole).toMatchObject({ pValue: 0.125, gained: [], lost: ["4", "5", "6", "7"] });
    expect(whole.interval?.high).toBeCloseTo((2 * 0.602365 - 1) / 3, 5);
    const half = compareItems(accuracy, graded(first), graded(second));
    expect(half).toMatchObject({ pValue: 0.125, difference: -2 / 12, interval: { high: 0 } });
    // Six of twelve lost: p = 1/32.
    const more = compareItems(accuracy, graded(items("111111000000")), graded(items("000000000000")));
    expect(more.pValue).toBeCloseTo(1 / 32, 12);
    expect(more.interval?.high).toBeLessThan(0);
  });

  it("takes the same items of both, in whatever order, and leaves out what one lacks", () => {
    const first = items("1011?");
    const second = [...items("0111")].reverse();
    const found = compareItems(accuracy, first, [...second, { id: "9", verdict: { accuracy: 1 } }]);
    expect(found).toMatchObject({ items: 4, gained: ["1"], lost: ["0"], difference: 0, leftOut: 2 });
  });

  it("resamples both models together", () => {
    // Both half right on the same items: the difference is 0 in every sample, though each score varies.
    const half = items("1010").map((item) => ({ ...item, verdict: { accuracy: item.verdict?.accuracy ? 0.5 : 0 } }));
    const same = compareItems(accuracy, half, half);
    expect(same.interval).toBeUndefined();
    expect(same).toMatchObject({ pValue: 1, discordance: undefined });
  });

  it("is not certain of two zero scores", () => {
    const [first, second] = [items("0".repeat(20), "a"), items("0".repeat(20), "a")];
    const reach = 3.841459 / 23.841459;
    const width = { low: expect.closeTo(-reach, 6), high: expect.closeTo(reach, 6) };
    expect(compareItems(accuracy, first, second)).toMatchObject({ difference: 0, interval: width, pValue: 1 });
    expect(compareItems(bySubject, first, second)).toMatchObject({ difference: 0, interval: width });
    expect(scoreItems([bySubject], first)[0]).toMatchObject({ value: 0, interval: { low: 0, high: width.high } });
    // A group of 4 weighs as much as one of 20, so there is less to be certain of than 24 items tell.
    const [uneven] = scoreItems([bySubject], [...first, ...items("0000", "b")]);
    const few = 4 / (1 / 20 + 1 / 4);
    expect(uneven?.interval?.high).toBeCloseTo(3.841459 / (few + 3.841459), 6);
    const count = bleuStatistics({});
    const none = ["x", "y"].map((line, i) => ({ id: String(i), verdict: { bleu: count(line, "a b c d") } }));
    const bleu = bleuMetric("bleu", "BLEU", {});
    expect(scoreItems([bleu], none)[0]).toMatchObject({ value: 0, interval: undefined });
    expect(compareItems(bleu, none, none).interval).toBeUndefined();
  });

  it("compares corpus scores, of which no single item is right or wrong", () => {
    const count = bleuStatistics({});
    const judged = (lines: readonly string[]) =>
      lines.map((line, i) => ({ id: String(i), verdict: { bleu: count(line, "a b c d e f") } }));
    const metric = bleuMetric("bleu", "BLEU", {});
    const found = compareItems(metric, judged(["a b c d x f", "a b c d e f"]), judged(["a b c d e f", "a b c d e f"]));
    expect(found.second).toBeCloseTo(100, 9);
    expect(found.difference).toBeGreaterThan(0);
    // Only one item differs, and as often up as down.
    expect(found).toMatchObject({ gained: [], lost: [], discordance: undefined, pValue: 1 });
    const lines = ["a b c d x f", "a b c x e f", "a x c d e f g", "x b c d e", "a b c d x y", "b c d e f a"];
    const better = compareItems(metric, judged(lines), judged(lines.map(() => "a b c d e f")));
    // All six items add more: 2 of 64 patterns of signs are as far.
    expect(better.pValue).toBe(2 / 64);
  });

  it("tests verdicts between right and wrong by their signs, and has intervals of items that are all tied", () => {
    const worth = (...values: number[]) => values.map((value, i) => ({ id: String(i), verdict: { accuracy: value } }));
    const third = 1 / 3;
    const found = compareItems(accuracy, worth(third, third, third, 0, 0.5, 1), worth(1, 1, 1, 1, 1, 1));
    // Five items are better and none is worse: 2 of 32 patterns of signs are as far.
    expect(found).toMatchObject({ gained: [], lost: [], discordance: undefined, pValue: 2 / 32 });
    // p is above 0.05, so the interval includes 0.
    expect(found.interval?.low).toBe(0);
    const same = compareItems(accuracy, worth(third, third), worth(third, third));
    expect(same).toMatchObject({ difference: 0, pValue: 1, interval: undefined });
    const [score] = scoreItems([accuracy], worth(third, third, third, third));
    const { low, high } = wilsonInterval(third, 4);
    expect(score).toMatchObject({ value: third, interval: { low, high } });
  });

  it("refuses samples of different tasks, and items that stand twice", () => {
    expect(() => compareItems(accuracy, items("10", "x"), items("10", "y"))).toThrow(/no judged items in common/);
    expect(() => compareItems(accuracy, items("1", "y".repeat(1000)), items(""))).toThrow(
      `no judged items in common (first: 1 item such as ${"y".repeat(77)}...; second: 0 items). Compare`,
    );
    expect(() => compareItems(accuracy, [...items("1"), ...items("1")], items("1"))).toThrow(/item 0 twice/);
  });
});
