// Exports tiny models as float32 and compares them with what llama.cpp's converter makes of them: every tensor's bytes,
// and the metadata (test/fixtures/gguf/make_gguf.py).
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { CASES, CONVERTED, writeCase } from "../../../test/support/converted-cases.js";
import { readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { planGguf } from "./plan-gguf.js";
import { writeGguf } from "./write-gguf.js";

/** Where the models are written, for make_gguf.py. */
const FOLDER = process.env.GGUF_MODELS ?? temporaryFolder();

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

test.each(CASES)("%s is what llama.cpp's converter writes", async (name) => {
  const model = await writeCase(FOLDER, name);
  const out = `${model}.gguf`;
  await writeGguf(await planGguf(await openModelSource(model), { type: "f32" }), { out, force: true });
  const { metadata, tensors } = readGguf(out);
  const { metadata: keys, tensors: wanted } = CONVERTED[name] as (typeof CONVERTED)[string];

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
  const found = [...tensors.keys()].filter((tensor) => tensor in wanted || !isDivisor(tensor) || name !== "llama-yarn");
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
});
