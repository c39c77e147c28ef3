// Derives a PEFT LoRA adapter from a plan whose tensors are weighted sums of one base's adapted tensors.

import {
  adapterConfig,
  type Checkpoint,
  type CheckpointTensor,
  factorNames,
  factorOf,
  folderName,
  inMemoryOf,
  peftName,
  peftTargets,
} from "../../formats/checkpoint/index.js";
import type { SafetensorsFile, TensorInfo } from "../../formats/safetensors/index.js";
import { largestOf } from "../../kit/arrays/index.js";
import { groupBy, MismatchError, RecipeError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import {
  flatten,
  hasOperation,
  isLeaf,
  leavesOf,
  type Measured,
  measurementsOf,
  sourcesRead,
  type Value,
  type WeightedValue,
} from "../../tensor/expressions/index.js";
import { placeholders } from "../../tensor/measurements/index.js";
import type { Step } from "../model-plan.js";
import { methodOf, type Plan } from "../recipe/recipe.js";
import { changedModules, isOnFactors } from "./factor-sources.js";

/** An adapter factor to write: factors of experts, joined along the rank. */
export interface FactorStep {
  readonly tensor: string;
  readonly dtype: "F32" | "F16" | "BF16";
  /** [rank, in] or [out, rank] */
  readonly shape: readonly [number, number];
  /** `rows` for A [rank, in], `columns` for B [out, rank]. */
  readonly joined: "rows" | "columns";
  readonly parts: readonly FactorPart[];
}

/** A factor of an expert and the number that it is multiplied by. */
export interface FactorPart {
  readonly tensor: TensorInfo;
  readonly file: SafetensorsFile;
  readonly factor: number;
}

export interface AdapterPlan {
  readonly factors: readonly FactorStep[];
  /** Tensors saved whole (`modules_to_save`), under their names in the adapter. */
  readonly whole: readonly Step[];
  /** Rank by adapted matrix. */
  readonly ranks: readonly number[];
  /** The content of adapter_config.json. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** A matrix of the base and the experts' changes to it. */
interface Module {
  readonly name: string;
  readonly layer: number | null;
  readonly changes: readonly LowRankChange[];
  readonly rank: number;
  readonly isEmbedding: boolean;
}

/** weight * scale * B A */
interface LowRankChange {
  readonly delta: NonNullable<CheckpointTensor["lowRank"]>;
  /** weight * scale */
  readonly factor: number;
}

type Opened = { readonly plan: Plan; readonly sources: ReadonlyMap<string, Checkpoint> };

/**
 * The adapter with which the base equals a plan's output.
 * @param found results of the plan's measurements; before there are any, ranks are upper bounds
 * @throws MismatchError if the output is not the base plus low-rank changes, with every reason
 * @throws RecipeError if a field of the recipe does not apply to an adapter
 */
export function planAdapter({ plan, sources }: Opened, found?: Measured): AdapterPlan {
  const measured = found ?? placeholders(plan.measurements);
  for (const field of ["shard_size", "vocabulary", "lora_merge_dtype"] as const) {
    if (plan.recipe[field] !== undefined) {
      throw RecipeError.at({ field }, `${field} does not apply to an adapter. Remove ${field}, or ${FULL_MODEL}.`);
    }
  }
  const read = sourcesRead(plan.steps.map(({ value }) => value));
  const base = requireOneBase([...sources].filter(([id]) => read.has(id)));
  if (isOnFactors(plan.recipe)) return factorsAsMerged(plan, sources, base);
  requireWeightedSums(plan);
  const problems: string[] = [];
  const modules: Module[] = [];
  const whole: Step[] = [];
  const scaled: string[] = [];
  for (const step of plan.steps) {
    const { terms, divisor } = flatten(withoutSubtractions(step.value), measured);
    const changes: LowRankChange[] = [];
    let [total, isReplaced] = [0, false];
    for (const term of terms) {
      const source = isLeaf(term) ? sources.get(term.source) : undefined;
      const tensor = source?.tensors.get(step.tensor);
      const weight = term.weight / divisor;
      total += weight;
      isReplaced ||= tensor?.file !== undefined && tensor.file === source?.adapter?.file;
      if (tensor?.lowRank) changes.push({ delta: tensor.lowRank, factor: weight * tensor.lowRank.scale });
    }
    const isKnown = found !== undefined || measurementsOf(step.value).length === 0;
    if (isReplaced) whole.push(step);
    else if (isKnown && Math.abs(total - 1) > ROUNDING) scaled.push(step.tensor);
    else if (changes.length > 0) modules.push(moduleOf(step, changes));
  }
  if (scaled.length > 0) {
    problems.push(`the weights of ${formatSome(scaled)} do not sum to 1, so the base would be scaled; ${FULL_MODEL}`);
  }
  problems.push(...unsupported(modules, whole, base));
  if (modules.length === 0 && problems.length === 0) {
    problems.push(`no LoRA change of an expert is left in the result; ${FULL_MODEL}`);
  }
  if (problems.length > 0) throw notAnAdapter(problems);
  return assemble(plan, sources, base, modules, whole);
}

const FULL_MODEL = "write the full model, without as: adapter";

// Above the rounding error of sums of weights in float64, below any weight in a recipe.
const ROUNDING = 1e-9;

function notAnAdapter(problems: readonly string[]): MismatchError {
  return new MismatchError("This merge cannot be written as an adapter:", problems);
}

/** A source that has the base of all; @throws MismatchError if they do not share one */
export function requireOneBase(read: readonly (readonly [string, Checkpoint])[]): Checkpoint {
  const adapted = read.find(([, { adapter }]) => adapter)?.[1];
  if (!adapted) {
    throw notAnAdapter([
      `no source is BASE+ADAPTER; use layergraft extract to get an adapter from full models, or ${FULL_MODEL}`,
    ]);
  }
  const others = read.filter(([, { folder }]) => folder !== adapted.folder).map(([id]) => id);
  requireFactorsAlone(read);
  if (others.length === 0) return adapted;
  throw notAnAdapter([
    `${formatSome(others)} ${others.length === 1 ? "has" : "have"} another base than ${adapted.name}; give every expert as BASE+ADAPTER with one BASE, or ${FULL_MODEL}`,
  ]);
}

/** @throws MismatchError if an adapter changes weights by more than factors A and B of single matrices */
function requireFactorsAlone(read: readonly (readonly [string, Checkpoint])[]): void {
  const problems = read.flatMap(([id, { adapter }]) => {
    const deltas = [...(adapter?.deltas.values() ?? [])];
    const more = [
      ...(deltas.some(({ lengths }) => lengths) ? ["DoRA (use_dora)"] : []),
      ...(deltas.some(({ experts }) => experts) ? ["factors of whole stacks of experts (target_parameters)"] : []),
      ...(deltas.some(({ rows }) => rows) ? ["factors of parts of a tensor of the base"] : []),
      ...(adapter && adapter.rows.size > 0 ? ["rows of trained tokens (trainable_token_indices)"] : []),
    ];
    return more.map((what) => `the adapter of ${id} has ${what}, which cannot be merged as factors; ${FULL_MODEL}`);
  });
  if (problems.length > 0) throw notAnAdapter(problems);
}

/** @throws MismatchError if tensors are moved, or combined by more than weights */
function requireWeightedSums(plan: Plan): void {
  if (plan.steps.some(({ value, tensor }) => leavesOf(value).some((leaf) => leaf.tensor !== tensor))) {
    throw notAnAdapter([`it moves, repeats or leaves out layers of the base; ${FULL_MODEL}`]);
  }
  if (!plan.steps.some(({ value }) => hasOperation(withoutSubtractions(value)))) return;
  throw notAnAdapter([
    `${methodOf(plan.recipe).title} is not a weighted sum of the experts' changes here; use layergraft extract on the full model, or ${FULL_MODEL}`,
  ]);
}

/** The same value with differences as sums, which can be flattened. */
function withoutSubtractions(value: Value): Value {
  const terms = (all: readonly WeightedValue[]) =>
    all.map((term) => ({ ...term, value: withoutSubtractions(term.value) }));
  if (isLeaf(value)) return value;
  if ("blend" in value) return { blend: terms(value.blend) };
  if ("sum" in value) return { sum: terms(value.sum) };
  const [from, subtracted] = value.of;
  if (value.op !== "subtract" || !from || !subtracted) return value;
  return {
    sum: terms([
      { weight: 1, value: from },
      { weight: -1, value: subtracted },
    ]),
  };
}

function moduleOf({ tensor, layer }: Pick<Step, "tensor" | "layer">, changes: readonly LowRankChange[]): Module {
  // One adapter under two names is one change.
  const distinct = [...groupBy(changes, ({ delta: { a, b, file } }) => `${file.path} ${a.offset} ${b.offset}`).values()]
    .flatMap((same) => {
      const [first] = same;
      return first ? [{ ...first, factor: same.reduce((sum, { factor }) => sum + factor, 0) }] : [];
    })
    .filter(({ factor }) => factor !== 0);
  return {
    name: tensor.replace(/\.weight$/, ""),
    layer,
    changes: distinct,
    rank: distinct.reduce((sum, { delta }) => sum + delta.rank, 0),
    isEmbedding: changes.some(({ delta }) => factorOf(delta.a.name)?.isEmbedding === true),
  };
}

/** The adapter whose factors are the tensors of a plan on factors; they keep the scale of the experts'. */
function factorsAsMerged(plan: Plan, sources: Opened["sources"], base: Checkpoint): AdapterPlan {
  const modules = [...changedModules([...sources.values()])].map(([tensor, delta]) => {
    const { layer = null } = base.tensors.get(tensor) ?? {};
    return moduleOf({ tensor, layer }, [{ delta, factor: delta.scale }]);
  });
  const whole = plan.steps.filter(({ tensor }) => !factorOf(tensor));
  const problems = unsupported(modules, whole, base);
  if (problems.length > 0) throw notAnAdapter(problems);
  const steps = plan.steps.map((step) => (factorOf(step.tensor) ? step : { ...step, tensor: peftName(step.tensor) }));
  const config = configOf(modules, whole, commonScale(modules), base, baseName(base, sources));
  return { factors: [], whole: steps, ranks: modules.map(({ rank }) => rank), config };
}

/** Reasons why PEFT would not compute the same from the changed modules. */
function unsupported(modules: readonly Module[], whole: readonly Step[], base: Checkpoint): string[] {
  const problems: string[] = [];
  const names = new Set(modules.map(({ name }) => name));
  const changed = [...whole.map(({ tensor }) => tensor), ...modules.map(({ name }) => `${name}.weight`)];
  const embeddings = changed.filter((tensor) => base.tensors.get(tensor)?.part === "embed_tokens");
  if (base.tied && embeddings.length > 0) {
    problems.push(
      `${formatSome(embeddings)} changes, and the base ties the output head to it, which PEFT does not do for an adapter; ${FULL_MODEL}`,
    );
  }
  const biases = whole.filter(({ tensor }) => names.has(moduleName(tensor)));
  if (biases.length > 0) {
    const listed = formatSome(biases.map(({ tensor }) => tensor));
    problems.push(`${listed} was trained beside the LoRA factors of its module, which cannot be saved; ${FULL_MODEL}`);
  }
  if (new Set(modules.filter(({ isEmbedding }) => !isEmbedding).flatMap(directions)).size > 1) {
    problems.push(`the adapters differ in fan_in_fan_out; save them with one setting in PEFT, or ${FULL_MODEL}`);
  }
  return problems;
}

const directions = ({ changes }: Module) => changes.map(({ delta }) => delta.transposed);

/** The module of a tensor: its name without the last part. */
function moduleName(tensor: string): string {
  return tensor.slice(0, Math.max(0, tensor.lastIndexOf(".")));
}

function assemble(
  plan: Plan,
  sources: Opened["sources"],
  base: Checkpoint,
  modules: readonly Module[],
  whole: readonly Step[],
): AdapterPlan {
  const kept = modules.filter(({ rank }) => rank > 0);
  const scale = commonScale(kept);
  const asked = { keep: undefined, fp8: undefined, float32: "F32", float16: "F16", bfloat16: "BF16" } as const;
  const dtype = asked[plan.recipe.dtype];
  const factors = kept.flatMap(({ name, changes, rank, isEmbedding }): FactorStep[] => {
    const names = factorNames({ module: name, isEmbedding });
    const parts = (side: "a" | "b"): FactorPart[] =>
      changes.map(({ delta, factor }) => {
        return { tensor: delta[side], file: delta.file, factor: side === "a" ? 1 : factor / scale };
      });
    const dtypeOf = (all: readonly FactorPart[]) => dtype ?? keptDType(all);
    const [{ delta }] = changes as [LowRankChange];
    const [a, b] = [parts("a"), parts("b")];
    const [input, output] = [delta.a.shape[1] ?? 0, delta.b.shape[0] ?? 0];
    return [
      { tensor: names.a, dtype: dtypeOf(a), shape: [rank, input], joined: "rows", parts: a },
      { tensor: names.b, dtype: dtypeOf(b), shape: [output, rank], joined: "columns", parts: b },
    ];
  });
  return {
    factors,
    whole: whole.map((step) => ({ ...step, tensor: peftName(step.tensor) })),
    ranks: kept.map(({ rank }) => rank),
    config: configOf(kept, whole, scale, base, baseName(base, sources)),
  };
}

/**
 * The scale of every module: that of the first factors that can then be copied as they are. One scale for all, because
 * servers such as vLLM read `lora_alpha / r` and not `alpha_pattern`.
 */
function commonScale(modules: readonly Module[]): number {
  const copied = modules.find(
    ({ changes: [only, ...others] }) => others.length === 0 && only?.factor === only?.delta.scale,
  );
  return (copied ?? modules[0])?.changes[0]?.delta.scale ?? 1;
}

/** The dtype of a single factor that is copied; float32 for what is computed. */
function keptDType(parts: readonly FactorPart[]): FactorStep["dtype"] {
  const dtypes = new Set(parts.map(({ tensor, factor }) => (factor === 1 ? tensor.dtype : "F32")));
  const [dtype] = dtypes;
  return dtypes.size === 1 ? (dtype as FactorStep["dtype"]) : "F32";
}

/** The base's name for adapter_config.json: a name on the hub where one is known, and never a local path. */
function baseName(base: Checkpoint, sources: Opened["sources"]): string {
  const own = folderName(base.folder);
  const trainedOn = new Set([...sources.values()].flatMap(({ adapter }) => adapter?.trainedOn ?? []));
  const [only = ""] = trainedOn;
  return !own.includes("/") && trainedOn.size === 1 && /^[\w.-]+\/[\w.-]+$/.test(only) ? only : own;
}

function configOf(
  modules: readonly Module[],
  whole: readonly Step[],
  scale: number,
  base: Checkpoint,
  baseModel: string,
): Record<string, unknown> {
  const rank = largestOf(modules.map((module) => module.rank));
  const others = modules.filter((module) => module.rank !== rank);
  const inMemory = inMemoryOf(base.config.json.model_type);
  const saved = [...new Set(whole.map(({ tensor }) => inMemory(moduleName(tensor))))];
  return adapterConfig({
    base: baseModel,
    rank,
    alpha: scale * rank,
    rankPattern: Object.fromEntries(others.map((module) => [inMemory(module.name), module.rank])),
    alphaPattern: Object.fromEntries(others.map((module) => [inMemory(module.name), scale * module.rank])),
    targets: peftTargets(
      modules.map(({ name, layer }) => ({ module: name, layer })),
      base.tensors,
      inMemory,
    ),
    modulesToSave: saved.length > 0 ? saved : null,
    isTransposed: modules.some((module) => !module.isEmbedding && directions(module).includes(true)),
  });
}
