import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { flatten, leavesOf, measurementsOf, sumOfWeights, type Value, type Weight } from "./expression.js";

const leaf = (source: string, tensor = "w") => ({ source, tensor });
const blend = (...terms: [Weight, Value][]): Value => ({ blend: terms.map(([weight, value]) => ({ weight, value })) });
const even = (...values: Value[]): Value => blend(...values.map((value): [Weight, Value] => [1, value]));
/** Weights by source, and the divisor. */
const flat = (value: Value, measured?: Map<string, number>) => {
  const { terms, divisor } = flatten(value, measured);
  return [...terms.map(({ source, weight }) => [source, weight]), divisor];
};
const [a, b, c, d] = [leaf("a"), leaf("b"), leaf("c"), leaf("d")];

describe("flatten", () => {
  it("keeps the weights of a plain average, in its order", () => {
    expect(flat(blend([0.2, b], [0.5, a], [-0.1, c]))).toEqual([["b", 0.2], ["a", 0.5], ["c", -0.1], 0.2 + 0.5 - 0.1]);
  });

  it("makes a tensor alone that tensor, whatever its weight", () => {
    expect(flat(a)).toEqual([["a", 1], 1]);
    expect(flat(blend([-3, a]))).toEqual([["a", 1], 1]);
    expect(flat(blend([2, blend([0.1, a], [0, b])], [0, c]))).toEqual([["a", 1], 1]);
  });

  it("makes equal weights 1, however large, and however deep", () => {
    expect(flat(blend([0.1, a], [0.1, b]))).toEqual([["a", 1], ["b", 1], 2]);
    expect(flat(blend([-7, a], [-7, b], [-7, c]))).toEqual([["a", 1], ["b", 1], ["c", 1], 3]);
    expect(flat(even(even(a, b), even(c, d)))).toEqual([["a", 1], ["b", 1], ["c", 1], ["d", 1], 4]);
    // A third of one and two thirds of two, each by way of thirds that no float64 holds.
    expect(flat(blend([1, a], [2, even(b, c)]))).toEqual([["a", 1], ["b", 1], ["c", 1], 3]);
    const soup = (name: string) => even(...[0, 1, 2].map((i) => leaf(`${name}${i}`)));
    expect(flat(even(soup("t"), soup("l"))).at(-1)).toBe(6);
  });

  it("takes weights that only nearly are equal as they are", () => {
    expect(flat(blend([1, a], [1 + 1e-9, b]))).toEqual([["a", 1], ["b", 1 + 1e-9], 2 + 1e-9]);
    expect(flat(blend([1, a], [-1.5, b]))).toEqual([["a", 1], ["b", -1.5], -0.5]);
  });

  it("multiplies inner weights, normalised, by outer ones", () => {
    const inner = blend([3, a], [1, b]);
    expect(flat(blend([2, inner], [1, c]))).toEqual([["a", 1.5], ["b", 0.5], ["c", 1], 3]);
    expect(flat(blend([2, blend([-1, a], [3, b])], [1, c]))).toEqual([["a", -1], ["b", 3], ["c", 1], 3]);
  });

  it("adds up the weights of a tensor that comes twice, and tells tensors of one source apart", () => {
    expect(flat(blend([1, a], [1, b], [2, a]))).toEqual([["a", 3], ["b", 1], 4]);
    expect(flat(even(even(a, b), even(a, c)))).toEqual([["a", 1], ["b", 0.5], ["c", 0.5], 2]);
    expect(flatten(even(leaf("a", "x"), leaf("a", "y"))).terms.map(({ tensor }) => tensor)).toEqual(["x", "y"]);
    // A source and a tensor whose names run together the same way are still two.
    expect(flatten(even(leaf("a", "b c"), leaf("a b", "c"))).terms).toHaveLength(2);
  });

  it("drops what has no weight, and what cancels out", () => {
    expect(flat(blend([0, a], [2, b], [1, c]))).toEqual([["b", 2], ["c", 1], 3]);
    expect(flat(blend([1, a], [-1, a], [1, b], [3, c]))).toEqual([["b", 1], ["c", 3], 4]);
    expect(flat(blend([0, even(a, b)], [5, c]))).toEqual([["c", 1], 1]);
  });

  it("refuses weights that sum to zero, inside too, and where only rounding is left", () => {
    const message = "the weights of an average sum to zero";
    expect(() => flatten(blend([1, a], [-1, b]))).toThrow(message);
    expect(() => flatten(blend([0, a]))).toThrow(message);
    expect(() => flatten({ blend: [] })).toThrow(message);
    expect(() => flatten(blend([1, blend([1, a], [-1, b])], [1, c]))).toThrow(message);
    expect(() => flatten(blend([0.1, a], [0.2, b], [-0.3, c]))).toThrow(message);
  });

  it("takes the inverse of what was measured, and needs it", () => {
    const value = blend([{ inverse: "m" }, a], [{ inverse: "n" }, even(b, c)]);
    expect(
      flat(
        value,
        new Map([
          ["m", 0.25],
          ["n", 0.5],
        ]),
      ),
    ).toEqual([["a", 4], ["b", 1], ["c", 1], 6]);
    expect(() => flatten(value, new Map([["m", 1]]))).toThrow("measurement n has not been made");
    expect(measurementsOf(value)).toEqual(["m", "n"]);
    expect(leavesOf(even(value, a))).toEqual([a, b, c, a]);
  });

  it("means the same as the tree, for any tree", () => {
    const weight = fc.double({ min: 0.1, max: 10, noNaN: true });
    const { tree } = fc.letrec<{ tree: Value }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        fc.constantFrom("a", "b", "c", "d").map((name) => leaf(name)),
        fc.array(fc.tuple(weight, tie("tree")), { minLength: 1, maxLength: 4 }).map((terms) => blend(...terms)),
      ),
    }));
    const values: Record<string, number> = { a: 1, b: -20, c: 300, d: 0.5 };
    const evaluate = (value: Value): number => {
      if ("source" in value) return values[value.source] as number;
      const sum = value.blend.reduce((total, term) => total + (term.weight as number), 0);
      return value.blend.reduce((total, term) => total + (term.weight as number) * evaluate(term.value), 0) / sum;
    };
    fc.assert(
      fc.property(tree, (value) => {
        const { terms, divisor } = flatten(value);
        const found = terms.reduce((total, term) => total + term.weight * (values[term.source] as number), 0) / divisor;
        expect(Math.abs(found - evaluate(value))).toBeLessThan(1e-9);
        expect(new Set(terms.map(({ source }) => source)).size).toBe(terms.length);
        expect(divisor).toBe(terms.reduce((total, term) => total + term.weight, 0));
      }),
    );
  });
});

describe("sumOfWeights", () => {
  it("is the sum, or 0 where that is rounding", () => {
    expect(sumOfWeights([0.5, 0.25])).toBe(0.75);
    expect(sumOfWeights([1e9, -1e9, 1e-2])).toBe(1e-2);
    expect(sumOfWeights([0.1, 0.2, -0.3])).toBe(0);
    expect(sumOfWeights([0.1, 0.2, -0.2999999999])).toBeGreaterThan(0);
    expect(sumOfWeights([])).toBe(0);
  });
});
