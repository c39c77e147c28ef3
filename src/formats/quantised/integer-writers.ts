// Pages of writers of integers with zeros of their own: GPTQ, AWQ and AutoRound.

import { isObject, type JsonObject } from "../../kit/index.js";
import { isSize } from "./float-writers.js";
import { given, INTEGERS, isNumber, matches, type Scheme, type Sharing, type WriterPage } from "./scheme.js";
import { any, empty, entries, fields, flag, harmless, oneOf, whole } from "./settings.js";

const EVERY = ["bits", "group_size", "desc_act", "sym"] as const;

/** Columns that share a scale; the whole row where a size says so. */
function sharingOf(settings: JsonObject): readonly Sharing[] | undefined {
  const { group_size: size } = settings;
  return size === -1 ? ["row"] : isSize(size) ? [{ group: size }] : undefined;
}

/** @param less whether stored zeros are one less than those of the codes */
function gptqScheme(settings: JsonObject, less: boolean, writer: string): Scheme | string {
  const { bits, sym, desc_act: isOrdered = false } = settings;
  const scales = sharingOf(settings);
  const code = isNumber(bits) ? INTEGERS[bits] : undefined;
  if (!code) return bits === undefined ? `${writer}'s settings have no bits` : `codes of ${bits} bits are not read`;
  if (!scales) return `${writer}'s settings have no group_size`;
  // A file of version 2 whose settings say version 1 differs only where codes are symmetric.
  if (typeof sym !== "boolean") {
    return `${writer}'s settings have no sym, which says what zeros of codes mean; add the one that the model was quantised with`;
  }
  const middle = 2 ** ((bits as number) - 1);
  const symmetric = { zero: middle, stored: less ? [middle - 1, middle] : [middle] };
  return {
    layout: "gptq",
    code,
    scales,
    isOrdered: isOrdered === true,
    ...(sym ? { symmetric } : { zero: less ? 1 : 0 }),
  };
}

function awqScheme(settings: JsonObject, symmetric: boolean, writer: string): Scheme | string {
  const { bits = given(settings, "w_bit"), group_size: size = given(settings, "q_group_size") } = settings;
  const scales = sharingOf({ group_size: size });
  if (bits !== 4)
    return bits === undefined ? `${writer}'s settings have no bits` : `codes of ${bits} bits are not read`;
  if (!scales) return `${writer}'s settings have no group_size`;
  return {
    layout: "awq",
    code: "INT4",
    scales,
    ...(symmetric ? { symmetric: { zero: 8, stored: [8] } } : {}),
  };
}

const listed = (scheme: Scheme | string) => (typeof scheme === "string" ? scheme : [scheme]);

/** What AutoRound writes of how it found the codes, also into settings of GPTQ and AWQ. */
const SEARCH = harmless(
  ...["autoround_version", "iters", "nsamples", "seqlen", "lr", "minmax_lr", "enable_quanted_input", "amp", "provider"],
  ...["enable_minmax_tuning", "enable_norm_bias_tuning", "block_name_to_quantize", "to_quant_block_names", "dataset"],
  ...["low_gpu_mem_usage", "batch_size", "scale_dtype", "gradient_accumulate_steps", "quant_block_list", "model_free"],
);
/** What transformers writes of any GPTQ or AWQ. */
const SHARED = harmless(
  ...["damp_percent", "true_sequential", "tokenizer", "dataset", "model_seqlen", "block_name_to_quantize", "backend"],
  ...["module_name_preceding_first_block", "batch_size", "pad_token_id", "max_input_length", "cache_block_outputs"],
  ...["modules_in_block_to_quantize", "meta", "act_group_aware", "exllama_config", "modules_to_not_convert"],
);

const gptq: WriterPage = {
  names: ["gptq"],
  reads: "2, 4 and 8 bits, with and without act-order and zeros, `gptq` and `gptq_v2`",
  keys: {
    ...SHARED,
    ...SEARCH,
    ...harmless("damp_auto_increment", "static_groups", "mse", "use_cuda_fp16", "use_exllama", "disable_exllama"),
    ...harmless("lm_head", "v2", "model_name_or_path", "model_file_base_name", "hyb_act", "v2_alpha"),
    ...harmless("offload_to_disk", "parallel_packing", "model_file_basename"),
    data_type: oneOf("int"),
    quant_method: any,
    bits: oneOf(2, 4, 8),
    group_size: whole,
    desc_act: flag,
    sym: flag,
    checkpoint_format: oneOf("gptq", "gptq_v2"),
    format: oneOf("gptq", "gptq_v2"),
    quant_format: oneOf("gptq", "gptq_v2"),
    pack_dtype: oneOf("int32"),
    is_marlin_format: oneOf(false),
    rotation: empty,
    adapter: empty,
    dynamic: entries(
      fields({
        ...harmless("damp_percent", "mse", "static_groups"),
        bits: oneOf(2, 4, 8),
        group_size: whole,
        desc_act: flag,
        sym: flag,
      }),
    ),
  },
  schemes(settings, module) {
    const formats = ["checkpoint_format", "format", "quant_format"].flatMap((key) => given(settings, key) ?? []);
    if (new Set(formats).size > 1) return `gptq's settings say ${formats.join(" and ")}, which store different zeros`;
    const own: Record<string, unknown> = { ...settings };
    // The first pattern that matches counts; "-:" names what is not quantised.
    for (const [pattern, change] of Object.entries(isObject(settings.dynamic) ? settings.dynamic : {})) {
      if (!matches(pattern.replace(/^[+-]:/, ""), module)) continue;
      if (pattern.startsWith("-:")) return `dynamic of the configuration leaves out ${module}, which has codes`;
      for (const key of EVERY) if (isObject(change) && given(change, key) !== undefined) own[key] = change[key];
      break;
    }
    return listed(gptqScheme(own, formats[0] !== "gptq_v2", "gptq"));
  },
};

const awq: WriterPage = {
  names: ["awq"],
  reads: "4 bits, `gemm`",
  keys: {
    ...SHARED,
    ...SEARCH,
    // Zeros are as stored, whatever sym says: transformers writes it of models with zeros, too.
    ...harmless("do_fuse", "fuse_max_seq_len", "modules_to_fuse", "sym"),
    desc_act: oneOf(false),
    data_type: oneOf("int"),
    quant_method: any,
    bits: oneOf(4),
    w_bit: oneOf(4),
    group_size: whole,
    q_group_size: whole,
    version: oneOf("gemm", "GEMM"),
    format: oneOf("gemm"),
    zero_point: flag,
  },
  schemes(settings) {
    return listed(awqScheme(settings, settings.zero_point === false, "awq"));
  },
};

/** How each `packing_format` of AutoRound stores zeros. */
const PACKINGS: Readonly<Record<string, "as they are" | "less one" | "awq">> = {
  auto_round: "as they are",
  "auto_round:gptqmodel": "as they are",
  "auto_round:auto_gptq": "less one",
  "auto_round:gptq": "less one",
  "auto_round:auto_awq": "awq",
  "auto_round:awq": "awq",
};

const autoRound: WriterPage = {
  names: ["auto-round", "auto_round", "intel/auto-round"],
  reads: "integers of 2, 4 and 8 bits, packed as `auto_round`, `auto_gptq`, `gptqmodel` or `auto_awq`",
  keys: {
    ...SEARCH,
    ...harmless("modules_to_not_convert", "act_bits", "act_data_type", "act_group_size", "act_sym", "act_dynamic"),
    ...harmless("backend", "supported_types", "quant_lm_head", "static_kv_dtype", "static_attention_dtype"),
    ...harmless("static_kv_granularity", "static_attention_granularity", "model_seqlen"),
    quant_method: any,
    bits: oneOf(2, 4, 8),
    group_size: whole,
    sym: flag,
    data_type: oneOf("int"),
    packing_format: oneOf(...Object.keys(PACKINGS)),
    super_bits: empty,
    super_group_size: empty,
    regex_config: empty,
    rotation_configs: empty,
    desc_act: oneOf(false),
    extra_config: entries(
      fields({
        ...harmless("act_bits", "act_data_type", "act_group_size", "act_sym", "act_dynamic", "scale_dtype"),
        bits: oneOf(2, 4, 8, 16),
        group_size: whole,
        sym: flag,
        data_type: oneOf("int", "float", "fp"),
        super_bits: empty,
        super_group_size: empty,
      }),
    ),
  },
  schemes(settings, module) {
    const packing = given(settings, "packing_format") ?? settings.backend;
    const zeros = typeof packing === "string" && Object.hasOwn(PACKINGS, packing) ? PACKINGS[packing] : undefined;
    if (!zeros) return "auto-round's settings have no packing_format, which says how zeros are stored";
    const layers = isObject(settings.extra_config) ? settings.extra_config : {};
    const pattern = Object.keys(layers).find((key) => !/^[\w.-]+$/.test(key));
    if (pattern !== undefined) return `layergraft does not try the pattern ${JSON.stringify(pattern)} of extra_config`;
    const change = Object.hasOwn(layers, module) && isObject(layers[module]) ? layers[module] : {};
    const own: Record<string, unknown> = { ...settings };
    for (const key of EVERY) if (given(change as JsonObject, key) !== undefined) own[key] = (change as JsonObject)[key];
    if (own.bits === 16) return `extra_config of the configuration leaves out ${module}, which has codes`;
    if (zeros !== "awq") return listed(gptqScheme(own, zeros === "less one", "auto-round"));
    return typeof own.sym === "boolean"
      ? listed(awqScheme(own, own.sym, "auto-round"))
      : "auto-round's settings have no sym";
  },
};

export const INTEGER_WRITERS: readonly WriterPage[] = [gptq, awq, autoRound];
