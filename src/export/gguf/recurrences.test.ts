// Linear attention and state spaces in settings that converted.test.ts does not have, and what is refused.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder, writeDecoder } from "../../../test/support/export-fixtures.js";
import { exportModel, type Rows, scaled } from "../../../test/support/gguf-model.js";

const folder = temporaryFolder();

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
