// Which encoding each tensor gets, as llama.cpp's quantiser chooses it: llama_tensor_get_type and tensor_type_fallback
// in src/llama-quant.cpp of ggml-org/llama.cpp, November 2026.

import { ENCODINGS, type Encoding } from "../../kernels/index.js";
import { usageError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";

/** File types by the names of the command line: `general.file_type`, and the encoding of most tensors. */
export const FILE_TYPES = {
  f32: { id: 0, encoding: "F32" },
  f16: { id: 1, encoding: "F16" },
  bf16: { id: 32, encoding: "BF16" },
  q8_0: { id: 7, encoding: "Q8_0" },
  q6_k: { id: 18, encoding: "Q6_K" },
  q5_k_m: { id: 17, encoding: "Q5_K" },
  q4_k_m: { id: 15, encoding: "Q4_K" },
  q4_0: { id: 2, encoding: "Q4_0" },
} as const satisfies Record<string, { id: number; encoding: Encoding }>;

export type FileType = keyof typeof FILE_TYPES;

export const FILE_TYPE_NAMES = Object.keys(FILE_TYPES) as FileType[];

export const ENCODING_NAMES = Object.keys(ENCODINGS).map((name) => name.toLowerCase());

/** A tensor, and what its encoding depends on. */
export interface TypedTensor {
  readonly name: string;
  /** Slowest axis first. */
  readonly shape: readonly number[];
  /** Layer, -1 for tensors outside of layers. */
  readonly layer: number;
}

export interface ModelTraits {
  readonly layers: number;
  /** Whether the embedding is the head, too. */
  readonly tied: boolean;
  /** Whether it is one of the models of 70B whose value projections are small: 80 layers and grouped queries. */
  readonly is70B: boolean;
}

/** `PATTERN=TYPE` entries: tensors whose name the regular expression finds get this encoding. */
export type TensorTypes = readonly string[];

/**
 * The encoding of each tensor.
 * @returns notes on tensors whose rows do not fill blocks
 * @throws LayergraftError code `usage` for an override that is not valid or matches no tensor
 */
export function chooseEncodings(
  tensors: readonly TypedTensor[],
  type: FileType,
  traits: ModelTraits,
  overrides: TensorTypes = [],
): { encodings: Encoding[]; notes: string[] } {
  const rules = overrides.map(parseRule);
  const fallen = new Map<string, string[]>();
  const values = tensors
    .filter(isValue)
    .map(({ layer }) => layer)
    .sort((a, b) => a - b);
  const encodings = tensors.map((tensor) => {
    if (!isMatrix(tensor)) return "F32";
    const found = rules.filter(({ pattern }) => pattern.test(tensor.name));
    for (const rule of found) rule.matches++;
    // Layers without values of their own do not count where values are.
    const place = isValue(tensor) ? [values.indexOf(tensor.layer), values.length] : [tensor.layer, traits.layers];
    const wanted =
      found[0]?.encoding ?? mixed(tensor, type, traits, getsMoreBits(place[0] as number, place[1] as number));
    const fitting = fallback(wanted, tensor.shape.at(-1) as number);
    if (fitting !== wanted) {
      const key = `${wanted} -> ${fitting}`;
      fallen.set(key, [...(fallen.get(key) ?? []), tensor.name]);
    }
    return fitting;
  });
  const unused = rules.find(({ matches }) => matches === 0);
  if (unused)
    throw usageError(`the tensor type ${unused.text} matches no tensor; names are like ${formatSome(names(tensors))}`);
  const notes = [...fallen].map(([key, list]) => {
    const [wanted = "", used = ""] = key.toLowerCase().split(" -> ");
    return `rows do not fill blocks of ${wanted}, so ${used} is used for ${formatSome(list)}`;
  });
  return { encodings, notes };
}

function names(tensors: readonly TypedTensor[]): string[] {
  return tensors.filter(isMatrix).map(({ name }) => name);
}

interface EncodingRule {
  readonly text: string;
  readonly pattern: RegExp;
  readonly encoding: Encoding;
  matches: number;
}

function parseRule(entry: string): EncodingRule {
  const at = entry.lastIndexOf("=");
  const [pattern, name] = [entry.slice(0, at), entry.slice(at + 1)];
  if (at < 1 || !ENCODING_NAMES.includes(name.toLowerCase())) {
    const forms = ENCODING_NAMES.join(", ");
    throw usageError(`the tensor type ${entry} must be PATTERN=TYPE, such as ffn_down=q8_0; types are ${forms}`);
  }
  try {
    return { text: entry, pattern: new RegExp(pattern), encoding: name.toUpperCase() as Encoding, matches: 0 };
  } catch (error) {
    throw usageError(`the tensor type ${entry}: ${(error as Error).message}`);
  }
}

/** Vectors, the norms of Cohere's heads, routers and convolutions stay float32. */
function isMatrix({ name, shape }: TypedTensor): boolean {
  return (
    shape.length > 1 &&
    name.endsWith("weight") &&
    !/(_norm|ffn_gate_inp|ffn_gate_inp_shexp|ssm_conv1d|shortconv\.conv)\.weight$/.test(name)
  );
}

/** The encoding of a matrix before its rows are looked at. */
function mixed(tensor: TypedTensor, type: FileType, { tied, is70B }: ModelTraits, isPrecise: boolean): Encoding {
  const { name, shape } = tensor;
  const { encoding } = FILE_TYPES[type];
  if (ENCODINGS[encoding].elements === 1) return encoding;
  if (name === "per_layer_model_proj.weight") return "F16"; // kept as numbers
  if (name === "output.weight" || (tied && /^(per_layer_)?token_embd\.weight$/.test(name))) {
    if ((shape.at(-1) as number) % ENCODINGS[encoding].elements !== 0) return "Q8_0";
    return encoding === "Q8_0" ? encoding : "Q6_K";
  }
  if (type !== "q4_k_m" && type !== "q5_k_m") return encoding;
  if ((isValue(tensor) || name.includes("ffn_down")) && isPrecise) return "Q6_K";
  return isValue(tensor) && is70B && encoding === "Q4_K" ? "Q5_K" : encoding;
}

const isValue = ({ name }: TypedTensor) => /attn_(v|qkv)\.weight/.test(name);

/** The first and the last eighth of the layers, and every third between them. */
function getsMoreBits(layer: number, layers: number): boolean {
  const eighth = Math.trunc(layers / 8);
  return layer < eighth || layer >= Math.trunc((7 * layers) / 8) || (layer - eighth) % 3 === 2;
}

/** Blocks of 256 become blocks of 32 of similar precision, others float16. */
const SMALLER: Partial<Record<Encoding, Encoding>> = { Q4_K: "Q5_0", Q5_K: "Q5_1", Q6_K: "Q8_0" };

function fallback(encoding: Encoding, columns: number): Encoding {
  if (columns % ENCODINGS[encoding].elements === 0) return encoding;
  const smaller = SMALLER[encoding];
  return smaller && columns % ENCODINGS[smaller].elements === 0 ? smaller : "F16";
}
