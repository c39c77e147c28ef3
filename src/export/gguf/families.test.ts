// What families have that others do not, as llama.cpp's converter writes it: conversion/gemma.py and apertus.py of
// ggml-org/llama.cpp, November 2026, followed by hand. test/reference/check_gguf.js runs such files.
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { configOf, readJson, readTensors } from "../../../test/support/decoder-fixtures.js";
import { copyDecoder } from "../../../test/support/export-fixtures.js";
import { type ReadGguf, readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { readSpec } from "../../engine/model/index.js";
import { findFamily } from "../../families/index.js";
import { decoderMetadata } from "./metadata.js";
import { planGguf } from "./plan-gguf.js";
import { writeGguf } from "./write-gguf.js";

const folder = temporaryFolder();

async function written(family: string): Promise<ReadGguf> {
  const out = join(folder, `${family}.gguf`);
  const source = await openModelSource(await copyDecoder(folder, family));
  await writeGguf(await planGguf(source, { type: "f32" }), { out });
  return readGguf(out);
}

const floatsOf = (bytes: Uint8Array | undefined) => [...new Float32Array(Uint8Array.from(bytes ?? []).buffer)];

describe("gemma4", () => {
  let file: ReadGguf;
  beforeAll(async () => {
    file = await written("gemma4");
  });

  it("has its sizes of both kinds of layers", () => {
    const keys = [...file.metadata]
      .filter(([key]) => key.startsWith("gemma4."))
      .map(([key, value]) => [key.slice(7), value]);
    expect(Object.fromEntries(keys)).toEqual({
      ...{ vocab_size: 20, context_length: 64, embedding_length: 8, block_count: 4 },
      feed_forward_length: [8, 8, 16, 16], // twice as wide where keys are those of another layer
      ...{ "attention.head_count": 4, "attention.head_count_kv": 2 },
      ...{ "attention.key_length": 8, "attention.value_length": 8 },
      ...{ "attention.key_length_swa": 4, "attention.value_length_swa": 4 },
      "attention.layer_norm_rms_epsilon": Math.fround(1e-6),
      ...{ "rope.dimension_count": 8, "rope.dimension_count_swa": 4, "rope.freq_base": 100, "rope.freq_base_swa": 100 },
      ...{ "attention.shared_kv_layers": 2, embedding_length_per_layer_input: 3 },
      ...{ "attention.sliding_window": 5, "attention.sliding_window_pattern": [true, false, true, false] },
      final_logit_softcapping: 9,
    });
  });

  it("has inputs of layers, and keys only in layers of their own", () => {
    const names = [...file.tensors.keys()];
    const outside = ["rope_freqs", "token_embd", "per_layer_token_embd", "per_layer_model_proj", "per_layer_proj_norm"];
    expect(names.filter((name) => !name.startsWith("blk."))).toEqual(
      [...outside, "output_norm"].map((name) => `${name}.weight`),
    );
    const own = ["attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output"];
    const rest = ["ffn_gate", "ffn_up", "ffn_down", "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"];
    const inputs = ["inp_gate", "proj", "post_norm", "layer_output_scale"];
    for (const layer of [0, 1, 2, 3]) {
      const wanted = [...own, ...rest, ...inputs].filter((name) => layer < 2 || !/_[kv](_|$)/.test(name));
      const found = names.flatMap((name) => /^blk\.(\d)\.(\w+)\.weight$/.exec(name)?.slice(1) ?? []);
      expect(found.filter((_, i) => found[i - 1] === `${layer}` && i % 2 === 1).sort()).toEqual(wanted.sort());
    }
    expect(floatsOf(file.tensors.get("rope_freqs.weight")?.bytes)).toEqual([1, 1, 1e30, 1e30].map(Math.fround));
    const scale = readTensors("gemma4/model.safetensors").get("model.layers.1.layer_scalar")?.values;
    expect(floatsOf(file.tensors.get("blk.1.layer_output_scale.weight")?.bytes)).toEqual(scale);
  });

  it("has no values where they are keys, and no cap where there is none", async () => {
    const one = await written("gemma4-one");
    expect([0, 1, 2].map((layer) => one.tensors.has(`blk.${layer}.attn_v.weight`))).toEqual([true, true, false]);
    expect(one.metadata.get("gemma4.attention.head_count_kv")).toEqual([2, 2, 1]);
    expect(one.metadata.get("gemma4.embedding_length_per_layer_input")).toBe(0);
    // llama.cpp caps logits at 30 where the key is missing.
    expect(one.metadata.get("gemma4.final_logit_softcapping")).toBe(0);
    // Divided by 2, and two of six dimensions turn.
    expect(floatsOf(one.tensors.get("rope_freqs.weight")?.bytes)).toEqual([2, 1e30, 1e30].map(Math.fround));
  });
});

it("apertus has the constants of its activation as metadata, in float32", async () => {
  const { metadata, tensors } = await written("apertus");
  const stored = readTensors("apertus/model.safetensors");
  const of = (name: string) => [0, 1].map((layer) => stored.get(`model.layers.${layer}.mlp.act_fn.${name}`)?.values[0]);
  for (const name of ["alpha_n", "alpha_p", "beta", "eps"]) expect(metadata.get(`xielu.${name}`)).toEqual(of(name));
  expect([...tensors.keys()].filter((name) => /act_fn|curve|undefined|ffn_gate/.test(name))).toEqual([]);
});

it("exaone4 has its windows in models of 64 layers", () => {
  const json = {
    ...readJson("exaone4/config.json"),
    num_hidden_layers: 64,
    layer_types: null,
    sliding_window_pattern: 4,
  };
  const llamaCpp = findFamily("exaone4")?.llamaCpp as NonNullable<
    NonNullable<ReturnType<typeof findFamily>>["llamaCpp"]
  >;
  const metadata = decoderMetadata(readSpec(configOf(json)), llamaCpp);
  expect(metadata.get("exaone4.attention.sliding_window")?.value).toBe(5);
  expect(metadata.get("exaone4.attention.sliding_window_pattern")?.value).toEqual(
    Array.from({ length: 64 }, (_, layer) => (layer % 4 === 3 ? 0 : 1)),
  );
});

it("cohere with norms of queries and keys is refused, which are read in models of 64 layers and more", async () => {
  await expect(written("cohere")).rejects.toThrow(/it has norms of queries and keys/);
});
