import { describe, expect, it } from "vitest";
import { type Finding, findingText, type Lead } from "../../figures/index.js";
import { type MethodComparison, together } from "../compare-results.js";
import { compareItems } from "../scoring/index.js";
import { compareFinding } from "./compare-finding.js";
import { type Candidate, findingAbout, highest } from "./finding.js";

const candidate = (name: string, score: number, more: Partial<Candidate> = {}): Candidate => {
  return { name, label: name, detail: "", kind: "merge", entry: name, score, ...more };
};
const BASE = candidate("base", 0.04, { kind: "base" });
const MATH = candidate("math", 0.05, { kind: "expert" });
const SOUP = candidate("soup", 0.3, { kind: "average" });
const SWAP = candidate("layer swap", 0.8, { kind: "swap" });

/** Every difference of 0.1 and more is significant; a smaller one needs items by its square. */
const lead = (first: Candidate, other: Candidate, factors: Lead["resampled"]["factors"] = {}): Lead => {
  const difference = first.score - other.score;
  const interval = { low: difference - 0.09, high: difference + 0.09 };
  const needed = difference === 0 ? undefined : Math.ceil(2 / difference ** 2);
  const pValue = Math.abs(difference) >= 0.1 ? 0.001 : 0.4;
  return { over: other.label, difference, interval, pValue, needed, resampled: { factors, items: 200 } };
};
const found = (all: readonly Candidate[], more: Partial<Parameters<typeof findingAbout<Candidate>>[1]> = {}) =>
  findingAbout(all, {
    scale: "share",
    items: 200,
    leads: (first, rest) => rest.map((one) => lead(first, one)),
    ...more,
  });

describe("the best alternative", () => {
  it("is the highest of all others, whatever they are", () => {
    const finding = found([BASE, MATH, SOUP, SWAP]);
    expect([finding?.subject.name, finding?.alternative?.name, finding?.outcome]).toEqual([
      "layer swap",
      "soup",
      "above",
    ]);
    expect(findingText(finding)).toBe(
      "The layer swap scores 80.0%, 50.0 points above the soup, the best alternative (30.0%; 95% interval of the difference: " +
        "+41.0 to +59.0; p = 0.001). It is significantly above all others. More items are not needed.",
    );
  });

  it("is the best single model where no other merge was tried, which the words say", () => {
    const finding = found([BASE, MATH, SWAP], { subject: SWAP });
    expect(finding).toMatchObject({ hasOtherMerges: false, next: { do: "score other merges" } });
    expect(findingText(finding)).toBe(
      "The layer swap scores 80.0%, 75.0 points above the math expert, the best single model (5.0%; 95% interval of the " +
        "difference: +66.0 to +84.0; p = 0.001). It is significantly above all others. No other merge was tried on these items. Score " +
        "a soup or TIES, too.",
    );
  });

  it("is no configuration of the same merge, unless there is nothing else, and no control, point or mean", () => {
    const chosen = candidate("layer swap", 0.75, { label: "layer swap, default", kind: "swap" });
    expect(found([SWAP, chosen, SOUP])?.alternative?.name).toBe("soup");
    expect(found([SWAP, chosen])?.alternative?.name).toBe("layer swap, default");
    const others = [
      candidate("random layers", 0.9, { kind: "control" }),
      candidate("kept", 0.9, { isPoint: true }),
      candidate("mean", 0.9, { isSummary: true }),
    ];
    const finding = found([...others, SWAP, SOUP]);
    expect([finding?.subject.name, finding?.alternative?.name]).toEqual(["layer swap", "soup"]);
    expect(finding?.controls.map(({ name }) => name)).toEqual(["random layers", "kept"]);
    expect(highest([...others, SWAP, SOUP])).toBe(SWAP);
  });

  it("is above a subject that is not the highest", () => {
    const below = found([BASE, candidate("TIES", 0.95), SWAP], { subject: SWAP });
    expect(below).toMatchObject({ outcome: "below", isBest: false, next: { do: "try other layers" } });
    expect(findingText(below)).toMatch(
      /^The layer swap scores 80\.0%, 15\.0 points below TIES, the best alternative \(95\.0%; .*\)\. The difference is significant\. Try other layers, or take TIES\.$/,
    );
    const average = found([candidate("TIES", 0.95), SOUP], { subject: SOUP });
    expect(findingText(average)).toMatch(/The difference is significant\. Take TIES\.$/);
    expect(found([SWAP], { subject: SWAP })).toMatchObject({ outcome: "alone", next: { do: "score its models" } });
    expect(found([SWAP])).toBeUndefined();
  });
});

describe("rankings that other programs get wrong", () => {
  // starslingdev/hpc-sandbox-benchmarks 179, dotnet/machinelearning-modelbuilder 221
  it("name all of several that share the top, and mark none as the best", () => {
    const tied = found([candidate("A", 0.5), candidate("B", 0.5), candidate("C", 0.5), BASE]);
    expect(findingText(tied)).toBe("A, B and C are tied at 50.0%. Ask more items to tell them apart.");
    expect(tied?.isBest).toBe(false);
  });

  // EleutherAI/lm-evaluation-harness 3831 and 3868: of 220 items, 21 gained and 6 lost.
  it("see a paired difference that two intervals that overlap hide", () => {
    const items = (right: (i: number) => boolean) =>
      Array.from({ length: 220 }, (_, i) => ({ id: `${i}`, verdict: { exact: right(i) ? 1 : 0 } }));
    const exact = { name: "exact", title: "exact", of: "exact", by: "mean", scale: "share" } as const;
    const one = compareItems(
      exact,
      items((i) => i < 120),
      items((i) => i >= 6 && i < 141),
    );
    const unpaired = Math.sqrt([one.first, one.second].reduce((sum, p) => sum + (p * (1 - p)) / 220, 0));
    expect(one.difference / unpaired).toBeLessThan(1.96);
    // scipy.stats.binomtest(6, 27).pvalue
    expect(one.pValue).toBeCloseTo(0.005925, 6);
    const [compared] = together([one]);
    const finding = compared && compareFinding({ method: 1, ...compared }, ["the first", "the second"]);
    expect(finding).toMatchObject({ outcome: "above", flips: { items: 220, gained: 21, lost: 6 } });
  });

  // allenai/reward-bench 269
  it("do not call the first the best where its lead is within the noise", () => {
    const close = found([candidate("first", 0.81), candidate("second", 0.8), BASE]);
    expect([close?.isBest, close?.outcome]).toEqual([false, "unclear"]);
  });
});

describe("what to do next", () => {
  const next = (score: number, more: Parameters<typeof found>[1] = {}): Finding["next"] =>
    found([SWAP, candidate("TIES", score), BASE], more)?.next;

  it("is more items, as many as the difference needs, or none where that is no study", () => {
    expect(next(0.75)).toEqual({ do: "ask more items", items: 800, asked: 200 });
    expect(next(0.799)).toEqual({ do: "choose otherwise", items: 2_000_000, asked: 200 });
    expect(next(0.8)).toEqual({ do: "ask more items", items: undefined, asked: 200 });
    expect(next(0.6)).toEqual({ do: "stop" });
    const words = findingText(found([SWAP, candidate("TIES", 0.75), BASE]));
    expect(words).toMatch(
      /It is not significantly above TIES\. Ask about 800 items to tell them apart \(200 so far\)\.$/,
    );
  });

  it("is more experts where they differ", () => {
    const leads = (first: Candidate, rest: readonly Candidate[]) => rest.map((one) => lead(first, one, { math: 3 }));
    expect(next(0.75, { leads })).toEqual({ do: "train more experts" });
  });

  it("is other items where it was chosen on these, and another task at the end of the scale", () => {
    expect(next(0.5, { isChosenHere: (one) => one === SWAP })).toEqual({ do: "score other items" });
    const all = (score: number) => found([candidate("a", score), candidate("b", score)])?.next;
    expect(found([candidate("a", 1), candidate("b", 1), BASE])?.next).toEqual({
      do: "ask another task",
      limit: "ceiling",
    });
    expect([all(1), all(0)]).toEqual([
      { do: "ask another task", limit: "ceiling" },
      { do: "ask another task", limit: "floor" },
    ]);
  });

  it("is not known without a test", () => {
    const untested = found([SWAP, SOUP], { leads: (_, rest) => rest.map(() => undefined) });
    expect(untested).toMatchObject({ outcome: "untested", next: undefined, leads: [] });
    expect(findingText(untested)).toBe(
      "The layer swap scores 80.0%, 50.0 points above the soup, the best alternative (30.0%). Whether that is significant is unknown.",
    );
  });
});

describe("two results", () => {
  const interval = { low: -0.01, high: 0.07, level: 0.95, deviation: 0.02, resamples: 1000, seed: 0 };
  const strict: MethodComparison = {
    ...{ metric: "strict", title: "strict", scale: "share", items: 250, first: 0.4, second: 0.432, difference: 0.032 },
    ...{ interval, gained: ["a", "b"], lost: ["c"], pValue: 0.0004, pAdjusted: 0.0004, method: 1, leftOut: 0 },
    ...{ discordance: 0.012, detectable: 0.0613, needed: 918 },
  };
  const said = (one: MethodComparison) => findingText(compareFinding(one, ["base", "the second"]));

  it("are said in sentences, the second by what it is called", () => {
    const start =
      "The second scores 43.2% by strict, 3.2 points above base (40.0%; 95% interval of the difference: -1.0 to +7.0; ";
    const flips = "Of 250 items, 2 gained and 1 lost.";
    expect(said(strict)).toBe(`${start}p < 0.001). The difference is significant. ${flips}`);
    expect(said({ ...strict, pAdjusted: 0.05 })).toBe(
      `${start}p = 0.050). The difference is not significant. ${flips} A difference of 6.1 points would show in 80 of 100 such ` +
        "comparisons. Ask about 920 items to tell them apart (250 so far).",
    );
  });

  it("are judged by the interval where there is no test", () => {
    const bleu: MethodComparison = {
      ...{ ...strict, metric: "bleu", title: "BLEU", scale: "points", first: 43, second: 41.5, difference: -1.5 },
      ...{ interval: { ...interval, low: -2.8, high: -0.2 }, gained: [], lost: [], discordance: undefined, needed: 90 },
      pAdjusted: undefined,
    };
    expect(said(bleu)).toBe(
      "The second scores 41.50 by BLEU, 1.50 points below base (43.00; 95% interval of the difference: -2.80 to -0.20). The " +
        "difference is significant.",
    );
    expect(said({ ...bleu, interval: undefined })).toMatch(/\(43\.00\)\. The difference is not significant\./);
  });
});
