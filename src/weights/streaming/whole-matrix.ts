// Merges of whole matrices in float64: by their singular values, from the decomposition of extract, or by regression. Time
// grows with the cube of a side. Memory holds the values of one matrix, and about three times its float64 values.
import type { Kernels } from "../kernels/kernels.js";
import { decomposeExactly } from "./exact-decomposition.js";
import { type LowRankFactors, lowRankBytes } from "./low-rank.js";
import { PANEL, Panels } from "./panels.js";
import { regress, regressionBytes } from "./regression.js";
import { BATCH } from "./row-batches.js";

/** Row-major. */
interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float32Array;
}

// Changes are of float32, whose rounding errors have singular values of this size beside the largest.
const NOTHING = 1e-7;

/** The leading singular values, with the root of each in the factors on both sides. */
function decompose(
  kernels: Kernels,
  { rows, columns, values }: Matrix,
  rank = Number.POSITIVE_INFINITY,
): LowRankFactors {
  return kernels.borrow(() => {
    const address = kernels.allocate(4 * BATCH * columns);
    const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
      kernels.floats(address, (to - from) * columns).set(values.subarray(from * columns, to * columns));
      each(from, to, address);
    };
    const squares = values.reduce((total, x) => total + x * x, 0);
    return decomposeExactly(kernels, { rows, columns, squares, read }, (gains) => {
      return Math.min(rank, gains.findLastIndex((gain) => gain > NOTHING ** 2 * (gains[0] ?? 0)) + 1);
    });
  });
}

/** left [rows, rank] times diag(weights) times right [rank, columns] */
function product(
  kernels: Kernels,
  left: Float32Array,
  right: Float32Array,
  weights: readonly number[],
  columns: number,
): Float32Array {
  const rank = weights.length;
  const rows = rank === 0 ? 0 : left.length / rank;
  const result = new Float32Array(rows * columns);
  kernels.borrow(() => {
    const panels = new Panels(kernels, rank, columns);
    for (const [r, weight] of weights.entries()) {
      panels.setVector(
        r,
        Float64Array.from(right.subarray(r * columns, (r + 1) * columns), (x) => weight * x),
      );
    }
    const [factor, sums] = [kernels.allocate(8 * BATCH * rank), kernels.allocate(8 * BATCH * PANEL)];
    for (let at = 0; at < rows; at += BATCH) {
      const count = Math.min(BATCH, rows - at);
      kernels.doubles(factor, count * rank).set(left.subarray(at * rank, (at + count) * rank));
      for (let p = 0; p < panels.panels; p++) {
        const width = panels.width(p);
        const block = kernels.doubles(sums, count * width).fill(0);
        kernels.wasm.addRows(sums, factor, panels.at(p), count, width, rank);
        for (let i = 0; i < count; i++) {
          result.set(block.subarray(i * width, (i + 1) * width), (at + i) * columns + p * PANEL);
        }
      }
    }
  });
  return result;
}

/** The same vectors with other singular values, as `to` makes of all. */
function withValues(
  kernels: Kernels,
  matrix: Matrix,
  to: (values: readonly number[]) => readonly number[],
): Float32Array {
  const { left, right, gains } = decompose(kernels, matrix);
  const singular = Array.from(gains, Math.sqrt);
  if (singular.length === 0) return new Float32Array(matrix.values.length);
  const wanted = to(singular);
  return product(
    kernels,
    left,
    right,
    singular.map((value, i) => (wanted[i] ?? 0) / value),
    matrix.columns,
  );
}

/** The nearest matrix whose nonzero singular values are 1. */
const polar = (kernels: Kernels, rows: number, columns: number, values: Float32Array) =>
  withValues(kernels, { rows, columns, values }, (singular) => singular.map(() => 1));

const mean = (values: readonly number[], count = values.length) => values.reduce((sum, x) => sum + x, 0) / count;

function added({ rows, columns }: Omit<Matrix, "values">, all: readonly Float32Array[]): Matrix {
  const values = Float32Array.from(all[0] ?? [], (_, i) => all.reduce((sum, one) => sum + (one[i] as number), 0));
  return { rows, columns, values };
}

/** Spaces of singular vectors side by side, made orthonormal on both sides; with their own singular values, or the mean. */
function joined(
  kernels: Kernels,
  spaces: readonly LowRankFactors[],
  { rows, columns }: Omit<Matrix, "values">,
  isFlat: boolean,
) {
  const singular = spaces.flatMap(({ gains }) => Array.from(gains, Math.sqrt));
  const rank = singular.length;
  const [u, v] = [new Float32Array(rows * rank), new Float32Array(rank * columns)];
  let first = 0;
  for (const { left, right, rank: own } of spaces) {
    for (let i = 0; i < left.length; i++) {
      const r = first + (i % own);
      u[Math.floor(i / own) * rank + r] = (left[i] as number) / Math.sqrt(singular[r] as number);
    }
    for (let i = 0; i < right.length; i++) {
      v[first * columns + i] = (right[i] as number) / Math.sqrt(singular[first + Math.floor(i / columns)] as number);
    }
    first += own;
  }
  const weights = isFlat ? singular.map(() => mean(singular)) : singular;
  return product(kernels, polar(kernels, rows, rank, u), polar(kernels, rank, columns, v), weights, columns);
}

/** The median singular value of noise with unit variance in a long side's length (Marchenko and Pastur 1967). */
function medianOfNoise(beta: number): number {
  // The density of eigenvalues x = 1 + beta + 2 sqrt(beta) cos(t) is 2 sin^2(t) / (pi x) in t.
  const steps = 20_000;
  const eigenvalue = (i: number) => 1 + beta + 2 * Math.sqrt(beta) * Math.cos((Math.PI * (i + 0.5)) / steps);
  let [i, share] = [-1, 0];
  let last = 0;
  while (share < 0.5 && i < steps) {
    i++;
    last = (2 * Math.sin((Math.PI * (i + 0.5)) / steps) ** 2) / eigenvalue(i) / steps;
    share += last;
  }
  return Math.sqrt(eigenvalue(i + (0.5 - share) / last + 0.5));
}

/** By what the median is multiplied for the threshold. Gavish & Donoho 2014, arXiv 1305.5870, equations 4 and 11. */
export function noiseThreshold(beta: number): number {
  const omega = Math.sqrt(2 * (beta + 1) + (8 * beta) / (beta + 1 + Math.sqrt(beta ** 2 + 14 * beta + 1)));
  return omega / medianOfNoise(beta);
}

/** Half to even, as Python rounds. */
function roundToEven(x: number): number {
  const rounded = Math.round(x);
  return x % 1 === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

/** Rules by name: the merged change of matrices [rows, columns]. */
const RULES: Readonly<
  Record<
    string,
    (kernels: Kernels, changes: readonly Float32Array[], size: Omit<Matrix, "values">, number: number) => Float32Array
  >
> = {
  /** Iso-C, and Iso-CTS with a share `number` of common directions. arXiv 2502.04959, algorithms 1 and 2. */
  iso: (kernels, changes, size, number) => {
    const rank = Math.min(size.rows, size.columns);
    const own = roundToEven((rank - Math.floor(number * rank)) / changes.length);
    const sum = added(size, changes);
    if (own === 0) return withValues(kernels, sum, (singular) => singular.map(() => mean(singular, rank)));
    const common = decompose(kernels, sum, rank - own * changes.length);
    const ones = Array.from({ length: size.rows }, () => 1);
    const basis = common.left.map((x, i) => x / Math.sqrt(Math.sqrt(common.gains[i % common.rank] as number)));
    const turned = basis.map((_, i) => basis[(i % size.rows) * common.rank + Math.floor(i / size.rows)] as number);
    const spaces = changes.map((values) => {
      const within = product(kernels, turned, values, ones, size.columns);
      const projected = product(kernels, basis, within, ones.slice(0, common.rank), size.columns);
      const left = common.rank > 0 ? values.map((x, i) => x - (projected[i] as number)) : values;
      return decompose(kernels, { ...size, values: left }, own);
    });
    return joined(kernels, [...spaces, common], size, true);
  },

  /** TSV-M, arXiv 2412.00081, algorithm 1. */
  tsv_m: (kernels, changes, size) => {
    const rank = Math.floor(Math.min(size.rows, size.columns) / changes.length);
    return joined(
      kernels,
      changes.map((values) => decompose(kernels, { ...size, values }, rank)),
      size,
      false,
    );
  },

  /** DG-Hard, arXiv 2605.20296. `number` scales the threshold. */
  dg_hard: (kernels, changes, size, number) => {
    const [short = 1, long = 1] = [size.rows, size.columns].sort((a, b) => a - b);
    return withValues(kernels, added(size, changes), (singular) => {
      const [low = 0, high = 0] = [singular[Math.floor((short - 1) / 2)], singular[Math.ceil((short - 1) / 2)]];
      const threshold = (number * noiseThreshold(short / long) * (low + high)) / 2;
      return singular.map((value) => (value > threshold ? value : 0));
    });
  },

  /** RegMean, arXiv 2212.09849, equation 2. `number` scales the elements off the diagonal of products. */
  regmean: (kernels, values, size, number) => {
    const count = values.length / 2;
    return regress(kernels, values.slice(0, count), values.slice(count), size, number);
  },
};

interface Operation {
  readonly rule: string;
  readonly of: readonly unknown[];
  /** Elements of a matrix. */
  readonly matrix: number;
}

/** Whether a value is of [columns, columns]: the products in the second half of RegMean's. */
export function isSquare({ rule, of }: Pick<Operation, "rule" | "of">, value: number): boolean {
  return rule === "regmean" && value >= of.length / 2;
}

/** Elements of each value that belong to one matrix. */
export function elementsOfValues(operation: Operation, columns: number): number[] {
  return operation.of.map((_, i) => (isSquare(operation, i) ? columns ** 2 : operation.matrix));
}

/** Bytes that the merge of a matrix needs. */
export function wholeBytes(operation: Operation, columns: number): number {
  const { rule, matrix } = operation;
  const rows = matrix / columns;
  const values = elementsOfValues(operation, columns).reduce((sum, count) => sum + count, 2 * matrix);
  const rest =
    rule === "regmean" ? regressionBytes(rows, columns) : 2 * lowRankBytes({ rows, columns }, Math.min(rows, columns));
  return 4 * values + rest;
}

/** @param changes of one matrix, in rows of `columns`; @param number of the rule */
export function mergeMatrix(
  kernels: Kernels,
  rule: string,
  changes: readonly Float32Array[],
  columns: number,
  number: number,
): Float32Array {
  const merge = RULES[rule];
  if (!merge) throw new Error(`there is no rule ${rule} for matrices`);
  const elements = changes[0]?.length ?? 0;
  const merged = merge(kernels, changes, { rows: elements / columns, columns }, number);
  return merged.length === elements ? merged : new Float32Array(elements);
}
