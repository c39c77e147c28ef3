// Tensors with more than 2^32 elements, such as the stacked experts of Llama 4 Maverick: counts and indices past 32 bits.
import { expect, test } from "vitest";
import { Kernels } from "../../kernels/index.js";
import { dropByRank } from "../../merge/methods/della.js";
import { addCounts } from "./results.js";
import { addArithmetic, declarationOf } from "./value-operation.js";

const END = 2 ** 32;

test("counts add up past 32 bits", () => {
  const piece = Uint32Array.of(0, END - 1, 7, 5);
  const total = addCounts(addCounts(piece, piece), Uint32Array.of(3, 1, 7, 2));
  expect([...total]).toEqual([0, 2 * END - 2, 3, 1, 7, 12]);
});

/** Which of `length` elements from an index on are kept. */
function keptFrom(op: string, index: number, length: number, columns = length): number[] {
  const kernels = new Kernels();
  const [a, scratch] = [kernels.allocate(4 * length), kernels.allocate(64)];
  kernels.floats(a, length).fill(1);
  const workspace = { kernels, table: scratch, weights: scratch, scratch };
  const fields = { density: 0.5, epsilon: 0, divide: false, scale: 1, seed: [12, 34] };
  declarationOf({ op }).apply([a], fields as never, { begin: 0, index, length, columns }, workspace);
  expect([...kernels.floats(a + 4 * length, 4)]).toEqual([0, 0, 0, 0]);
  return [...kernels.floats(a, length)];
}

test("draws depend on the index alone, across 2^32 elements, and do not repeat after them", () => {
  const whole = keptFrom("drop", END - 101, 301);
  const parts = [keptFrom("drop", END - 101, 37), keptFrom("drop", END - 64, 164), keptFrom("drop", END + 100, 100)];
  expect(parts.flat()).toEqual(whole);
  expect(whole.slice(101)).not.toEqual(keptFrom("drop", 0, 200));
  expect(new Set(whole)).toEqual(new Set([0, 1]));
});

test("draws of ranked rows depend on the row alone, across 2^32 elements", () => {
  addArithmetic([dropByRank]);
  const whole = keptFrom("drop-by-rank", END - 150, 300, 100);
  const rows = [0, 100, 200].map((at) => keptFrom("drop-by-rank", END - 150 + at, 100));
  expect(rows.flat()).toEqual(whole);
  expect(whole.slice(200)).not.toEqual(keptFrom("drop-by-rank", 50, 100));
});
