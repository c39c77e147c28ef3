// Opens PEFT LoRA adapters and matches their factors to a base's tensors. Formula: Hu et al., arXiv 2106.09685, section
// 4.1; rank-stabilised scale: Kalajdzievski, arXiv 2312.03732. File layout: PEFT's `save_pretrained`.

import { join } from "node:path";
import {
  CheckpointError,
  exists,
  formatShape,
  formatSome,
  guardedPatterns,
  isFloatDType,
  readJsonObject,
} from "../../core/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import { openSafetensors, type SafetensorsFile } from "../safetensors/reader.js";
import type { RemoteFolder } from "../safetensors/sharded.js";
import { factorOf } from "./adapter-files.js";
import { folderName } from "./locate.js";

/** W + scale * (B A), or W + scale * (B A)^T where the base stores the weight as [in, out]. */
export interface LowRankDelta {
  /** [rank, in] */
  readonly a: TensorInfo;
  /** [out, rank] */
  readonly b: TensorInfo;
  readonly rank: number;
  readonly scale: number;
  /** Whether the product is transposed before it is added (`fan_in_fan_out`, embeddings). */
  readonly transposed: boolean;
}

export interface Adapter {
  readonly path: string;
  readonly name: string;
  readonly file: SafetensorsFile;
  /** `base_model_name_or_path`: the base that it was trained on. */
  readonly trainedOn: string | undefined;
  /** By the name of the base's tensor. */
  readonly deltas: ReadonlyMap<string, LowRankDelta>;
  /** Tensors saved whole (`modules_to_save`, trained biases), by the name of the base's tensor they replace. */
  readonly replacements: ReadonlyMap<string, TensorInfo>;
}

interface AdapterConfig {
  readonly file: string;
  readonly trainedOn: string | undefined;
  readonly rank: number;
  readonly alpha: number;
  readonly rankPattern: Readonly<Record<string, number>>;
  readonly alphaPattern: Readonly<Record<string, number>>;
  readonly rankStabilised: boolean;
  readonly fanInFanOut: boolean;
}

export const ADAPTER_WEIGHTS = "adapter_model.safetensors";
export const ADAPTER_CONFIG = "adapter_config.json";
const PREFIX = "base_model.model.";

/**
 * Opens an adapter and fits it to the tensors of its base.
 * @param base shapes of the base's tensors by name
 * @param remote files that are not on the disk
 * @throws CheckpointError if it is not a LoRA adapter, uses a variant that is not plain or rank-stabilised LoRA, or has
 *   a tensor that matches nothing in the base
 */
export async function openAdapter(
  path: string,
  base: ReadonlyMap<string, { readonly shape: readonly number[] }>,
  remote?: RemoteFolder,
): Promise<Adapter> {
  const config = await readAdapterConfig(path);
  const weights = join(path, ADAPTER_WEIGHTS);
  const isRemote = remote?.names.has(ADAPTER_WEIGHTS) === true;
  if (!isRemote && !(await exists(weights))) {
    const pickle = "adapter_model.bin";
    const pickled =
      remote?.names.has(pickle) || (await exists(join(path, pickle)))
        ? "; its adapter_model.bin is pickled and never read. Load it in PEFT and save it again."
        : "";
    throw new CheckpointError(`${path} has no ${ADAPTER_WEIGHTS}${pickled}`, { file: path });
  }
  const file = isRemote ? await remote.open(ADAPTER_WEIGHTS) : await openSafetensors(weights);
  return { path, name: folderName(path), file, trainedOn: config.trainedOn, ...fitToBase(file, config, base) };
}

function fitToBase(
  file: SafetensorsFile,
  config: AdapterConfig,
  base: ReadonlyMap<string, { readonly shape: readonly number[] }>,
): Pick<Adapter, "deltas" | "replacements"> {
  const factors = new Map<string, { a?: TensorInfo; b?: TensorInfo; embedding: boolean }>();
  const replacements = new Map<string, TensorInfo>();
  const unused: string[] = [];
  for (const tensor of file.tensors) {
    const name = tensor.name.startsWith(PREFIX) ? tensor.name.slice(PREFIX.length) : tensor.name;
    const factor = factorOf(name);
    if (factor) {
      const entry = factors.get(factor.module) ?? { embedding: factor.isEmbedding };
      factors.set(factor.module, { ...entry, [factor.side]: tensor });
      continue;
    }
    const target = name.replace(/\.modules_to_save(\.default)?(?=\.)/, "").replace(/\.base_layer(?=\.)/, "");
    if (base.has(target)) replacements.set(target, tensor);
    else unused.push(tensor.name);
  }
  if (unused.length > 0) {
    throw new CheckpointError(
      `${file.path} has tensors that do not match the base: ${formatSome(unused)}. It may be an unsupported LoRA variant, such as DoRA. Merge the adapter in PEFT and pass the merged checkpoint.`,
      { file: file.path, tensor: unused[0] ?? "" },
    );
  }
  for (const [target, tensor] of replacements) {
    const shape = base.get(target)?.shape ?? [];
    if (formatShape(shape) !== formatShape(tensor.shape)) {
      throw new CheckpointError(
        `${file.path}: ${tensor.name} is ${formatShape(tensor.shape)}, but ${target} of the base is ${formatShape(shape)}`,
        { file: file.path, tensor: target, expected: formatShape(shape), actual: formatShape(tensor.shape) },
      );
    }
  }
  const deltas = new Map<string, LowRankDelta>();
  for (const [module, { a, b, embedding }] of factors) {
    const target = `${module}.weight`;
    const shape = base.get(target)?.shape;
    const where = { file: file.path, tensor: target };
    if (!a || !b) throw new CheckpointError(`${file.path} has only one of the two factors of ${module}`, where);
    if (!shape) {
      throw new CheckpointError(
        `${file.path} adapts ${module}, which the base does not have; is it the adapter's base?`,
        where,
      );
    }
    deltas.set(target, lowRank(module, a, b, shape, embedding || config.fanInFanOut, config, where));
  }
  return { deltas, replacements };
}

function lowRank(
  module: string,
  a: TensorInfo,
  b: TensorInfo,
  shape: readonly number[],
  transposed: boolean,
  config: AdapterConfig,
  where: { file: string; tensor: string },
): LowRankDelta {
  const rank = a.shape[0] ?? 0;
  const declared = patternValue(config.rankPattern, module, config) ?? config.rank;
  const [out, input] = transposed ? [shape[1], shape[0]] : [shape[0], shape[1]];
  const fits = shape.length === 2 && a.shape.length === 2 && b.shape.length === 2;
  if (!fits || a.shape[1] !== input || b.shape[0] !== out || b.shape[1] !== rank || rank === 0) {
    throw new CheckpointError(
      `${where.file}: the factors of ${module} are ${formatShape(a.shape)} and ${formatShape(b.shape)}, which do not fit its weight ${formatShape(shape)}; is it the adapter's base?`,
      { ...where, expected: formatShape(shape) },
    );
  }
  if (!isFloatDType(a.dtype) || a.dtype !== b.dtype || a.dtype === "F64") {
    throw new CheckpointError(
      `${where.file}: the factors of ${module} are ${a.dtype} and ${b.dtype}; both must be F32, F16 or BF16`,
      where,
    );
  }
  if (declared !== rank) {
    throw new CheckpointError(
      `${where.file}: the factors of ${module} have rank ${rank}, but ${config.file} says ${declared}, so its scale is unclear; correct r or rank_pattern`,
      { ...where, field: "r", expected: String(declared), actual: String(rank) },
    );
  }
  const alpha = patternValue(config.alphaPattern, module, config) ?? config.alpha;
  const scale = alpha / (config.rankStabilised ? Math.sqrt(rank) : rank);
  if (!Number.isFinite(Math.fround(scale))) {
    throw new CheckpointError(
      `${config.file}: lora_alpha ${alpha} makes a scale for ${module} that float32 cannot hold. Correct lora_alpha or alpha_pattern.`,
      { file: config.file, field: "lora_alpha", actual: String(alpha) },
    );
  }
  return { a, b, rank, scale, transposed };
}

/** The value of the first pattern that matches the end of a module's name, as PEFT's `get_pattern_key` chooses it. */
function patternValue(
  patterns: Readonly<Record<string, number>>,
  module: string,
  config: AdapterConfig,
): number | undefined {
  for (const [key, value] of Object.entries(patterns)) {
    try {
      if (matchesEnd(key, module)) return value;
    } catch {
      throw new CheckpointError(
        `${config.file}: the pattern ${JSON.stringify(key)} is not supported. Merge the adapter in PEFT and pass the merged checkpoint.`,
        { file: config.file, field: "rank_pattern, alpha_pattern", actual: key },
      );
    }
  }
  return undefined;
}

/** A pattern is tried on every module, each name of some fifty characters. */
const MATCH_SECONDS = 1;

/** Python's `re.match(rf"(.*\.)?({key})$", name)`; throws if the pattern cannot be read, or takes too long. */
function matchesEnd(key: string, name: string): boolean {
  // JavaScript reads \A, \Z and {,n} as well, but not as Python does.
  if (/\\[AZ]|\{,/.test(key)) throw new SyntaxError("not a pattern of both languages");
  const pattern = `^(?:.*\\.)?(?:${key})$`;
  // A pattern without these cannot backtrack, so it skips the guarded process, which starts slowly.
  return /[*+?{|]/.test(key)
    ? guardedPatterns("test", [pattern, "", name], MATCH_SECONDS)
    : new RegExp(pattern).test(name);
}

/** Fields of adapter_config.json whose arithmetic is not supported; rejected unless empty or false. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  use_dora: "DoRA",
  layer_replication: "layer replication",
  trainable_token_indices: "trainable token indices",
  target_parameters: "adapted parameters (target_parameters)",
  use_qalora: "QALoRA",
  use_bdlora: "block-diagonal LoRA",
  alora_invocation_tokens: "activated LoRA",
  lora_bias: "a bias on the second factor (lora_bias)",
  monteclora_config: "MonteCLoRA",
  velora_config: "VeLoRA",
  arrow_config: "Arrow routing",
  kasa_config: "KaSA",
};

const CHANGES_BASE = /^(pissa|olora|corda|loftq|lora_ga)/i;

async function readAdapterConfig(path: string): Promise<AdapterConfig> {
  const file = join(path, ADAPTER_CONFIG);
  if (!(await exists(file))) {
    throw new CheckpointError(
      `${path} has no ${ADAPTER_CONFIG}; give the folder of a PEFT LoRA adapter after the '+'`,
      {
        file: path,
      },
    );
  }
  const json = await readJsonObject(file);
  if (json.peft_type !== "LORA") {
    throw new CheckpointError(
      `${file}: peft_type is ${JSON.stringify(json.peft_type ?? null)}; only LORA adapters can be added`,
      {
        file,
        field: "peft_type",
        expected: "LORA",
        actual: String(json.peft_type),
      },
    );
  }
  for (const [field, name] of Object.entries(UNSUPPORTED)) {
    const value = json[field];
    const empty =
      value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0);
    if (!empty) {
      throw new CheckpointError(
        `${file} uses ${name}, which is not supported; merge the adapter in PEFT and give the merged checkpoint`,
        { file, field },
      );
    }
  }
  // PEFT subtracts the initial factors of these from the base on load, so W is no longer the base's.
  if (typeof json.init_lora_weights === "string" && CHANGES_BASE.test(json.init_lora_weights)) {
    throw new CheckpointError(
      `${file}: init_lora_weights is ${JSON.stringify(json.init_lora_weights)}, which changes the base's weights too; merge the adapter in PEFT and give the merged checkpoint, or save it with path_initial_model_for_weight_conversion`,
      { file, field: "init_lora_weights", actual: json.init_lora_weights },
    );
  }
  const number = (field: string, value: unknown): number => {
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return value;
    throw new CheckpointError(`${file}: ${field} is ${JSON.stringify(value ?? null)}, not a positive number`, {
      file,
      field,
    });
  };
  const pattern = (field: string): Record<string, number> => {
    const value = json[field] ?? {};
    if (typeof value !== "object" || Array.isArray(value)) {
      throw new CheckpointError(`${file}: ${field} is not an object`, { file, field });
    }
    return Object.fromEntries(Object.entries(value as object).map(([key, n]) => [key, number(`${field}.${key}`, n)]));
  };
  return {
    file,
    trainedOn: typeof json.base_model_name_or_path === "string" ? json.base_model_name_or_path : undefined,
    rank: number("r", json.r),
    alpha: number("lora_alpha", json.lora_alpha),
    rankPattern: pattern("rank_pattern"),
    alphaPattern: pattern("alpha_pattern"),
    rankStabilised: json.use_rslora === true,
    fanInFanOut: json.fan_in_fan_out === true,
  };
}
