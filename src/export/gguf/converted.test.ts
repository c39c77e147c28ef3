// Exports tiny models as float32 and compares them with what llama.cpp's converter makes of them: every tensor's bytes,
// and the metadata (test/fixtures/gguf/make_gguf.py).
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder, writeDecoder } from "../../../test/support/export-fixtures.js";
import { readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { planGguf } from "./plan-gguf.js";
import { writeGguf } from "./write-gguf.js";

interface Converted {
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Shape, and the beginning of a SHA-256. */
  readonly tensors: Readonly<Record<string, readonly [readonly number[], string]>>;
}

const CONVERTED = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../test/fixtures/gguf/converted.json"), "utf8"),
) as Record<string, Converted>;

/** Where the models are written, for make_gguf.py. */
const FOLDER = process.env.GGUF_MODELS ?? temporaryFolder();

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

/** Writes a case, as make_gguf.py converts it. */
async function write(name: string): Promise<string> {
  mkdirSync(FOLDER, { recursive: true });
  const [written, [settings, dropped] = []] = [WRITTEN[name], CHANGED[name]];
  const isKept = (weight: string) => !dropped?.test(weight);
  const model = written
    ? await writeDecoder(join(FOLDER, name), written)
    : settings
      ? await copyDecoder(FOLDER, name, settings, isKept)
      : await copyDecoder(FOLDER, name);
  writeTokenizer(model);
  if (name.startsWith("gemma4")) writeMergedTokenizer(model);
  writeFileSync(join(model, "generation_config.json"), JSON.stringify({ eos_token_id: [2, 3, 6] }));
  return model;
}

/**
 * Keys that we write otherwise, or that are only in one file, without the architecture's name; both files compute the same
 * text where nothing else is said. `+` is before those that the converter does not write.
 */
const DIFFERENT: Readonly<Record<string, readonly string[]>> = {
  // A scale of rotations that scales nothing.
  cohere2: ["rope.scaling.type"],
  // A factor of 1.
  deepseek_v3: ["+rope.scaling.attn_factor"],
  // It leaves out the base of the rotation, which is another in these models than llama.cpp's default.
  gemma: ["+rope.freq_base"],
  gemma2: ["+rope.freq_base"],
  // Where there is no cap, llama.cpp has one of 30, which a 0 turns off.
  "gemma4-experts": ["+final_logit_softcapping"],
  "gemma4-one": ["+final_logit_softcapping"],
  "gemma4-wrapper": ["+final_logit_softcapping"],
  // It reads these in the code of the model's first release alone: it takes the hidden width and 1e-5 of transformers' models.
  glm: ["context_length", "attention.layer_norm_rms_epsilon", "tokenizer.ggml.unknown_token_id"],
  // The end of a text as the unknown token, which a byte-level tokenizer never makes.
  glm4: ["tokenizer.ggml.unknown_token_id"],
  glm4_moe: ["tokenizer.ggml.unknown_token_id"],
  // One group of experts, which is none.
  "glm4_moe-plain": ["expert_group_count", "expert_group_used_count", "tokenizer.ggml.unknown_token_id"],
  granitemoe: ["+expert_feed_forward_length"],
  // Models with states have no longest text there, and a base of a rotation that they do not have. It pads tokens to a
  // multiple of 8, with which llama.cpp does not load a model of another vocabulary.
  granitemoehybrid: [
    ...["context_length", "feed_forward_length", "rope.freq_base", "expert_count", "expert_used_count"],
    // Without experts, their shared part is the feed-forward part.
    ...["rope.dimension_count", "expert_shared_feed_forward_length", "tokenizer.ggml.tokens"],
    "tokenizer.ggml.token_type",
  ],
  "granitemoehybrid-experts": [
    ...["context_length", "rope.freq_base", "rope.dimension_count", "tokenizer.ggml.tokens"],
    ...["tokenizer.ggml.token_type", "+expert_feed_forward_length"],
  ],
  // The keys of a state space that the model does not have.
  "granitemoehybrid-plain": [
    ...["attention.head_count_kv", "expert_count", "expert_shared_feed_forward_length", "ssm.conv_kernel"],
    ...["ssm.state_size", "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank", "rope.scaling.finetuned"],
  ],
  // It takes 262144 positions for all, whatever the model says, and ends answers at eod_token_id; we end them where
  // generation_config.json does.
  hunyuan: [
    ...["context_length", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"],
    ...["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"],
  ],
  // YaRN as divisors of the frequencies, which also hold with unusual parameters.
  "llama-yarn": [
    ...["rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"],
    "+rope.scaling.attn_factor",
  ],
  // What llama.cpp has for these families anyway.
  lfm2_moe: ["+expert_weights_norm", "+expert_weights_scale"],
  minimax_m2: ["+expert_gating_func", "+expert_weights_norm", "+expert_weights_scale"],
  // The factor of cosine and sine itself; llama.cpp computes it from the converter's key for an mscale of 1 alone.
  ministral3: ["rope.scaling.yarn_log_multiplier", "+rope.scaling.attn_factor"],
  nemotron_h: [
    ...["context_length", "rope.dimension_count", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"],
    "+attention.layer_norm_rms_epsilon",
  ],
  // As above; one group of experts is none, and llama.cpp reads the width of the shared part, not its number.
  "nemotron_h-experts": [
    ...["context_length", "rope.dimension_count", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"],
    ...["expert_group_count", "expert_group_used_count", "expert_shared_count"],
    ...["+attention.layer_norm_rms_epsilon", "+expert_gating_func"],
  ],
  // Windows that llama.cpp does not compute.
  phi3: ["attention.sliding_window", "rope.scaling.original_context_length"],
  "phi3-longrope": ["attention.sliding_window", "+rope.scaling.type"],
};

/**
 * Keys that we always write: what llama.cpp computes itself where they are missing, as they are in converted files of some
 * families, and further tokens that end answers, which the converter knows of a few.
 */
const ALWAYS =
  /(vocab_size|(key|value)_length|rope\.dimension_count|sliding_window_pattern|add_(bos|eos)_token|eo[tm]_token_id)$/;

/** Tensors whose bytes differ: products, which are rounded in another order, and queries that make up for a scale. */
const COMPUTED: Readonly<Record<string, RegExp>> = {
  falcon_h1: /attn_[qkvo]|ffn_(gate|down)|ssm_(in|out)|token_embd|^output\.weight/,
  gemma2: /attn_q\.weight/,
  gemma3: /attn_q_norm\.weight/,
  "gemma3-wrapper": /attn_q_norm\.weight/,
};

test.each([...COPIED, ...Object.keys(CHANGED), ...Object.keys(WRITTEN)])(
  "%s is what llama.cpp's converter writes",
  async (name) => {
    const model = await write(name);
    const out = `${model}.gguf`;
    await writeGguf(await planGguf(await openModelSource(model), { type: "f32" }), { out, force: true });
    const { metadata, tensors } = readGguf(out);
    const { metadata: keys, tensors: wanted } = CONVERTED[name] as Converted;

    const architecture = keys["general.architecture"] as string;
    const short = (key: string) => key.replace(`${architecture}.`, "");
    const isEqual = (key: string) => {
      const [ours, theirs] = [metadata.get(key), keys[key]];
      const isClose = typeof ours === "number" && Math.abs(ours - (theirs as number)) < 1e-6 * Math.abs(ours);
      return isClose || JSON.stringify(ours) === JSON.stringify(theirs);
    };
    // Tokenizers of SentencePiece alone are converted in some families.
    const isConverted = "tokenizer.ggml.tokens" in keys;
    const own = [...metadata.keys()].filter(
      (key) => !(key in keys || key.startsWith("general.") || (!isConverted && key.startsWith("tokenizer."))),
    );
    const different = Object.keys(keys).filter((key) => !isEqual(key));
    const besides = own.filter((key) => !ALWAYS.test(key)).map((key) => `+${short(key)}`);
    expect([...different.map(short), ...besides].sort()).toEqual([...(DIFFERENT[name] ?? [])].sort());

    const isDivisor = (tensor: string) => /^rope_/.test(tensor);
    const found = [...tensors.keys()].filter(
      (tensor) => tensor in wanted || !isDivisor(tensor) || name !== "llama-yarn",
    );
    expect(found.sort()).toEqual(Object.keys(wanted).sort());
    for (const [tensor, [shape, digest]] of Object.entries(wanted)) {
      const { bytes, shape: ownShape } = tensors.get(tensor) ?? {};
      expect([tensor, ownShape]).toEqual([tensor, shape]);
      const ownDigest = createHash("sha256")
        .update(bytes ?? "")
        .digest("hex");
      // Divisors are rounded from float64 here.
      if (isDivisor(tensor)) continue;
      expect([tensor, ownDigest.startsWith(digest)]).toEqual([tensor, !COMPUTED[name]?.test(tensor)]);
    }
  },
);
