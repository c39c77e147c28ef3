// Kernels of merge methods, bit for bit against plain references on special values, and tests of their random numbers.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import * as plain from "../../test/support/plain-operations.js";
import { Random } from "../kit/index.js";
import { Kernels } from "./kernels.js";

const f = Math.fround;
const RUNS = { numRuns: 150 };

function ofBits(pattern: number): number {
  return new Float32Array(Uint32Array.of(pattern).buffer)[0] as number;
}

/** Any float32, with many special values and small numbers that make ties. */
const anything = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }).map(ofBits),
  fc.constantFrom(0, -0, 1, -1, Infinity, -Infinity, Number.NaN, ofBits(1), ofBits(0x807fffff), ofBits(0x00800000)),
  fc.constantFrom(ofBits(0x7f7fffff), ofBits(0xff7fffff), ofBits(0xffc01234), ofBits(0x3f800001), 0.1, -0.1),
  fc.integer({ min: -4, max: 4 }).map((x) => x / 2),
);
/** Lengths beside the multiples of 4 and 8 that the kernels step by. */
const lengths = fc.oneof(fc.integer({ min: 1, max: 41 }), fc.constantFrom(8, 16, 64, 127, 129));
const numbers = anything.map(f);
const listOf = (n: number) => fc.array(numbers, { minLength: n, maxLength: n }).map((list) => Float32Array.from(list));
const lists = (count: number) => lengths.chain((n) => fc.tuple(...Array.from({ length: count }, () => listOf(n))));
const seeds = fc.tuple(fc.integer(), fc.integer());
/** Of elements of a tensor; beyond 2^31 they wrap in WebAssembly. */
const indices = fc.oneof(
  fc.nat({ max: 1000 }),
  fc.nat({ max: 2 ** 31 - 1 }),
  fc.constantFrom(2 ** 31 - 5, 2 ** 32 - 7),
);

const GUARD = 0x5a5a5a5a;

/** Buffers in a fresh memory, each followed by one that no kernel may touch. */
class Memory {
  readonly kernels = new Kernels();
  readonly #guards: number[] = [];

  put(values: Float32Array): number {
    const address = this.allocate(values.byteLength);
    this.kernels.floats(address, values.length).set(values);
    this.kernels.clearPadding(address, values.byteLength);
    return address;
  }

  allocate(bytes: number): number {
    const address = this.kernels.allocate(bytes);
    const guard = this.kernels.allocate(4);
    this.kernels.counters(guard, 8).fill(GUARD);
    this.#guards.push(guard);
    return address;
  }

  /** Addresses for kernels over many buffers. */
  table(addresses: readonly number[]): number {
    const table = this.allocate(addresses.length * 4);
    this.kernels.counters(table, addresses.length).set(addresses);
    return table;
  }

  /** Expects these values bit for bit, except for NaN payloads, which WebAssembly leaves to the machine. */
  expect(address: number, wanted: Float32Array): void {
    expect(bitsOf(this.kernels.floats(address, wanted.length))).toEqual(bitsOf(wanted));
    for (const guard of this.#guards) expect([...this.kernels.counters(guard, 8)]).toEqual(Array(8).fill(GUARD));
  }
}

function bitsOf(values: Float32Array): number[] {
  const patterns = new Uint32Array(values.slice().buffer);
  return Array.from(patterns, (pattern, i) => (Number.isNaN(values[i]) ? 0x7fc00000 : pattern));
}

describe("the kernel equals the plain reference, bit for bit:", () => {
  test("subtract", () => {
    fc.assert(
      fc.property(lists(2), ([a, b]) => {
        const memory = new Memory();
        const [pa, pb] = [memory.put(a as Float32Array), memory.put(b as Float32Array)];
        memory.kernels.wasm.subtract(pa, pb, (a as Float32Array).length);
        plain.subtract(a as Float32Array, b as Float32Array);
        memory.expect(pa, a as Float32Array);
        memory.expect(pb, b as Float32Array);
      }),
      RUNS,
    );
  });

  test("trimBy, by the values or by others, with values that equal the bounds", () => {
    const cases = lists(2).chain(([a, by]) =>
      fc.record({
        ...{ a: fc.constant(a as Float32Array), by: fc.constant(by as Float32Array), itself: fc.boolean() },
        low: fc.oneof(fc.constantFrom(0, Infinity), fc.constantFrom(...(by as Float32Array)).map(Math.abs), numbers),
        high: fc.oneof(
          fc.constantFrom(Infinity, Number.MAX_VALUE),
          fc.constantFrom(...(by as Float32Array)).map(Math.abs),
          numbers,
        ),
      }),
    );
    fc.assert(
      fc.property(cases, ({ a, by, itself, low, high }) => {
        const memory = new Memory();
        const pa = memory.put(a);
        const pby = itself ? pa : memory.put(by);
        memory.kernels.wasm.trimBy(pa, pby, a.length, low, high);
        plain.trimBy(a, itself ? a.slice() : by, low, f(high));
        memory.expect(pa, a);
      }),
      RUNS,
    );
  });

  test("drop", () => {
    const bound = fc.oneof(fc.integer({ min: 0, max: 0xffffffff }), fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1));
    fc.assert(
      fc.property(lists(1), indices, seeds, bound, numbers, ([a], index, seed, most, scale) => {
        const values = a as Float32Array;
        const memory = new Memory();
        const at = memory.put(values);
        memory.kernels.wasm.drop(at, values.length, index, ...seed, most, scale);
        plain.drop(values, index, seed[0], seed[1], most, scale);
        memory.expect(at, values);
      }),
      RUNS,
    );
  });

  test("drop's random number: kept from the bound just above it on", () => {
    fc.assert(
      fc.property(indices, seeds, (index, seed) => {
        const drawn = plain.uniform(index, ...seed);
        const memory = new Memory();
        const kept = (bound: number) => {
          const at = memory.put(Float32Array.of(1));
          memory.kernels.wasm.drop(at, 1, index, ...seed, bound, 1);
          return memory.kernels.floats(at, 1)[0];
        };
        expect([kept(drawn), drawn < 2 ** 32 - 1 ? kept(drawn + 1) : 1]).toEqual([0, 1]);
      }),
      RUNS,
    );
  });

  test("consensus, with ties, negative and zero weights", () => {
    const cases = fc.integer({ min: 1, max: 5 }).chain((count) =>
      fc.record({
        arrays: lists(count),
        weights: fc.array(fc.oneof(fc.constantFrom(1, 1, -1, 0, 0.5, -2), numbers), {
          ...{ minLength: count, maxLength: count },
        }),
        tie: fc.constantFrom(1, -1, 0, -0),
        weighted: fc.boolean(),
        normalize: fc.boolean(),
      }),
    );
    fc.assert(
      fc.property(cases, ({ arrays, weights, tie, weighted, normalize }) => {
        const memory = new Memory();
        const [first = new Float32Array(), ...others] = arrays;
        const addresses = arrays.map((array) => memory.put(array));
        const at = memory.put(Float32Array.from(weights));
        const table = memory.table(addresses);
        memory.kernels.wasm.electSigns(table, at, arrays.length, first.length, tie, weighted, normalize);
        plain.electSigns(arrays, weights.map(f), tie, weighted, normalize);
        memory.expect(addresses[0] ?? 0, first);
        others.forEach((other, i) => {
          memory.expect(addresses[i + 1] ?? 0, other);
        });
      }),
      { numRuns: 1000 },
    );
  });

  test("variance", () => {
    const cases = fc.integer({ min: 1, max: 5 }).chain(lists);
    fc.assert(
      fc.property(cases, (arrays) => {
        const memory = new Memory();
        const [first = new Float32Array()] = arrays;
        const addresses = arrays.map((array) => memory.put(array));
        memory.kernels.wasm.variance(memory.table(addresses), arrays.length, first.length);
        plain.variance(arrays);
        memory.expect(addresses[0] ?? 0, first);
      }),
      RUNS,
    );
  });

  test("equal variances stay equal in any order of the values", () => {
    // In float32 the means of these round differently.
    const arrays = [
      [0.1, 0.3, 0.7],
      [0.3, 0.7, 0.1],
      [0.7, 0.1, 0.3],
    ].map((values) => Float32Array.from(values));
    const memory = new Memory();
    const addresses = arrays.map((array) => memory.put(array));
    memory.kernels.wasm.variance(memory.table(addresses), 3, 3);
    const [a = 0, b = 0, c = 0] = [0.1, 0.3, 0.7].map(f);
    const mean = (a + b + c) / 3;
    const wanted = ((a - mean) ** 2 + (b - mean) ** 2 + (c - mean) ** 2) / 3;
    memory.expect(addresses[0] ?? 0, Float32Array.of(wanted, wanted, wanted));
  });

  test("approach, with distances that equal the step", () => {
    const step = fc.oneof(numbers.map(Math.abs), fc.constantFrom(0, 0.5, 1, Infinity)).filter((x) => !Number.isNaN(x));
    fc.assert(
      fc.property(lists(2), step, ([x, y], most) => {
        const [a, b] = [x as Float32Array, y as Float32Array];
        const memory = new Memory();
        const [pa, pb] = [memory.put(a), memory.put(b)];
        memory.kernels.wasm.approach(pa, pb, a.length, most);
        plain.approach(a, b, most);
        memory.expect(pa, a);
      }),
      { numRuns: 600 },
    );
  });

  test("selectColumns", () => {
    const cases = fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 21 })).chain(([rows, columns]) =>
      fc.record({
        ...{ rows: fc.constant(rows), a: listOf(rows * columns), b: listOf(rows * columns) },
        mask: fc.array(fc.boolean(), { minLength: columns, maxLength: columns }),
      }),
    );
    fc.assert(
      fc.property(cases, ({ rows, a, b, mask }) => {
        const memory = new Memory();
        const [pa, pb, at] = [memory.put(a), memory.put(b), memory.allocate(mask.length * 4)];
        const marks = Int32Array.from(mask, (marked) => (marked ? -1 : 0));
        memory.kernels.integers(at, mask.length).set(marks);
        memory.kernels.wasm.selectColumns(pa, pb, rows, mask.length, at);
        plain.selectColumns(a, b, marks);
        memory.expect(pa, a);
      }),
      RUNS,
    );
  });

  test("countKeys, added to earlier counts, and takeCounts", () => {
    const ranges = fc.record({
      shift: fc.integer({ min: 0, max: 16 }),
      bins: fc.integer({ min: 0, max: 70 }),
      pick: fc.nat(),
      before: fc.nat({ max: 99 }),
    });
    fc.assert(
      fc.property(lists(1), fc.oneof(ranges, fc.constant("all")), ([a], range) => {
        const values = a as Float32Array;
        const memory = new Memory();
        const address = memory.put(values);
        // By the stored bits: a NaN may have changed its payload.
        const stored = memory.kernels.floats(address, values.length).slice();
        const patterns = new Uint32Array(stored.buffer);
        const { shift, bins, pick, before } =
          range === "all" ? { shift: 24, bins: 2 ** 7, pick: 0, before: 2 ** 31 } : range;
        const from = Math.max(0, ((patterns[pick % patterns.length] as number) & 0x7fffffff) - before);
        const counters = 1 + bins * (shift > 0 ? 2 : 1);
        const counts = memory.allocate(counters * 4);
        const wanted = new Uint32Array(counters);
        for (let twice = 0; twice < 2; twice++) {
          memory.kernels.wasm.countKeys(address, stored.length, from, shift, bins, counts);
          plain.countKeys(stored, from, shift, wanted);
        }
        memory.expect(counts, new Float32Array(wanted.buffer));
        const pairs = memory.allocate(counters * 8);
        const found = memory.kernels.wasm.takeCounts(counts, counters, pairs);
        const expected = [...wanted.entries()].filter(([, count]) => count > 0).flat();
        expect([...memory.kernels.counters(pairs, 2 * found)]).toEqual(expected);
        expect(memory.kernels.counters(counts, counters).every((count) => count === 0)).toBe(true);
        if (range === "all")
          expect(expected.filter((_, i) => i % 2 === 1).reduce((x, y) => x + y)).toBe(2 * values.length);
      }),
      { numRuns: 200 },
    );
  });

  test("countSigns, added to earlier counts", () => {
    fc.assert(
      fc.property(lists(1), ([a]) => {
        const values = a as Float32Array;
        const memory = new Memory();
        const [at, totals] = [memory.put(values), memory.allocate(16)];
        memory.kernels.doubles(totals, 2).set([10, 20]);
        memory.kernels.wasm.countSigns(at, values.length, totals);
        const [positive, negative] = plain.countSigns(values);
        expect([...memory.kernels.doubles(totals, 2)]).toEqual([10 + positive, 20 + negative]);
      }),
      RUNS,
    );
  });

  /** The same row twice, of which the second has indices that follow. */
  const dropRows = (values: Float32Array, index: number, seed: readonly [number, number], p: number, e: number) => {
    const n = values.length;
    for (const divide of [true, false]) {
      const memory = new Memory();
      const own = Float32Array.from([...values, ...values]);
      const at = memory.put(own);
      memory.kernels.wasm.dropByRank(at, 2, n, index, ...seed, p, e, divide);
      for (const row of [0, n]) plain.dropByRank(own.subarray(row, row + n), index + row, ...seed, p, e, divide);
      memory.expect(at, own);
    }
  };
  const shares = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }));
  /** A density and an epsilon that make probabilities from 0 to 1. */
  const probabilities = shares.map(([p, e]): [number, number] => [p, e * Math.min(p, 1 - p)]);

  test("dropByRank, with ties, infinities and probabilities up to 0 and 1", () => {
    const row = fc.array(
      numbers.filter((x) => !Number.isNaN(x)),
      { minLength: 1, maxLength: 150 },
    );
    fc.assert(
      fc.property(row, indices, seeds, probabilities, (list, index, seed, [density, epsilon]) => {
        dropRows(Float32Array.from(list), index, seed, density, epsilon);
      }),
      RUNS,
    );
  });

  test("dropByRank, of long rows: spread out, rounded, and with all but a few far below the largest", () => {
    const random = Random.of(1, "rows");
    const normal = () => random.float() + random.float() + random.float() - 1.5;
    const kinds: (() => number)[] = [
      normal,
      () => 0,
      () => 2 ** -133 * normal(), // of which bfloat16 holds few
      () => 1e-39 * normal(),
      () => Math.round(8 * normal()) / 8,
      () => (random.float() < 0.002 ? 1e20 : 1) * normal(),
      () => (random.float() < 0.6 ? 0 : normal()),
    ];
    for (const next of kinds) {
      for (const length of [1023, 2048, 5001]) {
        dropRows(Float32Array.from({ length }, next), 2 ** 31 - 7, [3, -4], 0.4, 0.15);
      }
    }
  });

  test("dropByRank, with NaN, which ranks above infinity", () => {
    const row = fc.array(numbers, { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(row, indices, seeds, probabilities, (list, index, seed, [density, epsilon]) => {
        dropRows(Float32Array.from(list), index, seed, density, epsilon);
      }),
      // Probabilities from 0 to 1: of this row the NaN is always kept, and 1 never.
      { ...RUNS, examples: [[[Number.NaN, 3, 1, 2], 0, [0, 0], [0.5, 0.5]]] },
    );
  });
});

describe("random numbers", () => {
  const N = 2 ** 16;
  const SEEDS: readonly (readonly [number, number])[] = [
    [0, 0],
    [1, 0],
    [0, 1],
    [-1, -1],
    [0x12345678, -0x76543211],
    [2 ** 31 - 1, -(2 ** 31)],
  ];
  const draw = ([a, b]: readonly [number, number], first = 0, step = 1) =>
    Uint32Array.from({ length: N }, (_, i) => plain.uniform(first + i * step, a, b));

  /** Pearson's chi-squared of counts that should be equal, in standard deviations from what is expected of it. */
  const deviation = (bins: Iterable<number>, count: number) => {
    const counts = new Float64Array(count);
    let total = 0;
    for (const bin of bins) {
      counts[bin] = (counts[bin] as number) + 1;
      total++;
    }
    const wanted = total / count;
    const squared = counts.reduce((sum, found) => sum + (found - wanted) ** 2 / wanted, 0);
    return (squared - (count - 1)) / Math.sqrt(2 * (count - 1));
  };
  // Some 500 figures of standard deviation 1 are drawn below (the tail of chi-squared is a little heavier): 5 is far.
  const FAR = 5;
  const expectUniform = (what: string, bins: Iterable<number>, count = 256) => {
    const found = deviation(bins, count);
    if (!(Math.abs(found) < FAR)) expect.fail(`${what}: ${found} standard deviations from uniform`);
  };
  /** Neither the numbers nor any of their bits are correlated. */
  const expectUnrelated = (what: string, a: Uint32Array, b: Uint32Array) => {
    const [x, y] = [a, b].map((list) => Float64Array.from(list, (u) => (u + 0.5) / 2 ** 32 - 0.5));
    const product = (x as Float64Array).reduce((sum, value, i) => sum + value * ((y as Float64Array)[i] as number), 0);
    const correlation = (product / N) * 12 * Math.sqrt(N);
    if (!(Math.abs(correlation) < FAR)) expect.fail(`${what}: correlation at ${correlation} standard deviations`);
    for (const shift of [28, 12, 0]) {
      const pairs = Array.from(a, (u, i) => (((u >>> shift) & 15) << 4) | (((b[i] as number) >>> shift) & 15));
      expectUniform(`${what}, bits ${shift} to ${shift + 3} of pairs`, pairs);
    }
    for (let bit = 0; bit < 32; bit++) {
      let same = 0;
      for (let i = 0; i < N; i++) same += 1 & ~(((a[i] as number) ^ (b[i] as number)) >>> bit);
      const off = (same - N / 2) / Math.sqrt(N / 4);
      if (!(Math.abs(off) < FAR)) expect.fail(`${what}: bit ${bit} agrees in ${same} of ${N}`);
    }
  };

  test.each(SEEDS)("are uniform in each byte, from any index on (seed %i, %i)", (...seed) => {
    for (const first of [0, 1, 65_537, 2 ** 31 - N / 2, 2 ** 32 - N]) {
      const drawn = draw(seed, first);
      for (const shift of [0, 8, 16, 24]) {
        expectUniform(
          `byte ${shift / 8} from ${first}`,
          Array.from(drawn, (u) => (u >>> shift) & 255),
        );
      }
      expect(new Set(drawn).size).toBeGreaterThan(N - 20); // of 2^16 draws from 2^32, half a pair is expected to agree
    }
  });

  test("of neighbours in a row or column are uncorrelated", { tags: ["slow"] }, () => {
    for (const seed of SEEDS) {
      const drawn = draw(seed);
      for (const lag of [1, 2, 3, 4, 8, 64, 4096]) {
        expectUnrelated(`seed ${seed}, lag ${lag}`, drawn, draw(seed, lag));
      }
      for (const step of [8, 1024]) {
        expectUnrelated(`seed ${seed}, step ${step}`, draw(seed, 0, step), draw(seed, step, step));
      }
    }
  });

  // Of neighbours only: first halves that differ by a bit permute the indices, and the highest bit of the second half mixes
  // little, so seeds are to be hashes (`uniform` says so).
  test("of neighbouring seeds are uncorrelated", { tags: ["slow"] }, () => {
    for (const [a, b] of SEEDS) {
      const others = [
        [a + 1, b],
        [a, b + 1],
        [a + 1, b + 1],
        [a - 1, b],
        [a, b - 1],
        [b, a],
      ] as const;
      for (const other of others) {
        if (other[0] === a && other[1] === b) continue;
        expectUnrelated(`seeds ${a},${b} and ${other}`, draw([a, b]), draw([other[0] | 0, other[1] | 0]));
      }
    }
  });

  test("of hashed seeds are uncorrelated at any distance", { tags: ["slow"] }, () => {
    const hashes = ["a", "b", "c", "d"].map((text) => {
      const digest = createHash("sha256").update(text).digest();
      return [digest.readInt32LE(0), digest.readInt32LE(4)] as const;
    });
    for (const [i, seed] of hashes.entries()) {
      for (const other of hashes.slice(i + 1)) {
        for (const step of [0, 1, 2, 8, 1024]) {
          expectUnrelated(`seeds ${seed} and ${other}, ${step} aside`, draw(seed, step), draw(other));
        }
      }
    }
  });

  test("keep the requested share at any density", () => {
    for (const density of [0.001, 0.1, 0.5, 0.9, 0.999]) {
      const bound = Math.round(density * 2 ** 32);
      const kept = draw([7, 11]).reduce((sum, u) => sum + Number(u < bound), 0);
      expect(Math.abs(kept - density * N) / Math.sqrt(N * density * (1 - density))).toBeLessThan(FAR);
    }
  });
});
