// LoRA: which matrices get factors, how the factors start, and adapters as PEFT reads them.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  adapterConfig as describeAdapter,
  factorNames,
  type Part,
  type PeftTargets,
  peftTargets,
} from "../../formats/checkpoint/index.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { Converter, type KernelDType } from "../../kernels/index.js";
import { Random, RecipeError } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import type { LoraSettings } from "../run/run-schema.js";
import type { Selectable } from "../run/selection.js";
import type { ParameterShape } from "./optimizer.js";

/** A matrix [out, in] that gets factors A [rank, in] and B [out, rank]. */
export interface LoraModule {
  /** Name of the matrix in the base, such as `model.layers.0.self_attn.q_proj.weight`. */
  readonly tensor: string;
  /** The same without `.weight`. */
  readonly module: string;
  readonly layer: number;
  readonly part: Part;
  readonly out: number;
  readonly in: number;
}

export interface LoraPlan {
  readonly settings: LoraSettings;
  /** s of W + s B A: alpha / rank (arXiv 2106.09685, section 4.1), or alpha / sqrt(rank) (arXiv 2312.03732). */
  readonly scale: number;
  /** In the order of the base's tensors. */
  readonly modules: readonly LoraModule[];
  /** The modules, as PEFT names them. */
  readonly targets: PeftTargets;
}

/** What a plan reads of a tensor of the base. */
export interface LoraBaseTensor extends Selectable {
  readonly shape: readonly number[];
  readonly transposed?: true;
}

/**
 * Chooses the matrices that get factors: those of a selection that are in layers. Norms, biases, routers and
 * convolutions are not trained, as in PEFT.
 * @param chosen names of the selected tensors
 * @param tensors all tensors of the base
 * @throws RecipeError if the selection has no matrices, or unsupported ones
 */
export function planLora(
  chosen: ReadonlySet<string>,
  tensors: ReadonlyMap<string, LoraBaseTensor>,
  settings: LoraSettings,
): LoraPlan {
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
  const modules = [...tensors].flatMap(([name, tensor]) => (chosen.has(name) ? moduleOf(name, tensor) : []));
  if (modules.length === 0) {
    const message = `${field}: the selection has no matrix that LoRA can train, only ${formatSome([...chosen])}`;
    throw RecipeError.at({ field }, message);
  }
  const { rank, alpha, rank_stabilised: isStabilised } = settings;
  const scale = alpha / (isStabilised ? Math.sqrt(rank) : rank);
  return { settings, scale, modules, targets: peftTargets(modules, tensors) };
}

// PEFT leaves them out of its linear modules, too.
const ROUTERS: readonly Part[] = ["router", "shared_expert_gate"];

function moduleOf(name: string, { layer, part, shape, transposed }: LoraBaseTensor): LoraModule[] {
  if (layer === null || ROUTERS.includes(part) || !name.endsWith(".weight") || shape.length < 2) return [];
  const [out = 0, input = 0] = shape;
  // A convolution of each channel by itself.
  if (shape.length === 3 && input === 1) return [];
  if (shape.length > 2 || transposed) {
    const what = transposed ? "is stored [in, out]" : "holds several matrices in one tensor";
    const message = `train: ${name} ${what}, which LoRA does not support here. Train it with PEFT.`;
    throw RecipeError.at({ field: "train" }, message);
  }
  return [{ tensor: name, module: name.replace(/\.weight$/, ""), layer, part, out, in: input }];
}

/** The factors of a module, float32, row-major. */
export interface LoraFactors {
  /** [rank, in] */
  readonly a: Float32Array;
  /** [out, rank] */
  readonly b: Float32Array;
}

/** Names and shapes of the factors of a module, A before B. */
export function factorsOf(module: LoraModule, rank: number): Readonly<Record<keyof LoraFactors, ParameterShape>> {
  const { a, b } = factorNames(module);
  return { a: { name: a, shape: [rank, module.in] }, b: { name: b, shape: [module.out, rank] } };
}

/**
 * The factors before training, as PEFT's `init_lora_weights=True`: B is zero, A uniform between -1 / sqrt(in) and
 * 1 / sqrt(in), which is torch's kaiming_uniform_ with a = sqrt(5). The numbers depend on seed and module alone.
 */
export function initialFactors(module: LoraModule, rank: number, seed: number): LoraFactors {
  const random = Random.of(seed, `lora ${module.module}`);
  const bound = 1 / Math.sqrt(module.in);
  const a = Float32Array.from({ length: rank * module.in }, () => (2 * random.float() - 1) * bound);
  return { a, b: new Float32Array(module.out * rank) };
}

export interface WriteAdapterOptions {
  readonly plan: LoraPlan;
  /** Factors of every module of the plan, by the name of its tensor. */
  readonly factors: (module: LoraModule) => LoraFactors;
  /** The base: a folder, or a name on the Hub. */
  readonly base: string;
  /** Element type of the factors; default F32, as PEFT saves them. */
  readonly dtype?: KernelDType;
}

/**
 * Writes adapter_config.json and adapter_model.safetensors into a folder, as PEFT's `save_pretrained` does.
 * @throws RecipeError if values of a factor are not finite in this dtype
 */
export async function writeAdapter(folder: string, options: WriteAdapterOptions): Promise<void> {
  const { plan, factors, base, dtype = "F32" } = options;
  const converter = new Converter();
  const tensors = plan.modules.flatMap((module): TensorData[] => {
    const { a, b } = factorsOf(module, plan.settings.rank);
    const values = factors(module);
    return [
      { ...a, dtype, data: encodeValues(converter, a.name, dtype, values.a) },
      { ...b, dtype, data: encodeValues(converter, b.name, dtype, values.b) },
    ];
  });
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  await writeFile(join(folder, "adapter_config.json"), `${JSON.stringify(adapterConfig(plan, base), undefined, 2)}\n`);
}

/** The bytes of a tensor. @throws RecipeError if values are not finite in this dtype */
export function encodeValues(converter: Converter, name: string, dtype: KernelDType, values: Float32Array): Uint8Array {
  const { bytes, nonFinite } = converter.encode(dtype, values);
  if (nonFinite === 0) return bytes;
  const what = `${plural(nonFinite, "value")} of ${name}`;
  throw RecipeError.at(
    { tensor: name, field: "save_dtype" },
    dtype === "F16"
      ? `${what} do not fit float16. Save as bfloat16 or float32 (save_dtype) and resume.`
      : `${what} became infinite or NaN in training. Train again with a lower learning_rate.`,
  );
}

export function adapterConfig({ settings, targets }: LoraPlan, base: string): Record<string, unknown> {
  const { rank, alpha, dropout, rank_stabilised: isRankStabilised } = settings;
  return describeAdapter({ base, rank, alpha, dropout, isRankStabilised, targets });
}
