// Linear attention and state spaces, as llama.cpp's converter writes them: conversion/qwen.py, mamba.py, granite.py,
// falcon_h1.py and nemotron.py of ggml-org/llama.cpp, November 2026, followed by hand. test/reference/check_gguf.js runs
// such files.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder, writeDecoder } from "../../../test/support/export-fixtures.js";
import { chunks, exportModel, type Rows } from "../../../test/support/gguf-model.js";

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
    expect(metadata).toMatchObject({ ...keys, "rope.dimension_sections": [1, 1, 1, 0] });
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
