// Exports read back: a GGUF file as a source is the model that was exported, in every family and every type.
// @module-tag slow
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { seededTensor, temporaryFolder } from "../../../test/support/checkpoints.js";
import { CASES, CONVERTED, writeCase } from "../../../test/support/converted-cases.js";
import { copyDecoder, writeDecoder, writeWide } from "../../../test/support/export-fixtures.js";
import { type ReadTensor, readGguf } from "../../../test/support/gguf-reader.js";
import { openModelSource } from "../../engine/index.js";
import { type DecoderSpec, readSpec } from "../../engine/model/index.js";
import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor, writeSafetensors } from "../../formats/safetensors/index.js";
import { LayergraftError } from "../../kit/index.js";
import { planRecipe } from "../../merge/index.js";
import { executePlan } from "../../merge/output/index.js";
import { loadTokenizer } from "../../text/index.js";
import { layOutGguf, type MetadataValue } from "./gguf-file.js";
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

const shapesOf = ({ tensors }: Checkpoint) => new Map([...tensors.values()].map(({ name, shape }) => [name, shape]));

/** Families that are exported and not read. */
const UNREAD = ["gpt_oss", "deepseek_v3"];

/** Without a recurrence, models of Granite 4 are those of Granite, by its names. */
const READ = CASES.filter((name) => !UNREAD.includes(name) && name !== "granitemoehybrid-plain");

/** Queries of these make up for the scale that llama.cpp has for their size. */
const SCALED = /^gemma[23]?(-wrapper)?$/;

/** Factors that an export multiplies into tensors: without them, they are read as they were. */
const ONES: Readonly<Record<string, object>> = {
  falcon_h1: {
    ...{
      lm_head_multiplier: 1,
      embedding_multiplier: 1,
      key_multiplier: 1,
      ssm_in_multiplier: 1,
      ssm_out_multiplier: 1,
    },
    ...{ attention_in_multiplier: 1, attention_out_multiplier: 1, mlp_multipliers: [1, 1] },
    ssm_multipliers: [1, 1, 1, 1, 1],
  },
};

/** What a decoder computes, with the frequencies in place of the scaling that they follow from. */
function computed(spec: DecoderSpec, name: string) {
  const { attention, layers, ropes, routing, feedForward, ...rest } = spec;
  const { scale, ...others } = attention;
  const hasDense = layers.some(({ weights, experts }) => weights.up && !experts);
  return {
    ...rest,
    feedForward: hasDense ? feedForward : 0,
    family: "",
    routing: routing && { ...routing, balance: null },
    attention: { ...others, scale: SCALED.test(name) ? 0 : rounded(scale) },
    ropes: ropes.map(({ frequencies, long, attentionFactor }) => ({
      attentionFactor: rounded(attentionFactor),
      // Divisors for any length of text are written as those of long ones, too.
      frequencies: [frequencies, long?.frequencies ?? frequencies].map((list) => [...list].map(rounded)),
    })),
    // Windows of families that llama.cpp does not compute with are not in the file.
    layers: layers.map((layer) => (WINDOWED.test(name) ? layer : { ...layer, window: null })),
  };
}

const rounded = (value: number) => Number(value.toPrecision(5));

const WINDOWED = /^(gemma[234]|cohere2|olmo3)/;

const floats = (bytes: Uint8Array) => [...new Float32Array(Uint8Array.from(bytes).buffer)];

/** What the converter does not take from these models: it takes 1e-5 for GLM's epsilon. */
const OTHERWISE: Readonly<Record<string, string>> = { glm: "norm", ministral3: "ropes" };

/** The tensors of a model's text part, by the names that it has alone. */
function ofText<Value>(tensors: Iterable<readonly [string, Value]>): Map<string, Value> {
  const own = [...tensors].filter(([name]) => !/visual|vision|projector/.test(name));
  return new Map(
    own.map(([name, value]) => [name.replace("language_model.", "").replace(/^backbone/, "model"), value]),
  );
}

type Entry = Parameters<typeof layOutGguf>[1][number] & Pick<ReadTensor, "bytes">;

function writeEntries(out: string, metadata: Readonly<Record<string, unknown>>, entries: readonly Entry[]): void {
  const typed = new Map(Object.entries(metadata).map(([key, value]) => [key, metadataValue(value)]));
  const { header, offsets, bytes } = layOutGguf(typed, entries);
  const whole = Buffer.alloc(bytes);
  whole.set(header);
  for (const [i, tensor] of entries.entries()) whole.set(tensor.bytes, offsets[i]);
  writeFileSync(out, whole);
}

/** The same tensors with other metadata. */
function withMetadata(out: string, metadata: Readonly<Record<string, unknown>>, from: string): string {
  const tensors = [...readGguf(from).tensors];
  writeEntries(
    out,
    metadata,
    tensors.map(([name, tensor]) => ({ ...tensor, name, encoding: "F32" as const })),
  );
  return out;
}

function metadataValue(value: unknown): MetadataValue {
  if (typeof value === "string") return { type: "string", value };
  if (typeof value === "boolean") return { type: "bool", value };
  if (typeof value === "number") return { type: Number.isInteger(value) && value < 2 ** 32 ? "u32" : "f32", value };
  const list = value as readonly (number | boolean | string)[];
  if (list.every((one) => typeof one === "string")) return { type: "array", of: "string", value: list };
  const of = list.every((one) => typeof one === "boolean") ? "bool" : list.every(Number.isInteger) ? "i32" : "f32";
  return { type: "array", of, value: list.map(Number) };
}

describe.each(READ)("%s", (name) => {
  it("has what was exported, also with the metadata of llama.cpp's converter", async () => {
    const model = await writeCase(join(folder, "cases"), name);
    const path = join(model, "config.json");
    writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), ...ONES[name] }));
    const file = await exported(model, "f32", name);
    const [before, after] = [await openCheckpoint(model), await openCheckpoint(file)];
    const [wanted, found] = [ofText(await tensorsOf(model)), ofText(await tensorsOf(file))];
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    expect(ofText(shapesOf(after))).toEqual(ofText(shapesOf(before)));
    const spec = readSpec(before.config, [], "export");
    expect(computed(readSpec(after.config, [], "export"), name)).toEqual(computed(spec, name));
    // Of -exp(x) and of 1 + x, float32 keeps x within rounding.
    const isRounded = (one: string) => /A_log$/.test(one) || (spec.norm.offset === 1 && /norm\.weight$/.test(one));
    const different = [...wanted].filter(([one, bytes]) => {
      const other = found.get(one) as Buffer;
      const isClose = () => floats(bytes).every((value, i) => Math.abs(value - (floats(other)[i] as number)) < 5e-7);
      return !(
        bytes.equals(other) ||
        (isRounded(one) && isClose()) ||
        (SCALED.test(name) && /q_(proj|norm)/.test(one))
      );
    });
    expect(different.map(([one]) => one)).toEqual([]);
    const [own, theirs] = [await loadTokenizer(after.texts), await loadTokenizer(model)];
    for (const text of ["abc", "a b  c", "fed\ncab"]) expect(own.encode(text)).toEqual(theirs.encode(text));

    // What the converter leaves out, llama.cpp has as the published models have it.
    const usual = [...readGguf(file).metadata].filter(([key]) => /sliding_window_pattern$|rope\.freq_base$/.test(key));
    const metadata = { ...Object.fromEntries(usual), ...CONVERTED[name]?.metadata };
    const converted = withMetadata(join(folder, `${name}-converted.gguf`), metadata, file);
    const other = await openCheckpoint(converted);
    expect(shapesOf(other)).toEqual(shapesOf(after));
    const specOf = ({ config }: Checkpoint) => {
      const spec = computed(readSpec(config, [], "export"), name);
      return { ...spec, contextLength: 0, [OTHERWISE[name] ?? "family"]: "" };
    };
    expect(specOf(other)).toEqual(specOf(after));
    // It takes 1 for mscale.
    if (name === "ministral3") expect(readSpec(other.config).ropes[0]?.attentionFactor).toBe(1);
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

describe("of files in the wild", () => {
  /** A case's file with further metadata and tensors. */
  async function changed(name: string, keys: Readonly<Record<string, unknown>>, more: readonly string[]) {
    const file = await exported(await writeCase(join(folder, "cases"), name), "f32", name);
    const { metadata, tensors } = readGguf(file);
    const zeros = { shape: [2, 4], bytes: new Uint8Array(32), encoding: "F32" as const };
    const all = [...tensors].map(([one, tensor]) => ({ ...tensor, name: one, encoding: "F32" as const }));
    const out = join(folder, `${name}-changed.gguf`);
    writeEntries(out, { ...Object.fromEntries(metadata), ...keys }, [
      ...all,
      ...more.map((one) => ({ ...zeros, name: one })),
    ]);
    return { file, out };
  }

  it.each([
    [
      "glm4_moe",
      { "glm4moe.block_count": 3, "glm4moe.nextn_predict_layers": 1 },
      ["blk.2.attn_norm.weight", "blk.2.nextn.eh_proj.weight"],
    ],
    ["gemma4", {}, ["blk.3.attn_k.weight"]],
  ])("leaves out tensors of %s that are not part of the decoder, with a note", async (name, keys, more) => {
    const { file, out } = await changed(name, keys, more);
    const [own, other] = [await openCheckpoint(file), await openCheckpoint(out)];
    expect(shapesOf(other)).toEqual(shapesOf(own));
    expect(other.config.layers).toBe(own.config.layers);
    expect(other.notes.join()).toContain(`not part of the decoder and are left out: ${more.join(", ")}`);
    expect(own.notes).toEqual([]);
  });

  it.each([
    ["llama", {}, ["blk.9.attn_k.weight"], /has tensors that a Llama model does not have: blk\.9\.attn_k\.weight/],
    [
      "glm4_moe",
      { "glm4moe.expert_count": 7, "glm4moe.nextn_predict_layers": [-(2 ** 31)] },
      [],
      /says that its expert_count is 7, but blk\.1\.ffn_up_exps\.weight is \[6,4,8\]/,
    ],
    ["glm4_moe", { "glm4moe.leading_dense_block_count": 0 }, [], /is missing blk\.0\.ffn_gate_shexp\.weight, which/],
    [
      "qwen3",
      { "qwen3.feed_forward_length": 9 },
      [],
      /has blk\.0\.ffn_gate\.weight as \[\d+,\d+\], where its metadata say \[9,/,
    ],
    [
      "qwen3_5",
      { "qwen35.ssm.group_count": 4 },
      [],
      /does not describe a Qwen 3\.5 model:\n {2}- linear_num_key_heads is 4; it must divide/,
    ],
  ])("%s with %j and %j is refused", async (name, keys, more, message) => {
    const { out } = await changed(name, keys, more);
    await expect(openCheckpoint(out)).rejects.toThrow(message);
  });

  it.each(UNREAD)("%s is refused, as its matrices are transposed", async (name) => {
    const file = await exported(await writeCase(join(folder, "cases"), name), "f32", name);
    await expect(openCheckpoint(file)).rejects.toThrow(
      /GGUF files of this family have transposed matrices, which are not read/,
    );
  });

  it.each([
    // Rows of gate and up, in two types; value heads of 8 columns, which blocks of 32 span.
    ["granitemoe", { intermediate_size: 5 }, "f32", ["ffn_up_exps=q8_0", "ffn_gate_exps=f16"], /input_linear/],
    [
      "qwen3_5",
      { linear_key_head_dim: 8, linear_value_head_dim: 8, vision_config: undefined },
      "q8_0",
      undefined,
      /proj|embed|lm_head/,
    ],
  ] as const)("reads a wide %s with %j in %s, %j", async (name, settings, type, tensorTypes, quantised) => {
    const { text_config, ...json } = JSON.parse(readFileSync(join(DECODERS, name, "config.json"), "utf8"));
    const wide = { hidden_size: 32, num_attention_heads: 4, ...settings };
    const model = await writeDecoder(join(folder, `${name}-wide`), { ...json, ...text_config, ...wide });
    const out = join(folder, `${name}-wide.gguf`);
    await writeGguf(await planGguf(await openModelSource(model), { type, tensorTypes }), { out });
    const [wanted, found] = [await tensorsOf(model), await tensorsOf(out)];
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    for (const [tensor, bytes] of wanted) {
      const [a, b] = [floats(bytes), floats(found.get(tensor) as Buffer)];
      const error = Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));
      // 8 bits of the largest value of a block.
      expect([tensor, error < (quantised.test(tensor) ? Math.max(...a.map(Math.abs)) / 200 : 5e-7)]).toEqual([
        tensor,
        true,
      ]);
    }
  });
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

it("writes whole numbers as floats where transformers wants floats", async () => {
  const ofExperts = await exported(await writeCase(join(folder, "cases"), "glm4_moe-plain"), "f32", "glm4-floats");
  const { texts: written } = await openCheckpoint(ofExperts);
  expect(readFileSync(join(written, "config.json"), "utf8")).toMatch(/"routed_scaling_factor": 1\.0,?\n/);
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

it("an adapter on a GGUF file has the same values as on a folder of its values", async () => {
  const file = await exported(await writeWide(join(folder, "adapted"), 5), "q8_0", "adapted");
  const plain = join(folder, "adapted-values");
  await executePlan(await planRecipe({ method: "soup", models: [file], dtype: "float32" }), { out: plain });
  const adapter = join(folder, "adapter");
  mkdirSync(adapter);
  const base = "base_model.model.model";
  const tensors: [string, number[]][] = [
    [`${base}.layers.0.self_attn.q_proj.lora_A.weight`, [2, 256]],
    [`${base}.layers.0.self_attn.q_proj.lora_B.weight`, [256, 2]],
    [`${base}.layers.0.mlp.up_proj.modules_to_save.weight`, [512, 256]],
    [`${base}.norm.modules_to_save.weight`, [256]],
    [`${base}.embed_tokens.token_adapter.trainable_tokens_delta`, [2, 256]],
  ];
  await writeSafetensors(
    join(adapter, "adapter_model.safetensors"),
    tensors.map(([name, shape], i) => seededTensor(name, shape, 50 + i, "F32")),
  );
  const settings = { peft_type: "LORA", r: 2, lora_alpha: 4, trainable_token_indices: { embed_tokens: [1, 4999] } };
  writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify(settings));
  const [wanted, found] = [await tensorsOf(`${plain}+${adapter}`), await tensorsOf(`${file}+${adapter}`)];
  expect([...wanted].filter(([name, bytes]) => !found.get(name)?.equals(bytes)).map(([name]) => name)).toEqual([]);
  expect(wanted.get("model.norm.weight")).not.toEqual((await tensorsOf(plain)).get("model.norm.weight"));
});

it("a header with any bytes changed opens, or is refused in a sentence", { timeout: 60_000 }, async () => {
  const whole = readFileSync(await exported(await copyDecoder(folder, "llama"), "f32", "llama"));
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
