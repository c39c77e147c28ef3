// Kernels that combine several buffers in float64, bit for bit against plain references on special values.
import fc from "fast-check";
import { expect, test } from "vitest";
import * as plain from "../../test/support/plain-combine.js";
import { Kernels } from "./kernels.js";

const GUARD = 0.625;
const anything = fc.oneof(
  fc.float(),
  fc.constantFrom(0, -0, 1, -1, Infinity, -Infinity, Number.NaN, 2 ** -149, -(2 ** -126), Math.fround(0.1)),
  fc.integer({ min: -4, max: 4 }).map((x) => x / 2),
);
const listOf = (n: number) => fc.array(anything, { minLength: n, maxLength: n }).map((list) => Float32Array.from(list));
const buffersOf = (count: number, n: number) => fc.array(listOf(n), { minLength: count, maxLength: count });
const counts = fc.integer({ min: 1, max: 4 });
const lengths = fc.oneof(fc.integer({ min: 1, max: 21 }), fc.constantFrom(64, 127, 129));
const values = counts.chain((count) => lengths.chain((n) => buffersOf(count, n)));
const matrices = (count: number) =>
  fc
    .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 13 }))
    .chain(([rows, columns]) =>
      fc.record({ rows: fc.constant(rows), columns: fc.constant(columns), all: buffersOf(count, rows * columns) }),
    );

/** Buffers in a memory, with what follows the last element zero, as kernels run over it. */
function put(kernels: Kernels, all: readonly Float32Array[]) {
  const guards: number[] = [];
  const addresses = all.map((list) => {
    const at = kernels.allocate(list.byteLength);
    kernels.floats(at, list.length).set(list);
    guards.push(kernels.allocate(4));
    kernels.floats(guards.at(-1) ?? 0, 8).fill(GUARD);
    return at;
  });
  const table = kernels.allocate(4 * all.length);
  kernels.counters(table, all.length).set(addresses);
  return { addresses, table, guards };
}

/** The first values after a kernel; the others and what follows them must be as they were. */
function after(
  kernels: Kernels,
  { addresses, guards }: ReturnType<typeof put>,
  all: readonly Float32Array[],
): Float32Array {
  for (const at of guards) expect([...kernels.floats(at, 8)]).toEqual(Array(8).fill(GUARD));
  for (const [i, at] of addresses.entries()) {
    if (i > 0) expect(kernels.floats(at, (all[i] as Float32Array).length)).toEqual(all[i]);
  }
  return kernels.floats(addresses[0] ?? 0, (all[0] as Float32Array).length).slice();
}

test("largest, with equal sizes and NaN", () => {
  fc.assert(
    fc.property(values, (all) => {
      const kernels = new Kernels();
      const buffers = put(kernels, all);
      kernels.wasm.largest(buffers.table, all.length, (all[0] as Float32Array).length);
      expect(after(kernels, buffers, all)).toEqual(plain.largest(all));
    }),
  );
});

test("needed, with sums that cancel out", () => {
  const thresholds = fc.oneof(fc.constantFrom(0, 0.4, 1), fc.double({ min: 0, max: 10, noNaN: true }));
  fc.assert(
    fc.property(values, thresholds, counts, (all, threshold, agree) => {
      const kernels = new Kernels();
      const buffers = put(kernels, all);
      kernels.wasm.needed(buffers.table, all.length, (all[0] as Float32Array).length, threshold, agree);
      expect(after(kernels, buffers, all)).toEqual(plain.needed(all, threshold, agree));
    }),
  );
});

test("unite, with elements that one, some or none have", () => {
  const factors = fc.array(fc.double({ noNaN: true }), { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(values, factors, fc.constantFrom(0, 1, 0.1), (all, alone, shared) => {
      const kernels = new Kernels();
      const buffers = put(kernels, all);
      const own = kernels.allocate(8 * alone.length);
      kernels.doubles(own, alone.length).set(alone);
      kernels.wasm.unite(buffers.table, all.length, (all[0] as Float32Array).length, own, shared);
      expect(after(kernels, buffers, all)).toEqual(plain.unite(all, alone, shared));
    }),
  );
});

test("scaleLines, by rows and by columns", () => {
  const cases = counts.chain((count) => matrices(count).chain((one) => fc.tuple(fc.constant(one), listOf(count * 13))));
  fc.assert(
    fc.property(cases, fc.boolean(), ([{ rows, columns, all }, given], byColumn) => {
      const kernels = new Kernels();
      const buffers = put(kernels, all);
      const stride = byColumn ? columns : rows;
      const factors = given.subarray(0, all.length * stride);
      const at = kernels.allocate(factors.byteLength);
      kernels.floats(at, factors.length).set(factors);
      kernels.wasm.scaleLines(buffers.table, all.length, rows, columns, at, stride, byColumn);
      expect(after(kernels, buffers, all)).toEqual(plain.scaleLines(all, columns, factors, byColumn));
    }),
  );
});

test("products within columns, added to earlier ones, and within rows", () => {
  fc.assert(
    fc.property(matrices(2), ({ rows, columns, all }) => {
      const kernels = new Kernels();
      const [[a = 0, b = 0], [x, y]] = [put(kernels, all).addresses, all as [Float32Array, Float32Array]];
      const [down, across] = [kernels.allocate(8 * columns), kernels.allocate(8 * rows)];
      for (let turn = 0; turn < 2; turn++) kernels.wasm.addColumnProducts(a, b, rows, columns, down);
      kernels.wasm.rowProducts(a, b, rows, columns, across);
      const inColumns = plain.columnProducts(x, y, columns, plain.columnProducts(x, y, columns));
      expect(kernels.doubles(down, columns).slice()).toEqual(inColumns);
      expect(kernels.doubles(across, rows).slice()).toEqual(plain.rowProducts(x, y, columns));
    }),
  );
});

test("importance, of rows that are near, far apart, equal or not finite", () => {
  const size = fc.constantFrom(1e-9, 1e-3, 0.3, 1, 40, 1000);
  const cases = fc
    .tuple(matrices(2), size, fc.constantFrom(1, 1e-7, 0.01))
    .map(([{ rows, columns, all }, scale, change]) => {
      const b = (all[1] as Float32Array).map((x) => (Math.abs(x) > 1 ? Math.sign(x) : x) * scale);
      const isBroken = change === 1 && scale === 1;
      const a = isBroken ? (all[0] as Float32Array) : b.map((x, i) => x * (1 + change * Math.tanh(all[0]?.[i] ?? 0)));
      return { rows, columns, all: [a, b] };
    });
  fc.assert(
    fc.property(cases, ({ rows, columns, all }) => {
      const kernels = new Kernels();
      const buffers = put(kernels, all);
      const [a = 0, b = 0] = buffers.addresses;
      kernels.wasm.importance(a, b, rows, columns, kernels.allocate(16 * (columns + 1)));
      const [x, y] = all as [Float32Array, Float32Array];
      expect(after(kernels, buffers, all)).toEqual(plain.importance(x, y, columns));
    }),
    { numRuns: 500 },
  );
});
