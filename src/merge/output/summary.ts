// Summarizes a plan: tensors copied and computed, bytes to read and write, and the source of each layer.

import { factorOf } from "../../formats/checkpoint/index.js";
import { layoutFolder, type SafetensorsFile } from "../../formats/safetensors/index.js";
import { isWithin } from "../../formats/vocabulary/index.js";
import { extremesOf } from "../../kit/arrays/index.js";
import { DTYPE_BITS, elementCount, groupBy } from "../../kit/index.js";
import { flatten, hasOperation, isLeaf, type Measured, Resolver, type Value } from "../../tensor/expressions/index.js";
import { measuringBytes, measuringPrograms, placeholders } from "../../tensor/measurements/index.js";
import { countBytes, countFetched, type Job } from "../../tensor/streaming/index.js";
import type { PlanSource, Step } from "../model-plan.js";
import { planAdapter } from "../plan/adapter-plan.js";
import type { OpenedPlan } from "../plan/planner.js";
import { type Plan, sourcesOf } from "../recipe/recipe.js";
import { factorBytes, isCopied, tensorBytes } from "./adapter-factors.js";
import { baseOf, compileWrite, copied } from "./compile.js";

/** Where the tensors of one layer, or those outside all layers, come from. */
export interface Ownership {
  /** Layer number; null for the tensors outside the layers. */
  readonly layer: number | null;
  /** The distinct origins of its tensors. One origin: all tensors are that source's, or an average of those sources. */
  readonly origins: readonly (readonly string[])[];
  /** Whether several sources are combined by more than an average. */
  readonly combined?: boolean;
}

export interface PlanSummary {
  readonly tensors: number;
  readonly parameters: number;
  /** Tensors copied byte for byte. */
  readonly copied: number;
  /** Tensors computed: averaged, converted, or with an adapter's product added. */
  readonly computed: number;
  /** Bytes read while writing the output, plus those of the measurements. */
  readonly bytesToRead: number;
  /** Of these, bytes read to measure magnitudes. */
  readonly bytesToMeasure: number;
  /** Bytes of the output's tensors. */
  readonly bytesToWrite: number;
  /** Bytes of weights to fetch from the hub, and what downloading its models whole would fetch; 0 if all are on the disk. */
  readonly bytesToFetch: number;
  readonly bytesOnHub: number;
  /** For an adapter: its matrices, lowest and highest rank, and tensors saved whole. Upper bounds before weights are measured. */
  readonly adapter?: {
    readonly matrices: number;
    readonly ranks: readonly [lowest: number, highest: number];
    readonly whole: number;
  };
  /** One entry per layer from the input, then one for the tensors outside. */
  readonly ownership: readonly Ownership[];
}

/** Summarizes a plan. Reads no files. */
export function summarizePlan({ plan, sources }: OpenedPlan): PlanSummary {
  const assumed = placeholders(plan.measurements);
  const resolver = new Resolver(sources, assumed);
  let copies = 0;
  let bytesToRead = 0;
  let bytesToWrite = 0;
  const adapter = plan.recipe.as === "adapter" ? planAdapter({ plan, sources }) : undefined;
  const { factors, whole, ranks } = adapter ?? { factors: [], whole: plan.steps, ranks: [] };
  for (const step of whole) {
    const bytes = (elementCount(step.shape) * DTYPE_BITS[step.dtype]) / 8;
    const stored = copied(step, resolver);
    if (stored) copies++;
    const base = stored ? undefined : baseOf(step, resolver, sources);
    const value = resolver.evaluation(step.value);
    const read: Job[] = stored ? [] : [{ kind: "delta", name: step.tensor, value, ...(base ? { minus: base } : {}) }];
    bytesToRead += stored ? stored.bytes : countBytes(read).read;
    bytesToWrite += bytes;
  }
  for (const step of factors) {
    if (isCopied(step)) copies++;
    bytesToRead += factorBytes(step);
    bytesToWrite += tensorBytes(step);
  }
  const tensors = factors.length + whole.length;
  const saved = whole.filter(({ tensor }) => !factorOf(tensor)).length;
  const bytesToMeasure = measuringBytes(plan.measurements, sources, assumed);
  return {
    tensors,
    parameters: plan.steps.reduce((sum, step) => sum + elementCount(step.shape), 0),
    copied: copies,
    computed: tensors - copies,
    bytesToRead: bytesToRead + bytesToMeasure,
    bytesToMeasure,
    bytesToWrite,
    ...bytesOfHub({ plan, sources }, assumed, whole),
    ...(adapter ? { adapter: { matrices: ranks.length, ranks: extremesOf(ranks), whole: saved } } : {}),
    ownership: ownershipOf(plan),
  };
}

/** What is fetched to execute steps: the ranges that they and the measurements read, and adapters as a whole. */
function bytesOfHub(
  { plan, sources }: OpenedPlan,
  assumed: Measured,
  steps: readonly Step[],
): Pick<PlanSummary, "bytesToFetch" | "bytesOnHub"> {
  const remote = remoteFiles([...sources.values()].flatMap(({ files }) => files));
  if (remote.size === 0) return { bytesToFetch: 0, bytesOnHub: 0 };
  const adapters = remoteFiles([...sources.values()].flatMap(({ adapter }) => adapter?.file ?? []));
  const sizeOf = (files: ReadonlyMap<string, number>) => [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
  // Places in the output do not matter.
  const tensors = steps.map(({ tensor, dtype, shape }) => ({ name: tensor, dtype, shape }));
  const program = compileWrite(steps, sources, assumed, layoutFolder(tensors), []);
  const programs = [...measuringPrograms(plan.measurements, sources, assumed), { program, times: 1 }];
  const fetched = programs.map(({ program, times }) => {
    const inputs = program.inputs.map(({ path, bytes, remote }) =>
      remote && !adapters.has(path) ? { path, bytes, remote } : { path, bytes },
    );
    return times * countFetched({ ...program, inputs });
  });
  return { bytesToFetch: fetched.reduce((sum, bytes) => sum + bytes, sizeOf(adapters)), bytesOnHub: sizeOf(remote) };
}

/** Sizes of files on the hub by path, as several sources may have one base. */
function remoteFiles(files: readonly SafetensorsFile[]): Map<string, number> {
  return new Map(files.flatMap(({ path, bytes, remote }) => (remote ? [[path, bytes] as const] : [])));
}

/**
 * Displayed names of sources, by id: listed models by name, with their first id if names collide; others by id, such as
 * `task`.
 */
export function sourceLabels({ recipe, sources }: Plan): ReadonlyMap<string, string> {
  const pathOf = ({ folder, adapter }: PlanSource) => `${folder}+${adapter ?? ""}`;
  const labelOf = (source: PlanSource) => {
    const namesakes = sources.filter(({ name }) => name === source.name);
    const [first = source] = namesakes.filter((other) => pathOf(other) === pathOf(source));
    return namesakes.every((other) => pathOf(other) === pathOf(source)) ? source.name : `${source.name} (${first.id})`;
  };
  const labels = sourcesOf(recipe).map(({ label: id, path }): [string, string] => {
    const source = path.length > 1 ? sources.find((one) => one.id === id) : undefined;
    return [id, source ? labelOf(source) : id];
  });
  return new Map(labels);
}

/** Source of each layer, once owners are measured. */
export function measuredOwnership(plan: Plan, measured: Measured): Ownership[] {
  const steps = unencoded(plan).map((step) => {
    if (hasOperation(step.value)) return step;
    const sources = flatten(step.value, measured).terms.flatMap((term) => (isLeaf(term) ? [term.source] : []));
    // A source within a nested recipe counts as that recipe.
    const isUsed = (origin: string) => sources.some((id) => isWithin(id, origin));
    const weighted = { blend: sources.map((source) => ({ weight: 1, value: { source, tensor: step.tensor } })) };
    return { ...step, origin: step.origin.filter(isUsed), value: weighted };
  });
  return ownershipOf({ ...plan, steps });
}

/** The steps of a plan by their values, whatever encodes them; scales are left out. */
function unencoded({ steps, measurements }: Plan): Step[] {
  const scales = new Set(measurements.flatMap(({ kind, id }) => (kind === "scales" ? [id] : [])));
  return steps.flatMap(({ value, ...step }): Step[] => {
    if (!("op" in value)) return [{ ...step, value }];
    if (value.op === "given" && scales.has(value.values)) return [];
    return [{ ...step, value: (value.op === "divide-blocks" && value.of[0]) || value }];
  });
}

function ownershipOf(plan: Plan): Ownership[] {
  const byLayer = groupBy(unencoded(plan), ({ layer }) => layer);
  const layers: (number | null)[] = Array.from({ length: plan.layers }, (_, layer) => layer);
  return [...layers, null].map((layer) => {
    const steps = byLayer.get(layer) ?? [];
    const distinct = new Map(steps.map(({ origin }) => [origin.join(" "), origin] as const));
    const combined = steps.some(({ value }) => !isAverage(value));
    return {
      layer,
      ...(combined ? { combined } : {}),
      // By the number of sources, then by the first.
      origins: [...distinct.values()].sort().sort((a, b) => a.length - b.length),
    };
  });
}

/** Whether a value is a tensor or an average, without operations or measured choices. */
function isAverage(value: Value): boolean {
  if (isLeaf(value)) return true;
  if (!("blend" in value)) return false;
  return value.blend.every(
    ({ weight, value: inner }) => (typeof weight === "number" || weight.inverse === true) && isAverage(inner),
  );
}

/** Share of the parameters that stay the expert's in a revert. Null for other methods, and before rows are measured. */
export function changedShare({ recipe, steps }: Plan, measured: Measured): number | null {
  if (recipe.method !== "revert") return null;
  let [kept, all] = [0, 0];
  for (const { value, shape, origin } of steps) {
    const elements = elementCount(shape);
    all += elements;
    if ("op" in value && value.op === "select") {
      const mask = measured.get(value.mask);
      if (!(mask instanceof Uint8Array)) return null;
      const marked = mask.reduce((sum, mark) => sum + mark, 0) / mask.length;
      kept += elements * (!recipe.keep ? marked : 1 - marked);
    } else if (origin[0] === "expert") kept += elements;
  }
  return all > 0 ? kept / all : 0;
}
