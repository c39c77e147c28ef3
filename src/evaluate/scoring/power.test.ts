// Detectable differences and numbers of runs against scipy 1.17, statsmodels 0.15, and power by enumeration.
import { describe, expect, it } from "vitest";
import { Random } from "../../kit/random.js";
import { crossedDifference } from "./crossed.js";
import { detectableDifference, itemsNeeded, runsNeeded } from "./power.js";
import { mcnemarExact, meanWithError } from "./statistics.js";

/** Probability that the exact McNemar test finds p < level, by enumeration of all counts of gained and lost items. */
function exactPower(items: number, discordance: number, difference: number, level = 0.05): number {
  const logs = [0];
  for (let n = 1; n <= items; n++) logs.push((logs[n - 1] ?? 0) + Math.log(n));
  const log = (n: number) => logs[n] ?? 0;
  const [up, down] = [(discordance + difference) / 2, (discordance - difference) / 2];
  let power = 0;
  for (let gained = 0; gained <= items; gained++) {
    for (let lost = 0; gained + lost <= items; lost++) {
      if (mcnemarExact(gained, lost) >= level) continue;
      const rest = items - gained - lost;
      const ways = log(items) - log(gained) - log(lost) - log(rest);
      power += Math.exp(
        ways + gained * Math.log(up) + lost * Math.log(down) + rest * Math.log(Math.max(1e-300, 1 - discordance)),
      );
    }
  }
  return power;
}

describe("itemsNeeded", () => {
  it.each([
    [0.06, 0.1],
    [0.03, 0.2],
    [0.1, 0.3],
  ])(
    "is enough for the exact test in 80 of 100 studies: a difference of %d, %d discordant",
    (difference, discordance) => {
      const items = itemsNeeded(difference, { items: 100, discordance }) ?? Number.NaN;
      // Connor 1987, equation 3, for the difference that the continuity of one item leaves.
      const left = difference - 1 / items;
      const connor = ((1.959964 * Math.sqrt(discordance) + 0.841621 * Math.sqrt(discordance - left ** 2)) / left) ** 2;
      expect(Math.abs(items - connor)).toBeLessThan(1.5);
      expect(exactPower(items, discordance, difference, 0.05)).toBeGreaterThan(0.785);
      expect(exactPower(Math.round(0.7 * items), discordance, difference, 0.05)).toBeLessThan(0.72);
      // The sign does not count, and more comparisons need more.
      expect(itemsNeeded(-difference, { items: 7, discordance })).toBe(items);
      expect(itemsNeeded(difference, { items: 100, discordance }, { comparisons: 4 })).toBeGreaterThan(items);
    },
  );

  it("grows with the square of what a difference lacks", () => {
    // (2.801585 x 0.02 / 0.01) ** 2 x 100
    expect(itemsNeeded(0.01, { items: 100, standardError: 0.02 })).toBe(Math.ceil(100 * (2.801585 * 2) ** 2));
  });

  it("is undefined of no difference, and no less for one that is larger than what flips", () => {
    expect(itemsNeeded(0, { items: 100, discordance: 0.1 })).toBeUndefined();
    expect(itemsNeeded(0.2, { items: 100, discordance: 0.1 })).toBe(itemsNeeded(0.1, { items: 100, discordance: 0.1 }));
  });
});

describe("detectableDifference", () => {
  it("says that 250 items of which a tenth flip can show 6 points", () => {
    expect(detectableDifference({ items: 250, discordance: 0.1 })).toBeCloseTo(0.06, 3);
  });

  it.each([
    [250, 0.1, 0.05],
    [250, 0.3, 0.05],
    [100, 0.2, 0.05],
    [250, 0.2, 0.05 / 4],
  ])(
    // Not exactly 80: the exact test is discrete, and the discordance of a study varies.
    "is found by the exact test in 80 of 100 studies: %d items, %d discordant, level %d",
    (items, discordance, level) => {
      const difference = detectableDifference({ items, discordance }, { level }) ?? Number.NaN;
      const power = exactPower(items, discordance, difference, level);
      expect(power).toBeGreaterThan(0.785);
      expect(power).toBeLessThan(0.85);
      const asFamily = detectableDifference({ items, discordance }, { level: 4 * level, comparisons: 4 });
      expect(asFamily).toBeCloseTo(difference, 9);
    },
  );

  it("is undefined where no difference can be shown", () => {
    expect(detectableDifference({ items: 250, discordance: 0 })).toBeUndefined();
    expect(detectableDifference({ items: 250, discordance: 0.01 })).toBeUndefined();
    expect(detectableDifference({ items: 2, discordance: 1 })).toBeUndefined();
    expect(detectableDifference({ standardError: 0 })).toBeUndefined();
  });

  it("is a multiple of the standard error of other scores", () => {
    // 1.959964 + 0.841621
    expect(detectableDifference({ standardError: 1 })).toBeCloseTo(2.801585, 4);
    expect(detectableDifference({ standardError: 2 }, { power: 0.5 })).toBeCloseTo(2 * 1.959964, 4);
    // scipy.stats.t.isf(0.025, 3) + scipy.stats.t.isf(0.2, 3)
    expect(detectableDifference({ standardError: 1, degrees: 3 })).toBeCloseTo(3.1824463 + 0.9784723, 5);
  });

  it.each([
    [{ items: 0, discordance: 0.1 }, {}, /items is 0/],
    [{ items: 10, discordance: 1.5 }, {}, /discordance is 1.5/],
    [{ items: 10, discordance: 0.5 }, { power: 1 }, /power is 1/],
    [{ items: 10, discordance: 0.5 }, { comparisons: 0 }, /comparisons is 0/],
  ])("refuses %j with %j", (where, options, message) => {
    expect(() => detectableDifference(where, options)).toThrow(message);
  });
});

describe("runsNeeded", () => {
  const paper = { difference: 0.029, items: 250, discordance: 0.2, spread: 0.02 };

  it("is the number of runs with which a t test over runs finds the difference in 80 of 100 simulated studies", () => {
    const runs = runsNeeded(paper) ?? 0;
    expect(runs).toBe(14);
    // Student's t of 95% with 13 and 12 degrees of freedom, from a table.
    const power = (count: number, critical: number) => {
      const random = Random.of(5, `power of ${count}`);
      let found = 0;
      for (let study = 0; study < 4000; study++) {
        const differences = Array.from({ length: count }, () => {
          const own = paper.difference + paper.spread * random.normal();
          let sum = 0;
          for (let i = 0; i < paper.items; i++) {
            const u = random.float();
            if (u < (paper.discordance + own) / 2) sum++;
            else if (u < paper.discordance) sum--;
          }
          return sum / paper.items;
        });
        const { mean, standardError } = meanWithError(differences);
        if (Math.abs(mean) > critical * standardError) found++;
      }
      return found / 4000;
    };
    expect(power(14, 2.1604)).toBeGreaterThan(0.79);
    expect(power(14, 2.1604)).toBeLessThan(0.84);
    expect(power(11, 2.2281)).toBeLessThan(0.77);
  });

  it("is found by crossedDifference on other items, too", { tags: ["slow"] }, () => {
    const where = { difference: 0.1, items: 200, discordance: 0.25, spread: 0.04, shared: 0.3 };
    const runs = runsNeeded(where) ?? 0;
    const variance = where.discordance - where.difference ** 2;
    const random = Random.of(6, "crossed power");
    let found = 0;
    for (let study = 0; study < 500; study++) {
      const inCommon = Array.from({ length: where.items }, () => Math.sqrt(variance * where.shared) * random.normal());
      const models = Array.from({ length: runs }, (_, run) => {
        const own = where.difference + where.spread * random.normal();
        const values = inCommon.map((item) => own + item + Math.sqrt(variance * (1 - where.shared)) * random.normal());
        return { levels: { run: `${run}` }, values: new Map(values.map((value, i) => [`${i}`, value])) };
      });
      const zeros = new Map(inCommon.map((_, i) => [`${i}`, 0]));
      const { pValue = 1 } = crossedDifference([{ levels: {}, values: zeros }], models);
      if (pValue < 0.05) found++;
    }
    // Three standard errors of 80% of 500 are 5.4 points; the interval is a little wider than Satterthwaite's.
    expect(found / 500).toBeGreaterThan(0.72);
    expect(found / 500).toBeLessThan(0.88);
  });

  it("is undefined where only more items help, and fewer where runs or flips vary less", () => {
    expect(runsNeeded({ ...paper, shared: 0.5 })).toBeUndefined();
    expect(runsNeeded({ ...paper, items: 2500, shared: 0.5 })).toBeGreaterThan(1);
    expect(runsNeeded({ ...paper, spread: 0.01 })).toBeLessThan(14);
    expect(runsNeeded({ ...paper, discordance: 0.1 })).toBeLessThan(14);
    expect(runsNeeded(paper, { comparisons: 3 })).toBeGreaterThan(14);
  });

  it.each([
    [{ ...paper, difference: 0.3 }, /difference is 0.3 and discordance 0.2/],
    [{ ...paper, spread: -1 }, /spread is -1/],
    [{ ...paper, items: 1 }, /items is 1/],
    [{ ...paper, shared: 2 }, /shared is 2/],
  ])("refuses %j", (where, message) => expect(() => runsNeeded(where)).toThrow(message));
});
