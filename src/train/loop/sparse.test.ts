// Masks and masked steps against plain references.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Optimizer } from "./optimizer.js";
import { keptOf, largestMasks, type Mask, maskBytes, zeroOutside } from "./sparse.js";

const isIn = (mask: Mask, i: number) => (((mask[i >> 3] ?? 0) >> (i & 7)) & 1) === 1;
const maskOf = (bits: readonly boolean[]): Mask => {
  const mask = new Uint8Array(maskBytes(bits.length));
  for (const [i, bit] of bits.entries()) if (bit) mask[i >> 3] = (mask[i >> 3] ?? 0) | (1 << (i & 7));
  return mask;
};

const value = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(0, -0, 1, -1, 2 ** -149, 2 ** -130, 0.5, Math.fround(0.1)),
);

describe("masks of the largest magnitudes", () => {
  it("are those of a sort, ties in order", () => {
    const lists = fc.array(fc.array(value, { maxLength: 40 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(lists, fc.double({ min: 0, max: 1, noNaN: true }), (arrays, share) => {
        const all = arrays.flatMap((list, a) => list.map((x, i) => ({ a, i, size: Math.abs(x) })));
        const count = Math.round(share * all.length);
        const wanted = new Set(
          all
            .toSorted((one, other) => other.size - one.size || one.a - other.a || one.i - other.i)
            .slice(0, count)
            .map(({ a, i }) => `${a} ${i}`),
        );
        const masks = largestMasks(new Map(arrays.map((list, a) => [String(a), Float32Array.from(list)])), count);
        for (const { a, i } of all) {
          expect(isIn(masks.get(String(a)) as Mask, i)).toBe(wanted.has(`${a} ${i}`));
        }
      }),
    );
  });

  it("take one bit for a weight", () => {
    const masks = largestMasks(new Map([["w", new Float32Array(17).fill(1)]]), 5);
    expect([...(masks.get("w") as Mask)]).toEqual([0b11111, 0, 0]);
    const parameter = { name: "w", shape: [17], weights: new Float32Array(17) };
    expect(keptOf(masks, new Map([["w", parameter as never]]))).toEqual({ kept: 5, of: 17 });
  });
});

describe("masked steps", () => {
  const settings = { betas: [0.9, 0.99], eps: 1e-8, decay: 0.1, decay_all: true, clip: 0.5 } as const;

  it("change the weights of the mask as AdamW does on these alone, and no other bit", () => {
    const random = (n: number, seed: number) =>
      Float32Array.from({ length: n }, (_, i) => Math.sin(seed + 12.9898 * i));
    const N = 70_003; // more than one block
    const bits = Array.from({ length: N }, (_, i) => i % 3 === 0 || (i > 900 && i < 2000));
    const places = bits.flatMap((bit, i) => (bit ? [i] : []));
    const pick = (array: Float32Array) => Float32Array.from(places, (i) => array[i] ?? 0);
    const masked = new Optimizer([{ name: "w", shape: [N] }], settings);
    const alone = new Optimizer([{ name: "w", shape: [places.length] }], settings);
    const [all, few] = [masked, alone].map(({ parameters }) => parameters.get("w"));
    if (!all || !few) throw new Error("no parameter");
    const start = random(N, 1);
    all.weights.set(start);
    few.weights.set(pick(start));
    const masks = new Map([["w", maskOf(bits)]]);
    for (let step = 0; step < 3; step++) {
      const gradient = random(N, 7 + step);
      masked.accumulate("w", gradient);
      alone.accumulate("w", pick(gradient));
      const [ours, theirs] = [masked.step({ learningRate: 0.01, masks }), alone.step({ learningRate: 0.01 })];
      // The order of the sums differs, as zeros lie between.
      expect(ours.gradientNorm).toBeCloseTo(theirs.gradientNorm, 6);
    }
    for (const [j, i] of places.entries()) expect(all.weights[i]).toBeCloseTo(few.weights[j] ?? Number.NaN, 6);
    const others = bits.flatMap((bit, i) => (bit ? [] : [i]));
    expect(others.every((i) => Object.is(all.weights[i], start[i]))).toBe(true);
    expect(places.some((i) => all.weights[i] === start[i])).toBe(false);
  });

  it("of a full mask are the steps of AdamW, bit for bit", () => {
    const [masked, plain] = [0, 1].map(() => new Optimizer([{ name: "w", shape: [100] }], settings));
    if (!masked || !plain) throw new Error("no optimizer");
    const masks = new Map([["w", maskOf(Array.from({ length: 100 }, () => true))]]);
    for (const optimizer of [masked, plain]) {
      optimizer.parameters.get("w")?.weights.set(Float32Array.from({ length: 100 }, (_, i) => Math.cos(i)));
      for (let step = 0; step < 2; step++) {
        optimizer.accumulate(
          "w",
          Float32Array.from({ length: 100 }, (_, i) => Math.sin(i + step)),
        );
        optimizer.step({ learningRate: 0.1, ...(optimizer === masked ? { masks } : {}) });
      }
    }
    expect([...(masked.parameters.get("w")?.weights ?? [])]).toEqual([...(plain.parameters.get("w")?.weights ?? [])]);
  });

  it("zero a gradient outside", () => {
    const values = Float32Array.from({ length: 19 }, (_, i) => i + 1);
    zeroOutside(values, maskOf(Array.from({ length: 19 }, (_, i) => i < 8 || i === 17)));
    expect([...values]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, ...Array.from({ length: 9 }, () => 0), 18, 0]);
  });
});
