// Compiles a plan to streaming programs that write or verify its output, after bytes that are copied have their places.

import { ADAPTER_WEIGHTS, type CheckpointTensor } from "../../formats/checkpoint/index.js";
import {
  type FolderLayout,
  layoutFolder,
  lengthenHeader,
  type SafetensorsFile,
  type ShardLayout,
} from "../../formats/safetensors/index.js";
import type { DType } from "../../kit/index.js";
import { type Measured, measurementsOf, Resolver, type Sources } from "../../tensor/expressions/index.js";
import {
  type Evaluation,
  isStored,
  type Job,
  type Program,
  type Stored,
  storedTerms,
  type Target,
} from "../../tensor/streaming/index.js";
import type { Step } from "../model-plan.js";
import type { AdapterPlan, FactorStep } from "../plan/adapter-plan.js";
import type { OpenedPlan } from "../plan/planner.js";

/** What writing needs to know of a step. */
export type WrittenStep = Pick<Step, "tensor" | "dtype" | "value">;

/** The stored tensor that a step copies byte for byte; undefined where it is computed. */
export function copied(step: WrittenStep, resolver: Resolver): CheckpointTensor | undefined {
  const stored = resolver.stored(step.value);
  return stored?.dtype === step.dtype ? stored : undefined;
}

/** Places of the tensors of a plan, or of its adapter, which is one file. */
export function layOut({ plan, sources }: OpenedPlan, adapter: AdapterPlan | undefined): FolderLayout {
  const { recipe, steps, configFrom } = plan;
  const named = ({ tensor, dtype, shape }: Step | FactorStep) => ({ name: tensor, dtype, shape });
  if (adapter) {
    const { factors, whole } = adapter;
    const { shards, totalSize } = layoutFolder([...factors, ...whole].map(named), { shardBytes: Infinity });
    return { shards: shards.map((shard) => ({ ...shard, name: ADAPTER_WEIGHTS })), totalSize };
  }
  const layout = layoutFolder(steps.map(named), {
    ...(recipe.shard_size === undefined ? {} : { shardBytes: recipe.shard_size }),
    metadata: sources.get(configFrom)?.files[0]?.metadata ?? {},
  });
  return alignWithSources(layout, steps, sources);
}

/**
 * Lengthens the header of each file of which one source gives most of the bytes, so that these are in the same place as in
 * the source. The layout, and so every byte of the output, is the same whether the file system can clone or not.
 */
function alignWithSources(layout: FolderLayout, steps: readonly WrittenStep[], sources: Sources): FolderLayout {
  const resolver = new Resolver(sources);
  const stepOf = new Map(steps.map((step) => [step.tensor, step]));
  return { ...layout, shards: layout.shards.map((shard) => align(shard, stepOf, resolver)) };
}

function align(shard: ShardLayout, stepOf: ReadonlyMap<string, WrittenStep>, resolver: Resolver): ShardLayout {
  const inPlace = new Map<SafetensorsFile, number>();
  const longer = ({ tensors }: SafetensorsFile) => (tensors[0]?.offset ?? 0) - shard.header.byteLength;
  for (const tensor of shard.tensors) {
    const step = stepOf.get(tensor.name);
    const from = step && measurementsOf(step.value).length === 0 ? copied(step, resolver) : undefined;
    if (!from || from.file.remote || from.offset - tensor.offset !== longer(from.file)) continue;
    inPlace.set(from.file, (inPlace.get(from.file) ?? 0) + from.bytes);
  }
  const half = (shard.bytes - shard.header.byteLength) / 2;
  const [source] = [...inPlace].find(([, bytes]) => bytes > half) ?? [];
  const by = source ? longer(source) : -1;
  // Data of another alignment would be slow to read.
  return source && by >= 0 && by % 8 === 0 ? { ...lengthenHeader(shard, by), cloneOf: source.path } : shard;
}

/**
 * The values of the base under a step that rounds what a source holds more exactly, or an adapter adds, to a 16-bit type; undefined
 * for other steps, and where the base is unknown.
 */
export function baseOf(step: WrittenStep, resolver: Resolver, sources: Sources): Evaluation | undefined {
  if (step.dtype !== "BF16" && step.dtype !== "F16") return undefined;
  const evaluation = resolver.evaluation(step.value);
  const terms = storedTerms(evaluation);
  if (!terms.some(({ dtype, lowRank }) => lowRank || dtype === "F32" || dtype === "F64")) return undefined;
  const base = sources.get("base")?.tensors.get(step.tensor);
  if (base && !base.coded && !base.blocks) {
    const known = resolver.evaluation({ source: "base", tensor: step.tensor });
    return known.elements === evaluation.elements && known.columns === evaluation.columns ? known : undefined;
  }
  // What the only adapter was trained from.
  const [only] = evaluation.terms;
  if (evaluation.terms.length > 1 || !only || !isStored(only) || !only.lowRank) return undefined;
  const { lowRank: _, ...stored } = only;
  return { ...evaluation, terms: [stored] };
}

/** The program that writes steps into files of this layout; tensors without a step are left as they are. */
export function compileWrite(
  steps: readonly WrittenStep[],
  sources: Sources,
  measured: Measured,
  layout: FolderLayout,
  paths: readonly string[],
): Program {
  const resolver = new Resolver(sources, measured);
  const stepOf = new Map(steps.map((step) => [step.tensor, step]));
  const jobs = layout.shards.flatMap((shard, file) =>
    shard.tensors.flatMap((tensor): Job[] => {
      const step = stepOf.get(tensor.name);
      if (!step) return [];
      const to: Target = { file, offset: tensor.offset, dtype: tensor.dtype };
      const stored = copied(step, resolver);
      if (stored) {
        return [{ kind: "copy", name: step.tensor, bytes: stored.bytes, from: resolver.place(stored), to }];
      }
      const base = baseOf(step, resolver, sources);
      const measured = base ? { base, isNorm: tensor.shape.length === 1 } : {};
      return [{ kind: "write", name: step.tensor, value: resolver.evaluation(step.value), to, ...measured }];
    }),
  );
  return { inputs: resolver.inputs, outputs: paths, jobs };
}

export interface WrittenTensor {
  readonly file: SafetensorsFile;
  readonly offset: number;
  readonly dtype: DType;
}

/** The program that compares written tensors with the plan; its jobs are in the order of `steps`. */
export function compileCompare(
  steps: readonly Step[],
  sources: Sources,
  measured: Measured,
  written: ReadonlyMap<string, WrittenTensor>,
): Program {
  const resolver = new Resolver(sources, measured);
  const jobs = steps.map((step): Job => {
    const against: Stored = resolver.place(written.get(step.tensor) as WrittenTensor);
    const stored = copied(step, resolver);
    if (stored) {
      return { kind: "compare-copy", name: step.tensor, bytes: stored.bytes, from: resolver.place(stored), against };
    }
    return { kind: "compare", name: step.tensor, value: resolver.evaluation(step.value), against };
  });
  return { inputs: resolver.inputs, outputs: [], jobs };
}
