// Linear attention and state spaces, as llama.cpp's converter writes them: conversion/qwen.py, mamba.py, granite.py,
// falcon_h1.py and nemotron.py of ggml-org/llama.cpp, November 2026, followed by hand. test/reference/check_gguf.js runs
// such files.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder, writeDecoder } from "../../../test/support/export-fixtures.js";
import { chunks, exportModel, type Rows, scaled } from "../../../test/support/gguf-model.js";

const folder = temporaryFolder();

const negativeExp = (rows: Rows) => rows.map((row) => row.map((value) => Math.fround(-Math.exp(value))));
const plusOne = (rows: Rows) => rows.map((row) => row.map((value) => Math.fround(value + 1)));

describe("the gated delta rule", () => {
  const [KEY_HEADS, PER_KEY, WIDTH] = [2, 3, 2];
  const heads = KEY_HEADS * PER_KEY;
  const sizes = {
    ...{ hidden_size: 8, intermediate_size: 6, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8 },
    ...{ linear_num_key_heads: KEY_HEADS, linear_num_value_heads: heads, linear_conv_kernel_dim: 3 },
    ...{ linear_key_head_dim: WIDTH, linear_value_head_dim: WIDTH, max_position_embeddings: 64 },
    rope_parameters: { rope_type: "default", rope_theta: 100, partial_rotary_factor: 0.75 },
  };
  const experts = {
    ...{ num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 5, shared_expert_intermediate_size: 4 },
    norm_topk_prob: true,
  };
  const keys = {
    ...{ "ssm.conv_kernel": 3, "ssm.state_size": WIDTH, "ssm.group_count": KEY_HEADS },
    ...{ "ssm.time_step_rank": heads, "ssm.inner_size": heads * WIDTH, full_attention_interval: 2 },
    ...{ "attention.head_count_kv": 2, "rope.dimension_count": 6 },
  };
  const layers = { num_hidden_layers: 2, layer_types: ["linear_attention", "full_attention"] };
  const linear = "model.layers.0.linear_attn";

  it("has the queries of all heads together, in Qwen3-Next", async () => {
    const settings = { model_type: "qwen3_next", ...sizes, ...layers, ...experts };
    const file = await exportModel(await writeDecoder(join(folder, "next"), settings));
    const { metadata, stored, written, shapeOf } = file;
    expect(file.architecture).toBe("qwen3next");
    expect(metadata).toMatchObject({ ...keys, expert_count: 3, expert_shared_feed_forward_length: 4 });
    // Head by head of the keys: a query, a key, three values, three gates.
    const parts = chunks(stored(`${linear}.in_proj_qkvz.weight`), WIDTH);
    const head = (of: number[]) => [0, 1].flatMap((key) => of.flatMap((part) => parts[key * 8 + part] ?? []));
    expect(written("blk.0.attn_qkv.weight")).toEqual([...head([0]), ...head([1]), ...head([2, 3, 4])]);
    expect(written("blk.0.attn_gate.weight")).toEqual(head([5, 6, 7]));
    expect(written("blk.0.ssm_ba.weight")).toEqual(stored(`${linear}.in_proj_ba.weight`));
    expect(written("blk.0.ssm_a")).toEqual(negativeExp(stored(`${linear}.A_log`)));
    expect(written("blk.0.ssm_dt.bias")).toEqual(stored(`${linear}.dt_bias`));
    expect(written("blk.0.ssm_out.weight")).toEqual(stored(`${linear}.out_proj.weight`));
    expect(shapeOf("blk.0.ssm_conv1d.weight")).toEqual([(2 * KEY_HEADS + heads) * WIDTH, 3]);
    expect(written("blk.0.ffn_gate_inp_shexp.weight")).toEqual(stored("model.layers.0.mlp.shared_expert_gate.weight"));
    expect(written("blk.0.ffn_down_shexp.weight")).toEqual(stored("model.layers.0.mlp.shared_expert.down_proj.weight"));
    // All norms are centred at 0 but that of the recurrence.
    expect(written("blk.0.ssm_norm.weight")).toEqual(stored(`${linear}.norm.weight`));
    expect(written("blk.1.attn_q_norm.weight")).toEqual(plusOne(stored("model.layers.1.self_attn.q_norm.weight")));
    expect(written("blk.0.post_attention_norm.weight")).toEqual(
      plusOne(stored("model.layers.0.post_attention_layernorm.weight")),
    );
  });

  it("has the first value head of every key head first, in Qwen 3.5", async () => {
    const settings = { model_type: "qwen3_5_text", ...sizes, ...layers };
    const file = await exportModel(await writeDecoder(join(folder, "qwen35"), settings));
    const { metadata, stored, written } = file;
    expect(file.architecture).toBe("qwen35");
    expect(metadata).toMatchObject({ ...keys, "rope.dimension_sections": [11, 11, 10, 0] });
    const order = [0, 3, 1, 4, 2, 5];
    /** Rows of value heads after `from` others. */
    const tiled = (rows: Rows, size: number, from = 0) => {
      const values = chunks(rows.slice(from), size);
      return [...rows.slice(0, from), ...order.flatMap((head) => values[head] ?? [])];
    };
    const before = 2 * KEY_HEADS * WIDTH;
    expect(written("blk.0.attn_qkv.weight")).toEqual(tiled(stored(`${linear}.in_proj_qkv.weight`), WIDTH, before));
    expect(written("blk.0.attn_gate.weight")).toEqual(tiled(stored(`${linear}.in_proj_z.weight`), WIDTH));
    expect(written("blk.0.ssm_beta.weight")).toEqual(tiled(stored(`${linear}.in_proj_b.weight`), 1));
    expect(written("blk.0.ssm_alpha.weight")).toEqual(tiled(stored(`${linear}.in_proj_a.weight`), 1));
    expect(written("blk.0.ssm_conv1d.weight")).toEqual(tiled(stored(`${linear}.conv1d.weight`), WIDTH, before));
    const ofHeads = (name: string) => tiled(chunks(stored(name).flat(), 1), 1).flat();
    expect(written("blk.0.ssm_a")).toEqual(negativeExp([ofHeads(`${linear}.A_log`)]));
    expect(written("blk.0.ssm_dt.bias")).toEqual([ofHeads(`${linear}.dt_bias`)]);
    expect(written("blk.0.ssm_out.weight")).toEqual(
      stored(`${linear}.out_proj.weight`).map((row) => tiled(chunks(row, 1), WIDTH).flat()),
    );
  });

  it("lists its layers where they follow no rule", async () => {
    const layer_types = ["full_attention", "linear_attention", "full_attention"];
    const settings = { model_type: "qwen3_5_moe_text", ...sizes, num_hidden_layers: 3, layer_types, ...experts };
    const file = await exportModel(await writeDecoder(join(folder, "listed"), settings));
    expect(file.architecture).toBe("qwen35moe");
    expect(file.metadata["attention.recurrent_layers"]).toEqual([false, true, false]);
    expect(file.metadata).not.toHaveProperty("full_attention_interval");
  });

  it.each([
    ["qwen3_5", {}, /its keys are 3 wide, and its values 2/],
    ["qwen3_next", { attention_bias: false }, /its keys are 3 wide, and its values 2; it has no experts/],
  ])("%s with %j is refused", async (family, settings, message) => {
    await expect(exportModel(await copyDecoder(folder, family, settings))).rejects.toThrow(message);
  });
});

describe("a state space", () => {
  const mamba = "model.layers.0.mamba";

  it("of Granite 4 is beside experts and what tokens share", async () => {
    const file = await exportModel(await copyDecoder(folder, "granitemoehybrid-experts"));
    const { metadata, stored, written, shapeOf } = file;
    expect(file.architecture).toBe("granitehybrid");
    expect(metadata).toMatchObject({
      ...{ "ssm.conv_kernel": 3, "ssm.state_size": 3, "ssm.group_count": 3, "ssm.inner_size": 12 },
      ...{ "ssm.time_step_rank": 6, "attention.head_count_kv": [0, 1], "rope.scaling.finetuned": false },
      // llama.cpp has experts of this width.
      ...{ expert_count: 5, expert_used_count: 3, feed_forward_length: 8, expert_shared_feed_forward_length: 5 },
      ...{ logit_scale: Math.fround(1.7), residual_scale: Math.fround(0.7) },
    });
    expect(written("blk.0.ssm_in.weight")).toEqual(stored(`${mamba}.in_proj.weight`));
    expect(shapeOf("blk.0.ssm_conv1d.weight")).toEqual([30, 3]);
    expect(written("blk.0.ssm_conv1d.bias")).toEqual(stored(`${mamba}.conv1d.bias`));
    expect(shapeOf("blk.0.ssm_a")).toEqual([6, 1]);
    expect([written("blk.0.ssm_a").flat()]).toEqual(negativeExp(stored(`${mamba}.A_log`)));
    expect([written("blk.0.ssm_d").flat()]).toEqual(stored(`${mamba}.D`));
    expect(written("blk.0.ssm_norm.weight")).toEqual(chunks(stored(`${mamba}.norm.weight`).flat(), 4));
    const both = chunks(stored("model.layers.0.block_sparse_moe.input_linear.weight"), 8);
    const shared = chunks(stored("model.layers.0.shared_mlp.input_linear.weight"), 5);
    for (const [i, role] of ["gate", "up"].entries()) {
      expect(shapeOf(`blk.0.ffn_${role}_exps.weight`)).toEqual([5, 8, 12]);
      expect(written(`blk.0.ffn_${role}_exps.weight`)).toEqual(
        both.flatMap((rows, half) => (half % 2 === i ? rows : [])),
      );
      expect(written(`blk.0.ffn_${role}_shexp.weight`)).toEqual(shared[i]);
    }
    expect(written("blk.0.ffn_down_exps.weight")).toEqual(
      stored("model.layers.0.block_sparse_moe.output_linear.weight"),
    );
  });

  it("of Granite 4 is missing in models of attention alone, which are a Granite", async () => {
    const sizes = { hidden_size: 8, num_attention_heads: 2, num_key_value_heads: 1, num_hidden_layers: 1 };
    const none = { mamba_n_heads: 4, mamba_n_groups: 1, position_embedding_type: "rope", layer_types: ["attention"] };
    const settings = { model_type: "granitemoehybrid", ...sizes, ...none, shared_intermediate_size: 6 };
    const dense = await exportModel(await writeDecoder(join(folder, "dense"), { ...settings, num_local_experts: 0 }));
    expect(dense.architecture).toBe("granite");
    expect(dense.metadata).toMatchObject({ feed_forward_length: 6 });
    expect(dense.written("blk.0.ffn_up.weight")).toEqual(
      dense.stored("model.layers.0.shared_mlp.input_linear.weight").slice(6),
    );
  });

  it("of Falcon-H1 has its multipliers in its tensors", async () => {
    const settings = { mamba_norm_before_gate: false };
    const { architecture, stored, written, metadata, names } = await exportModel(
      await copyDecoder(folder, "falcon_h1", settings, () => true),
    );
    expect(architecture).toBe("falcon-h1");
    expect(metadata).toMatchObject({ "ssm.inner_size": 12, "attention.head_count_kv": 2, feed_forward_length: 8 });
    const close = (rows: Rows) => rows.map((row) => row.map((value) => expect.closeTo(value, 6)));
    const times = (name: string, factor: number) => close(scaled(stored(name), factor));
    expect(written("token_embd.weight")).toEqual(times("model.embed_tokens.weight", 1.4));
    expect(written("output.weight")).toEqual(times("lm_head.weight", 0.6));
    expect(written("blk.0.ffn_gate.weight")).toEqual(times("model.layers.0.feed_forward.gate_proj.weight", 0.7));
    expect(written("blk.0.ffn_down.weight")).toEqual(times("model.layers.0.feed_forward.down_proj.weight", 1.3));
    expect(written("blk.0.attn_v.weight")).toEqual(times("model.layers.0.self_attn.v_proj.weight", 1.2));
    expect(written("blk.0.attn_output.weight")).toEqual(times("model.layers.0.self_attn.o_proj.weight", 0.9));
    expect(written("blk.0.ssm_out.weight")).toEqual(times(`${mamba}.out_proj.weight`, 0.75));
    // Gates, values, keys, queries and steps.
    const factors = [[12, 0.9] as const, [12, 1.1] as const, [9, 0.8] as const, [9, 1.3] as const, [6, 0.7] as const];
    const each = factors.flatMap(([rows, factor]) => Array<number>(rows).fill(factor * 1.25));
    expect(written("blk.0.ssm_in.weight")).toEqual(
      stored(`${mamba}.in_proj.weight`).flatMap((row, i) => close(scaled([row], each[i] ?? Number.NaN))),
    );
    // As llama.cpp asks for it.
    expect(names).toContain("blk.0.ffn_norm");
  });

  it("of Nemotron-H is a layer of its own", async () => {
    const settings = { use_bias: false, time_step_min: 0.3 };
    const model = await copyDecoder(folder, "nemotron_h", settings, (name) => !/(in|out)_proj\.bias/.test(name));
    const { architecture, metadata, stored, written, notes, names } = await exportModel(model);
    expect(architecture).toBe("nemotron_h");
    expect(metadata).toMatchObject({
      ...{ feed_forward_length: [0, 8, 0, 0], "attention.head_count_kv": [0, 0, 2, 0], "attention.key_length": 4 },
      // llama.cpp asks for both.
      "attention.layer_norm_epsilon": Math.fround(1e-5),
      "attention.layer_norm_rms_epsilon": Math.fround(1e-5),
    });
    for (const layer of [0, 1, 2, 3]) {
      expect(written(`blk.${layer}.attn_norm.weight`)).toEqual(stored(`backbone.layers.${layer}.norm.weight`));
    }
    expect(written("blk.1.ffn_up.bias")).toEqual(stored("backbone.layers.1.mixer.up_proj.bias"));
    expect(names.filter((name) => name.startsWith("blk.2."))).toEqual(
      ["attn_q", "attn_k", "attn_v", "attn_output", "attn_norm"].map((name) => `blk.2.${name}.weight`),
    );
    expect(notes).toContain("llama.cpp has no least step of the state space, here 0.3, so answers differ a little");
  });

  it.each([
    ["granitemoehybrid", {}, /its 2 projections mix, mixed have a bias/],
    ["granitemoehybrid-rope", {}, /its convolutions have no bias/],
    ["falcon_h1", {}, /it normalises before the gate of its state space/],
  ])("of %s with %j is refused", async (family, settings, message) => {
    const model = await copyDecoder(folder, family, settings, () => true);
    await expect(exportModel(model)).rejects.toThrow(message);
  });
});
