// Families that are exported and not run, as llama.cpp's converter writes them: conversion/olmo.py and minimax.py of
// ggml-org/llama.cpp, November 2026, followed by hand. test/reference/check_gguf.js compares such files in llama.cpp with
// transformers.
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { writeDecoder } from "../../../test/support/export-fixtures.js";
import { exportModel } from "../../../test/support/gguf-model.js";
import { openEngine } from "../../engine/index.js";

const folder = temporaryFolder();

const SIZES = {
  ...{ hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 4 },
  ...{ intermediate_size: 6, max_position_embeddings: 64, tie_word_embeddings: false },
};

const layer = (name: string) => `model.layers.1.${name}`;

it("Seed-OSS has its second norm after attention, and biases of queries, keys and values", async () => {
  const file = await exportModel(await writeDecoder(join(folder, "seed"), { model_type: "seed_oss", ...SIZES }));
  const { architecture, metadata, stored, written, names } = file;
  expect(architecture).toBe("seed_oss");
  expect(metadata).toMatchObject({
    ...{ block_count: 2, context_length: 64, embedding_length: 8, feed_forward_length: 6, vocab_size: 20 },
    ...{ "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 4 },
    ...{ "rope.freq_base": 10_000, "rope.dimension_count": 4 },
  });
  expect(names.filter((name) => name.startsWith("blk.1.")).length).toBe(12);
  for (const [name, theirs] of [
    ["post_attention_norm.weight", "post_attention_layernorm.weight"],
    ["attn_q.weight", "self_attn.q_proj.weight"],
    ["attn_v.bias", "self_attn.v_proj.bias"],
    ["ffn_down.weight", "mlp.down_proj.weight"],
  ]) {
    expect(written(`blk.1.${name}`), name).toEqual(stored(layer(theirs as string)));
  }
});

it("Seed-OSS with other biases than llama.cpp reads is refused", async () => {
  const settings = { model_type: "seed_oss", ...SIZES, attention_out_bias: true, mlp_bias: true };
  await expect(exportModel(await writeDecoder(join(folder, "biased"), settings))).rejects.toThrow(
    /its 4 projections o, gate, up, down have a bias/,
  );
});

const MINIMAX = {
  ...{ model_type: "minimax_m2", ...SIZES, num_local_experts: 5, num_experts_per_tok: 2, rotary_dim: 2 },
  rope_theta: 5_000_000,
};

it("MiniMax-M2 has experts in every layer, norms of all heads together, and rotates a part of each", async () => {
  const { architecture, metadata, stored, written, shapeOf } = await exportModel(
    await writeDecoder(join(folder, "minimax"), MINIMAX),
  );
  expect(architecture).toBe("minimax-m2");
  expect(metadata).toMatchObject({
    ...{ feed_forward_length: 6, expert_feed_forward_length: 6, expert_count: 5, expert_used_count: 2 },
    ...{ expert_gating_func: 2, "rope.freq_base": 5_000_000, "rope.dimension_count": 2, "attention.key_length": 4 },
  });
  for (const [role, module] of Object.entries({ gate: "w1", up: "w3", down: "w2" })) {
    const experts = [0, 1, 2, 3, 4].map((expert) => layer(`block_sparse_moe.experts.${expert}.${module}.weight`));
    expect(written(`blk.1.ffn_${role}_exps.weight`)).toEqual(experts.flatMap(stored));
  }
  expect(shapeOf("blk.1.attn_q_norm.weight")).toEqual([16]);
  expect(written("blk.1.exp_probs_b.bias")).toEqual(stored(layer("block_sparse_moe.e_score_correction_bias")));
  expect(written("blk.1.ffn_gate_inp.weight")).toEqual(stored(layer("block_sparse_moe.gate.weight")));
  expect(written("output.weight")).toEqual(stored("lm_head.weight"));
});

it("the engine says that it does not run them, and what does", async () => {
  const model = await writeDecoder(join(folder, "unrun"), MINIMAX);
  await expect(openEngine(model)).rejects.toThrow(
    `${model}/config.json describes a MiniMax-M2 model, which can be merged and exported as GGUF for llama.cpp, but not run or trained by the engine.`,
  );
});
