// Reads the tensors of quantised checkpoints as values: which tensors are codes, and where their scales are.

import { CODE_BITS, type Code } from "../../kernels/index.js";
import {
  DTYPE_BY_TORCH_NAME,
  type DType,
  elementCount,
  isFloatDType,
  isObject,
  type Shape,
  sameShape,
} from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import { readRange, type SafetensorsFile } from "../safetensors/reader.js";
import type { StoredTensor } from "./checkpoint.js";
import { type CheckpointConfig, edited, type Json, mapTowers, textOf } from "./config.js";

/** How codes lie: value = (code - zero) x scale. */
export interface CodedForm {
  /** Of each matrix; several lie one after the other. */
  readonly rows: number;
  readonly columns: number;
  /** Runs of a matrix's codes that each row has a part of: 1 where rows lie together, `columns` where columns do. */
  readonly lines: number;
  /** Codes from one row to the next, where words at the end of a row are padded. */
  readonly stride?: number;
  /** Rows and columns that share a scale. */
  readonly block: readonly [rows: number, columns: number];
  /** Whether the scales (and zeros) of a column of blocks lie together, instead of a row's. */
  readonly byColumn: boolean;
  /** Subtracted from each code, in addition to a stored zero. */
  readonly zero: number;
  /** Places of eight neighboring rows, where words have them in another order (AWQ). */
  readonly order?: readonly number[];
  /** Whether scales are divided by the second scale, instead of multiplied with it. */
  readonly isDivided?: boolean;
}

type Place = StoredTensor & { readonly dtype: DType };

/** Codes of a tensor, with the tensors that turn them into values. */
export interface CodedValues extends CodedForm {
  readonly code: Code;
  readonly scales: Place;
  /** One scale of all scales. */
  readonly second?: Place;
  /** By block, packed as the codes are. */
  readonly zeros?: Place;
  /** The block of each column (GPTQ with act-order); zeros only where they are in order. */
  readonly groups?: Place;
}

export interface QuantisedTensor extends TensorInfo {
  readonly file: SafetensorsFile;
  readonly coded?: CodedValues;
}

/** A tensor of values, and the stored ones that it is made of. */
interface Found {
  readonly name: string;
  readonly shape: Shape;
  readonly coded: CodedValues;
  readonly of: readonly QuantisedTensor[];
}

interface Context {
  readonly settings: Json;
  readonly shapes: Shapes;
  get(name: string): QuantisedTensor | undefined;
}

/** What inference adds: scales of activations and caches, and shapes that packing hides. */
const ADDED =
  /(^|[._])(input_scale(_ub|_inv)?|activation_scale|input_global_scale|output_scale|[kqv]_scale|weight_shape)$/;

/** Rows and columns of matrices by name, as tensors of their own say them. */
type Shapes = ReadonlyMap<string, Shape>;

/** Reads the shapes of matrices in words where scales do not say how many columns there are. */
export async function readShapes(stored: readonly QuantisedTensor[], config: CheckpointConfig): Promise<Shapes> {
  const byName = new Map(stored.map((tensor) => [tensor.name, tensor]));
  const [stated] = groupsOf(settingsOf(config));
  const unknown = stored.flatMap((tensor) => {
    const name = tensor.name.replace(/_packed$/, "");
    const shape = byName.get(`${name}_shape`);
    const isTold = columnsOf(tensor, byName.get(`${name}_scale`), stated) !== undefined;
    return name === tensor.name || isTold || shape?.dtype !== "I64" || shape.bytes !== 16 ? [] : [{ name, shape }];
  });
  const read = unknown.map(async ({ name, shape: { file, offset } }) => {
    const bytes = await readRange(file, offset, offset + 16);
    return [name, [...new BigInt64Array(bytes.slice().buffer)].map(Number)] as const;
  });
  return new Map(await Promise.all(read));
}

/** Columns of a matrix in words by the groups of its scales; undefined without groups. */
function columnsOf(words: QuantisedTensor, scales: QuantisedTensor | undefined, stated: Json | undefined) {
  const size = stated?.group_size;
  const code = codeOf(stated?.num_bits);
  if (typeof size !== "number" || size < 1 || !code || !scales) return undefined;
  const columns = (scales.shape[1] ?? 0) * size;
  return Math.ceil((columns * CODE_BITS[code]) / 32) === words.shape[1] ? columns : undefined;
}

/**
 * The tensors of a quantised checkpoint as values.
 * @param shapes of matrices in words
 * @returns undefined where nothing is quantised; a problem, as a clause, where something is that is only copied
 */
export function readQuantised(
  stored: readonly QuantisedTensor[],
  config: CheckpointConfig,
  shapes: Shapes,
): { tensors: QuantisedTensor[]; config: CheckpointConfig; note: string } | { problem: string } | undefined {
  const byName = new Map(stored.map((tensor) => [tensor.name, tensor]));
  const settings = settingsOf(config);
  const context: Context = { settings, shapes, get: (name) => byName.get(name) };
  const found = new Map<QuantisedTensor, Found>();
  const used = new Set<QuantisedTensor>();
  for (const tensor of stored) {
    const one = RULES.flatMap((rule) => rule(tensor, context) ?? [])[0];
    if (!one) continue;
    found.set(tensor, one);
    for (const part of one.of) used.add(part);
  }
  const others = stored.filter((tensor) => !found.has(tensor) && !used.has(tensor));
  const unread = others.filter(({ name, dtype, shape }) => {
    return !isFloatDType(dtype) && !ADDED.test(name) && (shape.length > 1 || /^F[468]_/.test(dtype));
  });
  if (found.size === 0 && config.quantized === undefined) return undefined;
  if (unread.length > 0) {
    const lacks = found.size > 0 ? "finds no scales that fit" : "has no rule for";
    return { problem: `layergraft ${lacks} ${formatSome(unread.map(({ name }) => name))}` };
  }
  if (found.size === 0) return { problem: "no tensor has scales" };
  const dtype = statedDType(config);
  const tensors = stored.flatMap((tensor): QuantisedTensor[] => {
    const one = found.get(tensor);
    if (one) return [{ ...tensor, name: one.name, shape: one.shape, dtype, coded: one.coded }];
    return used.has(tensor) || ADDED.test(tensor.name) ? [] : [tensor];
  });
  const codes = [...new Set([...found.values()].map(({ coded }) => coded.code))].join(", ");
  return {
    tensors,
    config: { ...edited(config, withoutSettings), quantized: undefined },
    note: `${plural(found.size, "quantised tensor")} (${codes}) ${found.size === 1 ? "is" : "are"} read as ${dtype} values; what is computed of them is written so, or as FP8 with dtype fp8`,
  };
}

function withoutSettings(json: Json): Json {
  const { quantization_config: _, compression_config: __, ...others } = json;
  return mapTowers(others, (key, value) => (key === "quantization_config" ? undefined : value));
}

/** The settings of quantisation; empty if the configuration has none. */
function settingsOf({ json }: CheckpointConfig): Json {
  const settings = json.quantization_config ?? json.compression_config ?? textOf(json).quantization_config;
  return isObject(settings) ? settings : {};
}

/** The dtype that a configuration states for the weights. */
function statedDType({ json }: CheckpointConfig): DType {
  const stated = json.dtype ?? json.torch_dtype ?? textOf(json).dtype ?? textOf(json).torch_dtype;
  const known: Readonly<Record<string, DType>> = DTYPE_BY_TORCH_NAME;
  return (typeof stated === "string" && Object.hasOwn(known, stated) && known[stated]) || "BF16";
}

const SCALES: readonly DType[] = ["F32", "F16", "BF16", "F8_E4M3", "F8_E8M0", "U8"];

/**
 * Rows and columns that share a scale, if rows and columns are cut in equal blocks.
 * @param stated sizes of blocks, of which the last ones may be smaller
 */
function blockOf(
  scales: QuantisedTensor,
  [rows, columns]: readonly number[],
  stated: unknown,
): CodedForm["block"] | undefined {
  if (rows === undefined || columns === undefined || !SCALES.includes(scales.dtype)) return undefined;
  const [height = 1, width = 1] = scales.shape.slice(-2);
  // As many scales as fused matrices do not say where these end.
  if (scales.shape.length === 1 && height !== 1 && height !== rows) return undefined;
  const largest = Math.max(rows, columns, 128);
  const isPair = Array.isArray(stated) && stated.length === 2;
  const sizes = isPair && stated.every((size): size is number => isSize(size, largest)) ? stated : undefined;
  const [m = 128, n = 128] = sizes ?? [];
  if (Math.ceil(rows / m) === height && Math.ceil(columns / n) === width) return [m, n];
  // Blocks of another size than the stated one are scales of another tensor, or damaged.
  if (sizes) return undefined;
  return rows % height === 0 && columns % width === 0 ? [rows / height, columns / width] : undefined;
}

const isSize = (size: unknown, largest: number): size is number =>
  typeof size === "number" && Number.isInteger(size) && size > 0 && size <= largest;

type Rule = (tensor: QuantisedTensor, context: Context) => Found | undefined;

/** Float8 and int8: codes under the name of the weight, each with a scale for the whole, for a row or for a block. */
const bytes: Rule = (tensor, { settings, get }) => {
  const { name, shape, dtype } = tensor;
  const scales = get(`${name}_scale_inv`) ?? get(`${name}_scale`);
  const code = dtype === "F8_E4M3" ? "FP8" : dtype === "I8" ? "INT8" : undefined;
  if (!scales || !code || shape.length < 2 || get(`${name}_zero_point`) || get(scaledInputs(name))) return undefined;
  const block = blockOf(scales, shape.slice(-2), settings.weight_block_size ?? statedBlock(settings));
  if (!block || elementCount(scales.shape.slice(0, -2)) !== elementCount(shape.slice(0, -2))) return undefined;
  return { name, shape, coded: rowByRow(code, shape, block, scales), of: [scales] };
};

/** Float4 by groups of 16 or 32: of ModelOpt under the name of the weight, of compressed-tensors as `weight_packed`. */
const halves: Rule = (tensor, { get }) => {
  const name = tensor.name.replace(/_packed$/, "");
  const scales = get(`${name}_scale`);
  if (tensor.dtype !== "U8" || !scales || tensor.shape.length !== 2 || get(scaledInputs(name))) return undefined;
  const shape = [tensor.shape[0] ?? 0, (tensor.shape[1] ?? 0) * 2];
  const [factor, divisor] = [get(`${name}_scale_2`), get(`${name}_global_scale`)];
  const second = factor ?? divisor;
  const block = blockOf(scales, shape, []);
  if (block?.[0] !== 1 || !(scales.dtype === "F8_E4M3" ? [16] : [16, 32]).includes(block[1])) return undefined;
  // Scales in float8 are stored relative to one of the tensor.
  if (scales.dtype === "F8_E4M3" && !second) return undefined;
  if (isFloatDType(scales.dtype) || (second && elementCount(second.shape) !== 1)) return undefined;
  const coded = rowByRow("FP4", shape, block, scales);
  const more = second ? { second, ...(divisor ? { isDivided: true } : {}) } : {};
  return { name, shape, coded: { ...coded, ...more }, of: second ? [scales, second] : [scales] };
};

/** Integers in words of 32 bits along rows: `pack-quantized` of compressed-tensors. */
const words: Rule = (tensor, { settings, shapes, get }) => {
  const name = tensor.name.replace(/_packed$/, "");
  const [scales, zeros] = [get(`${name}_scale`), get(`${name}_zero_point`)];
  if (tensor.dtype !== "I32" || tensor.name === name || !scales || tensor.shape.length !== 2) return undefined;
  const [stated] = groupsOf(settings);
  const code = codeOf(stated?.num_bits);
  if (!code || get(`${name}_g_idx`) || (stated?.symmetric === false && !zeros)) return undefined;
  const perWord = 32 / CODE_BITS[code];
  const [rows = 0, width = 0] = tensor.shape;
  const stride = width * perWord;
  const columns = columnsOf(tensor, scales, stated) ?? shapes.get(name)?.[1] ?? stride;
  const shape = [rows, columns];
  if (!sameShape(shapes.get(name) ?? shape, shape) || Math.ceil(columns / perWord) !== width) return undefined;
  const block = blockOf(scales, shape, []);
  const isPacked = zeros && sameShape(zeros.shape, [Math.ceil(rows / perWord), scales.shape[1] ?? 0]);
  if (block?.[0] !== 1 || (zeros && (zeros.dtype !== "I32" || !isPacked))) return undefined;
  const coded = rowByRow(code, shape, block, scales, zeros ? 0 : 2 ** (CODE_BITS[code] - 1));
  const more = { ...(zeros ? { zeros } : {}), ...(stride === columns ? {} : { stride }) };
  return { name, shape, coded: { ...coded, ...more }, of: zeros ? [scales, zeros] : [scales] };
};

/** Experts of gpt-oss: [experts, out, groups, 16] bytes are [experts, in, out] values. */
const experts: Rule = (tensor, { get }) => {
  const name = tensor.name.replace(/_blocks$/, "");
  const scales = get(`${name}_scales`);
  const [count = 0, columns = 0, groups = 0, bytesOfGroup] = tensor.shape;
  if (tensor.name === name || tensor.dtype !== "U8" || scales?.dtype !== "U8" || bytesOfGroup !== 16) return undefined;
  if (!sameShape(scales.shape, [count, columns, groups])) return undefined;
  const rows = groups * 32;
  const coded: CodedValues = {
    code: "FP4",
    rows,
    columns,
    lines: columns,
    block: [32, 1],
    byColumn: true,
    zero: 0,
    scales,
  };
  return { name, shape: [count, rows, columns], coded, of: [scales] };
};

/** Places of eight rows in a word of AWQ. */
const AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7];

/** GPTQ packs codes along the input, AWQ along the output. Both store the transposed weight, and zeros along the output. */
const groups: Rule = (tensor, { settings, get }) => {
  const stem = /^(.*\.)qweight$/.exec(tensor.name)?.[1];
  const [scales, zeros, group] = ["scales", "qzeros", "g_idx"].map((part) => get(`${stem}${part}`));
  const [height = 0, width = 0] = tensor.shape;
  const [count = 0, rows = 0] = scales?.shape ?? [];
  if (stem === undefined || !scales || !zeros || !isFloatDType(scales.dtype) || scales.dtype === "F64")
    return undefined;
  if (zeros.dtype !== "I32" || tensor.dtype !== "I32" || zeros.shape[0] !== count) return undefined;
  const code = codeOf((32 * (zeros.shape[1] ?? 0)) / rows);
  const perWord = code && 32 / CODE_BITS[code];
  if (!code || !perWord || rows % 8 !== 0) return undefined;
  const isAwq = width * perWord === rows && !group;
  const columns = isAwq ? height : height * perWord;
  if (!isAwq && width !== rows) return undefined;
  if (group && (group.dtype !== "I32" || !sameShape(group.shape, [columns]))) return undefined;
  if (isAwq && (code !== "INT4" || settings.version === "gemv")) return undefined;
  // A symmetric model has the zero in the middle. Files of one version store it less one, whatever they say.
  const isSymmetric = !isAwq && settings.sym === true;
  const isLess = !isAwq && settings.checkpoint_format !== "gptq_v2";
  const zero = isSymmetric ? 2 ** (CODE_BITS[code] - 1) : isLess ? 1 : 0;
  const size = settings.group_size;
  const coded: CodedValues = {
    ...{ code, rows, columns, lines: isAwq ? columns : height, byColumn: true, zero, scales },
    block: [1, typeof size === "number" && Math.ceil(columns / size) === count ? size : Math.ceil(columns / count)],
    ...(isAwq ? { order: AWQ_ORDER } : {}),
    ...(isSymmetric ? {} : { zeros }),
    ...(group ? { groups: group } : {}),
  };
  const of = [scales, zeros, ...(group ? [group] : [])];
  return { name: `${stem}weight`, shape: [rows, columns], coded, of };
};

const RULES: readonly Rule[] = [bytes, halves, words, experts, groups];

function rowByRow(code: Code, shape: Shape, block: CodedForm["block"], scales: Place, zero = 0): CodedValues {
  const [rows = 0, columns = 0] = shape.slice(-2);
  return { code, rows, columns, lines: 1, block, byColumn: false, zero, scales };
}

const codeOf = (bits: unknown): Code | undefined => (bits === 4 ? "INT4" : bits === 8 ? "UINT8" : undefined);

/** Inputs are scaled, too, where there is such a tensor. */
const scaledInputs = (name: string) =>
  name.endsWith("weight") ? name.replace(/weight$/, "pre_quant_scale") : `${name}_pre_quant_scale`;

/** What compressed-tensors states of the weights of each group of modules. */
function groupsOf(settings: Json): Json[] {
  const all = isObject(settings.config_groups) ? Object.values(settings.config_groups) : [];
  return all.flatMap((one) => (isObject(one) && isObject(one.weights) ? [one.weights as Json] : []));
}

const statedBlock = (settings: Json) =>
  groupsOf(settings)
    .map(({ block_structure: block }) => block)
    .find(Array.isArray);
