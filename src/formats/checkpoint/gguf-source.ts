// A GGUF file as a checkpoint: its tensors under the names of a folder, and a folder with the configuration and the
// tokenizer that its metadata describe.

import { stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  DECODER,
  type GgufMetadata,
  type GgufReading,
  type LayerPart,
  type OutsidePart,
  type TensorNames,
  tensorNamesOf,
} from "../../families/index.js";
import { BLOCKS, Converter, interleaved, type StoredBlocks } from "../../kernels/index.js";
import { cacheFolder, exists, makeCacheFolder, stampOf, waitWhileLocked, writeFolder } from "../../kit/files/index.js";
import { CheckpointError, isDType } from "../../kit/index.js";
import { formatSome, shorten } from "../../kit/printing/index.js";
import { ggufConfig, ggufFamily } from "../gguf/config.js";
import { type GgufHeader, type GgufTensor, readGgufHeader } from "../gguf/header.js";
import { ggufTokenizer } from "../gguf/tokenizer.js";
import { readRange, type SafetensorsFile } from "../safetensors/reader.js";
import type { GatheredRows } from "./checkpoint.js";

/** Changes when the files that are made of a header change. */
const FORMAT = 2;

/** How a tensor's values are stored, where that is not as in a folder. */
export interface GgufStorage {
  readonly blocks?: StoredBlocks;
  readonly plus?: number;
  readonly gathered?: GatheredRows;
}

export interface GgufCheckpoint {
  readonly file: SafetensorsFile;
  /** Folder with config.json, tokenizer.json and their like. */
  readonly folder: string;
  /** Storage by the tensors' names. */
  readonly storage: ReadonlyMap<string, GgufStorage>;
  readonly notes: readonly string[];
}

export const isGgufFile = (path: string) => /\.gguf$/i.test(path);

/** Tensors that llama.cpp computes with, and that configurations say in numbers. */
const ROTATIONS = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/**
 * Opens a GGUF file. Values are read as float32, which holds those of all blocks exactly.
 * @throws FormatError if it breaks the format
 * @throws CheckpointError if layergraft does not read its architecture, or it has tensors that a folder would not have
 */
export async function openGguf(path: string): Promise<GgufCheckpoint> {
  const { size, mtimeMs } = await stat(path);
  const header = readGgufHeader(path);
  const { metadata, tensors, digest } = header;
  const architecture = metadata.get("general.architecture");
  const family = ggufFamily(architecture, path);
  const { modules, lists, normPlus } = family.llamaCpp.read;
  const names = tensorNamesOf(family) ?? { ...DECODER, parts: {} };
  if (/-\d{5}-of-\d{5}\.gguf$/i.test(path) && !path.endsWith("00001-of-00001.gguf")) {
    const hint = "join them first with llama-gguf-split --merge";
    throw new CheckpointError(`${path} is one of several parts of a model; ${hint}.`, { file: path });
  }
  const unread = tensors.filter(({ bytes }) => bytes === undefined);
  if (unread.length > 0) {
    const types = [...new Set(unread.map(({ type }) => type))].join(", ");
    const known = Object.keys(BLOCKS).join(", ");
    throw new CheckpointError(`${path} has tensors in ${types}, which layergraft does not read; it reads ${known}.`, {
      file: path,
    });
  }
  const renamed = tensors.flatMap((tensor) => {
    const name = nameInFolder(tensor.name, names, modules);
    return name === undefined ? [] : namedParts(name, tensor);
  });
  renamed.push(...listedTensors(header, names, lists));
  const isUnknown = (name: string) => nameInFolder(name, names, modules) === undefined;
  const unknown = tensors.filter(({ name }) => !ROTATIONS.includes(name) && isUnknown(name));
  if (unknown.length > 0) {
    const list = formatSome(unknown.map(({ name }) => shorten(name)));
    throw new CheckpointError(`${path} has tensors that a ${family.name} model does not have: ${list}.`, {
      file: path,
    });
  }
  const file: SafetensorsFile = {
    path,
    bytes: size,
    modified: mtimeMs,
    stamp: await stampOf(path),
    headerDigest: digest,
    tensors: renamed.map(({ name, tensor: { type, shape, offset, bytes: length = 0 } }) => ({
      name,
      shape,
      offset,
      bytes: length,
      dtype: isDType(type) ? type : "F32",
    })),
    metadata: { format: "pt" },
  };
  const read = await readerOf(header, String(architecture), file);
  const storage = new Map(
    renamed.map(({ name, tensor }): [string, GgufStorage] => [
      name,
      {
        ...(isDType(tensor.type) ? {} : { blocks: tensor.type as StoredBlocks }),
        ...(normPlus && tensor.name.endsWith("norm.weight") ? { plus: -normPlus } : {}),
        ...(family.llamaCpp.interleaved && /^blk\.\d+\.attn_[qk]\./.test(tensor.name)
          ? { gathered: deinterleaved(tensor, file, read, path) }
          : {}),
      },
    ]),
  );
  const { folder, notes } = await writeTexts(header, ggufConfig(family, read, header, path), digest, path);
  return { file, folder, storage, notes };
}

/** Numbers of layers that a file has in lists of its metadata, and a folder as tensors. */
function listedTensors(
  { lists }: GgufHeader,
  { stems: [stem = ""], layers }: TensorNames,
  wanted: GgufReading["lists"] = {},
): { name: string; tensor: GgufTensor }[] {
  return Object.entries(wanted).flatMap(([key, { module, shape }]) => {
    const { offset, count } = lists.get(key) ?? { offset: 0, count: 0 };
    return Array.from({ length: count }, (_, layer) => ({
      name: `${stem}${layers}.${layer}.${module}`,
      tensor: { name: key, shape, type: "F32", offset: offset + 4 * layer, bytes: 4 },
    }));
  });
}

/** A tensor as a folder has it: that of each expert by itself, and convolutions with an axis for their one input. */
function namedParts(name: string, tensor: GgufTensor): { name: string; tensor: GgufTensor }[] {
  const { shape, offset, bytes = 0 } = tensor;
  const [first = 0, ...rest] = shape;
  if (tensor.name.includes(".shortconv.conv.")) return [{ name, tensor: { ...tensor, shape: [first, 1, ...rest] } }];
  if (!name.includes("*")) return [{ name, tensor }];
  const size = bytes / first;
  return Array.from({ length: first }, (_, expert) => ({
    name: name.replace("*", String(expert)),
    tensor: { ...tensor, shape: rest, offset: offset + expert * size, bytes: size },
  }));
}

/** Rows of each head: those of its first half lie at the even places, those of its second at the odd ones. */
function deinterleaved(
  { name, shape, offset }: GgufTensor,
  file: SafetensorsFile,
  read: GgufMetadata,
  path: string,
): GatheredRows {
  const [rows = 0] = shape;
  const [hidden = 0, heads = 1] = [read.number("embedding_length"), read.number("attention.head_count")];
  const width = read.number("attention.key_length") ?? hidden / heads;
  if (shape.length !== 2 || rows % width !== 0 || width % 2 !== 0) {
    throw new CheckpointError(`${path}: ${name} is not a matrix of heads of ${width} rows, so it cannot be read.`, {
      file: path,
    });
  }
  return {
    parts: [{ file, offset }],
    part: new Uint8Array(rows),
    row: Int32Array.from({ length: rows }, (_, row) => interleaved(row, width)),
  };
}

async function readerOf(
  { metadata, tensors }: GgufHeader,
  architecture: string,
  file: SafetensorsFile,
): Promise<GgufMetadata> {
  const small = new Map<string, number[]>();
  for (const { name, type, offset, bytes = 0, shape } of tensors) {
    if (!ROTATIONS.includes(name) || type !== "F32" || (shape[0] ?? 0) > 4096) continue;
    small.set(name, [...new Converter().decode("F32", await readRange(file, offset, offset + bytes))].map(shortest));
  }
  const names = new Set(tensors.map(({ name }) => name));
  const tokens = metadata.get("tokenizer.ggml.tokens");
  const get = (key: string) => metadata.get(`${architecture}.${key}`);
  return {
    number: (key) => {
      const value = get(key);
      // Some files have a number for each layer; models whose layers differ are not read.
      const one = Array.isArray(value) && value.every((other) => other === value[0]) ? value[0] : value;
      return typeof one === "number" ? shortest(one) : undefined;
    },
    text: (key) => {
      const value = get(key);
      return typeof value === "string" ? value : undefined;
    },
    list: (key) => {
      const value = get(key);
      return Array.isArray(value) ? value : undefined;
    },
    values: (name) => small.get(name),
    has: (name) => names.has(name),
    vocabulary: (get("vocab_size") as number | undefined) ?? (Array.isArray(tokens) ? tokens.length : undefined),
  };
}

/** The shortest decimal number with the same float32 value: 1e-5, and not 0.000009999999747378752. */
function shortest(value: number): number {
  if (Math.fround(value) !== value) return value;
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Fields of floats, for which transformers refuses whole numbers. */
const WHOLE_FLOATS = /("(?:\w+_softcapping|logit_scale)": -?\d+)(?=,?\n)/g;

/** Writes the files of a header once, to a cache. */
async function writeTexts(
  header: GgufHeader,
  config: object,
  digest: string,
  path: string,
): Promise<{ folder: string; notes: string[] }> {
  const made = ggufTokenizer(header, path);
  const notes = "problem" in made ? [`${basename(path)} is read without a tokenizer: ${made.problem}`] : [];
  const cache = cacheFolder("gguf-texts");
  const folder = join(cache, `${digest.slice(0, 32)}-${FORMAT}`);
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`.replace(WHOLE_FLOATS, "$1.0");
  const write = async () => {
    if (await exists(folder)) return;
    await makeCacheFolder(cache);
    await writeFolder(folder, "the configuration of a GGUF file", async (partial) => {
      await writeFile(join(partial, "config.json"), json(config));
      if ("problem" in made) return;
      await writeFile(join(partial, "tokenizer.json"), JSON.stringify(made.tokenizer));
      await writeFile(join(partial, "tokenizer_config.json"), json(made.settings));
      await writeFile(join(partial, "generation_config.json"), json(generationOf(header)));
    }).catch(async (error: unknown) => {
      // Another process wrote it meanwhile.
      if (!(await exists(folder))) throw error;
    });
  };
  await waitWhileLocked(write, { cancelled: "stopped while another process opens the same file" });
  return { folder, notes };
}

/** Tokens that end an answer, and the first and padding ones. */
function generationOf({ metadata }: GgufHeader): object {
  const id = (name: string) => metadata.get(`tokenizer.ggml.${name}_token_id`);
  const ends = [...new Set([id("eos"), id("eot"), id("eom")].filter((one) => one !== undefined))];
  return {
    ...(id("bos") === undefined ? {} : { bos_token_id: id("bos") }),
    eos_token_id: ends.length === 1 ? ends[0] : ends,
    ...(id("padding") === undefined ? {} : { pad_token_id: id("padding") }),
  };
}

/** Names in layers; a family has the first part that it knows. Source: gguf-py/gguf/constants.py of ggml-org/llama.cpp. */
const IN_LAYERS: Readonly<Record<string, readonly LayerPart[]>> = {
  attn_q: ["q_proj"],
  attn_k: ["k_proj"],
  attn_v: ["v_proj"],
  attn_qkv: ["qkv_proj"],
  attn_output: ["o_proj"],
  attn_q_norm: ["q_norm"],
  attn_k_norm: ["k_norm"],
  attn_norm: ["input_norm"],
  post_attention_norm: ["post_attention_norm"],
  ffn_norm: ["pre_mlp_norm"],
  post_ffw_norm: ["post_mlp_norm"],
  ffn_gate: ["gate_proj"],
  ffn_up: ["up_proj", "gate_up_proj"],
  ffn_down: ["down_proj"],
};

const OUTSIDE: Readonly<Record<string, OutsidePart>> = {
  token_embd: "embed_tokens",
  output_norm: "final_norm",
  output: "lm_head",
};

/** The name that a family's folders have for a tensor of a GGUF file; undefined for one they do not have. */
export function nameInFolder(
  name: string,
  family: TensorNames,
  modules: Readonly<Record<string, string>> = {},
): string | undefined {
  const [, layer, rest = ""] = /^(?:blk\.(\d+)\.)?([\w.]+)$/.exec(name) ?? [];
  const [, module = "", ending = ""] = /^(.+)\.(weight|bias)$/.exec(rest) ?? [];
  const [stem = ""] = family.stems;
  const named = (key: string) => (Object.hasOwn(modules, key) ? modules[key] : undefined);
  const whole = named(rest);
  if (whole !== undefined) return `${stem}${layer === undefined ? "" : `${family.layers}.${layer}.`}${whole}`;
  const own = named(module);
  const moduleOf = <P>(parts: Readonly<Record<string, P>>, part: P) =>
    Object.keys(parts).find((key) => parts[key] === part);
  if (layer !== undefined) {
    const parts = Object.hasOwn(IN_LAYERS, module) ? (IN_LAYERS[module] ?? []) : [];
    const found = own ?? parts.flatMap((part) => moduleOf(family.parts, part) ?? [])[0];
    return found && `${stem}${family.layers}.${layer}.${found}.${ending}`;
  }
  const part = Object.hasOwn(OUTSIDE, module) ? OUTSIDE[module] : undefined;
  const found = own ?? (part && moduleOf(family.outside, part));
  return found && `${part === "lm_head" ? "" : stem}${found}.${ending}`;
}
