// Statistics against values by hand, by enumeration, or of the normal distribution.
import { describe, expect, it } from "vitest";
import { Random } from "../../kit/random.js";
import {
  bootstrapInterval,
  mcnemarExact,
  meanWithError,
  pairedInterval,
  signFlipTest,
  wilsonInterval,
} from "./statistics.js";

it("gives mean and standard error", () => {
  // Deviations -1.5, -0.5, 0.5, 1.5: squares sum to 5; sqrt(5 / 3 / 4).
  expect(meanWithError([1, 2, 3, 4])).toEqual({ mean: 2.5, standardError: Math.sqrt(5 / 12) });
  expect(meanWithError([7]).standardError).toBeNaN();
  expect(meanWithError([]).mean).toBeNaN();
});

it("gives Wilson's interval, which has a width at both ends", () => {
  // Of none right, z^2 / (n + z^2); of half, 1/2 plus or minus z / (2 sqrt(n + z^2)).
  expect(wilsonInterval(0, 50)).toEqual({ low: 0, high: expect.closeTo(3.841459 / 53.841459, 6) });
  expect(wilsonInterval(1, 2)).toEqual({ low: expect.closeTo(2 / 5.841459, 6), high: 1 });
  const half = 1.959964 / (2 * Math.sqrt(103.841459));
  expect(wilsonInterval(0.5, 100)).toEqual({ low: expect.closeTo(0.5 - half, 6), high: expect.closeTo(0.5 + half, 6) });
});

describe("pairedInterval", () => {
  it("has a width where both are right on none, or on the same", () => {
    // Wilson's upper end of none right, to both sides.
    const reach = 3.841459 / 253.841459;
    expect(pairedInterval({ first: 0, second: 0, both: 0 }, 250)).toEqual({
      ...{ low: expect.closeTo(-reach, 6), high: expect.closeTo(reach, 6) },
    });
    const { low, high } = pairedInterval({ first: 0.5, second: 0.5, both: 0.5 }, 250);
    // Of 250 pairs without a flip the rule of three says that at most 3 / 250 of all flip.
    expect([low, high]).toEqual([expect.closeTo(-high, 12), expect.closeTo(0.0078, 3)]);
  });

  it("is the wider end of two formulas by hand", () => {
    // Counts 36, 12, 2, 0 of 50: 48 and 38 right; Wilson's (0.8654, 0.9890) and (0.6259, 0.8570); phi -24 / sqrt(48 * 2 *
    // 38 * 12) = -0.1147; 0.2 - sqrt(0.0946^2 + 2 * 0.1147 * 0.0946 * 0.0970 + 0.0970^2), 0.2 + sqrt(0.0290^2 + ... + 0.1341^2).
    const { low, high } = pairedInterval({ first: 38 / 50, second: 48 / 50, both: 36 / 50 }, 50);
    // The low end is that of 12 gained in 14 flips: 0.28 (2 * 0.5719 - 1), Clopper and Pearson's 0.5719.
    expect([low, high]).toEqual([expect.closeTo(0.0403, 3), expect.closeTo(0.3404, 3)]);
  });

  it("excludes 0 where the exact test rejects it, and only there", () => {
    // 12 items of which 4 are lost: p = 0.125. Newcombe's alone is -0.61 to -0.05; none of four has a chance up to
    // 1 - 0.025^(1/4) = 0.6024, and a third flip.
    const few = pairedInterval({ first: 8 / 12, second: 4 / 12, both: 4 / 12 }, 12);
    expect(mcnemarExact(0, 4)).toBe(0.125);
    expect(few.high).toBeCloseTo((2 * 0.602365 - 1) / 3, 5);
    for (const items of [5, 8, 12, 20, 50, 200]) {
      for (let gained = 0; gained <= Math.min(items, 30); gained++) {
        for (let lost = 0; lost <= Math.min(items - gained, 30); lost++) {
          for (const share of [0, 0.5, 1]) {
            const both = Math.round(share * (items - gained - lost)) / items;
            const shares = { first: both + lost / items, second: both + gained / items, both };
            const { low, high } = pairedInterval(shares, items);
            const where = `${gained} gained, ${lost} lost, ${both * items} in both, of ${items}`;
            expect(low > 0 || high < 0, where).toBe(mcnemarExact(gained, lost) < 0.05);
          }
        }
      }
    }
  });

  it("holds the true difference in about 95 of 100 samples", () => {
    const random = Random.of(5, "pairs");
    let held = 0;
    for (let sample = 0; sample < 2000; sample++) {
      const counts = { first: 0, second: 0, both: 0 };
      for (let i = 0; i < 60; i++) {
        const chance = random.float();
        // Both 0.3, only the first 0.1, only the second 0.2.
        if (chance < 0.3) counts.both++;
        if (chance < 0.4) counts.first++;
        if (chance < 0.3 || (chance >= 0.4 && chance < 0.6)) counts.second++;
      }
      const shares = { first: counts.first / 60, second: counts.second / 60, both: counts.both / 60 };
      const { low, high } = pairedInterval(shares, 60);
      if (low <= 0.1 && high >= 0.1) held++;
    }
    expect(held / 2000).toBeGreaterThan(0.935);
    expect(held / 2000).toBeLessThan(0.98);
  });
});

describe("bootstrapInterval", () => {
  const mean = (sums: readonly (readonly number[])[], counts: readonly number[]) =>
    (sums[0]?.[0] ?? Number.NaN) / (counts[0] ?? 1);

  it("agrees with the normal distribution on a mean of many", () => {
    const random = Random.of(3, "test");
    const values = Array.from({ length: 400 }, () => random.normal());
    const expected = meanWithError(values);
    const found = bootstrapInterval([values.map((value) => [value])], mean, { resamples: 4000, seed: 1 });
    expect(found.deviation).toBeCloseTo(expected.standardError, 2);
    expect(found.low).toBeCloseTo(expected.mean - 1.96 * expected.standardError, 1);
    expect(found.high).toBeCloseTo(expected.mean + 1.96 * expected.standardError, 1);
    expect(found.low).toBeLessThan(expected.mean);
    expect(found.high).toBeGreaterThan(expected.mean);
  });

  it("is the same for the same seed, and another for another", () => {
    const stratum = Array.from({ length: 30 }, (_, i) => [i % 3]);
    const run = (seed: number) => bootstrapInterval([stratum], mean, { seed });
    expect(run(1)).toEqual(run(1));
    expect(run(1).deviation).not.toBe(run(2).deviation);
    expect(run(5)).toMatchObject({ seed: 5, resamples: 1000, level: 0.95 });
  });

  it("resamples each stratum within itself, with all entries of an item together", () => {
    const strata = [
      [
        [1, 10],
        [1, 10],
      ],
      [
        [5, 50],
        [5, 50],
        [5, 50],
      ],
    ];
    const seen = new Set<string>();
    bootstrapInterval(
      strata,
      (sums, counts) => {
        seen.add(JSON.stringify([sums, counts]));
        return 0;
      },
      { resamples: 20 },
    );
    // Items of a stratum are alike, so every draw gives the same sums.
    expect([...seen]).toEqual(["[[[2,20],[15,150]],[2,3]]"]);
  });

  it("refuses what has no interval", () => {
    expect(() => bootstrapInterval([], mean)).toThrow(/no items/);
    expect(() => bootstrapInterval([[]], mean)).toThrow(/no items/);
    expect(() => bootstrapInterval([[[1]]], mean, { resamples: 1 })).toThrow(/at least 2 resamples/);
    expect(() => bootstrapInterval([[[1]]], mean, { level: 1 })).toThrow(/between 0 and 1/);
  });
});

describe("mcnemarExact", () => {
  it.each([
    // Twice the binomial tail at 1/2: 2 (1) / 2^5; 2 (1 + 8 + 28) / 2^8; and never above 1.
    [5, 0, 2 / 32],
    [2, 6, 74 / 256],
    [6, 2, 74 / 256],
    [4, 4, 1],
    [0, 0, 1],
  ])("of %i gained and %i lost", (gained, lost, expected) => {
    expect(mcnemarExact(gained, lost)).toBeCloseTo(expected, 12);
  });

  it("holds where 2 ** -n underflows", () => {
    // The normal approximation with continuity correction: z = (|1100 - 900| - 1) / sqrt(2000) = 4.45, p = 8.6e-6.
    expect(mcnemarExact(1100, 900)).toBeGreaterThan(8e-6);
    expect(mcnemarExact(1100, 900)).toBeLessThan(9.2e-6);
    expect(mcnemarExact(1000, 1000)).toBe(1);
  });
});

describe("signFlipTest", () => {
  it("is McNemar's test where differences are 1 and -1, exact or nearly", () => {
    const flips = (gained: number, lost: number) => [...Array(gained).fill(1), ...Array(lost).fill(-1), 0, 0];
    for (const [gained, lost] of [
      [5, 0],
      [9, 3],
      [4, 4],
    ] as const) {
      expect(signFlipTest(flips(gained, lost))).toBeCloseTo(mcnemarExact(gained, lost), 12);
    }
    // Of 42 flips no pattern is drawn: the tail is known.
    expect(signFlipTest(flips(30, 12))).toBe(mcnemarExact(30, 12));
    expect(signFlipTest(flips(30, 12).map((value) => value / 3))).toBe(mcnemarExact(30, 12));
    expect(signFlipTest([])).toBe(1);
  });

  it("counts patterns by hand where differences have sizes", () => {
    // Of 8 patterns of signs of 1, 2, 3, those with a sum of 4 or more on either side: +++, -++, and their opposites.
    expect(signFlipTest([-1, 2, 3])).toBe(4 / 8);
    // Eleven of a half, a half and a whole lost: in a report, a lead that a bootstrap took for certain.
    expect(signFlipTest([...Array(11).fill(0.5), -0.5, -1])).toBeCloseTo(0.076, 2);
  });

  it("draws a sign for each of more than 32 items", () => {
    const signs = (plus: number, minus: number, size: number) => [
      ...Array(plus).fill(size),
      ...Array(minus).fill(-size),
    ];
    // Independent signs of 200 ones and 200 twos have the variance 1000, and even sums: P(|z| >= 61 / sqrt(1000)).
    expect(signFlipTest([...signs(131, 69, 1), ...signs(100, 100, 2)])).toBeCloseTo(0.0537, 2);
  });
});
