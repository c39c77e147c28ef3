// Computes the tensors of a plan that are not copies into memory, with the bytes that merging would write. Kept between
// models, so that configurations of one pair share equal tensors.

import { setImmediate as nextTurn } from "node:timers/promises";
import { Converter, type KernelDType } from "../kernels/index.js";
import { bytesOf, digestOf, stampOf } from "../kit/files/index.js";
import { bytesPerElement, CancelledError, type Progress } from "../kit/index.js";
import type { Step } from "../merge/index.js";
import { explainNonFinite, type NonFiniteStep, requireFinite } from "../merge/output/index.js";
import { type Measured, Resolver, type Sources } from "../tensor/expressions/index.js";
import {
  type Evaluation,
  Evaluator,
  eachBlock,
  InputFiles,
  type Job,
  type Program,
  requireFloat,
} from "../tensor/streaming/index.js";

/** Computed tensors by a digest of their computation. Evicts the least recently used beyond `mostBytes`. */
export class BlendCache {
  readonly #tensors = new Map<string, Uint8Array>();
  readonly #mostBytes: number;
  #bytes = 0;

  /** @param mostBytes default 2 GB: the averages outside the layers of several 1B models */
  constructor(mostBytes = 2e9) {
    this.#mostBytes = mostBytes;
  }

  get(key: string): Uint8Array | undefined {
    const found = this.#tensors.get(key);
    if (found) {
      this.#tensors.delete(key);
      this.#tensors.set(key, found);
    }
    return found;
  }

  set(key: string, tensor: Uint8Array): void {
    this.#bytes += tensor.byteLength - (this.#tensors.get(key)?.byteLength ?? 0);
    this.#tensors.delete(key);
    this.#tensors.set(key, tensor);
    for (const [oldest, { byteLength }] of this.#tensors) {
      if (this.#bytes <= this.#mostBytes || oldest === key) break;
      this.#tensors.delete(oldest);
      this.#bytes -= byteLength;
    }
  }
}

export interface BlendOptions {
  readonly cache?: BlendCache | undefined;
  /** Whether tensors are returned as float32, which holds what was rounded to their own element type; default false. */
  readonly asFloats?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with bytes of tensors, also before the first. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/**
 * Computes the tensors of steps.
 * @returns their bytes by tensor name
 * @throws LayergraftError code `not-finite` if values become infinite or NaN although the sources are finite there
 * @throws CancelledError if the signal fires
 * @throws FormatError if a source changes
 */
export async function computeBlends(
  steps: readonly Step[],
  sources: Sources,
  measured: Measured,
  options: BlendOptions = {},
): Promise<Map<string, Uint8Array>> {
  const { cache = new BlendCache(), signal, onProgress, asFloats = false } = options;
  const sizeOf = ({ value, to }: WriteJob) => value.elements * bytesPerElement(asFloats ? "F32" : to.dtype);
  const resolver = new Resolver(sources, measured);
  const jobs = steps.map(
    (step): WriteJob => ({
      kind: "write",
      name: step.tensor,
      value: resolver.evaluation(step.value),
      to: { file: 0, offset: 0, dtype: step.dtype },
    }),
  );
  const total = jobs.reduce((sum, job) => sum + sizeOf(job), 0);
  let done = 0;
  const report = () => onProgress?.({ phase: "merging", done, total, unit: "bytes" });
  if (total > 0) report();
  const program: Program = { inputs: resolver.inputs, outputs: [], jobs };
  const files = new InputFiles(program.inputs, { read: 0, written: 0 });
  // Names and sizes would not distinguish a file from one that replaced it.
  const versions = await Promise.all(program.inputs.map(async ({ path }) => [path, await stampOf(path)]));
  const blends = new Map<string, Uint8Array>();
  let evaluator: Evaluator | undefined;
  const found: NonFiniteStep[] = [];
  const converter = asFloats ? new Converter() : undefined;
  try {
    for (const [i, job] of jobs.entries()) {
      const key = `${keyOf(job.value, versions)} ${job.to.dtype} ${asFloats}`;
      const bytes = cache.get(key) ?? new Uint8Array(sizeOf(job));
      if (!cache.get(key)) {
        evaluator ??= new Evaluator(program, files);
        const dtype = requireFloat(job.to.dtype) as KernelDType;
        const worker = evaluator;
        const counts = { nonFinite: 0, made: 0 };
        eachBlock(job, 0, job.value.elements, (from, to) => {
          const rounded = worker.round(job.value, from, to, dtype);
          if (converter) converter.decode(dtype, rounded.bytes, new Float32Array(bytes.buffer).subarray(from, to));
          else bytes.set(rounded.bytes, from * bytesPerElement(dtype));
          counts.nonFinite += rounded.nonFinite;
          counts.made += rounded.made;
        });
        if (counts.nonFinite > 0) found.push({ step: steps[i] as Step, ...counts });
        else cache.set(key, bytes);
        await nextTurn();
      }
      if (signal?.aborted) throw new CancelledError("stopped while tensors were computed");
      blends.set(job.name, bytes);
      done += bytes.byteLength;
      report();
    }
  } finally {
    files.close();
  }
  const isHalf = new Map(steps.map(({ tensor, dtype }) => [tensor, dtype === "F16"]));
  requireFinite(await explainNonFinite(found, sources, measured, signal), false, (name) => isHalf.get(name) === true);
  return blends;
}

type WriteJob = Job & { readonly kind: "write" };

/** Digest of a tensor's computation and of its files, whatever their numbers in this program. */
function keyOf(value: Evaluation, versions: readonly (readonly string[])[]): string {
  const text = JSON.stringify(value, (field, part: unknown) => {
    if (field === "file" && typeof part === "number") return versions[part];
    if (part instanceof Uint8Array) return digestOf(part);
    return part instanceof Int32Array ? digestOf(bytesOf(part)) : part;
  });
  return digestOf(text);
}
