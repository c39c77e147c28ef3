// @ts-nocheck: node-llama-cpp is not installed with the project.
// Exports a tiny random model of every family as GGUF, opens it in llama.cpp (node-llama-cpp), and compares the most likely
// tokens and all probabilities with the engine's, or with those of transformers in LAYERGRAFT_PYTHON where the engine does not
// run the family. Not part of `npm test`, as node-llama-cpp has 700 MB. After a build:
//     npm install --no-save node-llama-cpp
//     node test/reference/check_gguf.js [FAMILY ...] [TYPE ...]
// NODE_LLAMA_CPP names another copy, as a path to its dist/index.js.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine, openModelSource } from "#engine";
import { readSpec, weightsOf } from "#engine/model";
import { planGguf, writeGguf } from "#export";
import { parseConfig } from "#formats/checkpoint";
import { writeSafetensors } from "#formats/safetensors";
import { writeByteTokenizer } from "./gguf_tokenizers.js";

const { getLlama, LlamaLogLevel } = await import(process.env.NODE_LLAMA_CPP ?? "node-llama-cpp");

const VOCABULARY = 320;
const SIZES = {
  hidden_size: 256,
  intermediate_size: 512,
  num_hidden_layers: 6,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  vocab_size: VOCABULARY,
  max_position_embeddings: 256,
  bos_token_id: 256,
  eos_token_id: 257,
  dtype: "float32",
};
const LLAMA3 = {
  rope_type: "llama3",
  rope_theta: 500,
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 96,
};
const LINEAR = { rope_type: "linear", rope_theta: 100, factor: 4 };
const YARN = { rope_type: "yarn", rope_theta: 500, factor: 4, original_max_position_embeddings: 64 };
const LONG = {
  rope_type: "longrope",
  rope_theta: 100,
  original_max_position_embeddings: 128,
  short_factor: Array.from({ length: 32 }, (_, i) => 1 + i / 40),
  long_factor: Array.from({ length: 32 }, (_, i) => 2 + i / 9),
};
const types = (n, of) =>
  Array.from({ length: SIZES.num_hidden_layers }, (_, i) => ((i + 1) % n === 0 ? "full_attention" : of));
const local = (n) => ({ layer_types: types(n, "sliding_attention"), sliding_window: 5 });

const DELTA = {
  linear_key_head_dim: 64,
  linear_value_head_dim: 64,
  linear_num_key_heads: 2,
  linear_num_value_heads: 6,
};
const SIGMOID = {
  num_experts_per_tok: 2,
  n_routed_experts: 6,
  n_shared_experts: 2,
  moe_intermediate_size: 256,
  routed_scaling_factor: 1.7,
  norm_topk_prob: true,
};
const LATENT = {
  kv_lora_rank: 128,
  qk_rope_head_dim: 64,
  qk_nope_head_dim: 96,
  v_head_dim: 64,
  num_key_value_heads: 4,
  first_k_dense_replace: 2,
};
const GEMMA_4 = {
  head_dim: 64,
  global_head_dim: 96,
  attention_k_eq_v: true,
  num_global_key_value_heads: 1,
  hidden_size_per_layer_input: 0,
  ...local(2),
};
const NEMOTRON = {
  head_dim: 96,
  layer_norm_epsilon: 1e-5,
  mamba_num_heads: 8,
  mamba_head_dim: 64,
  n_groups: 2,
  ssm_state_size: 128,
  time_step_min: 0,
};
const GRANITE = {
  embedding_multiplier: 1.5,
  attention_multiplier: 0.2,
  residual_multiplier: 0.7,
  logits_scaling: 1.7,
  tie_word_embeddings: true,
};
const MAMBA = { mamba_n_heads: 8, mamba_d_head: 64, mamba_n_groups: 2, mamba_d_state: 128, mamba_expand: 2 };

/** Configurations that use what each family can have. */
const CASES = {
  llama: { model_type: "llama", tie_word_embeddings: false },
  "llama3 rope, wide heads": { model_type: "llama", rope_parameters: LLAMA3, head_dim: 96 },
  "llama biases, linear, tied": {
    model_type: "llama",
    attention_bias: true,
    mlp_bias: true,
    rope_parameters: LINEAR,
    tie_word_embeddings: true,
  },
  "llama yarn": { model_type: "llama", rope_parameters: { ...YARN, beta_fast: 24, attention_factor: 1.3 } },
  "falcon 3": { model_type: "llama", head_dim: 128, rope_theta: 1_000_042 },
  mistral: { model_type: "mistral", sliding_window: null },
  "qwen 2": { model_type: "qwen2", tie_word_embeddings: true },
  "qwen 2.5 yarn": { model_type: "qwen2", rope_parameters: YARN },
  "qwen 3": { model_type: "qwen3", head_dim: 96 },
  "qwen 3 vl": {
    ...{ model_type: "qwen3_vl_text", head_dim: 96 },
    rope_parameters: { rope_type: "default", rope_theta: 500, mrope_section: [16, 16, 16], mrope_interleaved: true },
  },
  gemma: { model_type: "gemma", head_dim: 96, hidden_act: "gelu_pytorch_tanh" },
  "gemma 2": { model_type: "gemma2", head_dim: 64, query_pre_attn_scalar: 50, ...local(2) },
  "gemma 3": {
    model_type: "gemma3_text",
    head_dim: 64,
    query_pre_attn_scalar: 50,
    rope_parameters: {
      full_attention: { ...LINEAR, rope_theta: 1000 },
      sliding_attention: { rope_type: "default", rope_theta: 50 },
    },
    ...local(3),
  },
  cohere: { model_type: "cohere", logit_scale: 0.25 },
  "cohere 2": { model_type: "cohere2", logit_scale: 0.25, head_dim: 64, ...local(3) },
  "phi 3": { model_type: "phi3", tie_word_embeddings: false },
  "phi 3 longrope": { model_type: "phi3", rope_parameters: LONG },
  granite: { model_type: "granite", ...GRANITE },
  "olmo 2": { model_type: "olmo2", tie_word_embeddings: false },
  "olmo 2 tied": { model_type: "olmo2", tie_word_embeddings: true },
  "smollm 3": { model_type: "smollm3", tie_word_embeddings: false },
  "olmo 3": {
    model_type: "olmo3",
    ...local(4),
    rope_parameters: { full_attention: YARN, sliding_attention: { rope_theta: 500 } },
  },
  "olmo 3 plain": { model_type: "olmo3", ...local(4) },
  "glm 4": { model_type: "glm4", head_dim: 96 },
  "exaone 4": {
    model_type: "exaone4",
    sliding_window: null,
    layer_types: types(1),
    rope_parameters: LLAMA3,
    tie_word_embeddings: true,
  },
  "ernie 4.5": { model_type: "ernie4_5", head_dim: 96 },
  hunyuan: {
    model_type: "hunyuan_v1_dense",
    head_dim: 96,
    rope_parameters: { rope_type: "dynamic", rope_theta: 100, alpha: 30 },
  },
  ministral: {
    model_type: "ministral3",
    head_dim: 96,
    rope_parameters: {
      ...YARN,
      original_max_position_embeddings: 16,
      mscale: 1,
      mscale_all_dim: 0.6,
      llama_4_scaling_beta: 0.3,
    },
  },
  "glm 9b": { model_type: "glm", head_dim: 64, attention_bias: true },
  apertus: { model_type: "apertus", rope_parameters: LLAMA3, attention_bias: false },
  "exaone with windows": { model_type: "exaone4", num_hidden_layers: 64, hidden_size: 64, sliding_window: 5 },
  "gemma 4": {
    model_type: "gemma4_text",
    head_dim: 64,
    global_head_dim: 96,
    num_kv_shared_layers: 3,
    hidden_size_per_layer_input: 64,
    vocab_size_per_layer_input: VOCABULARY,
    use_double_wide_mlp: true,
    final_logit_softcapping: 20,
    rope_parameters: {
      full_attention: { rope_type: "proportional", partial_rotary_factor: 0.25, rope_theta: 1000 },
      sliding_attention: { rope_type: "default", rope_theta: 50 },
    },
    ...local(3),
  },
  "gemma 4 with values as keys": { model_type: "gemma4_text", ...GEMMA_4, tie_word_embeddings: false },
  "lfm 2": {
    model_type: "lfm2",
    norm_eps: 1e-5,
    block_auto_adjust_ff_dim: false,
    layer_types: types(3, "conv"),
    tie_word_embeddings: true,
  },
  "moe lfm 2": {
    model_type: "lfm2_moe",
    norm_eps: 1e-5,
    layer_types: types(3, "conv"),
    num_dense_layers: 2,
    num_experts: 6,
    num_experts_per_tok: 2,
    moe_intermediate_size: 256,
    tie_word_embeddings: true,
  },
  "gemma 4 moe": {
    model_type: "gemma4_text",
    ...GEMMA_4,
    enable_moe_block: true,
    num_experts: 6,
    top_k_experts: 2,
    moe_intermediate_size: 256,
  },
  "moe qwen 3": {
    model_type: "qwen3_moe",
    head_dim: 96,
    num_experts: 5,
    num_experts_per_tok: 2,
    moe_intermediate_size: 256,
    norm_topk_prob: true,
  },
  "gpt-oss": {
    model_type: "gpt_oss",
    head_dim: 96,
    intermediate_size: 256,
    num_local_experts: 5,
    num_experts_per_tok: 2,
    rope_parameters: { ...YARN, truncate: true },
    ...local(2),
  },
  "qwen 3 next": {
    model_type: "qwen3_next",
    head_dim: 96,
    ...DELTA,
    num_experts: 5,
    num_experts_per_tok: 2,
    moe_intermediate_size: 256,
    shared_expert_intermediate_size: 512,
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.25 },
  },
  "qwen 3.5": {
    model_type: "qwen3_5_text",
    head_dim: 64,
    ...DELTA,
    layer_types: types(3, "linear_attention"),
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.5, mrope_section: [6, 5, 5] },
    tie_word_embeddings: true,
  },
  "qwen 3.5 with layers in any order": {
    model_type: "qwen3_5_text",
    head_dim: 64,
    ...DELTA,
    layer_types: ["full_attention", ...types(3, "linear_attention").slice(1)],
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.25 },
  },
  "moe qwen 3.5": {
    model_type: "qwen3_5_moe_text",
    head_dim: 64,
    ...DELTA,
    num_experts: 5,
    num_experts_per_tok: 2,
    moe_intermediate_size: 256,
    shared_expert_intermediate_size: 512,
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.25 },
  },
  "moe glm 4.5": {
    model_type: "glm4_moe",
    head_dim: 96,
    attention_bias: true,
    use_qk_norm: true,
    ...SIGMOID,
    first_k_dense_replace: 1,
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.5 },
  },
  "moe glm 4.5 in groups": {
    model_type: "glm4_moe",
    head_dim: 64,
    ...SIGMOID,
    first_k_dense_replace: 3,
    norm_topk_prob: false,
    n_routed_experts: 8,
    n_group: 4,
    topk_group: 2,
  },
  "moe deepseek 3": { model_type: "deepseek_v3", ...SIGMOID, ...LATENT, q_lora_rank: 128, n_group: 1, topk_group: 1 },
  "moe deepseek 3 yarn": {
    model_type: "deepseek_v3",
    ...SIGMOID,
    ...LATENT,
    // llama.cpp reads queries of the whole stream in models of so many layers.
    q_lora_rank: null,
    num_hidden_layers: 27,
    hidden_size: 64,
    n_routed_experts: 8,
    n_group: 4,
    topk_group: 2,
    rope_parameters: { ...YARN, mscale: 1, mscale_all_dim: 1 },
  },
  "moe deepseek 3 stretched": {
    model_type: "deepseek_v3",
    ...SIGMOID,
    ...LATENT,
    q_lora_rank: 128,
    n_group: 1,
    topk_group: 1,
    rope_parameters: { ...YARN, mscale: 0.8, mscale_all_dim: 0.4 },
  },
  "moe granite": {
    model_type: "granitemoe",
    ...GRANITE,
    intermediate_size: 256,
    num_local_experts: 5,
    attention_bias: true,
  },
  "granite 4": {
    model_type: "granitemoehybrid",
    ...GRANITE,
    ...MAMBA,
    layer_types: types(3, "mamba"),
    num_local_experts: 0,
    shared_intermediate_size: 512,
  },
  "granite 4 rotated": {
    model_type: "granitemoehybrid",
    ...GRANITE,
    ...MAMBA,
    layer_types: types(3, "mamba"),
    num_local_experts: 0,
    position_embedding_type: "rope",
    shared_intermediate_size: 512,
    tie_word_embeddings: false,
  },
  "moe granite 4": {
    model_type: "granitemoehybrid",
    ...GRANITE,
    ...MAMBA,
    layer_types: types(2, "mamba"),
    num_local_experts: 5,
    intermediate_size: 256,
    shared_intermediate_size: 512,
  },
  "granite 4 without states": {
    model_type: "granitemoehybrid",
    ...GRANITE,
    ...MAMBA,
    layer_types: types(1),
    num_local_experts: 0,
    position_embedding_type: "rope",
    shared_intermediate_size: 512,
  },
  "falcon h1": {
    model_type: "falcon_h1",
    head_dim: 96,
    ...MAMBA,
    mamba_d_ssm: 512,
    mamba_rms_norm: true,
    mamba_norm_before_gate: false,
    embedding_multiplier: 1.4,
    lm_head_multiplier: 0.6,
    key_multiplier: 0.7,
    attention_in_multiplier: 1.2,
    attention_out_multiplier: 0.9,
    ssm_in_multiplier: 1.3,
    ssm_out_multiplier: 0.8,
    mlp_multipliers: [1.1, 0.9],
    ssm_multipliers: [1.1, 0.9, 1.2, 0.8, 1.05],
  },
  "falcon h1 plain": { model_type: "falcon_h1", ...MAMBA, mamba_d_ssm: 512, tie_word_embeddings: true },
  "nemotron h": {
    model_type: "nemotron_h",
    ...NEMOTRON,
    layers_block_type: ["mamba", "mlp", "attention", "mamba", "attention", "mlp"],
  },
  "moe nemotron h": {
    model_type: "nemotron_h",
    ...NEMOTRON,
    ...SIGMOID,
    layers_block_type: ["mamba", "moe", "attention", "mamba", "moe", "moe"],
    moe_shared_expert_intermediate_size: 512,
  },
  "moe nemotron h with a narrower stream": {
    model_type: "nemotron_h",
    ...NEMOTRON,
    ...SIGMOID,
    layers_block_type: ["mamba", "moe", "attention", "mamba", "moe", "attention"],
    moe_shared_expert_intermediate_size: 512,
    moe_latent_size: 128,
    mamba_num_heads: 6, // no multiple of the hidden width in each group, as in Nemotron 3 Nano
  },
  "seed oss": { model_type: "seed_oss", head_dim: 96, tie_word_embeddings: false },
  "moe minimax m2": {
    model_type: "minimax_m2",
    head_dim: 96,
    rotary_dim: 48,
    intermediate_size: 256,
    num_local_experts: 6,
    num_experts_per_tok: 2,
    tie_word_embeddings: false,
  },
  "starcoder 2": { model_type: "starcoder2", sliding_window: null },
};

/** The largest difference of log-probabilities that a type may have, where a probability is above 0.001. */
const BOUNDS = { f32: 1e-4, f16: 0.02, bf16: 0.1, q8_0: 0.3, q6_k: 0.8, q5_k_m: 1.5, q4_k_m: 2.5, q4_0: 2.6 };
/** gelu comes from a table of float16 in llama.cpp. */
const GELU = 0.01;
/**
 * Rounding chooses other experts of random models now and then, and adds up in states that nothing was trained to forget:
 * there, types but f32 are only to make nine of ten clear choices.
 */
const ROUGH = /moe|gpt-oss|qwen 3 next|qwen 3\.5|granite 4|falcon h1|nemotron/;
const EXPERTS = 1.5;
/** Of families that the engine does not run. */
const UNRUN = /seed|minimax/;
/** Prints the log-probabilities of transformers after every token of the texts. */
const TRANSFORMERS = `
import json, sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager")
with torch.no_grad():
    texts = [model(torch.tensor([text])).logits[0] for text in json.loads(sys.argv[2])]
print(json.dumps([row for logits in texts for row in logits.log_softmax(-1).tolist()]))
`;

const folder = mkdtempSync(join(tmpdir(), "layergraft-gguf-"));
const llama = await getLlama({ build: "never", logLevel: LlamaLogLevel.error, gpu: false, maxThreads: 1 });
const names = process.argv.slice(2);
const wantedTypes = names.filter((name) => name in BOUNDS);
const wanted = names.filter((name) => !(name in BOUNDS));
let failures = 0;
try {
  for (const [name, config] of Object.entries(CASES)) {
    if (wanted.length > 0 && !wanted.some((word) => name.startsWith(word))) continue;
    const model = await writeModel(name, { ...SIZES, ...config });
    const texts = [24, 40].map((length, seed) => [
      256,
      ...Array.from({ length }, (_, i) => (i * 37 + seed * 11) % 256),
    ]);
    const expected = await expectations(model, texts, !UNRUN.test(name));
    for (const [type, bound] of Object.entries(BOUNDS)) {
      if (wantedTypes.length > 0 && !wantedTypes.includes(type)) continue;
      // Errors of values add up over layers; a convolution between two gates multiplies those of three products.
      const depth = type === "f32" ? 1 : (config.num_hidden_layers ?? 6) / 6;
      const gated = /lfm/.test(name) ? 1.2 : 1;
      const isRough = ROUGH.test(name) && type !== "f32";
      const experts = isRough && bound > 0.2 ? EXPERTS : 0;
      const limit = gated * bound * Math.min(3, depth) + (/gemma|starcoder/.test(name) ? GELU : 0) + experts;
      const { worst, sameGreedy, compared } = await compare(model, type, texts, expected, limit).catch((error) => {
        console.log(`${name}, ${type}: ${error.message}`);
        return { worst: Number.POSITIVE_INFINITY, sameGreedy: 0, compared: 0 };
      });
      const isFine = isRough
        ? Number.isFinite(worst) && sameGreedy >= 0.9 * compared
        : worst <= limit && sameGreedy === compared;
      if (!isFine) failures++;
      console.log(
        `${isFine ? "ok  " : "FAIL"} ${name}, ${type}: log-probabilities differ by at most ${worst.toExponential(1)}; ` +
          `${sameGreedy} of ${compared} clear choices are equal`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
  await llama.dispose();
}
process.exitCode = failures > 0 ? 1 : 0;

/** Writes a model with random weights whose answers are not uniform. */
async function writeModel(name, config) {
  const path = join(folder, name.replaceAll(/\W+/g, "-"));
  mkdirSync(path);
  const architectures = ["ForCausalLM"];
  const written = { architectures, tie_word_embeddings: undefined, ...config };
  writeFileSync(join(path, "config.json"), JSON.stringify(written));
  const spec = readSpec(parseConfig(JSON.parse(JSON.stringify(written)), "config.json"), [], "export");
  const random = seeded(name.length * 7919 + 1);
  const tensors = new Map();
  for (const { name: weight, shape, rows } of weightsOf(spec)) {
    const stored = weight === "lm_head.weight" ? weight : `model.${weight}`;
    const isOfExperts = rows && /experts\.\w+$/.test(weight);
    const stacked = isOfExperts ? [spec.routing.experts, rows.of / spec.routing.experts] : [rows?.of];
    const full = rows ? [...stacked, ...shape.slice(1)] : [...shape];
    const isNorm = /norm|layer_scalar|router\.(per_expert_)?scale/.test(weight) && !weight.endsWith("bias");
    // Scores that nothing divides are of the size of others.
    const undivided = spec.attention.scale === 1 && /q_norm/.test(weight);
    const centre = undivided ? full.at(-1) ** -0.5 : isNorm ? 1 - spec.norm.offset : 0;
    const spread = undivided ? centre / 5 : full.length > 1 && !isNorm ? 2 / Math.sqrt(full.at(-1)) : 0.2;
    const count = full.reduce((product, extent) => product * extent, 1);
    const values = Float32Array.from({ length: count }, () => centre + spread * (random() + random() + random() - 1.5));
    tensors.set(stored, { name: stored, dtype: "F32", shape: full, data: new Uint8Array(values.buffer) });
  }
  await writeSafetensors(join(path, "model.safetensors"), [...tensors.values()]);
  writeByteTokenizer(path, VOCABULARY);
  return path;
}

function seeded(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 32;
  };
}

/** Log-probabilities of all tokens after every token of the texts, the most likely first. */
async function expectations(path, texts, isRun) {
  if (!isRun) {
    const python = process.env.LAYERGRAFT_PYTHON ?? "python3";
    const printed = execFileSync(python, ["-c", TRANSFORMERS, path, JSON.stringify(texts)], { maxBuffer: 2 ** 28 });
    return JSON.parse(printed.toString()).map((row) =>
      row.map((logprob, id) => ({ id, logprob })).sort((a, b) => b.logprob - a.logprob),
    );
  }
  const engine = await openEngine(path);
  try {
    const prefixes = texts.flatMap((text) => text.map((_, i) => text.slice(0, i + 1)));
    return await engine.topNext(prefixes, { count: VOCABULARY });
  } finally {
    await engine.close();
  }
}

/**
 * Compares the distributions after every token of the texts with those of the engine. A choice is clear if no difference
 * within the limit can change it.
 */
async function compare(path, type, texts, expected, limit) {
  const out = join(folder, "model.gguf");
  const source = await openModelSource(path);
  await writeGguf(await planGguf(source, { type }), { out, force: true });
  const model = await llama.loadModel({ modelPath: out, useMmap: false });
  const context = await model.createContext({
    contextSize: 128,
    flashAttention: false,
    threads: 1,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
  });
  const sequence = context.getSequence();
  const all = { temperature: 1, topK: 0, topP: 1, minP: 0 };
  const found = [];
  try {
    for (const text of texts) {
      await sequence.clearHistory();
      const items = text.map((token) => [token, { generateNext: { logits: true, options: all } }]);
      found.push(...(await sequence.controlledEvaluate(items)));
    }
  } finally {
    await context.dispose();
    await model.dispose();
  }
  let [worst, sameGreedy, compared] = [0, 0, 0];
  for (const [i, list] of expected.entries()) {
    const { logits } = found[i].next;
    const most = Math.max(...logits.values());
    const total = Math.log([...logits.values()].reduce((sum, logit) => sum + Math.exp(logit - most), 0)) + most;
    const [greedy] = [...logits].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (list[0].logprob - list[1].logprob > 2 * limit) {
      compared++;
      if (greedy === list[0].id) sameGreedy++;
    }
    for (const { id, logprob } of list) {
      if (logprob < Math.log(1e-3)) continue;
      const difference = Math.abs(logits.get(id) - total - logprob);
      worst = Math.max(worst, Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference);
    }
  }
  return { worst, sameGreedy, compared };
}
