// Reads adapter_config.json: what a LoRA adapter is, and the rank and scale of each module.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { CheckpointError, guardedPatterns, isFloatDType, isObject } from "../../kit/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import { checkpointOfRun } from "../safetensors/training-run.js";

export const ADAPTER_CONFIG = "adapter_config.json";

export interface AdapterConfig {
  readonly file: string;
  readonly trainedOn: string | undefined;
  readonly rank: number;
  readonly alpha: number;
  readonly rankPattern: Readonly<Record<string, number>>;
  readonly alphaPattern: Readonly<Record<string, number>>;
  readonly rankStabilised: boolean;
  readonly fanInFanOut: boolean;
  readonly isDora: boolean;
  /** Names of parameters that are adapted themselves, as their ends. */
  readonly targetParameters: readonly string[];
  /** Names of modules that are saved whole, as their ends. */
  readonly modulesToSave: readonly string[];
  /** Whether what is trained of an embedding and its tied head stays one. */
  readonly ensuresTying: boolean;
  /** Ids of the trained tokens, by the end of the embedding's name. */
  readonly tokens: Readonly<Record<string, readonly number[]>>;
}

/** PEFT's `trainable_token_indices`: a list is that of `embed_tokens`. */
function tokensOf(value: unknown): AdapterConfig["tokens"] {
  const lists = Array.isArray(value) ? { embed_tokens: value } : isObject(value) ? value : {};
  return Object.fromEntries(
    Object.entries(lists).map(([end, ids]) => [end, Array.isArray(ids) ? ids.map(Number) : []]),
  );
}

/** Rank and scale of the factors of a module, which are those of `count` matrices. */
export function formOfFactors(
  module: string,
  a: TensorInfo,
  b: TensorInfo,
  count: number,
  config: AdapterConfig,
  where: { file: string; tensor: string },
): { rank: number; scale: number } {
  const rank = (a.shape[0] ?? 0) / count;
  const declared = patternValue(config.rankPattern, module, config) ?? config.rank;
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
  return { rank, scale };
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
  layer_replication: "layer replication",
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

/** @throws CheckpointError if it is not a LoRA adapter, or of a kind that is not supported */
export async function readAdapterConfig(path: string): Promise<AdapterConfig> {
  const file = join(path, ADAPTER_CONFIG);
  if (!(await exists(file))) {
    const checkpoint = checkpointOfRun(path, await readdir(path).catch(() => []));
    const wanted = checkpoint?.isAdapter
      ? `is the folder of a training run; write a checkpoint of it after the '+', ${checkpoint.path}`
      : checkpoint
        ? `is the folder of a training run of all weights, not an adapter; write its checkpoint without a base, ${checkpoint.path}`
        : `has no ${ADAPTER_CONFIG}; give the folder of a PEFT LoRA adapter after the '+'`;
    throw new CheckpointError(`${path} ${wanted}`, { file: path });
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
    isDora: json.use_dora === true,
    targetParameters: Array.isArray(json.target_parameters) ? json.target_parameters.map(String) : [],
    modulesToSave: Array.isArray(json.modules_to_save) ? json.modules_to_save.map(String) : [],
    ensuresTying: json.ensure_weight_tying === true,
    tokens: tokensOf(json.trainable_token_indices),
  };
}
