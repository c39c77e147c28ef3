// The generator against published numbers, and its distributions against their moments.
import { describe, expect, it } from "vitest";
import { Random } from "./random.js";

const draw = <T>(count: number, one: () => T): T[] => Array.from({ length: count }, one);

describe("Random", () => {
  it("has the published numbers", () => {
    // From the authors' C program, as in the tests of the Rust crate rand_xoshiro (src/xoshiro128starstar.rs).
    const random = new Random([1, 2, 3, 4]);
    expect(draw(10, () => random.next())).toEqual([
      11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804,
    ]);
    expect(() => new Random([0, 0, 0, 0])).toThrow("cannot be zero");
  });

  it("depends only on seed and label", () => {
    const first = Random.of(7, "corpus").next();
    expect(Random.of(7, "corpus").next()).toBe(first);
    expect(new Set([first, Random.of(8, "corpus").next(), Random.of(7, "weights").next()]).size).toBe(3);
  });

  it("is uniform", () => {
    const random = Random.of(1, "even");
    const faces = draw(60_000, () => random.below(6));
    // Chi squared with 5 degrees of freedom is under 20.5 in 999 of 1,000 cases.
    const seen = [0, 1, 2, 3, 4, 5].map((face) => faces.filter((one) => one === face).length);
    expect(seen.reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0)).toBeLessThan(20.5);
    const between = draw(1000, () => random.between(3, 5));
    expect(new Set(between)).toEqual(new Set([3, 4, 5]));
    expect(draw(10_000, () => random.chance(0.25)).filter(Boolean).length / 10_000).toBeCloseTo(0.25, 1);
  });

  it("is normal", () => {
    const random = Random.of(1, "normal");
    const values = draw(40_000, () => random.normal());
    const mean = (power: number) => values.reduce((sum, x) => sum + x ** power, 0) / values.length;
    // Within five standard errors.
    expect(Math.abs(mean(1))).toBeLessThan(5 / 200);
    expect(Math.abs(mean(2) - 1)).toBeLessThan((5 * Math.sqrt(2)) / 200);
    expect(Math.abs(mean(3))).toBeLessThan((5 * Math.sqrt(15)) / 200);
    expect(Math.abs(mean(4) - 3)).toBeLessThan((5 * Math.sqrt(96)) / 200);
  });

  it("shuffles and samples without losing items", () => {
    const random = Random.of(1, "shuffle");
    const items = draw(50, () => 0).map((_, i) => i);
    const shuffled = random.shuffle([...items]);
    expect(shuffled).not.toEqual(items);
    expect(shuffled.toSorted((a, b) => a - b)).toEqual(items);
    expect(new Set(random.sample(items, 10)).size).toBe(10);
    expect(() => random.pick([])).toThrow("nothing to pick");
  });
});
