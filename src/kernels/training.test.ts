// Training kernels, bit for bit against plain references for any array memory, and AdamW against PyTorch's steps.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sumSquares } from "../../test/support/plain-kernels.js";
import { adamw, add } from "../../test/support/plain-training.js";
import * as plain from "./adamw.js";
import { TrainingKernels } from "./training.js";

interface FixtureStep {
  gradient: number[];
  norm: number;
  weights: number[];
  first: number[];
  second: number[];
}

interface FixtureCase {
  lr: number;
  betas: [number, number];
  eps: number;
  decay: number;
  clip: number;
  start: number[];
  steps: FixtureStep[];
}

const fixture = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../test/fixtures/train/adamw.json"), "utf8"),
) as FixtureCase[];

const RUNS = { numRuns: 100 };
const anything = fc.oneof(
  fc.float({ noNaN: true }),
  fc.constantFrom(0, -0, Infinity, -Infinity, 2 ** -149, -(2 ** -140), 1e-8, 1).map(Math.fround),
);
const lengths = fc.oneof(fc.integer({ min: 0, max: 41 }), fc.constantFrom(64, 127, 129));
const listOf = (n: number) => fc.array(anything, { minLength: n, maxLength: n }).map((list) => Float32Array.from(list));
const lists = (count: number) => lengths.chain((n) => fc.tuple(...Array.from({ length: count }, () => listOf(n))));
/** Whether each of four arrays is in the kernels' memory. */
const homes = fc.tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.boolean());
const settings = fc.record({
  learningRate: fc.constantFrom(0, 2e-8, 1e-3, 1),
  beta1: fc.double({ min: 0, max: 0.999, noNaN: true }),
  beta2: fc.double({ min: 0, max: 0.9999, noNaN: true }),
  epsilon: fc.constantFrom(1e-8, 1e-3),
  decay: fc.constantFrom(0, 0.1),
  step: fc.integer({ min: 1, max: 100_000 }),
  scale: fc.constantFrom(1, 0.3, 1 / 4096),
});

/** Bit patterns; NaN is one, whose payload WebAssembly leaves to the machine. */
function bitsOf(values: Float32Array): number[] {
  const patterns = new Uint32Array(values.slice().buffer);
  return Array.from(patterns, (pattern, i) => (Number.isNaN(values[i]) ? 0x7fc00000 : pattern));
}

/** Memory whose neighbours of each array must stay as they are. */
class Guarded {
  readonly kernels = new TrainingKernels({ bytes: 1 << 16 });
  readonly #guards: Float32Array[] = [];

  place(values: Float32Array, isHere: boolean): Float32Array {
    const spare = 16;
    const room = isHere ? this.kernels.array(values.length + spare) : new Float32Array(values.length + spare);
    expect(this.kernels.holds(room)).toBe(isHere);
    room.fill(7);
    room.set(values);
    this.#guards.push(room.subarray(values.length));
    return room.subarray(0, values.length);
  }

  check(): void {
    for (const guard of this.#guards) expect(new Set(guard)).toEqual(new Set([7]));
  }
}

function copies(arrays: readonly Float32Array[]): plain.AdamWArrays {
  const [weights, gradient, first, second] = arrays.map((array) => array.slice()) as [
    Float32Array,
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  return { weights, gradient, first, second };
}

describe("the kernel equals the plain reference, bit for bit:", () => {
  test("adamw", () => {
    fc.assert(
      fc.property(lists(4), homes, settings, (arrays, here, options) => {
        const memory = new Guarded();
        const [weights, gradient, first, second] = arrays.map((a, i) => memory.place(a, here[i] ?? false));
        if (!weights || !gradient || !first || !second) throw new Error("four arrays");
        const wanted = copies(arrays);
        adamw(wanted, plain.adamwCoefficients(options));
        memory.kernels.adamw({ weights, gradient, first, second }, options);
        expect(bitsOf(weights)).toEqual(bitsOf(wanted.weights));
        expect(bitsOf(first)).toEqual(bitsOf(wanted.first));
        expect(bitsOf(second)).toEqual(bitsOf(wanted.second));
        expect(bitsOf(gradient)).toEqual(bitsOf(wanted.gradient));
        memory.check();
      }),
      RUNS,
    );
  });

  test("add", () => {
    fc.assert(
      fc.property(lists(2), homes, ([a, b], here) => {
        if (!a || !b) throw new Error("two arrays");
        const memory = new Guarded();
        const to = memory.place(a, here[0]);
        memory.kernels.add(to, memory.place(b, here[1]));
        add(a, b);
        expect(bitsOf(to)).toEqual(bitsOf(a));
        memory.check();
      }),
      RUNS,
    );
  });

  test("sum of squares", () => {
    fc.assert(
      fc.property(lists(1), homes, ([a], [isHere]) => {
        if (!a) throw new Error("an array");
        const memory = new Guarded();
        expect(memory.kernels.sumSquares(memory.place(a, isHere))).toBe(sumSquares(a));
      }),
      RUNS,
    );
  });

  test("over several blocks, without effect on results", () => {
    const n = 2 * plain.SUM_BLOCK + 13;
    const kernels = new TrainingKernels({ bytes: TrainingKernels.bytesFor([n, n]) });
    const values = Float32Array.from({ length: n }, (_, i) => Math.fround(Math.sin(i) * 10 ** ((i % 7) - 3)));
    const inside = kernels.array(n);
    inside.set(values);
    expect(kernels.sumSquares(inside)).toBe(sumSquares(values));
    expect(kernels.sumSquares(values)).toBe(sumSquares(values));
    const exactSum = values.reduce((sum, x) => sum + x * x, 0);
    expect(sumSquares(values) / exactSum).toBeCloseTo(1, 12);
    const outside = values.slice();
    kernels.add(inside, values);
    kernels.add(outside, values);
    expect(bitsOf(inside)).toEqual(bitsOf(outside));
    expect(outside[n - 1]).toBe(2 * (values[n - 1] ?? 0));
  });
});

describe("AdamW of PyTorch", () => {
  test.each(fixture.map((one, i) => [i, one] as const))("five steps of case %i", (_, { betas, steps, ...one }) => {
    const n = one.start.length;
    const kernels = new TrainingKernels({ bytes: TrainingKernels.bytesFor([n]) });
    const weights = kernels.array(n);
    weights.set(one.start);
    const [first, second] = [new Float32Array(n), new Float32Array(n)];
    steps.forEach((wanted, i) => {
      const gradient = Float32Array.from(wanted.gradient);
      const norm = Math.sqrt(kernels.sumSquares(gradient));
      expect(norm / wanted.norm).toBeCloseTo(1, 6);
      kernels.adamw(
        { weights, gradient, first, second },
        {
          ...{ learningRate: one.lr, beta1: betas[0], beta2: betas[1], epsilon: one.eps, decay: one.decay },
          ...{ step: i + 1, scale: Math.min(1, one.clip / (norm + 1e-6)) },
        },
      );
      // PyTorch rounds some products and sums at once (FMA). Weights that a large step brings close to zero show it most.
      expect(spacingsApart(weights, wanted.weights)).toBeLessThanOrEqual(one.lr < 0.1 ? 1 : 20);
      expectClose(first, wanted.first);
      expectClose(second, wanted.second);
    });
    const moved = weights.reduce((most, w, i) => Math.max(most, Math.abs(w - (one.start[i] ?? 0))), 0);
    expect(moved).toBeGreaterThan(2 * one.lr);
  });
});

/** Equal but for a few roundings at the scale of the largest element. */
function expectClose(found: Float32Array, wanted: readonly number[]): void {
  const scale = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  found.forEach((x, i) => {
    expect(Math.abs(x - (wanted[i] ?? Number.NaN)), `element ${i}`).toBeLessThanOrEqual(2 ** -20 * scale);
  });
}

/** Number of float32 values between the two elements that are furthest apart. */
function spacingsApart(found: Float32Array, wanted: readonly number[]): number {
  const bits = new Int32Array(found.slice().buffer);
  const others = new Int32Array(Float32Array.from(wanted).buffer);
  return bits.reduce((most, pattern, i) => Math.max(most, Math.abs(pattern - (others[i] ?? 0))), 0);
}

describe("memory", () => {
  test("arrays beyond the memory are ordinary ones; those in it never move", () => {
    const kernels = new TrainingKernels({ bytes: TrainingKernels.bytesFor([100, 3]) });
    const page = 65_536; // memory comes in whole pages
    const arrays = [kernels.array(100), kernels.array(3), kernels.array(page)] as const;
    expect(arrays.map((array) => kernels.holds(array))).toEqual([true, true, false]);
    expect(arrays.map((array) => array.length)).toEqual([100, 3, page]);
    arrays[1].fill(1);
    expect(kernels.sumSquares(arrays[0])).toBe(0);
    expect(kernels.sumSquares(arrays[1])).toBe(3);
    expect(() => kernels.add(arrays[0], arrays[1])).toThrow("differ in length");
  });

  test("addresses above 2 GiB", () => {
    const half = 2 ** 29; // elements, 2 GiB; pages that nobody touches take no memory
    const kernels = new TrainingKernels({ bytes: TrainingKernels.bytesFor([half, 20, 20]) });
    kernels.array(half);
    const [a, b] = [kernels.array(20).fill(2), kernels.array(20).fill(3)];
    expect([a, b].map((array) => array.byteOffset > 2 ** 31 && kernels.holds(array))).toEqual([true, true]);
    kernels.add(a, b);
    expect([...a]).toEqual(Array(20).fill(5));
    expect(kernels.sumSquares(a)).toBe(500);
  });

  test("groups share a memory while it has room for all of their arrays", () => {
    const groups = [[100, 100], [50], [200, 200], [9000], [20]];
    const kernels = TrainingKernels.forGroups(groups, 2048);
    const arrays = groups.map((lengths, i) => lengths.map((length) => kernels[i]?.array(length) as Float32Array));
    expect(arrays.flatMap((list, i) => list.map((array) => kernels[i]?.holds(array)))).toEqual(Array(7).fill(true));
    expect(new Set(kernels.slice(0, 2)).size).toBe(1);
    expect(new Set(kernels).size).toBe(4);
    const [a, b] = arrays[0] as [Float32Array, Float32Array];
    kernels[0]?.add(a.fill(1), b.fill(2));
    expect(new Set(a)).toEqual(new Set([3]));
    expect(
      arrays
        .slice(1)
        .flat()
        .map((array) => new Set(array)),
    ).toEqual(Array(5).fill(new Set([0])));
    expect(TrainingKernels.forGroups([])).toEqual([]);
  });

  test("rows are added at their ids, which may repeat", () => {
    const dense = Float32Array.of(1, 1, 1, 1, 1, 1);
    plain.addRows(dense, [2, 0, 2], Float32Array.of(1, 2, 3, 4, 5, 6), 2);
    expect([...dense]).toEqual([4, 5, 1, 1, 7, 9]);
    expect(() => plain.addRows(dense, [3], Float32Array.of(1, 2), 2)).toThrow("there is no row 3");
    expect(() => plain.addRows(dense, [-1], Float32Array.of(1, 2), 2)).toThrow("there is no row -1");
  });
});
