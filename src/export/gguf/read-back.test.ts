// Exports read back: a GGUF file as a source is the model that was exported, in every family and every type.
// @module-tag slow
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { readTensors } from "../../../test/support/decoder-fixtures.js";
import { copyDecoder, writeWide } from "../../../test/support/export-fixtures.js";
import { type ReadTensor, readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { type DecoderSpec, readSpec } from "../../engine/model/index.js";
import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor } from "../../formats/safetensors/index.js";
import { LayergraftError } from "../../kit/index.js";
import { planRecipe } from "../../merge/index.js";
import { executePlan } from "../../merge/output/index.js";
import { loadTokenizer } from "../../text/index.js";
import { planGguf } from "./plan-gguf.js";
import type { FileType } from "./tensor-types.js";
import { writeGguf } from "./write-gguf.js";

const DECODERS = join(import.meta.dirname, "../../../test/fixtures/decoders");
const folder = temporaryFolder();

beforeAll(() => {
  process.env.LAYERGRAFT_CACHE = join(folder, "cache");
});

async function exported(source: string, type: FileType, name: string): Promise<string> {
  const out = join(folder, `${name}.gguf`);
  await writeGguf(await planGguf(await openModelSource(source), { type }), { out, force: true });
  return out;
}

/** The tensors of a model, written to a folder as float32. */
async function tensorsOf(source: string): Promise<Map<string, Buffer>> {
  const out = join(temporaryFolder(), "model");
  await executePlan(await planRecipe({ method: "soup", models: [source], dtype: "float32" }), { out });
  const file = await openSafetensors(join(out, "model.safetensors"));
  const entries = file.tensors.map(
    async (tensor) => [tensor.name, Buffer.from(await readTensor(file, tensor))] as const,
  );
  return new Map(await Promise.all(entries));
}

const shapesOf = ({ tensors }: Checkpoint) =>
  Object.fromEntries([...tensors.values()].map(({ name, shape }) => [name, shape]));

const FAMILIES = [
  ...["llama", "llama-yarn", "mistral", "falcon3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "cohere2"],
  ...["phi3", "phi3-longrope", "granite", "olmo2", "starcoder2", "glm4", "exaone4-global", "ministral3"],
];

/** Values that are not stored as they are: 1 is added to Gemma's norms; its queries make up for llama.cpp's scale. */
const ROUNDED: Readonly<Record<string, RegExp>> = {
  gemma: /norm\.weight$/,
  gemma2: /norm\.weight$|q_proj/,
  gemma3: /norm\.weight$/,
};

/** What a decoder computes, with the frequencies in place of the scaling that they follow from. */
function computed(spec: DecoderSpec, family: string) {
  const { attention, layers, ropes, ...rest } = spec;
  const { scale, ...others } = attention;
  return {
    ...rest,
    family: "",
    attention: { ...others, scale: ROUNDED[family] ? 0 : rounded(scale) },
    ropes: ropes.map(({ frequencies, long, attentionFactor }) => ({
      attentionFactor: rounded(attentionFactor),
      // Divisors for any length of text are written as those of long ones, too.
      frequencies: [frequencies, long?.frequencies ?? frequencies].map((list) => [...list].map(rounded)),
    })),
    // Windows of families that llama.cpp does not compute with are not in the file.
    layers: layers.map((layer) => (WINDOWED.includes(family) ? layer : { ...layer, window: null })),
  };
}

const rounded = (value: number) => Number(value.toPrecision(5));

const WINDOWED = ["gemma2", "gemma3", "cohere2", "olmo3", "gemma4", "gemma4-one", "gemma4-experts"];

const CHANGED = [
  "smollm3",
  "olmo3",
  "ernie4_5",
  "hunyuan",
  "lfm2",
  "apertus",
  "gemma4",
  "gemma4-one",
  "gemma4-experts",
];

describe.each([...FAMILIES, ...CHANGED])("%s", (family) => {
  it("has the tensors, the decoder and the tokens that were exported", async () => {
    const model = await copyDecoder(folder, family);
    const file = await exported(model, "f32", family);
    const [before, after] = [await openCheckpoint(model), await openCheckpoint(file)];
    const [wanted, found] = [await tensorsOf(model), await tensorsOf(file)];
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    expect(shapesOf(after)).toEqual(shapesOf(before));
    expect(computed(readSpec(after.config), family)).toEqual(computed(readSpec(before.config), family));
    const different = [...wanted].filter(([name, bytes]) => !found.get(name)?.equals(bytes)).map(([name]) => name);
    expect(different.filter((name) => !ROUNDED[family]?.test(name))).toEqual([]);
    const [own, theirs] = [await loadTokenizer(after.texts), await loadTokenizer(model)];
    for (const text of ["abc", "a b  c", "fed\ncab"]) expect(own.encode(text)).toEqual(theirs.encode(text));
  });
});

it.each([
  ["smollm3", {}, /layer 0 does not rotate, other than there/],
  [
    "olmo3",
    { attention_bias: false, layer_types: ["full_attention", "sliding_attention"] },
    /than every 4th have no window/,
  ],
  ["olmo3", { layer_types: ["sliding_attention", "sliding_attention"] }, /windows have a rotation of their own/],
  ["ernie4_5", {}, /its 7 projections q, k, v, o, gate, up, down have a bias/],
  [
    "gemma3",
    {
      rope_parameters: {
        full_attention: { rope_type: "default", rope_theta: 1000 },
        sliding_attention: { rope_type: "linear", rope_theta: 50, factor: 2 },
      },
    },
    /windows have a rotation of their own/,
  ],
  ["exaone4", {}, /it has 3 layers, and those of 64 have windows there, no others; its layer 2 does not rotate/],
  ["apertus", {}, /its 4 projections q, k, v, o have a bias/],
  ["glm", {}, /its 4 heads of width 8 do not have the hidden width, 8/],
  ["gemma2", { final_logit_softcapping: null }, /it does not cap both scores and logits/],
  [
    "gemma4",
    {
      rope_parameters: {
        full_attention: { rope_type: "yarn", rope_theta: 100, factor: 4, original_max_position_embeddings: 16 },
      },
    },
    /its rotation changes scores or long texts/,
  ],
  ["lfm2", {}, /its 3 projections mix, convolution, mixed have a bias/],
  ["qwen3_moe", {}, /layer 1 has no experts; its shares of experts are not divided by their sum/],
])("%s with %j is refused", async (family, changes, message) => {
  const source = await openModelSource(join(DECODERS, family));
  const config = { ...source.config, json: { ...source.config.json, ...changes } };
  await expect(planGguf({ ...source, config }, { type: "f32" })).rejects.toThrow(message);
});

const floatsOf = (tensor: ReadTensor | undefined) => [...new Float32Array(Uint8Array.from(tensor?.bytes ?? []).buffer)];

it("experts are one tensor, in their order", async () => {
  const settings = { num_hidden_layers: 1, norm_topk_prob: true };
  const model = await copyDecoder(folder, "qwen3_moe", settings, (name) => !/layers\.[12]/.test(name));
  const { metadata, tensors } = readGguf(await exported(model, "f32", "qwen3_moe"));
  for (const [key, value] of Object.entries({ count: 5, used_count: 2, feed_forward_length: 6 })) {
    expect(metadata.get(`qwen3moe.expert_${key}`)).toBe(value);
  }
  const stored = readTensors(join(model, "model.safetensors"));
  for (const [role, shape] of [
    ["gate", [5, 6, 8]] as const,
    ["up", [5, 6, 8]] as const,
    ["down", [5, 8, 6]] as const,
  ]) {
    const tensor = tensors.get(`blk.0.ffn_${role}_exps.weight`);
    expect(tensor?.shape).toEqual(shape);
    const names = [0, 1, 2, 3, 4].map((expert) => `model.layers.0.mlp.experts.${expert}.${role}_proj.weight`);
    expect(floatsOf(tensor)).toEqual(names.flatMap((name) => stored.get(name)?.values ?? []));
  }
  expect(floatsOf(tensors.get("blk.0.ffn_gate_inp.weight"))).toEqual(
    stored.get("model.layers.0.mlp.gate.weight")?.values,
  );
  // Read back, they are apart again.
  const file = join(folder, "qwen3_moe.gguf");
  const [wanted, found] = [await tensorsOf(model), await tensorsOf(file)];
  expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
  expect([...wanted].filter(([name, bytes]) => !found.get(name)?.equals(bytes)).map(([name]) => name)).toEqual([]);
  const [before, after] = [await openCheckpoint(model), await openCheckpoint(file)];
  expect(computed(readSpec(after.config), "")).toEqual(computed(readSpec(before.config), ""));
});

it("a multimodal model is exported by its text part, with a note", async () => {
  const model = await copyDecoder(folder, "gemma3-wrapper");
  const plan = await planGguf(await openModelSource(model), { type: "f32" });
  expect(plan.architecture).toBe("gemma3");
  expect(plan.tensors.filter(({ layer }) => layer < 0).map(({ name }) => name)).toEqual([
    "token_embd.weight",
    "output_norm.weight",
  ]);
  expect(plan.notes).toContain("only the text part of this multimodal model is exported");
  const { notes } = await planGguf(await openModelSource(await copyDecoder(folder, "gemma3")), { type: "f32" });
  expect(notes).not.toContain("only the text part of this multimodal model is exported");
});

it("LFM2 has the tensors and the keys of llama.cpp's converter (conversion/lfm2.py)", async () => {
  const model = await copyDecoder(folder, "lfm2");
  const file = readGguf(await exported(model, "f32", "lfm2"));
  const stored = await tensorsOf(model);
  const inLayer = { ...{ operator_norm: "attn_norm", ffn_norm: "ffn_norm" }, "feed_forward.w1": "ffn_gate" };
  const convolution = { "conv.in_proj": "shortconv.in_proj", "conv.conv": "shortconv.conv" };
  const names = new Map<string, string>([
    ["token_embd", "model.embed_tokens"],
    ["token_embd_norm", "model.embedding_norm"],
    ["output", "lm_head"],
    ...Object.entries({ ...inLayer, ...convolution, "conv.out_proj": "shortconv.out_proj" }).map(
      ([theirs, name]): [string, string] => [`blk.2.${name}`, `model.layers.2.${theirs}`],
    ),
    ["blk.1.attn_output", "model.layers.1.self_attn.out_proj"],
    ["blk.1.attn_q_norm", "model.layers.1.self_attn.q_layernorm"],
  ]);
  for (const [name, theirs] of names) {
    const { bytes } = file.tensors.get(`${name}.weight`) ?? {};
    expect(Buffer.from(bytes ?? []).equals(stored.get(`${theirs}.weight`) as Buffer), name).toBe(true);
  }
  expect(file.tensors.size).toBe(stored.size);
  expect(file.tensors.get("blk.0.shortconv.conv.weight")?.shape).toEqual([12, 4]);
  const { metadata } = file;
  expect(metadata.get("lfm2.attention.head_count_kv")).toEqual([0, 1, 0]);
  expect(metadata.get("lfm2.shortconv.l_cache")).toBe(4);
  expect(metadata.get("lfm2.feed_forward_length")).toBe(10);
});

it("the text part of Qwen3-VL is a Qwen 3", async () => {
  const model = await copyDecoder(folder, "qwen3_vl");
  const file = await exported(model, "f32", "qwen3_vl");
  expect((await openCheckpoint(file)).config.modelType).toBe("qwen3");
  const [wanted, found] = [await tensorsOf(model), await tensorsOf(file)];
  for (const [name, bytes] of found) {
    expect(wanted.get(name.replace(/^model\./, "model.language_model."))?.equals(bytes), name).toBe(true);
  }
  expect([...wanted.keys()].filter((name) => !name.startsWith("model.visual.")).length).toBe(found.size);
});

it("writes whole numbers as floats where transformers wants floats", async () => {
  const file = await exported(await copyDecoder(folder, "gemma4"), "f32", "gemma4-floats");
  const { texts } = await openCheckpoint(file);
  expect(readFileSync(join(texts, "config.json"), "utf8")).toMatch(/"final_logit_softcapping": 9\.0,\n/);
  const out = join(folder, "gemma4-floats");
  await executePlan(await planRecipe({ method: "soup", models: [file] }), { out });
  expect(readFileSync(join(out, "config.json"), "utf8")).toMatch(/"final_logit_softcapping": 9\.0,\n/);
});

describe("types", () => {
  const wide = writeWide(join(folder, "wide"), 3);

  it.each(["f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"] as const)(
    "%s is read as it is stored",
    async (type) => {
      const first = await exported(await wide, type, type);
      const found = await tensorsOf(first);
      // Reading what was written changes nothing: exporting the values again as float32 gives those of the blocks.
      const again = readGguf(await exported(first, "f32", `${type}-again`));
      expect(found.get("model.layers.0.mlp.down_proj.weight")).toEqual(
        Buffer.from(again.tensors.get("blk.0.ffn_down.weight")?.bytes ?? []),
      );
    },
  );

  it("has the same blocks after q8_0 and back", async () => {
    const first = await exported(await wide, "q8_0", "once");
    const second = await exported(first, "q8_0", "twice");
    const [a, b] = [readGguf(first).tensors, readGguf(second).tensors];
    expect([...b.keys()]).toEqual([...a.keys()]);
    expect(
      [...a]
        .filter(([name, { bytes }]) => !Buffer.from(bytes).equals(Buffer.from(b.get(name)?.bytes ?? [])))
        .map(([name]) => name),
    ).toEqual([]);
  });
});

it("a header with any bytes changed opens, or is refused in a sentence", { timeout: 60_000 }, async () => {
  const whole = readFileSync(join(folder, "llama.gguf"));
  const path = join(folder, "mutated.gguf");
  const header = whole.indexOf("blk.1.ffn_norm.weight") + 100;
  const outcomes = { opened: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(header), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 }),
      async (changes) => {
        const bytes = Buffer.from(whole);
        for (const [at, value] of changes) bytes[at] = value;
        writeFileSync(path, bytes);
        const error = await openCheckpoint(path).then(
          () => void outcomes.opened++,
          (caught: unknown) => caught,
        );
        if (error === undefined) return;
        outcomes.refused++;
        expect(error).toBeInstanceOf(LayergraftError);
        expect((error as Error).message.split("\n")[0]?.length).toBeLessThan(1500);
      },
    ),
    { numRuns: 300, seed: 1 },
  );
  expect(outcomes.refused).toBeGreaterThan(50);
});
