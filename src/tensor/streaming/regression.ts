// RegMean's weights: the least squares solution over the inputs of all models, in float64, by a Cholesky factor in panels.
import type { Kernels } from "../../kernels/index.js";
import { PANEL, Panels } from "./panels.js";

// What is left of a diagonal element, beside the whole, where an input is a sum of others up to float32's rounding errors.
const NOTHING = 1e-6;

interface Size {
  readonly rows: number;
  readonly columns: number;
}

/** Bytes that `regress` takes of the memory of kernels. */
export function regressionKernelBytes({ rows, columns }: Size): number {
  return 8 * (columns * columns + 2 * rows * columns + PANEL * (columns + Math.max(rows, columns)));
}

/** Bytes that `regress` needs beside its values. */
const regressionBytes = (size: Size) => regressionKernelBytes(size) + 8 * size.rows * size.columns;

/** What a regression needs besides the values and one matrix. */
export const REGRESSION_MEMORY = { bytes: regressionBytes, kernelBytes: regressionKernelBytes };

/**
 * X with X sum(G_i) = sum(W_i G_i), where off-diagonal elements of each G_i count `scale` times. Inputs that no G_i has, or
 * that are sums of others, leave X free; there it is as near to the mean of W_i as the others allow.
 * @param weights W_i, [rows, columns]
 * @param products G_i, symmetric and not negative, [columns, columns]
 */
export function regress(
  kernels: Kernels,
  weights: readonly Float32Array[],
  products: readonly Float32Array[],
  { rows, columns }: Size,
  scale: number,
): Float32Array {
  const mean = Float64Array.from(
    weights[0] ?? [],
    (_, i) => weights.reduce((sum, one) => sum + (one[i] as number), 0) / weights.length,
  );
  // Of differences from the mean, so that equal models stay as they are.
  kernels.borrow(() => {
    const [total, solution, own] = [columns, rows, rows].map((count) => new Panels(kernels, count, columns)) as [
      Panels,
      Panels,
      Panels,
    ];
    const [block, sums] = [columns, Math.max(rows, columns)].map((n) => kernels.allocate(8 * PANEL * n)) as [
      number,
      number,
    ];
    for (const panels of [total, solution]) panels.values.fill(0);
    for (const [i, product] of products.entries()) {
      for (let r = 0; r < rows; r++) {
        const [from, to] = [r * columns, (r + 1) * columns];
        own.setVector(
          r,
          Float64Array.from(weights[i]?.subarray(from, to) ?? [], (x, c) => x - (mean[from + c] as number)),
        );
      }
      for (let p = 0; p < total.panels; p++) {
        const [first, width] = [p * PANEL, total.width(p)];
        const [part, sum] = [block, total.at(p)].map((at) => kernels.doubles(at, columns * width)) as Float64Array[];
        for (let at = 0; at < columns * width; at++) {
          const [r, c] = [Math.floor(at / width), first + (at % width)];
          const value = (product[r * columns + c] as number) * (r === c ? 1 : scale);
          (part as Float64Array)[at] = value;
          (sum as Float64Array)[at] = ((sum as Float64Array)[at] as number) + value;
        }
        for (let q = 0; q < total.panels; q++) {
          const rowsOfBlock = block + 8 * q * PANEL * width;
          kernels.wasm.addRows(solution.at(p), own.at(q), rowsOfBlock, rows, width, own.width(q));
        }
      }
    }
    factor(kernels, total, sums);
    substitute(kernels, total, solution, sums, false);
    substitute(kernels, total, solution, sums, true);
    for (let r = 0; r < rows; r++) {
      for (const [c, x] of solution.vector(r).entries()) {
        mean[r * columns + c] = (mean[r * columns + c] as number) + x;
      }
    }
  });
  return Float32Array.from(mean);
}

/** Replaces the lower triangle of a matrix by L, with L L^T the matrix. Where nothing is left, L is infinite: a zero of X. */
function factor(kernels: Kernels, matrix: Panels, address: number): void {
  for (let p = 0; p < matrix.panels; p++) {
    const [first, width] = [p * PANEL, matrix.width(p)];
    const count = matrix.count - first;
    const sums = kernels.doubles(address, count * width).fill(0);
    for (let q = 0; q < p; q++) {
      kernels.wasm.addDots(address, matrix.at(q, first), matrix.at(q, first), count, width, PANEL);
    }
    const values = kernels.doubles(matrix.at(p, first), count * width);
    for (let i = 0; i < count; i++) {
      for (let j = 0; j <= Math.min(i, width - 1); j++) {
        const at = i * width + j;
        const whole = values[at] as number;
        let left = whole - (sums[at] as number);
        for (let k = 0; k < j; k++) left -= (values[i * width + k] as number) * (values[j * width + k] as number);
        if (i > j) values[at] = left / (values[j * width + j] as number);
        else values[at] = left <= NOTHING * whole ? Number.POSITIVE_INFINITY : Math.sqrt(left);
      }
    }
  }
}

/** Replaces B by X with X L^T = B, or with X L = B where `isBack`. */
function substitute(kernels: Kernels, lower: Panels, values: Panels, address: number, isBack: boolean): void {
  const rows = values.count;
  for (let step = 0; step < values.panels; step++) {
    const p = isBack ? values.panels - 1 - step : step;
    const width = values.width(p);
    const sums = kernels.doubles(address, rows * width).fill(0);
    for (let done = 0; done < step; done++) {
      const q = isBack ? values.panels - 1 - done : done;
      if (isBack) kernels.wasm.addRows(address, values.at(q), lower.at(p, q * PANEL), rows, width, values.width(q));
      else kernels.wasm.addDots(address, values.at(q), lower.at(q, p * PANEL), rows, width, PANEL);
    }
    const [own, diagonal] = [
      kernels.doubles(values.at(p), rows * width),
      kernels.doubles(lower.at(p, p * PANEL), width * width),
    ];
    const order = Array.from({ length: width }, (_, j) => (isBack ? width - 1 - j : j));
    for (let row = 0; row < rows * width; row += width) {
      for (const [before, j] of order.entries()) {
        let left = (own[row + j] as number) - (sums[row + j] as number);
        for (let i = 0; i < before; i++) {
          const k = order[i] as number;
          left -= (own[row + k] as number) * (diagonal[isBack ? k * width + j : j * width + k] as number);
        }
        own[row + j] = left / (diagonal[j * width + j] as number);
      }
    }
  }
}
