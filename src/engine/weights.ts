// Binds the weights of a decoder to bytes: to a file in place where it has them, else to where they are computed.

import type { CheckpointTensor } from "../formats/checkpoint/index.js";
import { exists, markWhileHeld, modelCacheSettings, requireCacheSpace } from "../kit/files/index.js";
import { formatShape, isFloatDType, MismatchError, RuntimeError, sameShape } from "../kit/index.js";
import { formatSome, plural } from "../kit/printing/index.js";
import type { Step } from "../merge/index.js";
import { type Measured, measurementsOf, Resolver } from "../tensor/expressions/index.js";
import { type MeasureGates, measureAll } from "../tensor/measurements/index.js";
import { type BlendOptions, placeBlends, placementOf } from "./blends.js";
import { measureGates } from "./gates.js";
import type { Decoder } from "./model/decoder-graph.js";
import { locateWeights } from "./model/weight-names.js";
import type { ModelSource } from "./model-source.js";
import { externalLocation } from "./runtime/external-paths.js";
import type { Weight } from "./runtime/lower.js";

/** Element types that the runtime reads in place; others are converted to float32. */
const IN_PLACE = { F32: "f32", F16: "f16", BF16: "bf16" } as const;

export interface BoundWeights {
  readonly weights: ReadonlyMap<string, Weight>;
  /** Such as weights that the decoder does not use; usually empty. */
  readonly notes: readonly string[];
}

/** Runs the models of a recipe, which are bound here, too: so it is looked up when it is called. */
const gates: MeasureGates = (...args) => measureGates(...args);

type Bindable = Pick<Decoder, "spec" | "weights">;

/**
 * Binds the weights of a decoder, and opens what reads them: both again where another process has made room in the cache
 * meanwhile.
 * @throws as `bindWeights`
 */
export async function openBound<T>(
  decoder: Bindable,
  source: ModelSource,
  options: BlendOptions,
  open: (bound: BoundWeights) => Promise<T>,
): Promise<T> {
  for (;;) {
    const files: string[] = [];
    try {
      return await open(await bindWeights(decoder, source, options, files));
    } catch (error) {
      const areThere = await Promise.all(files.map((path) => exists(path)));
      if (!(error instanceof RuntimeError) || areThere.every(Boolean)) throw error;
    }
  }
}

/**
 * Finds or computes the weights of a decoder.
 * @param files gets the files of the cache that the weights are in
 * @throws CheckpointError if weights are missing
 * @throws MismatchError if weights have other shapes than the configuration, with all of them
 * @throws CancelledError if the signal fires
 */
export async function bindWeights(
  { spec, weights: wanted }: Bindable,
  source: ModelSource,
  options: BlendOptions = {},
  files: string[] = [],
): Promise<BoundWeights> {
  const { steps, notes } = findSteps({ spec, weights: wanted }, source);
  const { signal, threads, shared = false } = options;
  if (source.measurements.length > 0) {
    // What is measured takes long, and changes only which of these are stored as they are.
    const { disk } = placementOf([...split(steps.values(), source, shared).computed.values()], options);
    if (disk > 0) await requireCacheSpace(disk, options.cache ?? modelCacheSettings());
  }
  const own = await measureAll(source.measurements, source.sources, { signal, threads, gates });
  const measured = new Map([...(source.measured ?? []), ...own]);
  const { inPlace, computed } = split(steps.values(), source, shared, measured);
  const blends = await placeBlends(source.name, [...computed.values()], source.sources, measured, options);
  const stored = [...blends.values()].flatMap((blend) => (blend instanceof SharedArrayBuffer ? [] : [blend.path]));
  files.push(...new Set(stored));

  const weights = new Map<string, Weight>();
  const locations = new Map<string, string>();
  const locationOf = async (path: string) => {
    const location = locations.get(path) ?? (await externalLocation(path)).location;
    locations.set(path, location);
    return location;
  };
  for (const [name, { rows }] of wanted) {
    const step = steps.get(name) as Step;
    const dtype = shared ? "F32" : inFloats(step).dtype;
    const total = sizeOf(step.shape, dtype);
    const length = rows ? (total / rows.of) * (wanted.get(name)?.shape[0] as number) : total;
    const begin = rows ? (total / rows.of) * rows.from : 0;
    const own = inPlace.get(step);
    const place = own ? { path: own.file.path, offset: own.offset } : blends.get(step.tensor);
    if (!place) throw new Error(`${step.tensor} was not computed`);
    const values =
      place instanceof SharedArrayBuffer
        ? new Uint8Array(place, begin, length)
        : { location: await locationOf(place.path), offset: place.offset + begin, length };
    weights.set(name, { dtype: IN_PLACE[dtype], values });
  }
  // Some sessions open late, as those of training do.
  markWhileHeld(weights, files);
  return { weights, notes };
}

/** Which steps the runtime reads in their files, and which are computed, as what it reads. @param measured if it is known */
function split(steps: Iterable<Step>, { sources }: ModelSource, shared: boolean, measured?: Measured) {
  const resolver = new Resolver(sources, measured);
  const inPlace = new Map<Step, CheckpointTensor>();
  const computed = new Map<Step, ReadableStep>();
  for (const step of new Set(steps)) {
    const isKnown = measured !== undefined || measurementsOf(step.value).length === 0;
    const stored = isKnown ? storedInPlace(step, resolver) : undefined;
    if (stored && (!shared || stored.dtype === "F32")) inPlace.set(step, stored);
    else computed.set(step, inFloats(step));
  }
  return { inPlace, computed };
}

/** The stored tensor of a step, if the runtime reads it in its file. */
function storedInPlace(step: Step, resolver: Resolver): CheckpointTensor | undefined {
  const stored = resolver.stored(step.value);
  return stored && stored.dtype === step.dtype && step.dtype in IN_PLACE ? stored : undefined;
}

type ReadableStep = Step & { readonly dtype: keyof typeof IN_PLACE };

/** Converts element types that the runtime does not read to float32. */
function inFloats(step: Step): ReadableStep {
  return { ...step, dtype: step.dtype in IN_PLACE ? (step.dtype as ReadableStep["dtype"]) : "F32" };
}

function sizeOf(shape: readonly number[], dtype: ReadableStep["dtype"]): number {
  return shape.reduce((product, extent) => product * extent, dtype === "F32" ? 4 : 2);
}

/**
 * The step of each weight's tensor, by the weight's input name, and notes.
 * @throws CheckpointError if weights are missing
 * @throws MismatchError if weights have other shapes than the configuration
 */
export function findSteps(
  { spec, weights: wanted }: Pick<Decoder, "spec" | "weights">,
  source: ModelSource,
): { steps: ReadonlyMap<string, Step>; notes: readonly string[] } {
  const { stored: names, unused } = locateWeights(spec, source.tensors.keys(), source.name);
  const steps = new Map<string, Step>();
  const problems: string[] = [];
  for (const [input, stored] of wanted) {
    const step = source.tensors.get(names.get(stored.name) ?? "") as Step;
    const shape = stored.rows ? [stored.rows.of, ...stored.shape.slice(1)] : stored.shape;
    // The matrices of all experts in one tensor.
    const [experts = 1, ...matrix] = step.shape;
    const flat = stored.rows && matrix.length > 1 ? [experts * (matrix[0] as number), ...matrix.slice(1)] : step.shape;
    if (!sameShape(flat, shape)) {
      problems.push(
        `${step.tensor} is ${formatShape(step.shape)}; ${source.config.file} describes ${formatShape(shape)}`,
      );
    } else if (!isFloatDType(step.dtype)) {
      problems.push(`${step.tensor} is ${step.dtype}; the engine computes with bfloat16, float16, float32 and float64`);
    } else steps.set(input, step);
  }
  const are = `${plural(unused.length, "tensor")} ${unused.length === 1 ? "is" : "are"}`;
  const note = `${are} not used by a ${spec.family} decoder with this config.json: ${formatSome(unused)}`;
  if (problems.length === 0) return { steps, notes: unused.length > 0 ? [note] : [] };
  const shown = problems.slice(0, MAX_PROBLEMS);
  if (problems.length > shown.length) shown.push(`and ${plural(problems.length - shown.length, "other")}`);
  throw new MismatchError(`the weights of ${source.name} do not match its configuration:`, shown);
}

// A wrong configuration affects every tensor; the first few show which field it is.
const MAX_PROBLEMS = 8;
