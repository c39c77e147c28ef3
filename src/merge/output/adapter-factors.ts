// Computes the factors of an adapter, one at a time: those of the experts, scaled and joined along the rank.

import { dirname } from "node:path";
import { readTensor, type TensorInfo } from "../../formats/safetensors/index.js";
import { Converter, type KernelDType, type Rounding } from "../../kernels/index.js";
import { withFile, writeFully } from "../../kit/files/index.js";
import { CancelledError, DTYPE_BITS, elementCount } from "../../kit/index.js";
import { type RunOptions, Tally } from "../../tensor/streaming/index.js";
import type { FactorStep } from "../plan/adapter-plan.js";
import type { NonFinite } from "./non-finite.js";

export function factorBytes({ parts }: Pick<FactorStep, "parts">): number {
  return parts.reduce((sum, { tensor }) => sum + tensor.bytes, 0);
}

export function tensorBytes({ shape, dtype }: FactorStep): number {
  return (elementCount(shape) * DTYPE_BITS[dtype]) / 8;
}

/** Whether a step is one expert's factor, byte for byte. */
export function isCopied({ parts: [only, ...others], dtype }: FactorStep): boolean {
  return others.length === 0 && only?.factor === 1 && only.tensor.dtype === dtype;
}

/**
 * Writes factors into their places in a file.
 * @param placed where the file holds each tensor
 * @returns infinite and NaN values that experts hold or that the merge made
 * @throws CancelledError if the signal fires
 */
export async function writeFactors(
  path: string,
  factors: readonly FactorStep[],
  placed: readonly TensorInfo[],
  { signal, onProgress, rounding }: Pick<RunOptions, "signal" | "onProgress"> & { readonly rounding?: Rounding },
): Promise<NonFinite[]> {
  const total = factors.reduce((sum, step) => sum + tensorBytes(step), 0);
  let done = 0;
  const places = new Map(placed.map((tensor) => [tensor.name, tensor]));
  const found: NonFinite[] = [];
  const converter = new Converter();
  await withFile(path, "r+", async (handle) => {
    for (const step of factors) {
      if (signal?.aborted) throw new CancelledError("stopped before the end");
      onProgress?.({ phase: "writing factors", done, total, unit: "bytes" });
      const { bytes, nonFinite, values } = await compute(step, converter);
      if (values) rounding?.add(step.dtype, values, bytes);
      found.push(...nonFinite);
      await writeFully(handle, bytes, places.get(step.tensor)?.offset ?? 0);
      done += bytes.byteLength;
    }
    await handle.datasync();
    if (factors.length > 0) onProgress?.({ phase: "writing factors", done, total, unit: "bytes" });
  });
  return found;
}

/** Elements of a written factor that differ from the step's: how many, and the first; -1 if none do. */
export async function compareFactor(
  step: FactorStep,
  written: TensorInfo & { readonly file: { readonly path: string } },
): Promise<{ differing: number; first: number }> {
  const { bytes } = await compute(step, new Converter());
  const found = await readTensor(written.file, written);
  const tally = new Tally(DTYPE_BITS[step.dtype] / 8);
  tally.add(bytes, found, 0);
  const [differing = 0, first = -1] = tally.result();
  return { differing, first };
}

interface Computed {
  readonly bytes: Uint8Array;
  readonly nonFinite: readonly NonFinite[];
  /** Before rounding; undefined of a copy. */
  readonly values?: Float32Array;
}

async function compute(step: FactorStep, converter: Converter): Promise<Computed> {
  const { shape, joined, parts } = step;
  const [rows, columns] = shape;
  const values = new Float32Array(rows * columns);
  let begun = 0;
  const held: NonFinite[] = [];
  for (const { tensor, file, factor } of parts) {
    const bytes = await readTensor(file, tensor);
    const part = converter.decode(tensor.dtype as KernelDType, bytes);
    const count = part.reduce((sum, value) => sum + Number(!Number.isFinite(value)), 0);
    if (count > 0) held.push({ tensor: tensor.name, model: dirname(file.path), count });
    if (isCopied(step)) return { bytes, nonFinite: held };
    if (factor !== 1) for (let i = 0; i < part.length; i++) part[i] = (part[i] ?? 0) * factor;
    if (joined === "rows") values.set(part, begun * columns);
    else {
      const width = tensor.shape[1] ?? 0;
      for (let row = 0; row < rows; row++) {
        values.set(part.subarray(row * width, (row + 1) * width), row * columns + begun);
      }
    }
    begun += tensor.shape[joined === "rows" ? 0 : 1] ?? 0;
  }
  const { bytes, nonFinite } = converter.encode(step.dtype, values);
  return {
    values,
    bytes,
    nonFinite: held.length > 0 || nonFinite === 0 ? held : [{ tensor: step.tensor, count: nonFinite }],
  };
}
