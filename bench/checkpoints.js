// Checkpoints to measure with, written by the benchmark itself: the shapes of published models, random or sparse values.
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { layoutFolder } from "#formats/safetensors";

/** Where the benchmarks keep their checkpoints, for the next run to find. */
export const DATA = fileURLToPath(new URL("./data", import.meta.url));

/**
 * @typedef {object} ModelShape
 * @property {number} layers
 * @property {number} hidden
 * @property {number} feedForward
 * @property {number} heads
 * @property {number} keyValueHeads
 * @property {number} vocabulary
 * @property {boolean} tied
 * @property {{ count: number, chosen: number, width: number }} [experts] of a Qwen3-MoE; default: a Llama
 * @property {boolean} [delta] whether three of four layers have the gated delta rule of Qwen 3.5
 */

/** A smaller Llama: 30M parameters. @type {ModelShape} */
export const LLAMA_30M = {
  layers: 6,
  hidden: 512,
  feedForward: 1408,
  heads: 8,
  keyValueHeads: 4,
  vocabulary: 12000,
  tied: false,
};

/** A small Llama: 125M parameters. @type {ModelShape} */
export const LLAMA_125M = {
  layers: 12,
  hidden: 768,
  feedForward: 2048,
  heads: 12,
  keyValueHeads: 4,
  vocabulary: 32000,
  tied: false,
};

/** A Qwen3-MoE: 137M parameters, of which a token uses 81M. @type {ModelShape} */
export const MOE_137M = { ...LLAMA_125M, layers: 8, experts: { count: 8, chosen: 2, width: 512 } };

/** A Qwen 3.5: 139M parameters. @type {ModelShape} */
export const DELTA_139M = { ...LLAMA_125M, delta: true };

/** Llama 3.2 1B: 1.24B parameters, 2.47 GB in bfloat16. @type {ModelShape} */
export const LLAMA_1B = {
  layers: 16,
  hidden: 2048,
  feedForward: 8192,
  heads: 32,
  keyValueHeads: 8,
  vocabulary: 128256,
  tied: true,
};

/** Llama 3.1 8B: 8.03B parameters, 16.1 GB in bfloat16. @type {ModelShape} */
export const LLAMA_8B = {
  layers: 32,
  hidden: 4096,
  feedForward: 14336,
  heads: 32,
  keyValueHeads: 8,
  vocabulary: 128256,
  tied: false,
};

/** By the names that options of the benchmarks give them. */
export const SHAPES = { "30m": LLAMA_30M, "125m": LLAMA_125M, "1b": LLAMA_1B, "8b": LLAMA_8B };

/** @param {ModelShape} shape @returns {{ name: string, dtype: "BF16", shape: number[] }[]} */
function tensorsOf({ layers, hidden, feedForward, heads, keyValueHeads, vocabulary, tied, experts, delta = false }) {
  const [width, keyValue] = [hidden / heads, (hidden / heads) * keyValueHeads];
  /** @type {[string, number[]][]} */
  const tensors = [["model.embed_tokens.weight", [vocabulary, hidden]]];
  const feed = (/** @type {string} */ at, /** @type {number} */ inner) =>
    tensors.push(
      [`${at}.down_proj.weight`, [hidden, inner]],
      [`${at}.gate_proj.weight`, [inner, hidden]],
      [`${at}.up_proj.weight`, [inner, hidden]],
    );
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    tensors.push([`${at}.input_layernorm.weight`, [hidden]]);
    if (experts) {
      tensors.push([`${at}.mlp.gate.weight`, [experts.count, hidden]]);
      for (let i = 0; i < experts.count; i++) feed(`${at}.mlp.experts.${i}`, experts.width);
    } else feed(`${at}.mlp`, feedForward);
    tensors.push([`${at}.post_attention_layernorm.weight`, [hidden]]);
    if (delta && (layer + 1) % 4 !== 0) {
      tensors.push(
        [`${at}.linear_attn.A_log`, [heads]],
        [`${at}.linear_attn.conv1d.weight`, [3 * hidden, 1, 4]],
        [`${at}.linear_attn.dt_bias`, [heads]],
        [`${at}.linear_attn.in_proj_a.weight`, [heads, hidden]],
        [`${at}.linear_attn.in_proj_b.weight`, [heads, hidden]],
        [`${at}.linear_attn.in_proj_qkv.weight`, [3 * hidden, hidden]],
        [`${at}.linear_attn.in_proj_z.weight`, [hidden, hidden]],
        [`${at}.linear_attn.norm.weight`, [width]],
        [`${at}.linear_attn.out_proj.weight`, [hidden, hidden]],
      );
      continue;
    }
    if (experts || delta) {
      tensors.push([`${at}.self_attn.k_norm.weight`, [width]], [`${at}.self_attn.q_norm.weight`, [width]]);
    }
    tensors.push(
      [`${at}.self_attn.k_proj.weight`, [keyValue, hidden]],
      [`${at}.self_attn.o_proj.weight`, [hidden, hidden]],
      [`${at}.self_attn.q_proj.weight`, [delta ? 2 * hidden : hidden, hidden]],
      [`${at}.self_attn.v_proj.weight`, [keyValue, hidden]],
    );
  }
  tensors.push(["model.norm.weight", [hidden]]);
  if (!tied) tensors.push(["lm_head.weight", [vocabulary, hidden]]);
  return tensors.map(([name, shape]) => ({ name, dtype: /** @type {const} */ ("BF16"), shape }));
}

/** What config.json has besides a Llama's. @param {ModelShape} shape */
function kindOf({ hidden, heads, experts, delta }) {
  if (experts) {
    const { count, chosen, width } = experts;
    const routing = { num_experts: count, num_experts_per_tok: chosen, moe_intermediate_size: width };
    return { architectures: ["Qwen3MoeForCausalLM"], model_type: "qwen3_moe", head_dim: hidden / heads, ...routing };
  }
  if (!delta) return { architectures: ["LlamaForCausalLM"], model_type: "llama" };
  return {
    architectures: ["Qwen3_5ForCausalLM"],
    model_type: "qwen3_5_text",
    head_dim: hidden / heads,
    full_attention_interval: 4,
    linear_num_key_heads: heads,
    linear_num_value_heads: heads,
    linear_key_head_dim: hidden / heads,
    linear_value_head_dim: hidden / heads,
  };
}

/**
 * Writes a checkpoint unless it is there already.
 * @param {string} folder
 * @param {ModelShape} shape
 * @param {{ seed: number, sparse?: boolean }} options sparse: holes instead of values, to try sizes beyond the disk
 */
export function writeCheckpoint(folder, shape, { seed, sparse = false }) {
  if (existsSync(join(folder, "config.json"))) return folder;
  mkdirSync(folder, { recursive: true });
  const layout = layoutFolder(tensorsOf(shape));
  // A block of random weights is repeated with a different start each time: values that look like a model's, quickly.
  const block = randomWeights(2 ** 22, seed);
  for (const shard of layout.shards) {
    const descriptor = openSync(join(folder, shard.name), "w");
    writeSync(descriptor, shard.header);
    if (sparse) ftruncateSync(descriptor, shard.bytes);
    else {
      let left = shard.bytes - shard.header.byteLength;
      for (let turn = 0; left > 0; turn++) {
        const start = (turn * 8209 * 2) % (block.byteLength / 2);
        const part = block.subarray(start, start + Math.min(left, block.byteLength - start));
        left -= writeSync(descriptor, part);
      }
    }
    closeSync(descriptor);
  }
  if (layout.index) writeFileSync(join(folder, layout.index.name), layout.index.content);
  const config = {
    ...kindOf(shape),
    hidden_size: shape.hidden,
    intermediate_size: shape.feedForward,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.keyValueHeads,
    vocab_size: shape.vocabulary,
    max_position_embeddings: 2048,
    tie_word_embeddings: shape.tied,
    torch_dtype: "bfloat16",
  };
  writeFileSync(join(folder, "tokenizer.json"), "{}"); // its absence would be warned of in every run
  writeFileSync(join(folder, "config.json"), JSON.stringify(config, null, 2));
  return folder;
}

/**
 * Weights of an expert as bfloat16 bytes: a base that all have in common, normal with deviation 0.02, and a change of a
 * twentieth of that. Models without a common base are refused.
 * @param {number} count @param {number} seed of the change
 */
export function randomWeights(count, seed) {
  const [base, change] = [normals(0), normals(seed)];
  const words = new Uint32Array(Float32Array.from({ length: count }, () => 0.02 * base() + 0.001 * change()).buffer);
  return new Uint8Array(Uint16Array.from(words, (word) => word >>> 16).buffer);
}

/** Approximately normal numbers with deviation 1. @param {number} seed */
function normals(seed) {
  let state = seed + 1;
  const uniform = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 32;
  };
  return () => (uniform() + uniform() + uniform() + uniform() - 2) * Math.sqrt(3);
}
