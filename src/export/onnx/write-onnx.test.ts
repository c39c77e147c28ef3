// What is stored in an exported folder, in every type, from every kind of source.
// @module-tag slow
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readJson, seededTensor, temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { writeWide } from "../../../test/support/export-fixtures.js";
import { ExportedModel } from "../../../test/support/exported-model.js";
import { openModelSource } from "../../engine/index.js";
import { openSafetensors, readTensor, type TensorData } from "../../formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import { executePlan } from "../../merge/output/index.js";
import { ONNX_TYPES, type OnnxPlan, type OnnxType, planOnnx } from "./plan-onnx.js";
import { type WriteOnnxOptions, writeOnnx } from "./write-onnx.js";

const folder = temporaryFolder();
const first = await writeWide(join(folder, "first"), 1);
const second = await writeWide(join(folder, "second"), 2);
const recipe: RecipeInput = { method: "soup", models: [first, second] };

const TOKENS = [3, 1, 4, 1, 5, 9, 2, 6];
const MASK = TOKENS.map(() => 1);

async function exported(
  source: Parameters<typeof openModelSource>[0],
  name: string,
  type: OnnxType,
  { fileBytes, ...options }: Partial<WriteOnnxOptions> & { fileBytes?: number } = {},
) {
  const out = join(folder, name);
  const plan = planOnnx(await openModelSource(source), { type, ...(fileBytes === undefined ? {} : { fileBytes }) });
  return { out, plan, written: await writeOnnx(plan, { out, ...options }) };
}

async function logitsOf(out: string, file: string): Promise<number[]> {
  const model = await ExportedModel.open(out, file);
  const logits = await model.pass([TOKENS], [MASK]);
  await model.close();
  return logits.flat(2);
}

/** Root of the squared error, as a share of the values. */
function relative(found: ArrayLike<number>, exact: ArrayLike<number>): number {
  let [error, all] = [0, 0];
  for (let i = 0; i < exact.length; i++) {
    error += ((found[i] as number) - (exact[i] as number)) ** 2;
    all += (exact[i] as number) ** 2;
  }
  return Math.sqrt(error / all);
}

const dataOf = (out: string, { data }: OnnxPlan) => data.map(({ name }) => readFileSync(join(out, "onnx", name)));

describe("the graph", () => {
  it("has the inputs and outputs that transformers.js names", async () => {
    const { out } = await exported(first, "graph", "fp32");
    const model = await ExportedModel.open(out);
    const shown = (list: typeof model.inputs) =>
      list.map((one) => `${one.name} ${one.isTensor ? `${one.type} [${one.shape.join(", ")}]` : ""}`);
    expect(shown(model.inputs)).toEqual([
      "input_ids int64 [batch_size, sequence_length]",
      "attention_mask int64 [batch_size, total_sequence_length]",
      "num_logits_to_keep int64 []",
      "past_key_values.0.key float32 [batch_size, 2, past_sequence_length, 64]",
      "past_key_values.0.value float32 [batch_size, 2, past_sequence_length, 64]",
    ]);
    expect(shown(model.outputs)).toEqual([
      "logits float32 [batch_size, num_logits, 5000]",
      "present.0.key float32 [batch_size, 2, total_sequence_length, 64]",
      "present.0.value float32 [batch_size, 2, total_sequence_length, 64]",
    ]);
    await model.close();
  });
});

describe("quantized types", () => {
  /** The matrix that codes and scales stand for. */
  function decoded(out: string, plan: OnnxPlan, name: string): Float32Array {
    const { step, quantized } = plan.tensors.find(
      (tensor) => tensor.step.tensor === name,
    ) as OnnxPlan["tensors"][number];
    if (!quantized) throw new Error(`${name} is not quantized`);
    const bytes = ({ location, offset, length }: typeof quantized.codes) =>
      readFileSync(join(out, "onnx", location)).subarray(offset, offset + length);
    const [codes, scales] = [bytes(quantized.codes), bytes(quantized.scales)];
    const isByte = quantized.encoding === "Q8_0";
    const [rows = 0, columns = 0] = step.shape;
    return Float32Array.from({ length: rows * columns }, (_, i) => {
      const code = isByte ? codes[i] : ((codes[i >> 1] as number) >> ((i & 1) * 4)) & 15;
      return scales.readFloatLE(Math.floor(i / 32) * 4) * ((code as number) - (isByte ? 128 : 8));
    });
  }

  it.each(["q8", "q4"] as const)("%s computes with nearly the stored weights", async (type) => {
    const { out, plan } = await exported(first, type, type);
    const { file } = ONNX_TYPES[type];
    expect(plan.notes).toEqual([]);
    // The same model, with the weights that the codes stand for.
    const opened = await openSafetensors(join(first, "model.safetensors"));
    const rounded: TensorData[] = [];
    for (const { name, shape } of opened.tensors) {
      const tensor = opened.tensors.find((one) => one.name === name) as (typeof opened.tensors)[number];
      const isProduct = name.includes("_proj") || name === "lm_head.weight";
      if (!isProduct) rounded.push({ name, dtype: "BF16", shape, data: await readTensor(opened, tensor) });
      else {
        const values = decoded(out, plan, name);
        rounded.push({ name, dtype: "F32", shape, data: new Uint8Array(values.buffer) });
        const bits = new Uint16Array((await readTensor(opened, tensor)).slice().buffer);
        const stored = new Float32Array(Uint32Array.from(bits, (half) => half << 16).buffer);
        expect(relative(values, stored)).toBeLessThan(type === "q8" ? 0.005 : 0.08);
      }
    }
    const model = join(folder, `rounded-${type}`);
    await writeTiny(model, { layers: 1, edit: () => rounded, config: readJson(first, "config.json") });
    const reference = await exported(model, `rounded-${type}-onnx`, "fp32");
    const expected = await logitsOf(reference.out, "model.onnx");
    // The products round their other operand to 8 bits, too.
    expect(relative(await logitsOf(out, file), expected)).toBeLessThan(0.04);
  });

  it("differ from fp32 within what their bits allow", async () => {
    const exact = await logitsOf((await exported(first, "exact", "fp32")).out, "model.onnx");
    for (const [type, bound] of [["fp16", 0.002] as const, ["q8", 0.04] as const, ["q4", 0.3] as const]) {
      const { out } = await exported(first, `near-${type}`, type);
      const error = relative(await logitsOf(out, ONNX_TYPES[type].file), exact);
      expect([type, error < bound, error > 0]).toEqual([type, true, true]);
    }
  });

  it("store rows that do not fill blocks as fp16, with a note", async () => {
    const tiny = await writeTiny(join(folder, "tiny"), { layers: 1 });
    const { plan, out } = await exported(tiny, "tiny-q4", "q4");
    expect(plan.notes).toEqual([expect.stringContaining("do not fill blocks of 32, so they are stored as fp16")]);
    expect((await logitsOf(out, "model_q4.onnx")).every(Number.isFinite)).toBe(true);
  });
});

it("of a dynamic rotation holds up to its first context, as a note says", async () => {
  const source = await openModelSource(join(import.meta.dirname, "../../../test/fixtures/decoders/llama-dynamic"));
  expect(planOnnx(source, { type: "fp32" }).notes).toContain(
    "the exported model supports 8 positions, and the original 20",
  );
});

describe("the folder", () => {
  it("of a recipe has the bytes of the merged model's, on any number of threads and in any number of files", async () => {
    const opened = await planRecipe({ ...recipe, dtype: "float32" });
    await executePlan(opened, { out: join(folder, "merged") });
    for (const type of ["fp32", "q4"] as const) {
      const merged = await exported(join(folder, "merged"), `merged-${type}`, type);
      const streamed = await exported(opened, `streamed-${type}`, type, { threads: 3, memory: 20e6 });
      expect(
        Buffer.concat(dataOf(streamed.out, streamed.plan)).equals(Buffer.concat(dataOf(merged.out, merged.plan))),
      ).toBe(true);
    }
    const whole = await exported(opened, "one-file", "fp32");
    const cut = await exported(opened, "several-files", "fp32", { fileBytes: 6e6 });
    expect(readdirSync(join(cut.out, "onnx")).sort()).toEqual([
      "model.onnx",
      "model.onnx_data",
      "model.onnx_data_1",
      "model.onnx_data_2",
    ]);
    expect(await logitsOf(cut.out, "model.onnx")).toEqual(await logitsOf(whole.out, "model.onnx"));
    expect(readJson(cut.out, "config.json")["transformers.js_config"]).toEqual({
      dtype: "fp32",
      use_external_data_format: { "model.onnx": 3 },
    });
  });

  it("has the configuration, the tokenizer and the template", async () => {
    const model = await writeWide(join(folder, "chatty"), 3);
    writeFileSync(join(model, "chat_template.jinja"), "{{ messages[0].content }}");
    const { out, written } = await exported(model, "chatty-q8", "q8");
    expect(written.warnings).toEqual([]);
    expect(readJson(out, "tokenizer_config.json")).toEqual({ chat_template: "{{ messages[0].content }}" });
    const parts = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
    expect(readJson(out, "tokenizer.json")).toEqual({ ...parts, ...readJson(model, "tokenizer.json") });
    expect(readJson(out, "config.json")).toMatchObject({
      ...{ model_type: "llama", num_hidden_layers: 1, num_key_value_heads: 2, head_dim: 64, vocab_size: 5000 },
      "transformers.js_config": { dtype: "q8", use_external_data_format: { "model_quantized.onnx": 1 } },
    });
  });

  it("has no tokens that the embedding has no row for, with a warning, and is refused if words are made of one", async () => {
    const model = await writeWide(join(folder, "beyond"), 3);
    const path = join(model, "tokenizer.json");
    const json = readJson(model, "tokenizer.json") as { model: { vocab: Record<string, number> } };
    const added = [4999, 5000].map((id) => ({ id, content: `<${id}>`, special: true }));
    const rest = Object.fromEntries(Array.from({ length: 4979 }, (_, i) => [`w${i}`, 20 + i]));
    const vocab = { ...json.model.vocab, ...rest };
    writeFileSync(path, JSON.stringify({ ...json, model: { ...json.model, vocab }, added_tokens: added }));
    const { out, written } = await exported(model, "beyond-q8", "q8");
    expect(written.warnings).toEqual([
      "the tokenizer has 1 token beyond the 5000 rows of the embedding, which the export leaves out: <5000>",
    ]);
    expect(readJson(out, "tokenizer.json")).toMatchObject({ model: { vocab }, added_tokens: added.slice(0, 1) });
    writeFileSync(path, JSON.stringify({ ...json, model: { ...json.model, vocab: { ...vocab, z: 4999, zz: 5000 } } }));
    await expect(exported(model, "beyond-q8-again", "q8")).rejects.toThrow(
      /cannot be exported as ONNX: its tokenizer has 1 token beyond the 5000 rows of the embedding: zz/,
    );
  });

  it("is written whole or not at all", async () => {
    const source = await openModelSource(first);
    const plan = planOnnx(source, { type: "fp16" });
    const out = join(folder, "refused");
    const controller = new AbortController();
    controller.abort();
    await expect(writeOnnx(plan, { out, signal: controller.signal })).rejects.toMatchObject({ code: "cancelled" });
    expect(readdirSync(folder).filter((name) => name.startsWith("refused"))).toEqual([]);
    await expect(writeOnnx({ ...plan, bytes: 1e18 }, { out })).rejects.toThrow(/needs .* but the disk of .* has only/);
    expect(readdirSync(folder).filter((name) => name.startsWith("refused"))).toEqual([]);
    await expect(writeOnnx(plan, { out: first })).rejects.toThrow(/is one of the inputs/);
    await writeOnnx(plan, { out });
    await expect(writeOnnx(plan, { out })).rejects.toMatchObject({ where: { option: "force" } });
    await writeOnnx(planOnnx(source, { type: "q8" }), { out, force: true });
    expect(existsSync(join(out, "onnx/model_fp16.onnx"))).toBe(false);
    for (const name of ["mine.txt", "onnx/notes.md"]) writeFileSync(join(out, name), "");
    await expect(writeOnnx(plan, { out, force: true })).rejects.toThrow(
      /contains other files \(mine.txt, onnx\/notes.md\)/,
    );
    expect(() => planOnnx(source, { type: "q5" as OnnxType })).toThrow(/must be one of fp32, fp16, q8, q4/);
    const model = await writeWide(join(folder, "changing"), 4);
    const stale = planOnnx(await openModelSource(model), { type: "fp32" });
    utimesSync(join(model, "model.safetensors"), 1, 1);
    await expect(writeOnnx(stale, { out: join(folder, "stale") })).rejects.toThrow(/changed since the run began/);
  });

  it("is refused for weights that codes cannot hold, or float16", async () => {
    const model = join(folder, "broken");
    const shape = [64, 64];
    const values = (name: string, value: number, size = shape) => {
      const tensor = seededTensor(name, size, 1, "F32");
      new DataView(tensor.data.buffer, tensor.data.byteOffset).setFloat32(0, value, true);
      return tensor;
    };
    const write = (value: number) =>
      writeTiny(model, {
        layers: 1,
        dtype: "F32",
        vocabulary: 64,
        edit: (tensors) =>
          tensors.map(({ name, shape: stored }) =>
            values(name, name.includes("q_proj") ? value : 1, stored.length === 1 ? [64] : shape),
          ),
        config: { hidden_size: 64, intermediate_size: 64, num_attention_heads: 2, num_key_value_heads: 2 },
      });
    await write(1e30);
    await expect(exported(model, "half", "fp16")).rejects.toThrow(/too large in .*q_proj.weight. Use the type fp32/);
    await write(Number.NaN);
    await expect(exported(model, "nan", "q4")).rejects.toThrow(
      /not finite or too large in .*q_proj.weight. .*Find the broken weights/,
    );
    expect(readdirSync(folder).filter((name) => name.startsWith("nan"))).toEqual([]);
  });
});
