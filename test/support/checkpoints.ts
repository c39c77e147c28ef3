// Tiny checkpoints for tests: a Llama of any depth with seeded values, written as a Hugging Face folder.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openSafetensors, type TensorData, writeSharded } from "../../src/formats/safetensors/index.js";
import { readRanges } from "../../src/formats/safetensors/reader.js";
import { decode, encode } from "./plain-kernels.js";

export type FloatDType = "F32" | "F16" | "BF16";

export interface TinyOptions {
  /** Number of layers; default 4. */
  layers?: number;
  seed?: number;
  /** Seed of the model that it looks fine-tuned from; default 0, so that all fit together. */
  root?: number;
  /** Default BF16. */
  dtype?: FloatDType;
  /** Default 24. */
  vocabulary?: number;
  /** Whether the head is the embedding; default false. */
  tied?: boolean;
  /** Bytes per shard; one file by default. */
  shardBytes?: number;
  /** Default "llama". */
  modelType?: string;
  /** Changes the tensors before they are written: add, drop, reshape. */
  edit?: (tensors: TensorData[]) => TensorData[];
  /** Fields to add to config.json, or to take from it with undefined. */
  config?: Record<string, unknown>;
}

const HIDDEN = 8;
const FEED_FORWARD = 12;

/** A folder that is removed when the test file ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "layergraft-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Deterministic values in [-1, 1), as float32. */
export function seededFloats(count: number, seed: number): Float32Array {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  return Float32Array.from({ length: count }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/** Bytes of values rounded to a dtype. */
export function encodeValues(values: ArrayLike<number>, dtype: FloatDType): Uint8Array {
  const patterns = Array.from(values, (value) => encode(dtype, Math.fround(value)));
  return new Uint8Array((dtype === "F32" ? Uint32Array.from(patterns) : Uint16Array.from(patterns)).buffer);
}

/** Values of stored bytes. */
export function decodeValues(bytes: Uint8Array, dtype: FloatDType): number[] {
  const copy = bytes.slice().buffer;
  return Array.from(dtype === "F32" ? new Uint32Array(copy) : new Uint16Array(copy), (p) => decode(dtype, p));
}

/**
 * A tensor with seeded values.
 * @param root seed of values to which a fourth of the seeded ones is added, as if it were fine-tuned from there
 */
export function seededTensor(
  name: string,
  shape: number[],
  seed: number,
  dtype: FloatDType = "BF16",
  root?: number,
): TensorData {
  const count = shape.reduce((product, extent) => product * extent, 1);
  const values = seededFloats(count, seed);
  const from = root === undefined ? undefined : seededFloats(count, root);
  const related = from ? values.map((value, i) => (from[i] ?? 0) * 0.75 + value / 4) : values;
  return { name, dtype, shape, data: encodeValues(related, dtype) };
}

/** Writes a tiny checkpoint and returns its folder. */
export async function writeTiny(folder: string, options: TinyOptions = {}): Promise<string> {
  const {
    layers = 4,
    seed = 1,
    root = 0,
    dtype = "BF16",
    vocabulary = 24,
    tied = false,
    modelType = "llama",
  } = options;
  const shapes: [string, number[]][] = [["model.embed_tokens.weight", [vocabulary, HIDDEN]]];
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    shapes.push([`${at}.input_layernorm.weight`, [HIDDEN]]);
    for (const p of ["q", "o"]) shapes.push([`${at}.self_attn.${p}_proj.weight`, [HIDDEN, HIDDEN]]);
    for (const p of ["k", "v"]) shapes.push([`${at}.self_attn.${p}_proj.weight`, [HIDDEN / 2, HIDDEN]]);
    shapes.push([`${at}.post_attention_layernorm.weight`, [HIDDEN]]);
    for (const p of ["gate", "up"]) shapes.push([`${at}.mlp.${p}_proj.weight`, [FEED_FORWARD, HIDDEN]]);
    shapes.push([`${at}.mlp.down_proj.weight`, [HIDDEN, FEED_FORWARD]]);
  }
  shapes.push(["model.norm.weight", [HIDDEN]]);
  if (!tied) shapes.push(["lm_head.weight", [vocabulary, HIDDEN]]);
  const tensors = shapes.map(([name, shape], i) =>
    seededTensor(name, shape, seed * 1000 + i, dtype, -1 - root * 1000 - i),
  );

  mkdirSync(folder, { recursive: true });
  await writeSharded(folder, options.edit?.(tensors) ?? tensors, {
    ...(options.shardBytes === undefined ? {} : { shardBytes: options.shardBytes }),
  });
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: modelType,
    hidden_size: HIDDEN,
    intermediate_size: FEED_FORWARD,
    num_hidden_layers: layers,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    vocab_size: vocabulary,
    tie_word_embeddings: tied,
    torch_dtype: { BF16: "bfloat16", F16: "float16", F32: "float32" }[dtype],
    ...options.config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: seed }));
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ made_for: seed }));
  return folder;
}

export interface ReadTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** Every tensor of a folder's weight files. */
export async function readAll(folder: string, files: readonly string[]): Promise<Map<string, ReadTensor>> {
  const all = new Map<string, ReadTensor>();
  for (const name of files) {
    const file = await openSafetensors(join(folder, name));
    const data = await readRanges(
      file,
      file.tensors.map(({ offset, bytes }) => [offset, offset + bytes]),
    );
    for (const [i, { name, dtype, shape }] of file.tensors.entries()) {
      all.set(name, { dtype, shape, data: data[i] as Uint8Array });
    }
  }
  return all;
}

/** A JSON file's content. */
export function readJson(...path: string[]): Record<string, unknown> {
  return JSON.parse(readFileSync(join(...path), "utf8")) as Record<string, unknown>;
}
