// The fields of generation_config.json: which are applied, which have no effect here, and which are reported.

import { basename } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { CheckpointError, own } from "../kit/index.js";
import type { LogitSettings } from "./logit-settings.js";

/** How a model's own configuration changes answers. */
export interface GenerationConfig {
  readonly logits: LogitSettings;
  readonly minNewTokens?: number | undefined;
  /** The fields that are applied, as they are written; empty where none changes an answer. */
  readonly applied: Readonly<Record<string, unknown>>;
  /** What the fields do, and what is missing, in sentences. */
  readonly notes: readonly string[];
}

/** Where nothing changes answers. */
export const NO_GENERATION_CONFIG: GenerationConfig = { logits: {}, applied: {}, notes: [] };

type Reader = (value: unknown) => Partial<Pick<GenerationConfig, "minNewTokens"> & LogitSettings> | undefined;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isTokens = (value: unknown): value is number[] => Array.isArray(value) && value.every(isCount);
const isPenalty = (value: unknown): value is number => Number.isFinite(value) && (value as number) > 0;

/** Fields that are applied as transformers does. A reader returns undefined for an invalid value. */
const APPLIED: Readonly<Record<string, readonly [expected: string, neutral: unknown, read: Reader]>> = {
  repetition_penalty: ["a number above 0", 1, (one) => (isPenalty(one) ? { repetitionPenalty: one } : undefined)],
  no_repeat_ngram_size: ["a whole number", 0, (one) => (isCount(one) ? { noRepeatNgramSize: one } : undefined)],
  bad_words_ids: [
    "a list of lists of token ids",
    [],
    (one) =>
      Array.isArray(one) && one.every((ids) => isTokens(ids) && ids.length > 0) ? { badWordsIds: one } : undefined,
  ],
  min_length: ["a whole number", 0, (one) => (isCount(one) ? { minLength: one } : undefined)],
  min_new_tokens: ["a whole number", 0, (one) => (isCount(one) ? { minNewTokens: one } : undefined)],
  forced_bos_token_id: ["a token id", null, (one) => (isCount(one) ? { forcedBosId: one } : undefined)],
  forced_eos_token_id: [
    "a token id, or a list of them",
    null,
    (one) => (isTokens([one].flat()) ? { forcedEosIds: [one].flat() as number[] } : undefined),
  ],
  suppress_tokens: ["a list of token ids", [], (one) => (isTokens(one) ? { suppressTokens: one } : undefined)],
  begin_suppress_tokens: [
    "a list of token ids",
    [],
    (one) => (isTokens(one) ? { beginSuppressTokens: one } : undefined),
  ],
};

/** Fields that are read elsewhere, or that options of a request decide. */
const DECIDED = [
  ...["bos_token_id", "eos_token_id", "pad_token_id"],
  ...["max_length", "max_new_tokens", "num_return_sequences"],
  ...["do_sample", "temperature", "top_k", "top_p", "min_p"],
];

/** Fields that change no token of a decoder's answer without beams. */
const WITHOUT_EFFECT = [
  ...["transformers_version", "_from_model_config", "_commit_hash", "_original_object_hash"],
  ...["use_cache", "cache_implementation", "cache_config", "max_cache_len", "return_legacy_cache", "low_memory"],
  ...["prefill_chunk_size", "compile_config", "disable_compile", "continuous_batching_config", "use_mtp"],
  ...["output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"],
  // Of beams.
  ...["early_stopping", "length_penalty", "diversity_penalty"],
  // Of encoder-decoder models.
  ...["decoder_start_token_id", "encoder_repetition_penalty", "encoder_no_repeat_ngram_size"],
  // Of drafts, which change the speed.
  ...["is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"],
  ...["assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight"],
  ...["prompt_lookup_num_tokens", "max_matching_ngram_size", "speculation_type"],
  // Logits that are not numbers are an error here; a constant is no part of a choice.
  ...["remove_invalid_values", "renormalize_logits"],
];

/** Values with which fields that are not supported change nothing. Null changes nothing in any field. */
const NEUTRAL: Readonly<Record<string, unknown>> = {
  num_beams: 1,
  num_beam_groups: 1,
  typical_p: 1,
  epsilon_cutoff: 0,
  eta_cutoff: 0,
  guidance_scale: 1,
  penalty_alpha: 0,
  token_healing: false,
};

/**
 * Reads a model's generation configuration.
 * @param fields null and neutral values are as absent ones
 * @param file where the fields are, for errors and notes
 * @throws CheckpointError for an invalid value of a field that is applied
 */
export function readGenerationConfig(fields: Readonly<Record<string, unknown>>, file: string): GenerationConfig {
  const applied: Record<string, unknown> = {};
  const unsupported: string[] = [];
  let read: ReturnType<Reader> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || DECIDED.includes(name) || WITHOUT_EFFECT.includes(name)) continue;
    const field = own(APPLIED, name);
    if (!field) {
      if (!isDeepStrictEqual(value, own(NEUTRAL, name))) unsupported.push(name);
      continue;
    }
    const [expected, neutral, reader] = field;
    const settings = reader(value);
    if (!settings) {
      const message = `${file}: ${name} is ${JSON.stringify(value)}; it must be ${expected}. Fix it, or remove it.`;
      throw new CheckpointError(message, { file, field: name });
    }
    if (isDeepStrictEqual(value, neutral)) continue;
    applied[name] = value;
    read = { ...read, ...settings };
  }
  const { minNewTokens, ...logits } = read;
  const names = Object.keys(applied).map((name) => describeField(name, applied[name]));
  const notes = [
    ...(names.length === 0 ? [] : [`answers follow the model's own generation settings: ${names.join(", ")}`]),
    ...(unsupported.length === 0
      ? []
      : [`${basename(file)} has settings that are not supported and are not applied: ${unsupported.join(", ")}`]),
  ];
  return { logits, minNewTokens, applied, notes };
}

/** The fields of config.json that transformers takes for those of a generation configuration where that file is missing. */
export function legacyGeneration(config: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(config).filter(([name]) => own(APPLIED, name) !== undefined));
}

/** `repetition_penalty 1.1`; of a list its length. */
export function describeField(name: string, value: unknown): string {
  return `${name} ${Array.isArray(value) && value.length > 1 ? `(${value.length} entries)` : [value].flat().join(" ")}`;
}
