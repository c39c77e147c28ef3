// Crossed intervals: against sums of squares by hand, against designs with known truth, and what is paired with what.
import { describe, expect, it } from "vitest";
import { Random } from "../../kit/random.js";
import { bleuFromStatistics, bleuStatistics } from "../metrics/bleu.js";
import { type CrossedModel, crossedDifference, pseudoValues } from "./crossed.js";
import { meanWithError } from "./statistics.js";

const model = (levels: Record<string, string>, values: readonly number[]): CrossedModel => ({
  levels,
  values: new Map(values.map((value, i) => [`item-${i}`, value])),
});

describe("crossedDifference", () => {
  it("is the mean difference over items where each method is one model", () => {
    const [one, other] = [
      [0, 1, 0, 1, 1, 0, 0, 1],
      [1, 1, 0, 1, 1, 0, 1, 0],
    ] as const;
    const found = crossedDifference([model({}, one)], [model({}, other)]);
    const { mean, standardError } = meanWithError(other.map((value, i) => value - (one[i] ?? 0)));
    expect(found).toMatchObject({ first: 0.5, second: 0.625, over: { factors: {}, items: 8 }, leftOut: 0 });
    expect(found.difference).toBeCloseTo(mean, 12);
    expect(found.interval?.deviation).toBeCloseTo(standardError, 12);
    expect(found.degrees).toBe(7);
    // 2 * scipy.stats.t.sf(0.125 / 0.2266, 7)
    expect(found.pValue).toBeCloseTo(0.5983, 3);
  });

  /** Mean squares of seeds by items, each over the number of cells, by hand. */
  function partsOf(rows: readonly (readonly number[])[]) {
    const [count, items] = [rows.length, rows[0]?.length ?? 0];
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value ** 2, 0);
    const grand = mean(rows.flat());
    const seedMeans = rows.map(mean);
    const itemMeans = Array.from({ length: items }, (_, i) => mean(rows.map((row) => row[i] ?? 0)));
    const rest = rows.flatMap((row, s) =>
      row.map((value, i) => value - (seedMeans[s] ?? 0) - (itemMeans[i] ?? 0) + grand),
    );
    const bySeed = squares(seedMeans.map((own) => own - grand)) / (count * (count - 1));
    const byItem = squares(itemMeans.map((own) => own - grand)) / (items * (items - 1));
    return { grand, bySeed, byItem, residual: squares(rest) / (count * items * (count - 1) * (items - 1)) };
  }

  it("has the variance and Satterthwaite's degrees of a two-way design, by hand", () => {
    // Three seeds, four items: rows of differences from a base of zeros.
    const rows = [
      [5, 6, 7, 2],
      [1, 2, 1, 4],
      [9, 7, 8, 6],
    ];
    const found = crossedDifference(
      [model({}, [0, 0, 0, 0])],
      rows.map((row, i) => model({ seed: `s${i}` }, row)),
    );
    const { grand, bySeed, byItem, residual } = partsOf(rows);
    const variance = bySeed + byItem - residual;
    expect(found.difference).toBeCloseTo(grand, 12);
    expect(found.interval?.deviation).toBeCloseTo(Math.sqrt(variance), 12);
    const degrees = variance ** 2 / (bySeed ** 2 / 2 + byItem ** 2 / 3 + residual ** 2 / 6);
    expect(found.degrees).toBeCloseTo(degrees, 9);
    expect(found.over).toEqual({ factors: { seed: 3 }, items: 4 });
    // Two degrees of freedom, so far wider than 1.96 standard errors.
    expect((found.interval?.high ?? 0) - grand).toBeGreaterThan(2.5 * Math.sqrt(variance));
  });

  it("has fewer degrees where seeds seem to differ little, by hand", () => {
    const rows = [
      [1, 0, 1, 0, -1, 1, 0, 1, 0, 1],
      [1, 0, 1, 1, 0, 1, 0, 1, 0, 1],
      [1, 1, 1, 1, 0, 1, 0, 1, 1, 1],
    ];
    const found = crossedDifference(
      [model({}, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
      rows.map((row, i) => model({ seed: `s${i}` }, row)),
    );
    const { grand, bySeed, byItem, residual } = partsOf(rows);
    const variance = bySeed + byItem - residual;
    expect(variance).toBeGreaterThan(byItem);
    // Student's t of 95%, from a table: 4.3027 with two degrees of freedom, 2.2622 with nine.
    const reach = Math.sqrt((variance - byItem) * 4.3027 ** 2 + byItem * 2.2622 ** 2);
    expect(found.interval?.low).toBeCloseTo(grand - reach, 4);
    expect(found.interval?.high).toBeCloseTo(grand + reach, 4);
    expect(found.degrees).toBeLessThan(variance ** 2 / (bySeed ** 2 / 2 + byItem ** 2 / 9 + residual ** 2 / 18));
  });

  it("pairs a merge with its own experts", () => {
    // Merge = the effect of its math expert + 1 for each item: paired, nothing varies.
    const math = ["m1", "m2", "m3"].map((name, i) => model({ math: name }, [i, 2 * i, 3 * i]));
    const merges = math.flatMap(({ levels, values }) =>
      ["s1", "s2"].map((swahili) =>
        model(
          { ...levels, swahili },
          [...values.values()].map((value) => value + 1),
        ),
      ),
    );
    const found = crossedDifference(math, merges);
    expect(found).toMatchObject({ interval: undefined, pValue: undefined });
    expect(found.difference).toBeCloseTo(1, 12);
    expect(found.over.factors).toEqual({ math: 3, swahili: 2 });
    // Against models of another kind, both vary.
    const joint = ["j1", "j2"].map((name, i) => model({ joint: name }, [i, i, i + 1]));
    expect(crossedDifference(joint, merges).over.factors).toEqual({ joint: 2, math: 3, swahili: 2 });
  });

  it("resamples only items where models do not fill a grid", () => {
    const zipped = [model({ a: "1", b: "1" }, [1, 0, 1]), model({ a: "2", b: "2" }, [0, 0, 1])];
    expect(crossedDifference([model({}, [0, 0, 0])], zipped)).toMatchObject({ over: { factors: {}, items: 3 } });
    // A merge whose expert was not evaluated.
    const merges = ["1", "2"].map((a) => model({ a }, [1, 0, 1]));
    const found = crossedDifference([model({ a: "1" }, [0, 0, 1])], merges);
    expect(found.over.factors).toEqual({});
    expect(found.difference).toBeCloseTo(1 / 3, 12);
  });

  it("leaves out items that a model lacks, and knows nothing of one item", () => {
    const found = crossedDifference([model({}, [0, 1, 1])], [model({}, [1, 1])]);
    expect(found).toMatchObject({ first: 0.5, second: 1, leftOut: 1, over: { items: 2 } });
    expect(crossedDifference([model({}, [0])], [model({}, [1])])).toMatchObject({ difference: 1, interval: undefined });
  });

  it("excludes 0 exactly where p is below 5%", () => {
    const random = Random.of(3, "agreement");
    let significant = 0;
    for (let study = 0; study < 200; study++) {
      const { base, merges } = drawStudy({ experts: [3, 2], items: 20, ofExpert: 0.5, ofPair: 0.1, lead: 0.7 }, random);
      const { interval, pValue = 1 } = crossedDifference(base, merges);
      expect(interval === undefined || interval.low > 0 || interval.high < 0).toBe(pValue < 0.05 || !interval);
      if (pValue < 0.05) significant++;
    }
    expect(significant).toBeGreaterThan(10);
    expect(significant).toBeLessThan(190);
  });
});

describe("pseudoValues", () => {
  it("are the values of a mean, and average to the score of a corpus", () => {
    const mean = ([sum = 0, count = 0]: readonly number[]) => sum / count;
    expect(
      pseudoValues(
        [
          [3, 1],
          [5, 1],
          [10, 1],
        ],
        mean,
      ),
    ).toEqual([3, 5, 10].map((value) => expect.closeTo(value, 12)));
    const count = bleuStatistics({});
    const lines = ["a b c d e", "a b c x e f g", "a b q d e", "a b c d e f g h"];
    const vectors = lines.map((line) => count(line, "a b c d e f g"));
    const score = (sums: readonly number[]) => bleuFromStatistics(sums).score;
    const found = pseudoValues(vectors, score) ?? [];
    const whole = score(vectors.reduce((sums, vector) => sums.map((sum, i) => sum + (vector[i] ?? 0))));
    expect(meanWithError(found).mean).toBeCloseTo(whole, 9);
    expect(Math.max(...found)).toBe(found[3]);
    expect(pseudoValues([[1, 1]], mean)).toEqual([1]);
    expect(
      pseudoValues(
        [
          [1, 1],
          [0, 0],
        ],
        mean,
      ),
    ).toBeUndefined();
  });
});

/** How two methods are drawn: deviations of their effects on a probit scale. */
interface World {
  readonly experts: readonly [number, number];
  readonly items: number;
  readonly ofExpert: number;
  readonly ofPair: number;
  readonly lead: number;
}

/** Answers of the merges of all pairs of drawn experts, and of one base, on drawn items. */
function drawStudy({ experts, items, ofExpert, ofPair, lead }: World, random: Random) {
  const [first, second] = experts.map((count) => Array.from({ length: count }, () => ofExpert * random.normal()));
  const ease = Array.from({ length: items }, () => random.normal());
  const answer = (ability: number) => ease.map((own) => (own + ability + random.normal() > 0 ? 1 : 0));
  const merges = (first ?? []).flatMap((a, i) =>
    (second ?? []).map((b, j) => model({ a: `${i}`, b: `${j}` }, answer(lead + a + b + ofPair * random.normal()))),
  );
  return { base: [model({}, answer(0))], merges };
}

/** The share of right answers over all experts and items, less that of the base: a probit of summed variances. */
const trueLead = ({ ofExpert, ofPair, lead }: World) =>
  normalBelow(lead / Math.sqrt(2 + 2 * ofExpert ** 2 + ofPair ** 2)) - 0.5;

/** The normal distribution by Simpson's rule. */
function normalBelow(z: number): number {
  const steps = 2000;
  let sum = 0;
  for (let i = 0; i <= steps; i++) {
    const weight = i === 0 || i === steps ? 1 : i % 2 === 0 ? 2 : 4;
    sum += weight * Math.exp(-(((z * i) / steps) ** 2) / 2);
  }
  return 0.5 + ((z / steps) * sum) / 3 / Math.sqrt(2 * Math.PI);
}

describe("coverage", { tags: ["slow"] }, () => {
  const worlds: readonly (readonly [string, World])[] = [
    ["experts alike", { experts: [4, 4], items: 120, ofExpert: 0, ofPair: 0, lead: 0.3 }],
    ["experts that differ", { experts: [4, 4], items: 120, ofExpert: 0.3, ofPair: 0.1, lead: 0.3 }],
    ["few experts, no difference", { experts: [3, 3], items: 120, ofExpert: 0.25, ofPair: 0.1, lead: 0 }],
    ["two by three experts", { experts: [2, 3], items: 120, ofExpert: 0.1, ofPair: 0.1, lead: 0 }],
  ];

  it.each(worlds)("of 95%% intervals: %s", (name, world) => {
    const random = Random.of(11, name);
    const studies = 1000;
    const truth = trueLead(world);
    let [held, significant] = [0, 0];
    for (let study = 0; study < studies; study++) {
      const { base, merges } = drawStudy(world, random);
      const { interval, pValue = 1 } = crossedDifference(base, merges);
      if (interval && interval.low <= truth && interval.high >= truth) held++;
      if (pValue < 0.05) significant++;
    }
    // Three standard errors of 950 of 1,000 are 2.1 points.
    expect(held / studies).toBeGreaterThan(0.929);
    expect(held / studies).toBeLessThan(0.978);
    if (world.lead === 0) expect(significant / studies).toBeLessThan(0.071);
  });
});
