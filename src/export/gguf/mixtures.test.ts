// Mixtures of experts in settings that converted.test.ts does not have, and what is refused.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder, writeDecoder } from "../../../test/support/export-fixtures.js";
import { chunks, exportModel } from "../../../test/support/gguf-model.js";
import { openSafetensors, readTensor, type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";

const folder = temporaryFolder();
const all = () => true;

it("gpt-oss has another range of pairs, as a note says", async () => {
  const settings = { swiglu_alpha: 1.702, swiglu_limit: 7 };
  const { notes } = await exportModel(await copyDecoder(folder, "gpt_oss", settings, all));
  // Published models do not round it, and llama.cpp does.
  expect(notes).toContain("llama.cpp rounds the range of pairs that YaRN blends, so answers differ a little");
});

it("a rotation that is stretched with the text holds up to its first context, as a note says", async () => {
  const { notes } = await exportModel(await copyDecoder(folder, "llama-dynamic", {}, all));
  expect(notes).toContain(
    "llama.cpp does not stretch the rotation with the text (dynamic), so the file supports 8 positions, and the original 20",
  );
});

it("gpt-oss as published has experts in MXFP4, which are decoded", async () => {
  const [experts, size] = [3, 32];
  const sizes = { hidden_size: size, intermediate_size: size, num_attention_heads: 2, num_key_value_heads: 1 };
  const settings = { ...sizes, model_type: "gpt_oss", head_dim: 8, num_hidden_layers: 1, num_local_experts: experts };
  const model = await writeDecoder(join(folder, "mxfp4"), { ...settings, num_experts_per_tok: 2, rope_parameters: {} });
  const path = join(model, "model.safetensors");
  const file = await openSafetensors(path);
  const kept = file.tensors.filter(({ name }) => !/_proj$/.test(name));
  const entries = await Promise.all(kept.map(async (one) => ({ ...one, data: await readTensor(file, one) })));
  const bytes = (count: number, from: number, range: number) =>
    Uint8Array.from({ length: count }, (_, i) => from + ((i * i * 37 + i * 11) % range));
  const coded = (name: string, rows: number): TensorData[] => [
    { name: `${name}_blocks`, dtype: "U8", shape: [experts, rows, 1, 16], data: bytes(experts * rows * 16, 0, 256) },
    { name: `${name}_scales`, dtype: "U8", shape: [experts, rows, 1], data: bytes(experts * rows, 122, 7) },
  ];
  const both = coded("model.layers.0.mlp.experts.gate_up_proj", 2 * size);
  await writeSafetensors(path, [...entries, ...both, ...coded("model.layers.0.mlp.experts.down_proj", size)]);
  const config = JSON.parse(readFileSync(join(model, "config.json"), "utf8")) as object;
  const quantization_config = { quant_method: "mxfp4" };
  writeFileSync(join(model, "config.json"), JSON.stringify({ ...config, quantization_config }));
  const { written } = await exportModel(model);
  const [blocks, scales] = both.map(({ data }) => [...(data as Uint8Array)]);
  const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
  const decoded = chunks(blocks ?? [], 16).map((row, i) =>
    row
      .flatMap((byte) => [byte & 15, byte >> 4])
      .map((code) => {
        return (code & 8 ? -1 : 1) * (E2M1[code & 7] as number) * 2 ** ((scales?.[i] ?? 0) - 127);
      }),
  );
  for (const [first, role] of ["gate", "up"].entries()) {
    const rows = written(`blk.0.ffn_${role}_exps.weight`).map((row) => row.map((value) => value + 0));
    expect(rows).toEqual(decoded.filter((_, i) => i % 2 === first).map((row) => row.map((value) => value + 0)));
  }
});

it("gpt-oss with other limits than llama.cpp has is refused", async () => {
  const model = await copyDecoder(folder, "gpt_oss", {}, all);
  await expect(exportModel(model)).rejects.toThrow(/the limit of its experts is 0.9, with a factor of 1.3/);
});

const SIGMOID = { expert_gating_func: 2, expert_weights_norm: true, expert_weights_scale: Math.fround(1.7) };

it("DeepSeek V3 has what its scores grow by", async () => {
  const file = await exportModel(await copyDecoder(folder, "deepseek_v3", { attention_bias: false }));
  expect(file.metadata).toMatchObject({
    ...SIGMOID,
    ...{ "attention.q_lora_rank": 6, "attention.kv_lora_rank": 5, "attention.head_count_kv": 1 },
    ...{ "attention.key_length": 9, "attention.value_length": 5 },
    ...{ "attention.key_length_mla": 9, "attention.value_length_mla": 3, "rope.dimension_count": 4 },
    // 0.1 times mscale_all_dim over mscale, which are 0.7 and 1: (0.7 ln 4 / 10 + 1) / factor - 1, per ln 4.
    "rope.scaling.yarn_log_multiplier": expect.closeTo(
      ((0.07 * Math.log(4) + 1) ** 2 / (0.1 * Math.log(4) + 1) - 1) / Math.log(4),
      6,
    ),
    "rope.scaling.attn_factor": expect.closeTo((0.1 * Math.log(4) + 1) / (0.07 * Math.log(4) + 1), 6),
  });
});

it("latent attention as llama.cpp does not have it is refused", async () => {
  await expect(exportModel(await copyDecoder(folder, "deepseek_v3-plain"))).rejects.toThrow(
    /the halves of what it rotates are apart; it has 2 layers, and there those of 26 or 27 have queries without q_lora_rank/,
  );
  await expect(exportModel(await copyDecoder(folder, "deepseek_v3", {}, all))).rejects.toThrow(
    /its 3 projections o, qDown, kvDown have a bias/,
  );
});

it("LFM2 MoE whose shares llama.cpp computes otherwise is refused", async () => {
  await expect(exportModel(await copyDecoder(folder, "lfm2_moe-plain"))).rejects.toThrow(
    /shares of experts are not divided by their sum, or multiplied by a number; nothing is added to scores of experts/,
  );
});

it("Nemotron-H has experts without a gate, in layers of their own", async () => {
  const file = await exportModel(await copyDecoder(folder, "nemotron_h-experts", {}, all));
  const { metadata, stored, written, names } = file;
  expect(file.architecture).toBe("nemotron_h_moe");
  expect(metadata).toMatchObject({
    ...{ expert_count: 6, expert_used_count: 3, expert_feed_forward_length: 5, feed_forward_length: [0, 5, 0, 5] },
    ...{ expert_shared_feed_forward_length: 7, expert_weights_norm: true, expert_weights_scale: Math.fround(1.7) },
    ...{ expert_group_count: 3, expert_group_used_count: 2, "attention.head_count_kv": [0, 0, 2, 0] },
  });
  const mixer = "backbone.layers.1.mixer";
  for (const role of ["up", "down"]) {
    const rows = [0, 1, 2, 3, 4, 5].flatMap((expert) => stored(`${mixer}.experts.${expert}.${role}_proj.weight`));
    expect(written(`blk.1.ffn_${role}_exps.weight`)).toEqual(rows);
    expect(written(`blk.1.ffn_${role}_shexp.weight`)).toEqual(stored(`${mixer}.shared_experts.${role}_proj.weight`));
  }
  expect(written("blk.1.exp_probs_b.bias")).toEqual(stored(`${mixer}.gate.e_score_correction_bias`));
  expect(names.filter((name) => name.startsWith("blk.1.")).length).toBe(7);
});

it("Nemotron-H has experts in a narrower stream, and no dense layers or biases beside them", async () => {
  const settings = {
    mlp_bias: false,
    mlp_hidden_act: "relu2",
    layers_block_type: ["moe", "attention", "moe", "mamba"],
  };
  const latent = (changes: object) => copyDecoder(folder, "nemotron_h-latent", { ...settings, ...changes }, all);
  await expect(exportModel(await latent({ layers_block_type: ["moe", "attention", "mlp", "mamba"] }))).rejects.toThrow(
    /its layer 2 has no experts/,
  );
  await expect(exportModel(await latent({ mlp_bias: true }))).rejects.toThrow(/its 2 projections up, down have a bias/);
});
