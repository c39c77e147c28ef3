import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  isLeaf,
  type Leaf,
  leavesOf,
  type MeasuredResult,
  measurementsOf,
  sumOfWeights,
  type Value,
  type Weight,
} from "./expression.js";
import { type FlatTerm, flatten } from "./resolve.js";

const leaf = (source: string, tensor = "w") => ({ source, tensor });
const blend = (...terms: [Weight, Value][]): Value => ({ blend: terms.map(([weight, value]) => ({ weight, value })) });
const sum = (...terms: [Weight, Value][]): Value => ({ sum: terms.map(([weight, value]) => ({ weight, value })) });
const subtract = (...of: Value[]): Value => ({ op: "subtract", of });
const asLeaf = (term: FlatTerm): Leaf => (isLeaf(term) ? term : { source: term.operation.op, tensor: "" });
const even = (...values: Value[]): Value => blend(...values.map((value): [Weight, Value] => [1, value]));
/** Weights by source, and the divisor. */
const flat = (value: Value, measured?: Map<string, MeasuredResult>) => {
  const { terms, divisor } = flatten(value, measured);
  return [...terms.map((term) => [asLeaf(term).source, term.weight]), divisor];
};
const [a, b, c, d] = [leaf("a"), leaf("b"), leaf("c"), leaf("d")];

describe("flatten", () => {
  it("keeps the weights of a plain average, in its order", () => {
    expect(flat(blend([0.2, b], [0.5, a], [-0.1, c]))).toEqual([["b", 0.2], ["a", 0.5], ["c", -0.1], 0.2 + 0.5 - 0.1]);
  });

  it("reduces an average of one tensor to that tensor", () => {
    expect(flat(a)).toEqual([["a", 1], 1]);
    expect(flat(blend([-3, a]))).toEqual([["a", 1], 1]);
    expect(flat(blend([2, blend([0.1, a], [0, b])], [0, c]))).toEqual([["a", 1], 1]);
  });

  it("makes equal weights 1, at any size and depth", () => {
    expect(flat(blend([0.1, a], [0.1, b]))).toEqual([["a", 1], ["b", 1], 2]);
    expect(flat(blend([-7, a], [-7, b], [-7, c]))).toEqual([["a", 1], ["b", 1], ["c", 1], 3]);
    expect(flat(even(even(a, b), even(c, d)))).toEqual([["a", 1], ["b", 1], ["c", 1], ["d", 1], 4]);
    // A third of one and two thirds of two, each by way of thirds that no float64 holds.
    expect(flat(blend([1, a], [2, even(b, c)]))).toEqual([["a", 1], ["b", 1], ["c", 1], 3]);
    const soup = (name: string) => even(...[0, 1, 2].map((i) => leaf(`${name}${i}`)));
    expect(flat(even(soup("t"), soup("l"))).at(-1)).toBe(6);
  });

  it("keeps weights that are only nearly equal", () => {
    expect(flat(blend([1, a], [1 + 1e-9, b]))).toEqual([["a", 1], ["b", 1 + 1e-9], 2 + 1e-9]);
    expect(flat(blend([1, a], [-1.5, b]))).toEqual([["a", 1], ["b", -1.5], -0.5]);
  });

  it("multiplies inner weights, normalised, by outer ones", () => {
    const inner = blend([3, a], [1, b]);
    expect(flat(blend([2, inner], [1, c]))).toEqual([["a", 1.5], ["b", 0.5], ["c", 1], 3]);
    expect(flat(blend([2, blend([-1, a], [3, b])], [1, c]))).toEqual([["a", -1], ["b", 3], ["c", 1], 3]);
  });

  it("sums the weights of a repeated tensor, and keeps different tensors of one source apart", () => {
    expect(flat(blend([1, a], [1, b], [2, a]))).toEqual([["a", 3], ["b", 1], 4]);
    expect(flat(even(even(a, b), even(a, c)))).toEqual([["a", 1], ["b", 0.5], ["c", 0.5], 2]);
    expect(flatten(even(leaf("a", "x"), leaf("a", "y"))).terms.map((term) => asLeaf(term).tensor)).toEqual(["x", "y"]);
    // A source and a tensor whose names run together the same way are still two.
    expect(flatten(even(leaf("a", "b c"), leaf("a b", "c"))).terms).toHaveLength(2);
  });

  it("drops terms of weight zero and terms that cancel out", () => {
    expect(flat(blend([0, a], [2, b], [1, c]))).toEqual([["b", 2], ["c", 1], 3]);
    expect(flat(blend([1, a], [-1, a], [1, b], [3, c]))).toEqual([["b", 1], ["c", 3], 4]);
    expect(flat(blend([0, even(a, b)], [5, c]))).toEqual([["c", 1], 1]);
  });

  it("rejects weights that sum to zero, nested too, and sums of only rounding error", () => {
    const message = "the weights of an average sum to zero";
    expect(() => flatten(blend([1, a], [-1, b]))).toThrow(message);
    expect(() => flatten(blend([0, a]))).toThrow(message);
    expect(() => flatten({ blend: [] })).toThrow(message);
    expect(() => flatten(blend([1, blend([1, a], [-1, b])], [1, c]))).toThrow(message);
    expect(() => flatten(blend([0.1, a], [0.2, b], [-0.3, c]))).toThrow(message);
  });

  it("uses the inverse of a measurement, and requires the measurement", () => {
    const value = blend([{ measured: "m", inverse: true }, a], [{ measured: "n", at: 1, inverse: true }, even(b, c)]);
    expect(
      flat(
        value,
        new Map([
          ["m", [0.25]],
          ["n", [7, 0.5]],
        ]),
      ),
    ).toEqual([["a", 4], ["b", 1], ["c", 1], 6]);
    expect(() => flatten(value, new Map([["m", [1]]]))).toThrow("measurement n has not been made");
    expect(measurementsOf(value)).toEqual(["m", "n"]);
    expect(leavesOf(even(value, a))).toEqual([a, b, c, a]);
  });

  it("adds sums up, inside averages and around them", () => {
    expect(flat(sum([1, a], [0.5, blend([3, b], [1, c])]))).toEqual([["a", 1], ["b", 0.375], ["c", 0.125], 1]);
    expect(flat(sum([2, a]))).toEqual([["a", 2], 1]);
    expect(flat(sum([1, sum([1, a])]))).toEqual([["a", 1], 1]);
    expect(flat(blend([1, sum([2, a], [1, b])], [1, c]))).toEqual([["a", 1], ["b", 0.5], ["c", 0.5], 1]);
    // Nothing is left of it, and yet it is zeros of a shape, and no error.
    expect(flat(sum([1, a], [-1, a]))).toEqual([["a", 0], 1]);
  });

  it("treats an operation as one term and merges equal operations", () => {
    expect(flat(sum([1, a], [0.5, subtract(b, a)], [0.25, subtract(b, a)]))).toEqual([["a", 1], ["subtract", 0.75], 1]);
    expect(flatten(sum([1, subtract(a, b)], [1, subtract(b, a)])).terms).toHaveLength(2);
    const select: Value = { op: "select", of: [a, sum([{ measured: "w" }, b])], mask: "m", axis: "rows", matrix: 1 };
    expect(measurementsOf(blend([1, select], [{ measured: "v" }, a]))).toEqual(["w", "m", "v"]);
    expect(leavesOf(select)).toEqual([a, b]);
  });

  it("equals the value of any tree", () => {
    const weight = fc.double({ min: 0.1, max: 10, noNaN: true });
    const { tree } = fc.letrec<{ tree: Value }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        fc.constantFrom("a", "b", "c", "d").map((name) => leaf(name)),
        fc.array(fc.tuple(weight, tie("tree")), { minLength: 1, maxLength: 4 }).map((terms) => blend(...terms)),
        fc.array(fc.tuple(weight, tie("tree")), { minLength: 1, maxLength: 3 }).map((terms) => sum(...terms)),
        fc.tuple(tie("tree"), tie("tree")).map((of) => subtract(...of)),
      ),
    }));
    const values: Record<string, number> = { a: 1, b: -20, c: 300, d: 0.5 };
    const evaluate = (value: Value): number => {
      if ("source" in value) return values[value.source] as number;
      if ("op" in value) return value.of.map(evaluate).reduce((total, x) => total - x);
      const terms = "blend" in value ? value.blend : value.sum;
      const total = terms.reduce((total, term) => total + (term.weight as number) * evaluate(term.value), 0);
      return "sum" in value ? total : total / terms.reduce((total, term) => total + (term.weight as number), 0);
    };
    fc.assert(
      fc.property(tree, (value) => {
        const { terms, divisor } = flatten(value);
        const evaluateTerm = (term: FlatTerm) => evaluate(isLeaf(term) ? term : term.operation);
        const found = terms.reduce((total, term) => total + term.weight * evaluateTerm(term), 0) / divisor;
        const wanted = evaluate(value);
        expect(Math.abs(found - wanted)).toBeLessThan(1e-9 * Math.max(1, Math.abs(wanted), 1e6));
        const sources = terms.filter(isLeaf).map((term) => asLeaf(term).source);
        expect(new Set(sources).size).toBe(sources.length);
      }),
    );
  });
});

describe("sumOfWeights", () => {
  it("is the sum, or 0 for rounding error", () => {
    expect(sumOfWeights([0.5, 0.25])).toBe(0.75);
    expect(sumOfWeights([1e9, -1e9, 1e-2])).toBe(1e-2);
    expect(sumOfWeights([0.1, 0.2, -0.3])).toBe(0);
    expect(sumOfWeights([0.1, 0.2, -0.2999999999])).toBeGreaterThan(0);
    expect(sumOfWeights([])).toBe(0);
  });
});
