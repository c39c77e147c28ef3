// LoRA: which matrices get factors, how the factors start, and adapters as PEFT reads them.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ModelSource } from "../../engine/index.js";
import type { DecoderSpec, StoredWeight } from "../../engine/model/index.js";
import {
  adapterConfig as describeAdapter,
  factorNames,
  inMemoryOf,
  type Part,
  peftTargets,
} from "../../formats/checkpoint/index.js";
import { type TensorToWrite, writeSafetensors } from "../../formats/safetensors/index.js";
import { Converter, type KernelDType, type Rounding } from "../../kernels/index.js";
import { Random, RecipeError } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import type { LoraSettings } from "../run/run-schema.js";
import type { Selectable } from "../run/selection.js";
import type { ParameterShape } from "./optimizer.js";

/** A matrix [out, in] that gets factors A [rank, in] and B [out, rank], or those of all experts of a layer. */
export interface LoraModule {
  /** Names of its tensors in the base, such as `model.layers.0.self_attn.q_proj.weight`. */
  readonly tensors: readonly string[];
  /** Its name in PEFT: that of its weight without `.weight`; `base_layer` is what two parameters of a module share. */
  readonly module: string;
  readonly layer: number;
  readonly out: number;
  readonly in: number;
  /** E: the factors of experts are A [E rank, in], expert by expert, and B [out, rank E], with experts as the last axis. */
  readonly experts?: number;
}

export interface LoraPlan {
  readonly settings: LoraSettings;
  /** s of W + s B A: alpha / rank (arXiv 2106.09685, section 4.1), or alpha / sqrt(rank) (arXiv 2312.03732). */
  readonly scale: number;
  /** In the order of the base's tensors, and experts after them. */
  readonly modules: readonly LoraModule[];
  /** The modules, as PEFT names them. */
  readonly targets: ReturnType<typeof peftTargets>;
}

/** What a plan reads of a tensor of the base. */
export interface LoraBaseTensor extends Selectable {
  readonly shape: readonly number[];
  readonly transposed?: true;
}

/** What a plan reads of a base. */
export interface LoraBase {
  readonly tensors: ReadonlyMap<string, LoraBaseTensor>;
  /** Name in transformers of a tensor; default the same. */
  readonly inMemory?: ((name: string) => string) | undefined;
  /** Default none. */
  readonly experts?: readonly ExpertParameter[];
}

/** A parameter of transformers with the matrices of all experts of a layer. */
export interface ExpertParameter extends Omit<LoraModule, "module" | "experts"> {
  readonly name: string;
  readonly experts: number;
}

/** @param stored names in the checkpoint, by those of the specification */
export function loraBase(source: ModelSource, spec: DecoderSpec, stored: ReadonlyMap<string, string>): LoraBase {
  const { tensors, config } = source;
  return { tensors, inMemory: inMemoryOf(config.json.model_type), experts: expertParameters(spec, stored) };
}

// Their kernels read this projection past its module (PEFT 0.21, _check_lora_target_modules_mamba).
const WITHOUT_OUT_PROJ: readonly string[] = ["falcon_h1", "nemotron_h"];

/** Weights that PEFT has no factors for: routers, and the output of Mamba in some families. */
export function leftOutOfLora({ layers }: DecoderSpec, modelType: string): StoredWeight[] {
  return layers.flatMap(({ experts, weights: { mixed } }) => [
    ...(experts ? [experts.router.weight] : []),
    ...(mixed && WITHOUT_OUT_PROJ.includes(modelType) ? [mixed.weight] : []),
  ]);
}

function expertParameters(spec: DecoderSpec, stored: ReadonlyMap<string, string>): ExpertParameter[] {
  return spec.layers.flatMap(({ experts }, layer) => {
    const found = new Map<string, ExpertParameter>();
    for (const matrices of [experts?.gate, experts?.up, experts?.gateUp, experts?.down]) {
      if (!matrices) continue;
      const { weights, parameter, transposed } = matrices;
      const [first] = weights as [StoredWeight];
      const stem = (stored.get(first.name) ?? "").slice(0, -first.name.length);
      const own = weights.map(({ name }) => stored.get(name) ?? name);
      const tensors = [...new Set([...(found.get(parameter.name)?.tensors ?? []), ...own])];
      const width = first.shape[transposed ? 0 : 1] ?? 0;
      const name = stem + parameter.name;
      found.set(parameter.name, { name, tensors, layer, out: parameter.of, in: width, experts: weights.length });
    }
    return [...found.values()];
  });
}

/**
 * Chooses the matrices that get factors: those of a selection that are in layers. Norms, biases, routers and
 * convolutions are not trained, as in PEFT.
 * @param chosen names of the selected tensors
 * @throws RecipeError if the selection has no matrices, or unsupported ones
 */
export function planLora(chosen: ReadonlySet<string>, base: LoraBase, settings: LoraSettings): LoraPlan {
  const { tensors, inMemory = (name: string) => name, experts = [] } = base;
  const field = "train";
  const outside = [...chosen].filter((name) => {
    const { layer, shape = [] } = tensors.get(name) ?? {};
    return layer === null && name.endsWith(".weight") && shape.length > 1;
  });
  if (outside.length > 0) {
    throw RecipeError.at(
      { field },
      `${field}: LoRA trains matrices in layers only, and the selection has ${formatSome(outside)}. Write "layers", or add "but outside".`,
    );
  }
  const ofExperts = new Set(experts.flatMap((parameter) => parameter.tensors));
  const others = new Map([...tensors].filter(([name]) => !ofExperts.has(name)));
  const matrices = [...others].flatMap(([name, tensor]) => (chosen.has(name) ? moduleOf(name, tensor) : []));
  const parameters = experts.filter((parameter) => isChosen(parameter, chosen));
  // Where a model has experts, PEFT takes such modules for them (0.21, _convert_peft_config_moe), but not their weights.
  const isMistaken = ({ module }: LoraModule) => experts.length > 0 && /\.(gate|up|down)_proj$/.test(module);
  const named = peftTargets(
    matrices.filter((module) => !isMistaken(module)),
    others,
    inMemory,
  );
  const modules = [
    ...matrices.map((module) => ({ ...module, module: inMemory(module.module) })),
    ...parameters.map(({ name, ...rest }, i) => {
      const module = moduleName(inMemory(name));
      // PEFT wraps a module once for each of its parameters, the first within the others.
      const outer = parameters.slice(i + 1).filter((other) => moduleName(inMemory(other.name)) === module);
      return { ...rest, module: module + ".base_layer".repeat(outer.length) };
    }),
  ];
  if (modules.length === 0) {
    const message = `${field}: the selection has no matrix that LoRA can train, only ${formatSome([...chosen])}`;
    throw RecipeError.at({ field }, message);
  }
  const weights = modules.slice(0, matrices.length).filter(isMistaken);
  const targetParameters = [
    ...weights.map(({ module }) => `${module}.weight`),
    ...parameters.map(({ name }) => inMemory(name)),
  ];
  if (targetParameters.length > 0 && settings.dropout > 0) {
    const message = `lora.dropout is ${settings.dropout}, and PEFT has none for experts and what is beside them. Set it to 0, or train attention alone.`;
    throw RecipeError.at({ field: "lora.dropout" }, message);
  }
  const { rank, alpha, rank_stabilised: isStabilised } = settings;
  const scale = alpha / (isStabilised ? Math.sqrt(rank) : rank);
  const targets = { ...named, targetParameters };
  return { settings, scale, modules, targets };
}

const moduleName = (parameter: string) => parameter.slice(0, parameter.lastIndexOf("."));

/** Whether all tensors of a parameter are chosen. @throws RecipeError if only some are */
function isChosen({ name, tensors }: ExpertParameter, chosen: ReadonlySet<string>): boolean {
  const count = tensors.filter((one) => chosen.has(one)).length;
  if (count === 0 || count === tensors.length) return count > 0;
  const message = `train: the selection has ${count} of the ${tensors.length} matrices of ${name}, which LoRA trains together. Select all of them, or none.`;
  throw RecipeError.at({ field: "train" }, message);
}

// PEFT leaves routers out of its linear modules, too. Norms of heads may have a weight for each, as in Command R+.
const WITHOUT_FACTORS: readonly Part[] = ["router", "shared_expert_gate", "q_norm", "k_norm"];

function moduleOf(name: string, { layer, part, shape, transposed }: LoraBaseTensor): LoraModule[] {
  if (layer === null || WITHOUT_FACTORS.includes(part) || !name.endsWith(".weight") || shape.length < 2) return [];
  const [out = 0, input = 0] = shape;
  // A convolution of each channel by itself.
  if (shape.length === 3 && input === 1) return [];
  if (shape.length > 2 || transposed) {
    const what = transposed ? "is stored [in, out]" : "holds several matrices in one tensor";
    const message = `train: ${name} ${what}, which LoRA does not support here. Train it with PEFT.`;
    throw RecipeError.at({ field: "train" }, message);
  }
  return [{ tensors: [name], module: name.replace(/\.weight$/, ""), layer, out, in: input }];
}

/** The factors of a module, float32, row-major. */
export interface LoraFactors {
  /** [rank, in]; of experts [E rank, in] */
  readonly a: Float32Array;
  /** [out, rank]; of experts [out, rank E] */
  readonly b: Float32Array;
}

/** Names and shapes of the factors of a module, A before B. */
export function factorsOf(module: LoraModule, rank: number): Readonly<Record<keyof LoraFactors, ParameterShape>> {
  const { a, b } = factorNames(module);
  const ranks = rank * (module.experts ?? 1);
  return { a: { name: a, shape: [ranks, module.in] }, b: { name: b, shape: [module.out, ranks] } };
}

/**
 * The factors before training, as PEFT's `init_lora_weights=True`: B is zero, A uniform between -1 / sqrt(in) and
 * 1 / sqrt(in), which is torch's kaiming_uniform_ with a = sqrt(5). The numbers depend on seed and module alone.
 */
export function initialFactors(module: LoraModule, rank: number, seed: number): LoraFactors {
  const random = Random.of(seed, `lora ${module.module}`);
  const bound = 1 / Math.sqrt(module.in);
  const ranks = rank * (module.experts ?? 1);
  const a = Float32Array.from({ length: ranks * module.in }, () => (2 * random.float() - 1) * bound);
  return { a, b: new Float32Array(module.out * ranks) };
}

export interface WriteAdapterOptions {
  readonly plan: LoraPlan;
  /** Factors of every module of the plan, by the name of its tensor. */
  readonly factors: (module: LoraModule) => LoraFactors;
  /** The base: a folder, or a name on the Hub. */
  readonly base: string;
  /** Element type of the factors; default F32, as PEFT saves them. */
  readonly dtype?: KernelDType;
  /** Adds up what rounding to it keeps. */
  readonly rounding?: Rounding | undefined;
}

/**
 * Writes adapter_config.json and adapter_model.safetensors into a folder, as PEFT's `save_pretrained` does.
 * @throws RecipeError if values of a factor are not finite in this dtype
 */
export async function writeAdapter(folder: string, options: WriteAdapterOptions): Promise<void> {
  const { plan, factors, base, dtype = "F32", rounding } = options;
  const converter = new Converter();
  const encoded = (name: string, values: Float32Array) =>
    rounding ? encodeMeasured(converter, name, dtype, values, rounding) : encodeValues(converter, name, dtype, values);
  const tensors = plan.modules.flatMap((module): TensorToWrite[] => {
    const { a, b } = factorsOf(module, plan.settings.rank);
    const values = factors(module);
    return [
      { ...a, dtype, data: encoded(a.name, values.a) },
      { ...b, dtype, data: encoded(b.name, values.b) },
    ];
  });
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  await writeFile(join(folder, "adapter_config.json"), `${JSON.stringify(adapterConfig(plan, base), undefined, 2)}\n`);
}

/** Values that are encoded at once. */
const ENCODED = 2 ** 22;

/** The bytes of a tensor, in pieces. @throws RecipeError after the last if values are not finite in this dtype */
export function* encodeValues(
  converter: Converter,
  name: string,
  dtype: KernelDType,
  values: Float32Array,
): Generator<Uint8Array> {
  let nonFinite = 0;
  for (let from = 0; from < values.length; from += ENCODED) {
    const piece = converter.encode(dtype, values.subarray(from, from + ENCODED));
    nonFinite += piece.nonFinite;
    yield piece.bytes;
  }
  if (nonFinite === 0) return;
  const what = `${plural(nonFinite, "value")} of ${name}`;
  throw RecipeError.at(
    { tensor: name, field: "save_dtype" },
    dtype === "F16"
      ? `${what} do not fit float16. Save as bfloat16 or float32 (save_dtype) and resume.`
      : `${what} became infinite or NaN in training. Train again with a lower learning_rate.`,
  );
}

/**
 * The same; adds up what rounding keeps of the change.
 * @param of `before`: values [from, to) of the base; without it zeros. `isNorm`: whether the tensor has one dimension
 */
export async function* encodeMeasured(
  converter: Converter,
  name: string,
  dtype: KernelDType,
  values: Float32Array,
  rounding: Rounding,
  of: { readonly before?: (from: number, to: number) => Promise<Float32Array>; readonly isNorm?: boolean } = {},
): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const bytes of encodeValues(converter, name, dtype, values)) {
    const to = Math.min(from + ENCODED, values.length);
    rounding.add(dtype, values.subarray(from, to), bytes, await of.before?.(from, to), of.isNorm);
    yield bytes;
    from = to;
  }
}

export function adapterConfig({ settings, targets }: LoraPlan, base: string): Record<string, unknown> {
  const { rank, alpha, dropout, rank_stabilised: isRankStabilised } = settings;
  return describeAdapter({ base, rank, alpha, dropout, isRankStabilised, targets });
}
