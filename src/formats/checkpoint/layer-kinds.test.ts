// Configurations of stacks, as transformers 5.24 reads them: expected values are kinds that its models of the sources have.
import { describe, expect, it } from "vitest";
import { seededTensor, temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { openCheckpoint } from "./checkpoint.js";
import { parseConfig } from "./config.js";
import { layerKinds, requireStackable, stackedConfig } from "./layer-kinds.js";

/** Layers 0-5, then 3-7, of eight. */
const ORDER = [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7];
const EIGHT = [0, 1, 2, 3, 4, 5, 6, 7];

const read = (model_type: string, fields: Record<string, unknown>) =>
  parseConfig({ model_type, num_hidden_layers: 8, ...fields }, "config.json");

/** `sf` as the list of kinds that s and f stand for. */
const types = (letters: string) =>
  [...letters].map((letter) => `${{ s: "sliding", f: "full", l: "linear" }[letter]}_attention`);

const DESCRIBED: [family: string, fields: Record<string, unknown>, order: number[], wanted: Record<string, unknown>][] =
  [
    ["gemma2", {}, ORDER, { layer_types: types("sfsfsffsfsf") }],
    ["gemma3_text", { sliding_window_pattern: 4 }, ORDER, { layer_types: types("sssfssfsssf") }],
    ["cohere2", { sliding_window_pattern: 4 }, ORDER, { layer_types: types("sssfssfsssf") }],
    ["olmo3", {}, ORDER, { layer_types: types("sssfssfsssf") }],
    ["qwen3_next", { full_attention_interval: 4 }, ORDER, { layer_types: types("lllfllflllf") }],
    [
      "qwen2",
      { use_sliding_window: true, sliding_window: 16, max_window_layers: 4 },
      ORDER,
      { layer_types: types("ffffssfssss") },
    ],
    ["qwen2", { use_sliding_window: false, sliding_window: 16, max_window_layers: 4 }, ORDER, {}],
    ["qwen3_moe", { mlp_only_layers: [0, 3], decoder_sparse_step: 1 }, ORDER, { mlp_only_layers: [0, 3, 6] }],
    [
      "qwen3_moe",
      { mlp_only_layers: [3], decoder_sparse_step: 2 },
      ORDER,
      { decoder_sparse_step: 1, mlp_only_layers: [0, 2, 3, 4, 6, 7, 9] },
    ],
    ["deepseek_v3", { first_k_dense_replace: 2 }, [0, ...EIGHT], { first_k_dense_replace: 3 }],
    ["deepseek_v3", { first_k_dense_replace: 2, moe_layer_freq: 1 }, [3, 4, 5, 3], { first_k_dense_replace: 0 }],
    [
      "glm4_moe_lite",
      { first_k_dense_replace: 1 },
      [0, 1, 0, 1],
      { mlp_layer_types: ["dense", "sparse", "dense", "sparse"] },
    ],
    [
      "jamba",
      { attn_layer_period: 4, attn_layer_offset: 2, expert_layer_period: 2, expert_layer_offset: 1 },
      [1, 2, 3, 4, 5, 6],
      { attn_layer_offset: 1, expert_layer_offset: 0 },
    ],
    ["bart", { decoder_layers: 8 }, [0, 1, 2, 3], { decoder_layers: 4 }],
    [
      "dory",
      { n_input_layers: 2, n_recurrent_layers: 4, n_output_layers: 2 },
      [0, 1, 2, 3, 2, 3, 4, 5, 6, 7],
      { n_recurrent_layers: 6 },
    ],
    ["x", { kv_source_layers: [0, 1, 1, 3, 4, 5, 6, 7] }, [0, 1, 2, 1, 2], { kv_source_layers: [0, 1, 1, 3, 3] }],
    ["bamba", { attn_layer_indices: [1, 4] }, ORDER, { attn_layer_indices: [1, 4, 7] }],
    ["mllama_text_model", { cross_attention_layers: [2, 5] }, ORDER, { cross_attention_layers: [2, 5, 8] }],
    ["lfm2", { full_attn_idxs: EIGHT }, [0, 1, 2, 3], { full_attn_idxs: [0, 1, 2, 3] }],
    [
      "kimi_linear",
      {
        mlp_layer_types: EIGHT.map(String),
        linear_attn_config: { full_attn_layers: [4, 8], kda_layers: [1, 2, 3, 5, 6, 7], num_heads: 4 },
      },
      [2, 3, 7],
      {
        mlp_layer_types: ["2", "3", "7"],
        linear_attn_config: { full_attn_layers: [2, 3], kda_layers: [1], num_heads: 4 },
      },
    ],
    [
      "llama4_text",
      { interleave_moe_layer_step: 2, no_rope_layers: [] },
      ORDER,
      { moe_layers: [1, 3, 5, 6, 8, 10], no_rope_layers: [1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0] },
    ],
    ["smollm3", {}, ORDER, { no_rope_layers: [1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0] }],
    ["nemotron_h", { hybrid_override_pattern: "ME*-ME*-" }, ORDER, { hybrid_override_pattern: "ME*-ME-ME*-" }],
    ["recurrent_gemma", { block_types: ["r", "r", "a"] }, [0, 2, 1], { block_types: ["r", "a", "r"] }],
    [
      "gpt_neo",
      { attention_types: [[["global", "local"], 4]] },
      [0, 1, 1],
      { attention_types: [[["global", "local", "local"], 1]] },
    ],
    [
      "ernie4_5_moe",
      { moe_layer_start_index: 1, moe_layer_end_index: 7, moe_layer_interval: 1 },
      ORDER,
      { moe_layer_end_index: 10 },
    ],
    [
      "gemma4_text",
      { num_kv_shared_layers: 2, per_layer_config: { 5: { head_dim: 9 } } },
      [0, 5, 6, 7],
      { num_kv_shared_layers: 2, layer_types: types("sfsf"), per_layer_config: { 1: { head_dim: 9 } } },
    ],
    ["unknown", { sizes: EIGHT, eos_token_id: EIGHT }, [7, 0], { sizes: [7, 0] }],
  ];

describe("the configuration of a stack", () => {
  it.each(DESCRIBED)("of %s %j in the order %j", (family, fields, order, wanted) => {
    const config = read(family, fields);
    expect(stackedConfig(config, order)).toEqual({ ...config.json, ...wanted, num_hidden_layers: order.length });
    expect(stackedConfig(config, EIGHT)).toBe(config.json);
  });

  it("keeps the kinds, whatever the order", () => {
    for (const [family, fields, order] of DESCRIBED) {
      const config = read(family, fields);
      const stacked = parseConfig(stackedConfig(config, order), "config.json");
      const before = layerKinds(config, order);
      for (const [field, kinds] of layerKinds(stacked))
        expect([family, before.get(field) ?? kinds]).toEqual([family, kinds]);
    }
  });

  it.each([
    ["deepseek_v3", { first_k_dense_replace: 1 }, /no first_k_dense_replace .* dense 0, 2, sparse 1, 3;/],
    [
      "jamba",
      { expert_layer_period: 2, expert_layer_offset: 0, attn_layer_period: 9 },
      /no expert_layer_period and expert_layer_offset/,
      [0, 2, 1, 3],
    ],
    ["gemma4_text", {}, /no layer_types .* its last layer would be sliding_attention, not full_attention/],
    ["gemma3n_text", { num_kv_shared_layers: 2 }, /no num_kv_shared_layers .* shared 0, own 1/, [7, 0]],
    [
      "gemma3n_text",
      { hidden_size_per_layer_input: 8 },
      /^hidden_size_per_layer_input in config.json gives each layer/,
    ],
  ] as [string, Record<string, unknown>, RegExp, number[]?][])(
    "is refused for %s %j",
    (family, fields, message, order = [0, 1, 0, 1]) => {
      expect(() => stackedConfig(read(family, fields), order)).toThrow(message);
    },
  );
});

describe("layers with other tensors", () => {
  const root = temporaryFolder();
  /** A model of four layers, one of which lacks its first norm. */
  const odd = async (layer: number, config = {}) => {
    const folder = `${root}/${layer}${JSON.stringify(config).length}`;
    const name = `model.layers.${layer}.input_layernorm.weight`;
    await writeTiny(folder, { config, edit: (tensors) => tensors.filter((tensor) => tensor.name !== name) });
    return openCheckpoint(folder);
  };

  it("stay at the first place, and are refused elsewhere", async () => {
    const model = await odd(0);
    requireStackable(model, [0, 1, 2, 1, 2, 3]);
    for (const order of [
      [0, 1, 0, 1],
      [1, 2, 3],
    ])
      expect(() => requireStackable(model, order)).toThrow(/layer [01] of .* has other tensors/);
  });

  it("are refused where a list outside has a part for each by its place", async () => {
    const folder = `${root}/gated`;
    const more = [seededTensor("model.gated_cross_attn_layers.0.alpha", [1], 1, "BF16")];
    await writeTiny(folder, { edit: (tensors) => [...tensors, ...more] });
    const model = await openCheckpoint(folder);
    requireStackable(model, [0, 1, 2, 3]);
    expect(() => requireStackable(model, [0, 1, 2, 1, 2, 3])).toThrow(
      /the list gated_cross_attn_layers of gated gives/,
    );
  });

  it("may move where a field says so", async () => {
    const listed = await odd(2, { layer_types: ["a", "a", "b", "a"] });
    requireStackable(listed, [2, 0, 2, 1]);
    const other = await odd(2);
    expect(() => requireStackable(other, [2, 0, 2, 1])).toThrow(/no field of config.json is known to say so/);
  });
});
