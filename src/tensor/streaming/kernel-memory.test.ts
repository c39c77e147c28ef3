// What decompositions take of the memory of kernels is known before they begin, as one memory has 4 GiB at most.
import { expect, test } from "vitest";
import { Kernels } from "../../kernels/index.js";
import { LayergraftError, Random } from "../../kit/index.js";
import { dgHardRule, isoRule, tsvRule } from "../../merge/methods/whole-matrices.js";
import { lowRank, lowRankKernelBytes } from "./low-rank.js";
import type { Program } from "./program.js";
import { regress, regressionKernelBytes } from "./regression.js";
import { requireThreadMemory } from "./run-program.js";
import { addArithmetic } from "./value-operation.js";
import type { MatrixRule } from "./whole-matrix.js";

/** Of the padding of buffers. */
const SLACK = 2 ** 14;

function gaussian(count: number, seed: number): Float32Array {
  const random = Random.of(seed, "test");
  return Float32Array.from({ length: count }, () => random.normal());
}

/** Bytes of kernels at the end of the work that nothing gave back, at their most. */
function peakOf(work: (kernels: Kernels) => void): number {
  const kernels = new Kernels();
  const start = kernels.allocate(0);
  let most = start;
  const allocate = kernels.allocate.bind(kernels);
  kernels.allocate = (bytes) => {
    const address = allocate(bytes);
    most = Math.max(most, address + bytes);
    return address;
  };
  work(kernels);
  return most - start;
}

const expectAbout = (bytes: number, expected: number) => {
  expect(bytes).toBeLessThanOrEqual(expected + SLACK);
  expect(bytes).toBeGreaterThan(expected - SLACK);
};

test.each([
  [150, 100, 100],
  [100, 150, 100],
  [160, 300, 30],
  [300, 160, 30],
])("an approximation of [%i, %i] with rank %i", (rows, columns, rank) => {
  const values = gaussian(rows * columns, 3);
  const squares = values.reduce((sum, x) => sum + x * x, 0);
  const bytes = peakOf((kernels) => {
    const address = kernels.allocate(4 * columns * 32);
    const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
      kernels.floats(address, (to - from) * columns).set(values.subarray(from * columns, to * columns));
      each(from, to, address);
    };
    lowRank(kernels, { rows, columns, squares, read }, { rank, energy: 1, random: Random.of(0, "start") });
  });
  expectAbout(bytes - 4 * columns * 32, lowRankKernelBytes({ rows, columns }, rank));
});

test.each([
  ["iso", isoRule, 1, 150, 100],
  ["iso", isoRule, 1, 100, 150],
  ["iso, with own directions", isoRule, 0.5, 150, 100],
  ["iso, with own directions", isoRule, 0.5, 100, 150],
  ["tsv_m", tsvRule, 0, 150, 100],
  ["tsv_m", tsvRule, 0, 100, 150],
  ["dg_hard", dgHardRule, 1, 150, 100],
] as const)("%s of whole matrices", (_, rule: MatrixRule, number, rows, columns) => {
  const size = { rows, columns };
  const changes = [1, 2].map((seed) => gaussian(rows * columns, seed));
  const bytes = peakOf((kernels) => rule.merge(kernels, changes, size, number));
  expectAbout(bytes, rule.kernelBytes(size, number));
});

test("regmean", () => {
  const size = { rows: 60, columns: 150 };
  const gram = new Float32Array(size.columns ** 2).map((_, i) => (i % (size.columns + 1) === 0 ? 1 : 0));
  const bytes = peakOf((kernels) => regress(kernels, [gaussian(9000, 1)], [gram], size, 1));
  expectAbout(bytes, regressionKernelBytes(size));
});

/** Of one matrix of float32 whose changes are decomposed. */
function programOf(rows: number, columns: number): Program {
  const term = { file: 0, offset: 0, dtype: "F32" as const, weight: 1 };
  const of = [0, 1].map((file) => ({ terms: [{ ...term, file }], divisor: 1 }));
  const operation = { op: "whole-matrix" as const, of, rule: "iso", number: 1, matrix: rows * columns };
  const value = { terms: [{ weight: 1, operation }], divisor: 1, elements: rows * columns, columns };
  return { inputs: [], outputs: [], jobs: [{ kind: "delta", name: "down_proj", value }] };
}

test("a matrix that takes more than 4 GiB of kernels is refused by name, whatever the memory budget", () => {
  addArithmetic([isoRule]);
  // The down projection of Llama 3 405B, and one as long on both sides.
  expect(requireThreadMemory(programOf(16_384, 53_248), 64e9)).toBeGreaterThan(4e9);
  const refused = () => requireThreadMemory(programOf(53_248, 53_248), 64e9);
  expect(refused).toThrow(LayergraftError);
  expect(refused).toThrow(/^down_proj is computed as a whole matrix, which takes 2\d\.\d+ GB of a WebAssembly memory/);
});

test("a thread that needs more than the default budget gets it, up to 1 GB", () => {
  addArithmetic([isoRule]);
  const needed = requireThreadMemory(programOf(2400, 2400));
  expect(needed).toBeGreaterThan(256e6);
  expect(() => requireThreadMemory(programOf(2400, 2400), 256e6)).toThrow(/a memory budget of 256 MB is too small/);
  expect(() => requireThreadMemory(programOf(8192, 8192))).toThrow(/a memory budget of 1.0\d* GB is too small/);
});
