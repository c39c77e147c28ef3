// Pages of writers of FP8, NVFP4 and MXFP4.

import { isObject, type JsonObject } from "../../kit/index.js";
import type { Scheme, Sharing, WriterPage } from "./scheme.js";
import { any, entries, fields, harmless, oneOf, sizes } from "./settings.js";

const BLOCKS_OF_128: Sharing = { block: [128, 128] };

const fp8 = (...scales: readonly Sharing[]): Scheme => ({ layout: "bytes", code: "FP8", scales });
export const NVFP4: Scheme = { layout: "halves", code: "FP4", scales: [{ group: 16 }] };
const MXFP4: Scheme = { layout: "experts", code: "FP4", scales: [{ group: 32 }] };

export const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

const fineGrained: WriterPage = {
  names: ["fp8"],
  reads: "E4M3 with a scale for the tensor, a row or a block",
  keys: {
    ...harmless("activation_scheme", "modules_to_not_convert", "modules_to_convert", "ignored_layers", "dequantize"),
    ...harmless("activation_scale_ub", "kv_cache_scheme", "kv_cache_quant_method"),
    quant_method: any,
    fmt: oneOf("e4m3", "float8_e4m3fn"),
    scale_fmt: oneOf("ue8m0", "float"),
    expert_dtype: oneOf("fp8"),
    weight_block_size: sizes,
    is_checkpoint_fp8_serialized: oneOf(true),
  },
  schemes({ weight_block_size: block }) {
    if (block === undefined) return [fp8("tensor", "row", BLOCKS_OF_128)];
    if (block === null) return [fp8("tensor", "row")];
    const [m, n, ...more] = Array.isArray(block) ? block : [];
    if (isSize(m) && isSize(n) && more.length === 0) return [fp8({ block: [m, n] })];
    return `layergraft does not know weight_block_size ${JSON.stringify(block)}`;
  },
};

const fbgemm: WriterPage = {
  names: ["fbgemm_fp8"],
  reads: "E4M3 with a scale for each row, or for each column of stacked experts",
  keys: { ...harmless("activation_scale_ub", "modules_to_not_convert"), quant_method: any },
  schemes: () => [fp8("row", "column")],
};

const mxfp4: WriterPage = {
  names: ["mxfp4"],
  reads: "experts of gpt-oss, E2M1 in groups of 32",
  keys: { ...harmless("modules_to_not_convert", "dequantize"), quant_method: any },
  schemes: () => [MXFP4],
};

const ALGORITHMS: Readonly<Record<string, readonly Scheme[]>> = {
  FP8: [fp8("tensor")],
  FP8_PER_CHANNEL_PER_TOKEN: [fp8("row")],
  FP8_PB_WO: [fp8(BLOCKS_OF_128)],
  NVFP4: [NVFP4],
  W4A16_NVFP4: [NVFP4],
};
const algorithm = oneOf(...Object.keys(ALGORITHMS));

const modelopt: WriterPage = {
  names: ["modelopt", "modelopt_fp4", "NVFP4", "FP8"],
  reads: "`quant_algo` FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, and MIXED_PRECISION of these",
  keys: {
    ...harmless("producer", "ignore", "exclude_modules", "kv_cache_scheme", "kv_cache_quant_algo"),
    quant_method: any,
    quant_algo: oneOf(...Object.keys(ALGORITHMS), "MIXED_PRECISION"),
    group_size: oneOf(16),
    quantized_layers: entries(fields({ quant_algo: algorithm, group_size: oneOf(16) })),
    has_zero_point: oneOf(false),
    pre_quant_scale: oneOf(false),
    config_groups: entries(
      fields({
        ...harmless("targets", "input_activations", "output_activations"),
        weights: fields({
          ...harmless("dynamic"),
          num_bits: oneOf(4, 8),
          type: oneOf("float"),
          group_size: oneOf(16),
        }),
      }),
    ),
  },
  schemes(settings, module) {
    const algo = settings.quant_algo ?? settings.quant_method;
    const layers = isObject(settings.quantized_layers) ? settings.quantized_layers : {};
    const own = Object.hasOwn(layers, module) ? layers[module] : undefined;
    const stated = algo === "MIXED_PRECISION" && isObject(own) ? own.quant_algo : algo;
    if (typeof stated === "string" && Object.hasOwn(ALGORITHMS, stated)) return ALGORITHMS[stated] ?? [];
    return algo === "MIXED_PRECISION"
      ? `quantized_layers does not name ${module}`
      : "modelopt's quantization_config has no quant_algo";
  },
  keepsPlain: ({ quant_algo: algo }: JsonObject) => algo === undefined || algo === null,
};

/** Tensors that say by themselves what they are. */
export const withoutSettings: WriterPage = {
  names: [],
  reads: "E4M3 with a scale for the tensor, a row or a block of 128, NVFP4 of ModelOpt, experts of gpt-oss",
  keys: {},
  schemes: () => [fp8("tensor", "row", BLOCKS_OF_128), NVFP4, MXFP4],
};

const bitnet: WriterPage = {
  names: ["bitnet"],
  reads: "the plain weights that it quantises while it runs; packed ternary weights are not read",
  keys: {
    ...harmless("modules_to_not_convert", "linear_class", "quantization_mode", "use_rms_norm", "rms_norm_eps"),
    quant_method: any,
  },
  schemes: () => "packed weights of bitnet are not read",
  keepsPlain: () => true,
  whileRunning: "bitnet quantises its weights and their inputs while it runs",
};

const bitsandbytes: WriterPage = {
  names: ["bitsandbytes"],
  reads: "plain weights only; NF4, FP4 and int8 are not read",
  keys: {
    ...harmless("load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit", "bnb_4bit_compute_dtype"),
    ...harmless("bnb_4bit_quant_storage", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "llm_int8_threshold"),
    ...harmless("llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_skip_modules"),
    quant_method: any,
  },
  schemes: () => "codes of bitsandbytes are not read",
};

/** Settings of MLX, which do not name it. */
export const mlx: WriterPage = {
  names: ["mlx"],
  reads: "plain weights only, which its settings without `quant_method` were left beside; its codes are not read",
  keys: harmless("bits", "group_size", "mode"),
  schemes: () => "codes of MLX are not read",
};

export const FLOAT_WRITERS: readonly WriterPage[] = [fineGrained, fbgemm, mxfp4, modelopt, bitnet, bitsandbytes, mlx];
