// CKA against the definition of HSIC's unbiased estimator, a sum over distinct indices, and its invariances.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Random } from "../kit/index.js";
import { cka, gramOf } from "./alignment.js";

const draw = (seed: number, n: number, width: number) => {
  const random = Random.of(seed, "states");
  return Array.from({ length: n }, () => Float64Array.from({ length: width }, () => random.normal()));
};
const ofStates = (x: readonly Float64Array[], y: readonly Float64Array[]) =>
  cka(gramOf(x, 0, 1), gramOf(y, 0, 1), x.length);

/** Song et al. 2012, equation 4: sums over pairwise different indices, of Gram matrices that are not centered. */
function hsicBySums(x: readonly Float64Array[], y: readonly Float64Array[]): number {
  const n = x.length;
  const gram = (rows: readonly Float64Array[], i: number, j: number) =>
    (rows[i] as Float64Array).reduce((sum, value, k) => sum + value * (rows[j]?.[k] as number), 0);
  let [two, three, four] = [0, 0, 0];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      two += gram(x, i, j) * gram(y, i, j);
      for (let q = 0; q < n; q++) {
        if (q === i || q === j) continue;
        three += gram(x, i, j) * gram(y, i, q);
        for (let r = 0; r < n; r++) if (r !== i && r !== j && r !== q) four += gram(x, i, j) * gram(y, q, r);
      }
    }
  }
  const [a, b, c] = [n * (n - 1), n * (n - 1) * (n - 2), n * (n - 1) * (n - 2) * (n - 3)];
  return two / a + four / c - (2 * three) / b;
}

describe("CKA", () => {
  it("is that of the unbiased estimator, term by term", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e6 }), fc.integer({ min: 4, max: 8 }), (seed, n) => {
        const x = draw(seed, n, 5);
        // Shared in part, so that it is not about 0.
        const y = draw(seed + 1, n, 3).map((row, i) => row.map((value, k) => value + 2 * (x[i]?.[k] as number)));
        const size = hsicBySums(x, x) * hsicBySums(y, y);
        fc.pre(size > 1e-3);
        expect(ofStates(x, y)).toBeCloseTo(hsicBySums(x, y) / Math.sqrt(size), 9);
      }),
    );
  });

  it("is 1 of equal states, whatever their scale and origin, and about 0 of unrelated ones", () => {
    const x = draw(1, 200, 50);
    expect(
      ofStates(
        x,
        x.map((row) => row.map((value) => 3 * value - 7)),
      ),
    ).toBeCloseTo(1, 12);
    expect(Math.abs(ofStates(x, draw(2, 200, 50)) ?? 1)).toBeLessThan(0.05);
    expect(
      ofStates(
        x,
        x.map(() => new Float64Array(50)),
      ),
    ).toBe(null);
  });
});
