// Sizes as polynomials: texts are equal exactly where the polynomials are, and numbers come out as they should.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { resolveDim } from "../../../test/support/graph-reference.js";
import { addDims, type Dim, isDim, multiplyDims, sameDims, sizeOf, subtractDims, symbolsOf, termsOf } from "./dim.js";

/** An expression, as it is computed with sizes and, independently, with whole numbers of any length. */
interface Expression {
  readonly dim: Dim;
  of(symbols: Readonly<Record<string, bigint>>): bigint;
}

const NAMES = ["batch", "time", "past", "_x2"];

const expressions = fc.letrec<{ any: Expression; leaf: Expression; sum: Expression; product: Expression }>((tie) => ({
  any: fc.oneof({ maxDepth: 3, withCrossShrink: true }, tie("leaf"), tie("sum"), tie("product")),
  leaf: fc.oneof(
    fc.nat(3).map((value): Expression => ({ dim: value, of: () => BigInt(value) })),
    fc.constantFrom(...NAMES).map((name): Expression => ({ dim: name, of: (symbols) => symbols[name] as bigint })),
  ),
  sum: fc
    .tuple(tie("any"), tie("any"))
    .map(([a, b]) => ({ dim: addDims(a.dim, b.dim), of: (symbols) => a.of(symbols) + b.of(symbols) })),
  product: fc
    .tuple(tie("any"), tie("any"))
    .map(([a, b]) => ({ dim: multiplyDims(a.dim, b.dim), of: (symbols) => a.of(symbols) * b.of(symbols) })),
})).any;

// A polynomial is told by its value where each symbol is a power of a number above all factors, so high that powers of
// different symbols never meet (Kronecker's substitution). Factors stay below 2^40 here, and degrees below 16.
const APART = Object.fromEntries(NAMES.map((name, i) => [name, 2n ** (40n * 16n ** BigInt(i))]));

it("a size is the same text exactly if it is the same polynomial", () => {
  const property = fc.property(expressions, expressions, expressions, (a, b, c) => {
    expect(a.dim === b.dim).toBe(a.of(APART) === b.of(APART));
    expect(addDims(a.dim, c.dim) === addDims(b.dim, c.dim)).toBe(a.dim === b.dim);
  });
  fc.assert(property, { numRuns: 100 });
});

it("sums and products commute, associate and distribute, to the letter", () => {
  const property = fc.property(expressions, expressions, expressions, ({ dim: a }, { dim: b }, { dim: c }) => {
    expect(addDims(a, b)).toBe(addDims(b, a));
    expect(multiplyDims(a, b)).toBe(multiplyDims(b, a));
    expect(addDims(addDims(a, b), c)).toBe(addDims(a, addDims(b, c)));
    expect(addDims(a, b, c)).toBe(addDims(addDims(a, b), c));
    expect(multiplyDims(multiplyDims(a, b), c)).toBe(multiplyDims(a, b, c));
    expect(multiplyDims(a, addDims(b, c))).toBe(addDims(multiplyDims(a, b), multiplyDims(a, c)));
    expect([addDims(a, 0), multiplyDims(a, 1), multiplyDims(a, 0)]).toEqual([a, a, 0]);
    expect([addDims(a), multiplyDims(a)]).toEqual([a, a]); // written already as it is to be
    expect(sizeOf([a, b, c])).toBe(multiplyDims(c, b, a));
  });
  fc.assert(property, { numRuns: 60 });
});

it("resolves to the number of the expression, and its terms are those of the polynomial", () => {
  const numbers = fc.record(Object.fromEntries(NAMES.map((name) => [name, fc.nat(4)])));
  const property = fc.property(expressions, numbers, ({ dim, of }, symbols) => {
    const values = new Map(Object.entries(symbols) as [string, number][]);
    const expected = Number(of(Object.fromEntries([...values].map(([name, value]) => [name, BigInt(value)]))));
    expect(resolveDim(dim, values)).toBe(expected);
    expect(isDim(dim)).toBe(true);
    const terms = termsOf(dim).map(({ factor, symbols: names }) => multiplyDims(factor, ...names));
    expect(addDims(...terms)).toBe(dim);
    expect(symbolsOf(dim).sort()).toEqual([...new Set(termsOf(dim).flatMap((term) => term.symbols))].sort());
  });
  fc.assert(property, { numRuns: 100 });
});

it("is subtracted where nothing can become negative", () => {
  const property = fc.property(expressions, expressions, ({ dim: a }, { dim: b }) => {
    expect(subtractDims(addDims(a, b), b)).toBe(a);
    const rest = subtractDims(a, b);
    if (rest !== undefined) expect(addDims(rest, b)).toBe(a);
    if (a !== b && rest !== undefined) expect(subtractDims(b, a)).toBe(undefined);
  });
  fc.assert(property, { numRuns: 60 });
  expect(subtractDims("2*time", "time")).toBe("time");
  expect(subtractDims("past+time", "batch")).toBe(undefined);
  expect(subtractDims(2, 3)).toBe(undefined);
  expect(subtractDims("3+time", 2)).toBe("1+time");
});

describe("texts", () => {
  it("are written in one way", () => {
    expect(multiplyDims("time", 2, "batch", 3)).toBe("6*batch*time");
    expect(addDims("time", "past", 4, "time")).toBe("4+past+2*time");
    expect(multiplyDims("2*a+b", "a+1")).toBe("2*a+2*a*a+a*b+b");
    expect([addDims(), multiplyDims(), addDims("3"), addDims("2*3+1")]).toEqual([0, 1, 3, 7]);
    expect(addDims("time*batch*2+0*past")).toBe("2*batch*time");
  });

  it("are sizes, or not", () => {
    expect([0, 7, "time", "2*time", "a+b*c+3", "past.1"].every(isDim)).toBe(true);
    expect(
      [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, "", "-1", "a-b", "a b", "a+", "*a"].some(isDim),
    ).toBe(false);
  });

  it("cannot be resolved without their symbols", () => {
    expect(() => resolveDim("2*past+time", new Map([["time", 3]]))).toThrow(
      new RangeError("the size past is not known"),
    );
  });

  it("make the same shape, or not", () => {
    expect(sameDims([1, "a"], [1, "a"])).toBe(true);
    expect([sameDims([1, "a"], [1]), sameDims(["a"], [1]), sameDims([], [1])]).toEqual([false, false, false]);
  });
});
