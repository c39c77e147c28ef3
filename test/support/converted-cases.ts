// Tiny models of every family that llama.cpp's converter takes, and what it makes of them (test/fixtures/gguf/make_gguf.py).
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyDecoder, writeDecoder } from "./export-fixtures.js";

interface Converted {
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Shape, and the beginning of a SHA-256. */
  readonly tensors: Readonly<Record<string, readonly [readonly number[], string]>>;
}

export const CONVERTED = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/gguf/converted.json"), "utf8"),
) as Record<string, Converted>;

type Settings = Readonly<Record<string, unknown>>;

const SIZES = { hidden_size: 16, intermediate_size: 6, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 4 };
const DELTA = {
  ...{ ...SIZES, head_dim: 8, num_hidden_layers: 3, max_position_embeddings: 64 },
  layer_types: ["linear_attention", "linear_attention", "full_attention"],
  full_attention_interval: 3,
  ...{ linear_num_key_heads: 2, linear_num_value_heads: 6, linear_conv_kernel_dim: 3 },
  ...{ linear_key_head_dim: 2, linear_value_head_dim: 2 },
};
const EXPERTS = { num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 5, norm_topk_prob: true };
const SHARED = { ...EXPERTS, shared_expert_intermediate_size: 4 };
const ROPE = { rope_type: "default", rope_theta: 100 };
const AXES = { ...ROPE, partial_rotary_factor: 0.75, mrope_section: [2, 1, 0], mrope_interleaved: true };
const YARN = { rope_type: "yarn", rope_theta: 500, factor: 4, original_max_position_embeddings: 16 };
const SCALES = { embedding_multiplier: 1.5, attention_multiplier: 0.4, residual_multiplier: 0.7, logits_scaling: 1.7 };

/** Cases of test/fixtures/decoders, as the exports of other tests have them. */
const COPIED = [
  ...["apertus", "cohere2", "ernie4_5", "exaone4-global", "falcon3", "gemma", "gemma2", "gemma3", "gemma3-wrapper"],
  ...[
    "gemma4",
    "gemma4-experts",
    "gemma4-wrapper",
    "glm4",
    "glm4_moe",
    "glm4_moe-plain",
    "granite",
    "lfm2",
    "llama",
    "llama-bias-linear",
    "llama-yarn",
    "ministral3",
  ],
  ...["mistral", "olmo2", "olmo3", "phi3", "phi3-longrope", "qwen2", "qwen3", "qwen3_vl", "smollm3", "starcoder2"],
];

const HYBRID = { layer_types: ["mamba", "attention"], mamba_proj_bias: false, time_step_limit: undefined };

/** The same with other settings, and without some weights. */
const CHANGED: Readonly<Record<string, readonly [settings: Settings, dropped?: RegExp]>> = {
  deepseek_v3: [
    {
      ...{ attention_bias: false, scoring_func: "sigmoid" },
      rope_parameters: { ...YARN, mscale: 0.7, mscale_all_dim: 0.7 },
    },
    /\.bias$/,
  ],
  falcon_h1: [{ mamba_norm_before_gate: false, time_step_limit: undefined }],
  "gemma4-one": [
    {
      attention_bias: false,
      rope_parameters: {
        sliding_attention: ROPE,
        full_attention: { rope_type: "proportional", rope_theta: 500, partial_rotary_factor: 0.4 },
      },
    },
    /\.bias$/,
  ],
  gpt_oss: [{ swiglu_alpha: undefined, swiglu_limit: undefined }],
  granitemoe: [{}],
  granitemoehybrid: [HYBRID, /(in|out)_proj\.bias$/],
  "granitemoehybrid-experts": [HYBRID],
  lfm2_moe: [{ conv_bias: false, routed_scaling_factor: 1, tie_word_embeddings: true }, /conv.*bias|lm_head/],
  hunyuan: [
    {
      ...{ attention_bias: false, max_position_embeddings: 32_768 },
      rope_parameters: { rope_type: "dynamic", rope_theta: 10_000, alpha: 30, factor: 1 },
    },
    /\.bias$/,
  ],
};

/** Models of other shapes than those cases have. */
const WRITTEN: Readonly<Record<string, Settings>> = {
  glm: {
    ...{ architectures: ["GlmForCausalLM"], model_type: "glm", ...SIZES, num_hidden_layers: 2 },
    attention_bias: true,
  },
  "granitemoehybrid-plain": {
    ...{ architectures: ["GraniteMoeHybridForCausalLM"], model_type: "granitemoehybrid", ...SIZES, ...SCALES },
    ...{ num_hidden_layers: 2, layer_types: ["attention", "attention"], max_position_embeddings: 64 },
    ...{ mamba_n_heads: 4, mamba_d_head: 8, mamba_d_state: 3, mamba_d_conv: 3, mamba_n_groups: 1, mamba_expand: 2 },
    ...{ shared_intermediate_size: 6, num_local_experts: 0, rms_norm_eps: 1e-5, tie_word_embeddings: true },
    ...{ position_embedding_type: "rope", rope_parameters: ROPE },
  },
  nemotron_h: {
    ...{ architectures: ["NemotronHForCausalLM"], model_type: "nemotron_h", ...SIZES, num_hidden_layers: 4 },
    ...{ hybrid_override_pattern: "M-*M", mamba_num_heads: 4, n_groups: 2, ssm_state_size: 3, conv_kernel: 3 },
    // The converter has state spaces of this width.
    ...{ mamba_head_dim: 64, layer_norm_epsilon: 1e-5, max_position_embeddings: 64, mlp_bias: true, expand: 2 },
  },
  "nemotron_h-experts": {
    ...{ architectures: ["NemotronHForCausalLM"], model_type: "nemotron_h", ...SIZES, num_hidden_layers: 4 },
    ...{ hybrid_override_pattern: "ME*E", mamba_num_heads: 4, n_groups: 2, ssm_state_size: 3, conv_kernel: 3 },
    ...{ mamba_head_dim: 64, layer_norm_epsilon: 1e-5, max_position_embeddings: 64, expand: 2, n_group: 1 },
    ...{ n_routed_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 5, topk_group: 1, n_shared_experts: 1 },
    ...{ moe_shared_expert_intermediate_size: 7, routed_scaling_factor: 1.7, norm_topk_prob: true },
  },
  minimax_m2: {
    ...{ architectures: ["MiniMaxM2ForCausalLM"], model_type: "minimax_m2", ...SIZES, num_hidden_layers: 2 },
    ...{ num_local_experts: 5, num_experts_per_tok: 2, rotary_dim: 2, rope_theta: 5_000_000 },
    max_position_embeddings: 64,
  },
  seed_oss: {
    ...{ architectures: ["SeedOssForCausalLM"], model_type: "seed_oss", ...SIZES, num_hidden_layers: 2 },
    max_position_embeddings: 64,
  },
  qwen3_5: { architectures: ["Qwen3_5ForCausalLM"], model_type: "qwen3_5_text", ...DELTA, rope_parameters: AXES },
  qwen3_5_moe: {
    ...{ architectures: ["Qwen3_5MoeForCausalLM"], model_type: "qwen3_5_moe_text", ...DELTA, ...SHARED },
    rope_parameters: AXES,
  },
  qwen3_moe: {
    ...{ architectures: ["Qwen3MoeForCausalLM"], model_type: "qwen3_moe", ...SIZES, ...EXPERTS },
    num_hidden_layers: 2,
  },
  qwen3_next: { architectures: ["Qwen3NextForCausalLM"], model_type: "qwen3_next", ...DELTA, ...SHARED },
};

const TOKEN = { normalized: false, lstrip: false, rstrip: false, single_word: false };

/** A tokenizer with every type of token, and an id without one. */
function writeTokenizer(model: string): void {
  const added = ["<|endoftext|>", "<s>", "</s>", "<|user|>", "<tool>", "[gMASK]", "<|observation|>"].map(
    (content, id) => {
      return { ...TOKEN, id, content, special: id < 3 };
    },
  );
  const letters = [..."abcdefghijk"].map((letter, i) => [letter, 7 + i] as const);
  const vocab = Object.fromEntries([...added.map(({ content, id }) => [content, id] as const), ...letters, ["ab", 18]]);
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const json = {
    ...{ version: "1.0", added_tokens: added, normalizer: null, pre_tokenizer: bytes, decoder: bytes },
    model: { type: "BPE", vocab, merges: [["a", "b"]] },
  };
  const config = { bos_token: "<s>", eos_token: "</s>", pad_token: "<|endoftext|>" };
  writeFileSync(join(model, "tokenizer.json"), JSON.stringify(json));
  writeFileSync(
    join(model, "tokenizer_config.json"),
    JSON.stringify({ ...config, tokenizer_class: "PreTrainedTokenizerFast" }),
  );
}

/** One whose characters are those of SentencePiece, merged as its merges say, with a token that an answer shows. */
function writeMergedTokenizer(model: string): void {
  const names = ["<|endoftext|>", "<s>", "</s>", "<|channel>"];
  const added = names.map((content, id) => ({ ...TOKEN, id, content, special: true }));
  const tokens = [...names, ..."abcdefghijklm", "ab", "▁", "<0x0A>"];
  const space = { type: "Replace", pattern: { String: " " }, content: "▁" };
  const decoders = [{ ...space, pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" }];
  const [first, sequence] = [
    { SpecialToken: { id: "<s>", type_id: 0 } },
    (id: string) => ({ Sequence: { id, type_id: 0 } }),
  ];
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const json = {
    ...{ version: "1.0", added_tokens: added, normalizer: space, decoder: { type: "Sequence", decoders } },
    post_processor: {
      ...{ type: "TemplateProcessing", pair: [first, sequence("A"), sequence("B")], single: [first, sequence("A")] },
      special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
    },
    model: { type: "BPE", byte_fallback: true, fuse_unk: true, unk_token: null, vocab, merges: [["a", "b"]] },
  };
  writeFileSync(join(model, "tokenizer.json"), JSON.stringify(json));
}

export const CASES = [...COPIED, ...Object.keys(CHANGED), ...Object.keys(WRITTEN)];

/** Writes a case, as make_gguf.py converts it. */
export async function writeCase(folder: string, name: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const [written, [settings, dropped] = []] = [WRITTEN[name], CHANGED[name]];
  const isKept = (weight: string) => !dropped?.test(weight);
  const model = written
    ? await writeDecoder(join(folder, name), written)
    : settings
      ? await copyDecoder(folder, name, settings, isKept)
      : await copyDecoder(folder, name);
  writeTokenizer(model);
  if (name.startsWith("gemma4")) writeMergedTokenizer(model);
  writeFileSync(join(model, "generation_config.json"), JSON.stringify({ eos_token_id: [2, 3, 6] }));
  return model;
}
