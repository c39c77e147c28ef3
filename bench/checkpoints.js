// Checkpoints to measure with, written by the benchmark itself: the shapes of published models, random or sparse values.
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readSpec, weightsOf } from "#engine/model";
import { parseConfig } from "#formats/checkpoint";
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

/** @typedef {{ name: string, dtype: "BF16" | "U8", shape: number[] }} Tensor */
/** @typedef {Readonly<Record<string, unknown>>} Config */

const FUSED = /\.mlp\.experts\.(gate_up_proj|down_proj)$/;

/** The tensors of a configuration, by the names of its family's page. @param {Config} config @returns {Tensor[]} */
export function tensorsOf(config) {
  const { quantization_config: coded, ...json } = config;
  const spec = readSpec(parseConfig(json, "config.json"));
  /** @type {Map<string, Tensor>} */
  const tensors = new Map();
  for (const { name, shape, rows } of weightsOf(spec)) {
    const { of = shape[0] ?? 1, matrices } = rows ?? {};
    const whole = matrices ? [matrices, of / matrices, ...shape.slice(1)] : [of, ...shape.slice(1)];
    const stored = name === spec.head?.name ? name : `model.${name}`;
    tensors.set(stored, { name: stored, dtype: "BF16", shape: rows ? whole : [...shape] });
  }
  return [...tensors.values()].flatMap((tensor) => (coded && FUSED.test(tensor.name) ? codedOf(tensor) : [tensor]));
}

/** MXFP4 as gpt-oss is published: two codes in a byte, a scale for 32, of matrices [out, in]. @param {Tensor} tensor @returns {Tensor[]} */
function codedOf({ name, shape: [experts = 1, input = 1, output = 1] }) {
  const blocks = [experts, output, input / 32];
  return [
    { name: `${name}_blocks`, dtype: "U8", shape: [...blocks, 16] },
    { name: `${name}_scales`, dtype: "U8", shape: blocks },
  ];
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

/** @param {ModelShape} shape @returns {Config} */
const configOf = (shape) => ({
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
});

/**
 * Writes a checkpoint unless it is there already.
 * @param {string} folder
 * @param {ModelShape | Config} model a shape, or what config.json says
 * @param {{ seed: number, sparse?: boolean }} options sparse: most values are holes, to try sizes beyond the disk. Norms, and the
 *   start of the embedding, the head and the matrices of three layers have values
 */
export function writeCheckpoint(folder, model, { seed, sparse = false }) {
  if (existsSync(join(folder, "config.json"))) return folder;
  mkdirSync(folder, { recursive: true });
  const config = "hidden" in model ? configOf(/** @type {ModelShape} */ (model)) : model;
  const layout = layoutFolder(tensorsOf(config));
  // A block of random weights is repeated with a different start each time: values that look like a model's, quickly.
  const block = randomWeights(2 ** 22, seed);
  const layers = Number(config.num_hidden_layers);
  for (const shard of layout.shards) {
    const descriptor = openSync(join(folder, shard.name), "w");
    writeSync(descriptor, shard.header);
    if (sparse) {
      ftruncateSync(descriptor, shard.bytes);
      let at = shard.header.byteLength;
      for (const tensor of shard.tensors) {
        const values = startOf(tensor, block, layers);
        if (values) writeSync(descriptor, values, 0, values.byteLength, at);
        at += tensor.bytes;
      }
    } else {
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
  writeFileSync(join(folder, "tokenizer.json"), "{}"); // its absence would be warned of in every run
  writeFileSync(join(folder, "config.json"), JSON.stringify(config, null, 2));
  return folder;
}

const OUTSIDE_ROWS = 1024; // more than the tokens that writeByteTokenizer needs for ASCII
const START_BYTES = 2 ** 19;
const ONES = new Uint8Array(Uint16Array.from({ length: 2 ** 15 }, () => 0x3f80).buffer);

/**
 * The values at the start of a tensor of a sparse file; undefined if it is a hole.
 * @param {{ name: string, shape: readonly number[], bytes: number, dtype: string }} tensor @param {Uint8Array} block @param {number} layers
 */
function startOf({ name, shape, bytes, dtype }, block, layers) {
  if (name.endsWith("norm.weight")) return ONES.subarray(0, bytes);
  if (dtype !== "BF16" || shape.length === 1) return undefined;
  const layer = /\.layers\.(\d+)\./.exec(name)?.[1];
  if (layer === undefined)
    return block.subarray(0, Math.min(bytes, block.byteLength, 2 * OUTSIDE_ROWS * (shape[1] ?? 1)));
  const isFilled = [0, layers >> 1, layers - 1].includes(Number(layer));
  const start = (2 * 8209 * name.length) % (block.byteLength / 2);
  return isFilled ? block.subarray(start, start + Math.min(bytes, START_BYTES)) : undefined;
}

/**
 * A byte-level tokenizer with as many tokens and nearly as many merges as a published one; its end of text is the last token. Merges are of
 * bytes beyond ASCII, so ASCII has the first 256 tokens.
 * @param {string} folder @param {number} size
 */
export function writeByteTokenizer(folder, size) {
  const visible = (/** @type {number} */ byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let hidden = 256;
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(visible(byte) ? byte : hidden++));
  const upper = letters.slice(128);
  const end = "<|end|>";
  const tokens = [...letters];
  /** @type {[string, string][]} */
  const merges = [];
  let stems = upper;
  while (tokens.length < size - 1) {
    const from = tokens.length;
    for (const stem of stems) {
      for (const letter of upper) {
        if (tokens.length === size - 1) break;
        tokens.push(stem + letter);
        merges.push([stem, letter]);
      }
    }
    stems = tokens.slice(from);
  }
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const special = { id: size - 1, content: end, special: true, single_word: false, lstrip: false, rstrip: false };
  const json = {
    added_tokens: [{ ...special, normalized: false }],
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab, merges },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
  const chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
  const settings = { tokenizer_class: "PreTrainedTokenizerFast", eos_token: end, pad_token: end, chat_template };
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(settings));
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
