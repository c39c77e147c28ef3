// The page of compressed-tensors: groups of modules, each stored in a way of its own.

import { isObject, type JsonObject } from "../../kit/index.js";
import { isSize, NVFP4 } from "./float-writers.js";
import { given, isNumber, namesIn, rankIn, type Scheme, type Sharing, type WriterPage } from "./scheme.js";
import { any, empty, entries, fields, harmless, names, oneOf, sizes, whole } from "./settings.js";

const FORMATS = [
  "float-quantized",
  "int-quantized",
  "pack-quantized",
  "nvfp4-pack-quantized",
  "mxfp4-pack-quantized",
] as const;
const format = oneOf(...FORMATS, "dense", "mixed-precision");

export const compressedTensors: WriterPage = {
  names: ["compressed-tensors"],
  reads:
    "FP8 and int8 as `float-quantized`, `int-quantized`; 2, 4 and 8 bits as `pack-quantized`; `nvfp4-pack-quantized`, `mxfp4-pack-quantized`; groups with different ones by `targets` and `ignore`",
  keys: {
    ...harmless("global_compression_ratio", "kv_cache_scheme", "version", "quantization_status", "run_compressed"),
    ...harmless("dequantize", "use_optimized_inference"),
    quant_method: any,
    format,
    ignore: names,
    // Dense weights that happen to have zeros.
    sparsity_config: fields({
      ...harmless("global_sparsity", "sparsity_structure", "registry_requires_subclass", "targets", "ignore"),
      format: oneOf("dense"),
    }),
    transform_config: empty,
    moe_sparsity_config: empty,
    config_groups: entries(
      fields({
        ...harmless("input_activations", "output_activations"),
        targets: names,
        format,
        weights: fields({
          ...harmless("dynamic", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"),
          num_bits: oneOf(2, 4, 8),
          type: oneOf("int", "float"),
          symmetric: oneOf(true, false),
          strategy: oneOf("tensor", "channel", "group", "tensor_group", "block"),
          group_size: whole,
          block_structure: sizes,
          actorder: oneOf(false, "weight", "static"),
        }),
      }),
    ),
  },
  schemes(settings, module) {
    const groups = Object.entries(isObject(settings.config_groups) ? settings.config_groups : {}).flatMap(
      ([name, group]) => (isObject(group) && isObject(group.weights) ? [{ name, group, weights: group.weights }] : []),
    );
    // Older files have one group without targets.
    const rankOf = ({ group }: (typeof groups)[number]) =>
      groups.length === 1 && !given(group, "targets") ? 1 : rankIn(namesIn(group.targets), module);
    const best = Math.min(...groups.map((one) => rankOf(one) ?? Number.POSITIVE_INFINITY));
    const found = groups.filter((one) => rankOf(one) === best);
    if (found.length === 0) return `no group of config_groups has ${module} among its targets`;
    const schemes = found.map(({ name, group, weights }) => {
      return schemeOfGroup(given(group, "format") ?? settings.format, weights) ?? name;
    });
    const unread = schemes.find((one) => typeof one === "string");
    if (unread === undefined) return schemes as Scheme[];
    return `layergraft does not read what config_groups.${unread} says of weights`;
  },
  keepsPlain({ config_groups: groups }: JsonObject) {
    return !isObject(groups) || Object.values(groups).every((one) => !isObject(one) || !isObject(one.weights));
  },
};

const SHARED: Readonly<Record<string, (weights: JsonObject) => Sharing | undefined>> = {
  tensor: () => "tensor",
  channel: () => "row",
  group: ({ group_size: size }) => (isSize(size) ? { group: size } : undefined),
  tensor_group: ({ group_size: size }) => (isSize(size) ? { group: size } : undefined),
  block({ block_structure: block }) {
    const [m, n] = Array.isArray(block) ? block : [];
    return isSize(m) && isSize(n) ? { block: [m, n] } : undefined;
  },
};

/** How a group of compressed-tensors stores its weights; undefined for a combination that is not read. */
function schemeOfGroup(format: unknown, weights: JsonObject): Scheme | undefined {
  const { num_bits: bits, type = "int", symmetric = true, strategy } = weights;
  const size = given(weights, "group_size");
  const by = strategy ?? (size === undefined ? "tensor" : size === -1 ? "channel" : "group");
  const sharing = typeof by === "string" && Object.hasOwn(SHARED, by) ? SHARED[by]?.(weights) : undefined;
  if (!sharing || !isNumber(bits)) return undefined;
  const is = (kind: string, count: readonly number[]) => type === kind && count.includes(bits);
  const scales = [sharing];
  const isGroup = (count: number) => typeof sharing === "object" && "group" in sharing && sharing.group === count;
  if (format === "float-quantized" && is("float", [8]) && symmetric) return { layout: "bytes", code: "FP8", scales };
  if (format === "int-quantized" && is("int", [8]) && symmetric) return { layout: "bytes", code: "INT8", scales };
  if (format === "nvfp4-pack-quantized" && is("float", [4]) && symmetric && isGroup(16)) return NVFP4;
  if (format === "mxfp4-pack-quantized" && is("float", [4]) && symmetric && isGroup(32))
    return { layout: "halves", code: "FP4", scales };
  if (format !== "pack-quantized" || !is("int", [2, 4, 8])) return undefined;
  const code = bits === 2 ? "INT2" : bits === 4 ? "INT4" : "UINT8";
  return { layout: "words", code, scales, ...(symmetric ? { symmetric: { zero: 2 ** (bits - 1), stored: [] } } : {}) };
}
