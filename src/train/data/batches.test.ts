// Samples, mixtures, packing and batches: what holds for all of them, whatever the sizes and seeds.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Batch, type BatchOptions, BatchStream, type ExampleList, pack } from "./batches.js";
import type { Encoded } from "./encode.js";
import { Mixture } from "./mixture.js";
import { Sample } from "./sample.js";

/** Example number n of set s: its ids say which it is; all but the first token is learned, but for every third. */
function exampleOf(set: number, index: number, length: number): Encoded {
  return {
    ids: Int32Array.from({ length }, (_, i) => 1_000_000 * set + 1000 * index + i),
    loss: Uint8Array.from({ length }, (_, i) => (i > 0 && i % 3 !== 0 ? 1 : 0)),
  };
}

function listOf(lengths: readonly (readonly number[])[], weights: readonly (number | undefined)[] = []): ExampleList {
  return {
    sets: lengths.map((set, i) => ({
      name: `set ${i}`,
      weight: weights[i],
      examples: set.map((length, n) => exampleOf(i, n, length)),
    })),
    digest: JSON.stringify(lengths),
  };
}

/** Examples of a batch, found again by what it holds. */
function examplesIn(batch: Batch): Encoded[] {
  const found: Encoded[] = [];
  for (let row = 0; row < batch.rows; row++) {
    for (let at = row * batch.time; at < (row + 1) * batch.time; ) {
      const segment = batch.segments[at];
      let end = at;
      while (
        end < (row + 1) * batch.time &&
        batch.segments[end] === segment &&
        (end === at || batch.positions[end] !== 0)
      )
        end++;
      if (segment !== 0) {
        expect([...batch.positions.subarray(at, end)]).toEqual(Array.from({ length: end - at }, (_, i) => i));
        const ids = batch.ids.slice(at, end);
        // A label is the next id; the last position of an example has none.
        const loss = Uint8Array.from(ids, (_, i) => (i > 0 && batch.labels[at + i - 1] !== -1 ? 1 : 0));
        for (let i = 1; i < ids.length; i++) if (loss[i]) expect(batch.labels[at + i - 1]).toBe(ids[i]);
        expect(batch.labels[end - 1]).toBe(-1);
        found.push({ ids, loss });
      } else {
        for (let i = at; i < end; i++) expect([batch.positions[i], batch.labels[i]]).toEqual([0, -1]);
        end = Math.max(end, at + 1);
      }
      at = end;
    }
  }
  expect(batch.examples).toBe(found.length);
  expect(batch.tokens).toBe(found.reduce((sum, { ids }) => sum + ids.length, 0));
  return found;
}

const sizes = fc.array(fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 25 }), {
  minLength: 1,
  maxLength: 3,
});
const settings = fc.record({
  batch: fc.integer({ min: 1, max: 5 }),
  packing: fc.boolean(),
  bucketing: fc.boolean(),
  seed: fc.nat(1000),
  shuffle: fc.boolean(),
});

const take = (stream: BatchStream, count: number) => Array.from({ length: count }, () => stream.next());

describe("batches", () => {
  it("hold every example of a pass once, as it is", () => {
    fc.assert(
      fc.property(sizes, settings, fc.integer({ min: 1, max: 3 }), (lengths, options, passes) => {
        const stream = new BatchStream({ ...options, examples: listOf(lengths), sequenceLength: 24, passes });
        const batches = [...stream];
        expect(stream.next()).toBeUndefined();
        for (const batch of batches.slice(0, -1)) expect(batch.rows).toBe(options.batch);
        const found = batches.flatMap(examplesIn);
        const expected = lengths.flatMap((set, s) => set.map((length, i) => exampleOf(s, i, length)));
        const key = ({ ids, loss }: Encoded) => `${ids}|${loss}`;
        expect(found.map(key).sort()).toEqual(
          Array.from({ length: passes }, () => expected.map(key))
            .flat()
            .sort(),
        );
      }),
      { numRuns: 50 },
    );
  });

  it("that a pass needs show every example of it, and of the next only what fills the last batch", () => {
    fc.assert(
      fc.property(sizes, settings, fc.integer({ min: 1, max: 3 }), (lengths, options, wanted) => {
        const endless = new BatchStream({ ...options, examples: listOf(lengths), sequenceLength: 24 });
        // What is left of a packed pass is packed anew, so only one of them can be counted beforehand.
        const passes = options.packing ? 1 : wanted;
        const count = Math.ceil((passes * endless.sequencesPerPass()) / options.batch);
        const all = lengths.flatMap((set, s) => set.map((_, i) => 1_000_000 * s + 1000 * i));
        const times = new Map(all.map((example) => [example, 0]));
        for (const { ids } of take(endless, count).flatMap((batch) => examplesIn(batch as Batch)))
          times.set(ids[0] ?? -1, (times.get(ids[0] ?? -1) ?? 0) + 1);
        expect([...times.keys()]).toEqual(all);
        expect(Math.min(...times.values())).toBeGreaterThanOrEqual(passes);
        const seen = [...times.values()].reduce((sum, n) => sum + n, 0);
        if (!options.packing) expect(seen).toBeLessThan(passes * all.length + options.batch);
      }),
    );
  });

  it("go on from any position with exactly the same batches", () => {
    fc.assert(
      fc.property(sizes, settings, fc.nat(12), (lengths, options, stop) => {
        const all: BatchOptions = { ...options, examples: listOf(lengths), sequenceLength: 24 };
        const stream = new BatchStream(all);
        take(stream, stop);
        const position = JSON.parse(JSON.stringify(stream.position));
        const rest = take(stream, 6);
        const resumed = new BatchStream({ ...all, from: position });
        expect(take(resumed, 6)).toEqual(rest);
        expect(resumed.position).toEqual(stream.position);
      }),
      { numRuns: 50 },
    );
  });

  it("refuse a position of other data or settings", () => {
    const options = { examples: listOf([[3, 4, 5]]), batch: 2, sequenceLength: 9, seed: 1 };
    const { position } = new BatchStream(options);
    for (const other of [
      { seed: 2 },
      { batch: 3 },
      { packing: true },
      { examples: listOf([[3, 4, 6]]) },
      { examples: listOf([[3, 4, 5]], [2]) },
    ]) {
      expect(() => new BatchStream({ ...options, ...other, from: position })).toThrow(
        /cannot resume, because its data/,
      );
    }
  });

  it("depend on the seed and on nothing else", () => {
    const examples = listOf([Array.from({ length: 60 }, (_, i) => 1 + (i % 7))]);
    const order = (seed: number) =>
      [...new BatchStream({ examples, batch: 4, sequenceLength: 9, seed, passes: 1 })]
        .flatMap(examplesIn)
        .map(({ ids }) => ids[0]);
    expect(order(1)).toEqual(order(1));
    expect(order(1)).not.toEqual(order(2));
    // Fixed for good: a run of another version would go on differently otherwise.
    expect(order(1).slice(0, 8)).toEqual(ORDER);
  });

  it("are as long as the longest, or full; padded with the given id", () => {
    const options = {
      examples: listOf([[3, 5]]),
      batch: 2,
      sequenceLength: 8,
      seed: 0,
      passes: 1,
      pad: 7,
      shuffle: false,
    };
    const [batch] = [...new BatchStream(options)];
    expect(batch).toEqual({
      ...{ rows: 2, time: 5, examples: 2, tokens: 8 },
      ids: Int32Array.from([0, 1, 2, 7, 7, 1000, 1001, 1002, 1003, 1004]),
      positions: Int32Array.from([0, 1, 2, 0, 0, 0, 1, 2, 3, 4]),
      segments: Int32Array.from([1, 1, 1, 0, 0, 1, 1, 1, 1, 1]),
      labels: Int32Array.from([1, 2, -1, -1, -1, 1001, 1002, -1, 1004, -1]),
    });
    expect([...new BatchStream({ ...options, packing: true })]).toEqual([
      {
        ...{ rows: 1, time: 8, examples: 2, tokens: 8 },
        ids: Int32Array.from([0, 1, 2, 1000, 1001, 1002, 1003, 1004]),
        positions: Int32Array.from([0, 1, 2, 0, 1, 2, 3, 4]),
        segments: Int32Array.from([1, 1, 1, 2, 2, 2, 2, 2]),
        labels: Int32Array.from([1, 2, -1, 1001, 1002, -1, 1004, -1]),
      },
    ]);
  });

  it("pad less when bucketed, and count packed sequences beforehand", () => {
    const lengths = Array.from({ length: 700 }, (_, i) => 1 + ((i * 7919) % 97));
    const options = { examples: listOf([lengths]), batch: 8, sequenceLength: 100, seed: 3, passes: 1 };
    const positions = (more: Partial<BatchOptions>) =>
      [...new BatchStream({ ...options, ...more })].reduce((sum, { rows, time }) => sum + rows * time, 0);
    const tokens = lengths.reduce((sum, length) => sum + length, 0);
    expect(positions({})).toBeGreaterThan(1.5 * tokens);
    expect(positions({ bucketing: true })).toBeLessThan(1.15 * tokens);
    expect(positions({ packing: true })).toBeLessThan(1.05 * tokens);
    const packed = new BatchStream({ ...options, packing: true });
    expect(packed.sequencesPerPass()).toBe([...packed].reduce((sum, { rows }) => sum + rows, 0));
    expect(new BatchStream(options).sequencesPerPass()).toBe(700);
  });
});

const ORDER = [8000, 39000, 9000, 10000, 11000, 47000, 20000, 44000];

describe("packing", () => {
  it("puts each item into one bin of the capacity, near the least number of bins", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 50 }), { maxLength: 80 }), (lengths) => {
        const bins = pack(lengths, 50);
        expect(bins.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
        const loads = bins.map((items) => items.reduce((sum, i) => sum + (lengths[i] ?? 0), 0));
        expect(loads.every((load) => load > 0 && load <= 50)).toBe(true);
        const total = lengths.reduce((sum, length) => sum + length, 0);
        expect(bins.length).toBeLessThanOrEqual(
          Math.max(Math.ceil((11 / 9) * Math.ceil(total / 50)) + 4, Math.ceil((2 * total) / 50)),
        );
        expect(pack(lengths, 50)).toEqual(bins);
      }),
    );
    expect(pack([4, 8, 1, 4, 2, 1], 10)).toEqual([
      [1, 2, 5],
      [0, 3, 4],
    ]);
    expect(() => pack([11], 10)).toThrow(/does not fit/);
  });
});

describe("a mixture", () => {
  const numbers = (mixture: Mixture, from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => mixture.at(from + i));
  const setsOf = (...of: [size: number, weight?: number][]) =>
    of.map(([size, weight], i) => ({ name: `${i}`, size, weight }));

  it("without weights is all examples once a pass, in another order each", () => {
    const mixture = new Mixture({ sets: setsOf([30], [12]), seed: 5 });
    const passes = [0, 1, 2].map((pass) => numbers(mixture, 42 * pass, 42 * (pass + 1)));
    for (const pass of passes) expect(pass.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 42 }, (_, i) => i));
    expect(passes[0]).not.toEqual(passes[1]);
    expect(numbers(new Mixture({ sets: setsOf([30], [12]), seed: 5 }), 42, 84)).toEqual(passes[1]);
    expect([29, 30, 41].map((number) => mixture.placeOf(number))).toEqual([
      { set: 0, index: 29 },
      { set: 1, index: 0 },
      { set: 1, index: 11 },
    ]);
  });

  it("with weights gives their shares, and sees all of a set before any of it again", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 9 })), {
          minLength: 1,
          maxLength: 3,
        }),
        fc.boolean(),
        fc.nat(99),
        (sets, repeat, seed) => {
          const mixture = new Mixture({ sets: setsOf(...sets), repeat, seed });
          const seen = sets.map(() => new Map<number, number>());
          for (let position = 0; position < mixture.size * 3; position++) {
            const { set, index } = mixture.placeOf(mixture.at(position));
            seen[set]?.set(index, (seen[set]?.get(index) ?? 0) + 1);
          }
          for (const [set, counts] of seen.entries()) {
            const size = sets[set]?.[0] ?? 0;
            const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
            expect(total).toBe(3 * (mixture.shares[set] ?? 0));
            const times = Array.from({ length: size }, (_, i) => counts.get(i) ?? 0);
            expect(Math.max(...times) - Math.min(...times)).toBeLessThanOrEqual(1);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it("is as long as the smallest or the largest set allows", () => {
    expect(new Mixture({ sets: setsOf([100, 1], [30, 3]), seed: 0 }).shares).toEqual([10, 30]);
    expect(new Mixture({ sets: setsOf([100, 1], [30, 3]), seed: 0, repeat: true }).shares).toEqual([100, 300]);
    expect(new Mixture({ sets: setsOf([100, 2], [30]), seed: 0 }).shares).toEqual([60, 30]);
    expect(() => new Mixture({ sets: setsOf([100], [0]), seed: 0 })).toThrow(/no example of 1 is left/);
    expect(() => new Mixture({ sets: setsOf([1e6, 1e-6], [10, 1]), seed: 0, repeat: true })).toThrow(
      /weights less uneven/,
    );
  });

  it("keeps the order of the files if asked", () => {
    expect(numbers(new Mixture({ sets: setsOf([2], [2]), seed: 1, shuffle: false }), 0, 8)).toEqual([
      0, 1, 2, 3, 0, 1, 2, 3,
    ]);
  });
});

describe("a sample", () => {
  it("is the items of least keys, whatever their order; the first of equal ones", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20)), fc.nat(12), (keys, most) => {
        const sample = new Sample<number>(most);
        let dropped = 0;
        keys.forEach((key, i) => {
          const wanted = sample.accepts(key);
          const goes = sample.add(key, i);
          if (!wanted) expect(goes).toBe(true);
          if (goes) dropped++;
        });
        const expected = keys
          .map((key, i) => ({ key, i }))
          .sort((a, b) => a.key - b.key || a.i - b.i)
          .slice(0, most);
        expect(sample.values()).toEqual(expected.map(({ i }) => i).sort((a, b) => a - b));
        expect(dropped).toBe(keys.length - expected.length);
      }),
    );
  });
});
