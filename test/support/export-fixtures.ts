// Tiny models with tokenizers, for tests of exports.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSpec, weightsOf } from "../../src/engine/model/index.js";
import { openSafetensors, readTensor, writeSafetensors } from "../../src/formats/safetensors/index.js";
import { seededTensor, writeTiny } from "./checkpoints.js";
import { configOf } from "./decoder-fixtures.js";

/** Writes a byte-level tokenizer with a token per letter, for the fixtures' embeddings of 20 rows. */
export function writeTinyTokenizer(folder: string, size = 20): void {
  const vocab = Object.fromEntries(Array.from({ length: size }, (_, id) => [String.fromCharCode(97 + id), id]));
  const pre_tokenizer = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const model = { type: "BPE", vocab, merges: [] };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ pre_tokenizer, model }));
}

// Wide enough for blocks of 256, and 2.5 million elements: two pieces.
const WIDE = { hidden_size: 256, intermediate_size: 512, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64 };
const ROWS = 5000;

/** Writes a model with rows that fill blocks of every encoding. */
export async function writeWide(folder: string, seed: number, feedForward = 512): Promise<string> {
  const shapes: [string, number[]][] = [
    ["model.embed_tokens.weight", [ROWS, 256]],
    ["model.layers.0.input_layernorm.weight", [256]],
    ["model.layers.0.self_attn.q_proj.weight", [256, 256]],
    ["model.layers.0.self_attn.k_proj.weight", [128, 256]],
    ["model.layers.0.self_attn.v_proj.weight", [128, 256]],
    ["model.layers.0.self_attn.o_proj.weight", [256, 256]],
    ["model.layers.0.post_attention_layernorm.weight", [256]],
    ["model.layers.0.mlp.gate_proj.weight", [feedForward, 256]],
    ["model.layers.0.mlp.up_proj.weight", [feedForward, 256]],
    ["model.layers.0.mlp.down_proj.weight", [256, feedForward]],
    ["model.norm.weight", [256]],
    ["lm_head.weight", [ROWS, 256]],
  ];
  await writeTiny(folder, {
    layers: 1,
    edit: () =>
      shapes.map(([name, shape], i) =>
        shape.includes(feedForward) && feedForward !== 512
          ? { name, dtype: "BF16" as const, shape, data: new Uint8Array(2 * 256 * feedForward) }
          : seededTensor(name, shape, seed * 100 + i, "BF16", -1 - i),
      ),
    config: { ...WIDE, vocab_size: ROWS, intermediate_size: feedForward },
  });
  writeTinyTokenizer(folder);
  return folder;
}

const DECODERS = join(import.meta.dirname, "../fixtures/decoders");

/** Settings of other cases with which llama.cpp runs their families: it has no biases there, and no choice of layers. */
const PLAIN: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  smollm3: { mlp_bias: false, use_sliding_window: false, no_rope_layers: [1, 1, 1], layer_types: null },
  olmo3: {
    attention_bias: false,
    layer_types: Array(2).fill("sliding_attention"),
    rope_parameters: {
      full_attention: { rope_type: "yarn", rope_theta: 50, factor: 4, original_max_position_embeddings: 16 },
      sliding_attention: { rope_type: "default", rope_theta: 50 },
    },
  },
  ernie4_5: { use_bias: false },
  hunyuan: { attention_bias: false },
  apertus: { attention_bias: false },
  lfm2: { conv_bias: false },
  "gemma4-one": {
    attention_bias: false,
    rope_parameters: {
      sliding_attention: { rope_type: "default", rope_theta: 100 },
      full_attention: { rope_type: "proportional", rope_theta: 500, partial_rotary_factor: 0.4, factor: 2 },
    },
  },
};

/** Copies a case, with settings that llama.cpp computes, to a folder with a tokenizer. */
export async function copyDecoder(
  folder: string,
  family: string,
  settings = PLAIN[family],
  isKept = (name: string) => !name.endsWith(".bias"),
): Promise<string> {
  const model = join(folder, family);
  cpSync(join(DECODERS, family), model, { recursive: true });
  if (settings) {
    const path = join(model, "config.json");
    writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), ...settings }));
    const file = await openSafetensors(join(model, "model.safetensors"));
    const kept = file.tensors.filter(({ name }) => isKept(name));
    const entries = kept.map(async ({ name, dtype, shape, ...at }) => {
      return { name, dtype, shape, data: await readTensor(file, { name, dtype, shape, ...at }) };
    });
    await writeSafetensors(join(model, "model.safetensors"), await Promise.all(entries));
  }
  writeTinyTokenizer(model);
  return model;
}

/** Writes a decoder of any family with seeded weights in float32, by its specification, and a tokenizer. */
export async function writeDecoder(folder: string, settings: Readonly<Record<string, unknown>>): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const config = { architectures: ["ForCausalLM"], vocab_size: 20, dtype: "float32", ...settings };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const shapes = new Map<string, number[]>();
  for (const { name, shape, rows } of weightsOf(readSpec(configOf(config), [], "export"))) {
    const stored = name === "lm_head.weight" ? name : `model.${name}`;
    const { of, matrices } = rows ?? { of: shape[0] ?? 0 };
    shapes.set(stored, [...(matrices ? [matrices, of / matrices] : [of]), ...shape.slice(1)]);
  }
  const tensors = [...shapes].map(([name, shape], i) => seededTensor(name, shape, i, "F32"));
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  writeTinyTokenizer(folder);
  return folder;
}
