// A GGUF file as a checkpoint: its tensors under the names of a folder, and a folder with the configuration and the
// tokenizer that its metadata describe.

import { stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { type DecoderSpec, type GgufMetadata, type GgufReading, graphOf } from "../../families/index.js";
import { BLOCKS, Converter } from "../../kernels/index.js";
import { cacheFolder, exists, makeCacheFolder, stampOf, waitWhileLocked, writeFolder } from "../../kit/files/index.js";
import { CheckpointError } from "../../kit/index.js";
import { formatSome, plural, shorten } from "../../kit/printing/index.js";
import { ggufConfig, ggufFamily, ggufSpec } from "../gguf/config.js";
import { ggufGeneration, shortest } from "../gguf/generation.js";
import { type GgufHeader, readGgufHeader } from "../gguf/header.js";
import { requireModelFile, withKnownIds } from "../gguf/kinds.js";
import { ggufTokenizer } from "../gguf/tokenizer.js";
import type { TensorInfo } from "../safetensors/header.js";
import { readRange, type SafetensorsFile } from "../safetensors/reader.js";
import { type FolderTensor, tensorsOfFolder } from "./gguf-tensors.js";

/** Changes when the files that are made of a header change. */
const FORMAT = 6;

export interface GgufCheckpoint {
  readonly file: SafetensorsFile;
  /** Folder with config.json, tokenizer.json and their like. */
  readonly folder: string;
  readonly stored: readonly FolderTensor[];
  readonly notes: readonly string[];
}

export const isGgufFile = (path: string) => /\.gguf$/i.test(path);

/** Tensors that llama.cpp computes with, and that configurations say in numbers. */
const ROTATIONS = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/**
 * Opens a GGUF file. Values are read as float32, which holds those of all blocks exactly.
 * @throws FormatError if it breaks the format
 * @throws CheckpointError if layergraft does not read its architecture, or it has tensors that its metadata do not describe
 */
export async function openGguf(path: string): Promise<GgufCheckpoint> {
  const { size, mtimeMs } = await stat(path);
  const read = readGgufHeader(path);
  const { metadata, tensors, digest } = read;
  // Before the architecture, which only the first part has.
  if (Number(metadata.get("split.count") ?? 1) > 1) {
    const hint = "join them first with llama-gguf-split --merge";
    throw new CheckpointError(`${path} is one of several parts of a model; ${hint}.`, { file: path });
  }
  requireModelFile(read, path);
  const architecture = String(metadata.get("general.architecture"));
  const family = ggufFamily(architecture, path);
  const unread = tensors.filter(({ bytes }) => bytes === undefined);
  if (unread.length > 0) {
    const types = [...new Set(unread.map(({ type }) => type))].join(", ");
    const known = Object.keys(BLOCKS).join(", ");
    throw new CheckpointError(`${path} has tensors in ${types}, which layergraft does not read; it reads ${known}.`, {
      file: path,
    });
  }
  const infos: TensorInfo[] = [];
  const file: SafetensorsFile = {
    path,
    bytes: size,
    modified: mtimeMs,
    stamp: await stampOf(path),
    headerDigest: digest,
    tensors: infos,
    metadata: { format: "pt" },
  };
  const { header, notes: ofIds } = withKnownIds(read, path);
  const numbers = await readerOf(header, architecture, file);
  const config = ggufConfig(family, numbers, header, path);
  const { page, spec } = ggufSpec(config, numbers, header, path);
  const { found, used } = tensorsOfFolder(spec, graphOf(page, spec), header, file);
  const rest = tensors.map(({ name }) => name).filter((name) => !used.has(name) && !ROTATIONS.includes(name));
  const further = numbers.number("nextn_predict_layers") ?? 0;
  const unknown = rest.filter((name) => !isBesides(name, spec, further));
  if (unknown.length > 0) {
    const list = formatSome(unknown.map(shorten));
    throw new CheckpointError(`${path} has tensors that a ${family.name} model does not have: ${list}.`, {
      file: path,
    });
  }
  const { stem = "model.", lists = {} } = family.llamaCpp.read;
  const named = found.map((one) => (one.name === spec.head?.name ? one : { ...one, name: `${stem}${one.name}` }));
  const stored = [...named, ...listedTensors(header, stem, lists).map((info) => ({ ...info, file }))];
  stored.sort((a, b) => a.offset - b.offset);
  infos.push(...stored.map(({ name, dtype, shape, offset, bytes }) => ({ name, dtype, shape, offset, bytes })));
  const { folder, notes: ofTexts } = await writeTexts(header, config, digest, path);
  const notes = [...ofIds, ...ofTexts];
  if (rest.length > 0) {
    const left = `${plural(rest.length, "tensor")} of ${basename(path)}`;
    notes.push(`${left} are not part of the decoder and are left out: ${formatSome(rest)}`);
  }
  return { file, stored, folder, notes };
}

/** Whether a tensor is of the layers that predict further tokens, which are the last, or of keys that are another layer's. */
function isBesides(name: string, { layers }: DecoderSpec, further: number): boolean {
  const [, number, module = ""] = /^blk\.(\d+)\.(.+)$/.exec(name) ?? [];
  if (number === undefined) return false;
  const layer = layers[Number(number)];
  if (!layer) return Number(number) < layers.length + further;
  return layer.keysOf !== undefined && /^attn_(k|v|k_norm)\./.test(module);
}

/** Numbers of layers that a file has in lists of its metadata, and a folder as tensors. */
function listedTensors({ lists }: GgufHeader, stem: string, wanted: NonNullable<GgufReading["lists"]>): TensorInfo[] {
  return Object.entries(wanted).flatMap(([key, { module, shape }]) => {
    const { offset, count } = lists.get(key) ?? { offset: 0, count: 0 };
    return Array.from({ length: count }, (_, layer) => ({
      name: `${stem}layers.${layer}.${module}`,
      shape,
      dtype: "F32" as const,
      offset: offset + 4 * layer,
      bytes: 4,
    }));
  });
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
  const get = (key: string) => metadata.get(`${architecture}.${key}`);
  const blocks = (Number(get("block_count")) || 0) - Math.max(0, Number(get("nextn_predict_layers")) || 0);
  return {
    number: (key) => {
      const value = key === "block_count" ? blocks : get(key);
      // Some files have a number for each layer, which is 0 for those without such a part.
      const given = Array.isArray(value) ? value.filter((one) => one !== 0) : [value];
      const [one] = given;
      return typeof one === "number" && given.every((other) => other === one) ? shortest(one) : undefined;
    },
    flag: (key) => {
      const value = get(key);
      return typeof value === "boolean" ? value : undefined;
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
    layersWith: (name) => Array.from({ length: Math.max(0, blocks) }, (_, layer) => names.has(`blk.${layer}.${name}`)),
    vocabulary: tensors.find(({ name }) => name === "token_embd.weight")?.shape[0],
  };
}

/** Fields of floats, for which transformers refuses whole numbers. */
const WHOLE_FLOATS = /("(?:\w+_softcapping|logit_scale|routed_scaling_factor)": -?\d+)(?=,?\n)/g;

/** Writes the files of a header once, to a cache. A tokenizer that is there is not made again, which takes long. */
async function writeTexts(
  header: GgufHeader,
  config: object,
  digest: string,
  path: string,
): Promise<{ folder: string; notes: string[] }> {
  const cache = cacheFolder("gguf-texts");
  const folder = join(cache, `${digest.slice(0, 32)}-${FORMAT}`);
  if (await exists(join(folder, "tokenizer.json"))) return { folder, notes: [] };
  const made = ggufTokenizer(header, path);
  const notes = "problem" in made ? [`${basename(path)} is read without a tokenizer: ${made.problem}`] : [];
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`.replace(WHOLE_FLOATS, "$1.0");
  const write = async () => {
    if (await exists(folder)) return;
    await makeCacheFolder(cache);
    await writeFolder(folder, "the configuration of a GGUF file", async (partial) => {
      await writeFile(join(partial, "config.json"), json(config));
      if ("problem" in made) return;
      await writeFile(join(partial, "tokenizer.json"), JSON.stringify(made.tokenizer));
      await writeFile(join(partial, "tokenizer_config.json"), json(made.settings));
      await writeFile(join(partial, "generation_config.json"), json({ ...endsOf(header), ...ggufGeneration(header) }));
    }).catch(async (error: unknown) => {
      // Another process wrote it meanwhile.
      if (!(await exists(folder))) throw error;
    });
  };
  await waitWhileLocked(write, { cancelled: "stopped while another process opens the same file" });
  return { folder, notes };
}

/** Tokens that end an answer, and the first and padding ones. */
function endsOf({ metadata }: GgufHeader): object {
  const id = (name: string) => metadata.get(`tokenizer.ggml.${name}_token_id`);
  const ends = [...new Set([id("eos"), id("eot"), id("eom")].filter((one) => one !== undefined))];
  return {
    ...(id("bos") === undefined ? {} : { bos_token_id: id("bos") }),
    eos_token_id: ends.length === 1 ? ends[0] : ends,
    ...(id("padding") === undefined ? {} : { pad_token_id: id("padding") }),
  };
}
