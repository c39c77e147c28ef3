// Tiny models with tokenizers, for tests of exports.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { seededTensor, writeTiny } from "./checkpoints.js";

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
export async function writeWide(folder: string, seed: number): Promise<string> {
  const shapes: [string, number[]][] = [
    ["model.embed_tokens.weight", [ROWS, 256]],
    ["model.layers.0.input_layernorm.weight", [256]],
    ["model.layers.0.self_attn.q_proj.weight", [256, 256]],
    ["model.layers.0.self_attn.k_proj.weight", [128, 256]],
    ["model.layers.0.self_attn.v_proj.weight", [128, 256]],
    ["model.layers.0.self_attn.o_proj.weight", [256, 256]],
    ["model.layers.0.post_attention_layernorm.weight", [256]],
    ["model.layers.0.mlp.gate_proj.weight", [512, 256]],
    ["model.layers.0.mlp.up_proj.weight", [512, 256]],
    ["model.layers.0.mlp.down_proj.weight", [256, 512]],
    ["model.norm.weight", [256]],
    ["lm_head.weight", [ROWS, 256]],
  ];
  await writeTiny(folder, {
    layers: 1,
    edit: () => shapes.map(([name, shape], i) => seededTensor(name, shape, seed * 100 + i, "BF16", -1 - i)),
    config: { ...WIDE, vocab_size: ROWS },
  });
  writeTinyTokenizer(folder);
  return folder;
}
