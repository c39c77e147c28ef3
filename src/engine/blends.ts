// Computes the tensors of a plan that are not copies, with the bytes that merging would write and by the same threads. Few
// bytes stay in memory; more go to a file of the cache, where models with equal tensors find them.

import { rm } from "node:fs/promises";
import { requireUnchanged } from "../formats/checkpoint/index.js";
import { layoutFolder, openSafetensors } from "../formats/safetensors/index.js";
import {
  bytesOf,
  cachedFile,
  cacheEntries,
  digestOf,
  digestOfJson,
  type ModelCacheSettings,
  markUsed,
  modelCacheSettings,
  requireWhole,
  stampOf,
} from "../kit/files/index.js";
import { bytesPerElement, elementCount, FormatError, type Progress, VERSION } from "../kit/index.js";
import type { Step } from "../merge/index.js";
import { explainNonFinite, nonFiniteSteps, OutputFolder, requireFinite } from "../merge/output/index.js";
import { type Measured, Resolver, type Sources } from "../tensor/expressions/index.js";
import { type Evaluation, type Job, type Program, runProgram, type Target } from "../tensor/streaming/index.js";

/** Limits of this process; tests lower them. */
export const LIMITS = {
  /** Computed weights of a model of at most so many bytes are kept in memory: a file would cost more than it saves. */
  bytesInMemory: 64e6,
};

export interface BlendOptions {
  /**
   * Whether models share their weights, with each other and with other processes: all are float32, which the runtime reads in
   * the file and does not pack. Passes are slower. Default: false.
   */
  readonly shared?: boolean | undefined;
  /** Where computed weights are kept. Default: that of the environment. */
  readonly cache?: ModelCacheSettings | undefined;
  /** Threads that compute. Default: one per core. */
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with bytes of computed tensors, also before the first; not at all if none is computed. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** Where a computed tensor is: in memory, or in a file. */
export type Blend = SharedArrayBuffer | StoredBlend;

export interface StoredBlend {
  readonly path: string;
  /** First byte in the file. */
  readonly offset: number;
}

/** Bytes of computed weights by where they are kept. */
export interface BlendBytes {
  readonly memory: number;
  /** In a file of the cache, from which the runtime reads them in place. */
  readonly disk: number;
}

/** Where the computed weights of a model go: all into memory, or all into a file. */
export function placementOf(steps: readonly Step[], options: Pick<BlendOptions, "shared"> = {}): BlendBytes {
  const bytes = steps.reduce((sum, step) => sum + sizeOf(step, options), 0);
  return bytes > LIMITS.bytesInMemory ? { memory: 0, disk: bytes } : { memory: bytes, disk: 0 };
}

/** Element type of a computed tensor. */
function storedType({ dtype }: Step, { shared = false }: Pick<BlendOptions, "shared">): Step["dtype"] {
  return shared ? "F32" : dtype;
}

function sizeOf(step: Step, options: Pick<BlendOptions, "shared">): number {
  return elementCount(step.shape) * bytesPerElement(storedType(step, options));
}

/**
 * Computes the tensors of steps of float types, where `placementOf` says.
 * @param name of the model, which the cache lists
 * @returns where they are, by tensor name
 * @throws LayergraftError code `not-finite` if values become infinite or NaN although the sources are finite there; code
 *   `changed` if a source changes
 * @throws OutputError if the cache cannot be written, or its disk has no space
 * @throws CancelledError if the signal fires
 */
export async function placeBlends(
  name: string,
  steps: readonly Step[],
  sources: Sources,
  measured: Measured,
  options: BlendOptions = {},
): Promise<ReadonlyMap<string, Blend>> {
  if (placementOf(steps, options).disk === 0) {
    // So few bytes are not worth threads.
    return computeBlends(steps, sources, measured, { ...options, threads: undefined });
  }
  const { cache = modelCacheSettings(), signal } = options;
  const keys = await keysOf(steps, sources, measured, options);
  const found = await findBlends(new Set(keys.values()), cache);
  const missing = new Map([...keys].flatMap(([step, key]) => (found.has(key) ? [] : [[key, step]])));
  const keep = [...new Set([...found.values()].map(({ path }) => path))];
  for (const path of keep) await markUsed(path);
  if (missing.size > 0) {
    // Sorted, so that equal sets of tensors are equal files.
    const ordered = [...missing.keys()].sort();
    const declared = ordered.map((key) => {
      const step = missing.get(key) as Step;
      return { name: key, dtype: storedType(step, options), shape: step.shape };
    });
    const { shards } = layoutFolder(declared, { shardBytes: Number.POSITIVE_INFINITY, metadata: { model: name } });
    const shard = shards[0] as (typeof shards)[number];
    const write = async (out: string) => {
      const folder = new OutputFolder(out);
      await folder.open();
      try {
        const { path } = await folder.prepareShard({ ...shard, name: FILE });
        const targets = shard.tensors.map(({ name: key, offset, dtype }): BlendTarget => {
          return [missing.get(key) as Step, { file: 0, offset, dtype }];
        });
        await runBlends(targets, { outputs: [path] }, sources, measured, options);
        await requireUnchanged(sources.values(), "the prepared weights would mix old and new. Run it again.");
        // A disk takes longer than the threads.
        await folder.commitFileEarly(FILE);
      } catch (error) {
        throw await folder.abandon(error);
      }
    };
    const file = { kind: "weights", digest: digestOfJson(ordered), bytes: shard.bytes, write, keep } as const;
    const path = await cachedFile(file, cache, signal);
    for (const { name: key, offset } of shard.tensors) found.set(key, { path, offset });
  }
  return new Map([...keys].map(([{ tensor }, key]) => [tensor, found.get(key) as StoredBlend]));
}

// The file in the partial folder.
const FILE = "model.safetensors";

/**
 * Computes the tensors of steps into memory.
 * @returns their bytes, by tensor name
 * @throws as `placeBlends`
 */
export async function computeBlends(
  steps: readonly Step[],
  sources: Sources,
  measured: Measured,
  options: Omit<BlendOptions, "cache"> = {},
): Promise<Map<string, SharedArrayBuffer>> {
  const memory = steps.map((step) => new SharedArrayBuffer(sizeOf(step, options)));
  const targets = steps.map((step, file): BlendTarget => [step, { file, offset: 0, dtype: storedType(step, options) }]);
  await runBlends(targets, { outputs: [], memory }, sources, measured, options);
  return new Map(steps.map(({ tensor }, i) => [tensor, memory[i] as SharedArrayBuffer]));
}

type BlendTarget = readonly [Step, Target];

async function runBlends(
  targets: readonly BlendTarget[],
  outputs: Pick<Program, "outputs" | "memory">,
  sources: Sources,
  measured: Measured,
  { threads, signal, onProgress, ...options }: BlendOptions,
): Promise<void> {
  if (targets.length === 0) return;
  const resolver = new Resolver(sources, measured);
  const jobs = targets.map(([step, to]): Job => {
    const rounded = step.dtype as "BF16" | "F16" | "F32";
    const value = resolver.evaluation(step.value);
    return { kind: "write", name: step.tensor, value, to, ...(rounded === to.dtype ? {} : { rounded }) };
  });
  const bytes = targets.reduce((sum, [step]) => sum + sizeOf(step, options), 0);
  const outcome = await runProgram(
    { inputs: resolver.inputs, ...outputs, jobs },
    {
      phase: sources.size > 1 ? "merging" : "computing weights",
      threads,
      signal,
      // Bytes read are not what a person asked for.
      onProgress: ({ done, total, ...progress }) =>
        onProgress?.({ ...progress, done: Math.floor((done / total) * bytes), total: bytes }),
    },
  );
  const steps = targets.map(([step]) => step);
  const isHalf = new Map(steps.map(({ tensor, dtype }) => [tensor, dtype === "F16"]));
  const found = await explainNonFinite(nonFiniteSteps(outcome, jobs, steps), sources, measured, signal);
  requireFinite(found, false, (name) => isHalf.get(name) === true);
}

/** Tensors of the cache by their keys, in the files that were used last. Deletes files that are not whole. */
async function findBlends(keys: ReadonlySet<string>, cache: ModelCacheSettings): Promise<Map<string, StoredBlend>> {
  const found = new Map<string, StoredBlend>();
  const entries = await cacheEntries(cache);
  for (const { path, kind, isPartial } of entries.toReversed()) {
    if (kind !== "weights" || isPartial) continue;
    if (found.size === keys.size) break;
    if (!(await requireWhole(path))) continue;
    const file = await openSafetensors(path).catch(async (error: unknown) => {
      if (!(error instanceof FormatError)) throw error;
      // What is no file, or of another user, stays: it does not matter here.
      await rm(path, { force: true }).catch(() => undefined);
      return undefined;
    });
    for (const { name, offset } of file?.tensors ?? []) {
      if (keys.has(name) && !found.has(name)) found.set(name, { path, offset });
    }
  }
  return found;
}

/** Digests of what each step computes, of its files, and of the program that computes it. */
async function keysOf(
  steps: readonly Step[],
  sources: Sources,
  measured: Measured,
  options: BlendOptions,
): Promise<Map<Step, string>> {
  const resolver = new Resolver(sources, measured);
  const values = new Map(steps.map((step) => [step, resolver.evaluation(step.value)]));
  // Names and sizes would not distinguish a file from one that replaced it.
  const files = await Promise.all(
    resolver.inputs.map(async ({ path, remote }) => [path, remote ? "" : await stampOf(path)]),
  );
  return new Map(
    [...values].map(([step, value]) => {
      const types = `${step.dtype} ${storedType(step, options)}`;
      return [step, digestOf(`${VERSION} ${types} ${step.shape.join(" ")} ${textOf(value, files)}`)];
    }),
  );
}

/** A computation as text, with its files by their versions, whatever their numbers in this program. */
function textOf(value: Evaluation, files: readonly (readonly string[])[]): string {
  return JSON.stringify(value, (field, part: unknown) => {
    if (field === "file" && typeof part === "number") return files[part];
    if (part instanceof Uint8Array) return digestOf(part);
    return ArrayBuffer.isView(part) ? digestOf(bytesOf(part)) : part;
  });
}
