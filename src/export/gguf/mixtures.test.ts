// Mixtures of experts, as llama.cpp's converter writes them: conversion/gpt_oss.py, glm.py, deepseek.py and granite.py of
// ggml-org/llama.cpp, November 2026, followed by hand. test/reference/check_gguf.js runs such files.
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { copyDecoder } from "../../../test/support/export-fixtures.js";
import { chunks, exportModel, transposed } from "../../../test/support/gguf-model.js";

const folder = temporaryFolder();
const all = () => true;

it("gpt-oss has matrices that are transposed, apart, and sinks", async () => {
  const settings = { swiglu_alpha: 1.702, swiglu_limit: 7 };
  const file = await exportModel(await copyDecoder(folder, "gpt_oss", settings, all));
  const { metadata, stored, written, shapeOf, notes } = file;
  expect(file.architecture).toBe("gpt-oss");
  expect(metadata).toMatchObject({
    ...{ expert_count: 5, expert_used_count: 2, expert_feed_forward_length: 8, feed_forward_length: 8 },
    ...{ "attention.sliding_window": 5, "rope.scaling.type": "yarn", "rope.scaling.factor": 4 },
  });
  const experts = "model.layers.1.mlp.experts";
  const both = chunks(stored(`${experts}.gate_up_proj`), 8).map(transposed);
  for (const [first, role] of ["gate", "up"].entries()) {
    const isOwn = (_: unknown, i: number) => i % 2 === first;
    expect(shapeOf(`blk.1.ffn_${role}_exps.weight`)).toEqual([5, 8, 8]);
    expect(written(`blk.1.ffn_${role}_exps.weight`)).toEqual(both.flatMap((rows) => rows.filter(isOwn)));
    expect(written(`blk.1.ffn_${role}_exps.bias`)).toEqual(
      stored(`${experts}.gate_up_proj_bias`).map((row) => row.filter(isOwn)),
    );
  }
  expect(written("blk.1.ffn_down_exps.weight")).toEqual(chunks(stored(`${experts}.down_proj`), 8).flatMap(transposed));
  expect(written("blk.1.ffn_down_exps.bias")).toEqual(stored(`${experts}.down_proj_bias`));
  for (const [name, theirs] of [
    ["ffn_gate_inp.weight", "mlp.router.weight"],
    ["ffn_gate_inp.bias", "mlp.router.bias"],
    ["attn_sinks.weight", "self_attn.sinks"],
    ["post_attention_norm.weight", "post_attention_layernorm.weight"],
    ["attn_output.bias", "self_attn.o_proj.bias"],
  ]) {
    expect(written(`blk.1.${name}`), name).toEqual(stored(`model.layers.1.${theirs}`));
  }
  // Published models do not round it, and llama.cpp does.
  expect(notes).toContain("llama.cpp rounds the range of pairs that YaRN blends, so answers differ a little");
});

it("gpt-oss with other limits than llama.cpp has is refused", async () => {
  const model = await copyDecoder(folder, "gpt_oss", {}, all);
  await expect(exportModel(model)).rejects.toThrow(/the limit of its experts is 0.9, with a factor of 1.3/);
});
