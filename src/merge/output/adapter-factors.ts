// Computes the factors of an adapter, one at a time: those of the experts, scaled and joined along the rank.

import { CancelledError, CheckpointError, DTYPE_BITS, elementCount, withFile, writeFully } from "../../core/index.js";
import {
  Converter,
  type KernelDType,
  mergeInCoreSpace,
  type RunOptions,
  readTensor,
  type TensorInfo,
} from "../../weights/index.js";
import type { FactorStep } from "../plan/adapter-plan.js";

export function factorBytes({ parts }: Pick<FactorStep, "parts">): number {
  return parts.reduce((sum, { tensor }) => sum + tensor.bytes, 0);
}

export function tensorBytes({ shape, dtype }: FactorStep): number {
  return (elementCount(shape) * DTYPE_BITS[dtype]) / 8;
}

/** Whether a step is one expert's factor, byte for byte. */
export function isCopied({ parts: [only, ...others], dtype, core }: FactorStep): boolean {
  return !core && others.length === 0 && only?.factor === 1 && only.tensor.dtype === dtype;
}

/**
 * Writes factors into their places in a file.
 * @param placed where the file holds each tensor
 * @returns the number of float16 overflows, by tensor that has any
 * @throws CancelledError if the signal fires; CheckpointError if a factor for Core Space has infinite or NaN values
 */
export async function writeFactors(
  path: string,
  factors: readonly FactorStep[],
  placed: readonly TensorInfo[],
  { signal, onProgress }: Pick<RunOptions, "signal" | "onProgress">,
): Promise<Map<string, number>> {
  const total = factors.reduce((sum, step) => sum + tensorBytes(step), 0);
  let done = 0;
  const places = new Map(placed.map((tensor) => [tensor.name, tensor]));
  const overflows = new Map<string, number>();
  const converter = new Converter();
  await withFile(path, "r+", async (handle) => {
    for (const step of factors) {
      if (signal?.aborted) throw new CancelledError("stopped before the end");
      onProgress?.({ phase: "writing factors", done, total, unit: "bytes" });
      const { bytes, overflowed } = await compute(step, converter);
      if (overflowed > 0) overflows.set(step.tensor, overflowed);
      await writeFully(handle, bytes, places.get(step.tensor)?.offset ?? 0);
      done += bytes.byteLength;
    }
    await handle.datasync();
    if (factors.length > 0) onProgress?.({ phase: "writing factors", done, total, unit: "bytes" });
  });
  return overflows;
}

/** Elements of a written factor that differ from the step's: how many, and the first; -1 if none do. */
export async function compareFactor(
  step: FactorStep,
  written: TensorInfo & { readonly file: { readonly path: string } },
): Promise<{ differing: number; first: number }> {
  const { bytes } = await compute(step, new Converter());
  const found = await readTensor(written.file, written);
  const width = DTYPE_BITS[step.dtype] / 8;
  let [differing, first] = [0, -1];
  for (let at = 0; at < bytes.byteLength; at += width) {
    if (bytes.subarray(at, at + width).every((byte, i) => byte === found[at + i])) continue;
    differing++;
    if (first < 0) first = at / width;
  }
  return { differing, first };
}

async function compute(step: FactorStep, converter: Converter): Promise<{ bytes: Uint8Array; overflowed: number }> {
  const [only] = step.parts;
  if (only && isCopied(step)) return { bytes: await readTensor(only.file, only.tensor), overflowed: 0 };
  const { shape, joined, parts, core } = step;
  const [rows, columns] = shape;
  const read: Float32Array[] = [];
  for (const { tensor, file, factor } of parts) {
    const part = converter.decode(tensor.dtype as KernelDType, await readTensor(file, tensor));
    if (factor !== 1) for (let i = 0; i < part.length; i++) part[i] = (part[i] ?? 0) * factor;
    read.push(part);
  }
  if (core) {
    const broken = parts[read.findIndex((part) => !part.every(Number.isFinite))]?.tensor.name;
    if (broken !== undefined) {
      const message = `${broken} of an adapter has infinite or NaN values, so it spans no space. Train or load it again.`;
      throw new CheckpointError(message, { tensor: broken });
    }
    const count = joined === "rows" ? parts.length : parts.length / 2;
    const ranks = parts.slice(0, count).map(({ tensor }) => tensor.shape[0] ?? 0);
    return converter.encode(step.dtype, mergeInCoreSpace(read.slice(0, count), read.slice(count), ranks, core));
  }
  const values = new Float32Array(rows * columns);
  let begun = 0;
  for (const [i, { tensor }] of parts.entries()) {
    const part = read[i] as Float32Array;
    if (joined === "rows") values.set(part, begun * columns);
    else {
      const width = tensor.shape[1] ?? 0;
      for (let row = 0; row < rows; row++) {
        values.set(part.subarray(row * width, (row + 1) * width), row * columns + begun);
      }
    }
    begun += tensor.shape[joined === "rows" ? 0 : 1] ?? 0;
  }
  return converter.encode(step.dtype, values);
}
