// Values in the file against the merge that writes a folder; the same bytes on any number of threads, and after a stop.
// @module-tag slow
import { cpSync, existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer, writeWide } from "../../../test/support/export-fixtures.js";
import { readGguf } from "../../../test/support/gguf-reader.js";
import { decodeBlocks } from "../../../test/support/plain-blocks.js";
import { modelTextOf, openModelSource } from "../../engine/index.js";
import { openSafetensors, readTensor, type TensorInfo } from "../../formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import { executePlan } from "../../merge/output/index.js";
import { planGguf } from "./plan-gguf.js";
import type { FileType } from "./tensor-types.js";
import { writeGguf } from "./write-gguf.js";

const folder = temporaryFolder();
const first = await writeWide(join(folder, "first"), 1);
const second = await writeWide(join(folder, "second"), 2);
const recipe: RecipeInput = { method: "soup", models: [first, second] };

describe("a recipe", () => {
  it("has the values that the merged folder has, with rows of queries and keys in llama.cpp's order", async () => {
    const opened = await planRecipe({ ...recipe, dtype: "float32" });
    await executePlan(opened, { out: join(folder, "merged") });
    const merged = await openSafetensors(join(folder, "merged/model.safetensors"));
    const out = join(folder, "recipe.gguf");
    const plan = await planGguf(await openModelSource(opened), { type: "f32" });
    const written = await writeGguf(plan, { out });
    expect(written).toEqual({ out, bytes: statSync(out).size, resumed: false, warnings: [] });
    const { tensors } = readGguf(out);
    const mergedBytes = (name: string) =>
      readTensor(merged, merged.tensors.find((tensor) => tensor.name === name) as TensorInfo);
    // Arrays this large take minutes to compare element by element.
    const isSame = (name: string, bytes: Uint8Array) =>
      Buffer.compare(tensors.get(name)?.bytes ?? Buffer.of(), bytes) === 0;
    expect(isSame("token_embd.weight", await mergedBytes("model.embed_tokens.weight"))).toBe(true);
    expect(isSame("blk.0.ffn_down.weight", await mergedBytes("model.layers.0.mlp.down_proj.weight"))).toBe(true);
    const keys = await mergedBytes("model.layers.0.self_attn.k_proj.weight");
    // Row j of a head's first half is followed by row j of its second half.
    const order = [0, 1].flatMap((head) =>
      Array.from({ length: 32 }, (_, j) => [head * 64 + j, head * 64 + 32 + j]).flat(),
    );
    const rows = order.map((row) => keys.subarray(row * 256 * 4, (row + 1) * 256 * 4));
    expect(isSame("blk.0.attn_k.weight", Buffer.concat(rows))).toBe(true);
  });

  async function isSameOnThreads(type: FileType) {
    const plan = await planGguf(await openModelSource(await planRecipe(recipe)), { type });
    const files = [];
    for (const threads of [1, 3]) {
      const out = join(folder, `threads-${threads}.gguf`);
      await writeGguf(plan, { out, threads, force: true, memory: 20e6 });
      files.push(readFileSync(out));
    }
    expect(files[0]?.equals(files[1] as Buffer)).toBe(true);
  }
  it.each(["bf16", "q8_0", "q4_k_m"] as const)("is the same on any number of threads, in %s", isSameOnThreads);
  it.each(["f16", "q6_k", "q5_k_m", "q4_0"] as const)(
    "is the same on any number of threads, in %s",
    { tags: ["slow"] },
    isSameOnThreads,
  );

  it("decodes to nearly the merged values", async () => {
    const source = await openModelSource(await planRecipe(recipe));
    const decode = async (type: "f32" | "q8_0" | "q4_k_m") => {
      const out = join(folder, `decoded-${type}.gguf`);
      await writeGguf(await planGguf(source, { type }), { out });
      const tensor = readGguf(out).tensors.get("blk.0.attn_q.weight");
      return decodeBlocks(tensor?.encoding ?? "F32", tensor?.bytes ?? new Uint8Array());
    };
    const exact = await decode("f32");
    for (const [type, bound] of [["q8_0", 0.01] as const, ["q4_k_m", 0.1] as const]) {
      const lossy = await decode(type);
      const error = exact.reduce((sum, value, i) => sum + (value - (lossy[i] ?? Number.NaN)) ** 2, 0);
      expect(Math.sqrt(error / exact.reduce((sum, value) => sum + value ** 2, 0))).toBeLessThan(bound);
    }
  });
});

describe("an interrupted export", () => {
  it("leaves no file, and resumes to the same bytes", async () => {
    const plan = await planGguf(await openModelSource(first), { type: "q8_0" });
    await writeGguf(plan, { out: join(folder, "whole.gguf") });
    const out = join(folder, "stopped.gguf");
    const controller = new AbortController();
    const turns = async (count: number) => {
      for (let i = 0; i < count; i++) await setImmediate();
    };
    // On the main thread, a piece is done in each turn; there are twelve.
    const onProgress = () => void turns(4).then(() => controller.abort());
    const stopped = writeGguf(plan, { out, signal: controller.signal, onProgress });
    await expect(stopped).rejects.toThrow(/stopped; what was written so far is in /);
    expect(existsSync(out)).toBe(false);
    await expect(writeGguf(plan, { out })).rejects.toThrow(/holds an interrupted run$/);
    const other = await planGguf(await openModelSource(second), { type: "q8_0" });
    for (const resume of [false, true]) {
      await expect(writeGguf(other, { out, resume })).rejects.toThrow(
        /was started with another recipe, options or sources/,
      );
    }
    expect((await writeGguf(plan, { out, resume: true })).resumed).toBe(true);
    expect(readFileSync(out).equals(readFileSync(join(folder, "whole.gguf")))).toBe(true);
    expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([]);
  });

  it("is refused if a source changed meanwhile", async () => {
    const model = join(folder, "changing");
    cpSync(first, model, { recursive: true });
    const plan = await planGguf(await openModelSource(model), { type: "q8_0" });
    utimesSync(join(model, "model.safetensors"), 1, 1);
    await expect(writeGguf(plan, { out: join(folder, "changing.gguf") })).rejects.toThrow(
      /changed since the run began/,
    );
    expect(readdirSync(folder).filter((name) => name.startsWith("changing."))).toEqual([]);
  });
});

describe("an output that cannot be written", () => {
  it("is refused with what to do", async () => {
    const plan = await planGguf(await openModelSource(first), { type: "q8_0" });
    const attempt = (out: string, force = false) => writeGguf(plan, { out, force });
    await expect(attempt(folder)).rejects.toThrow(/is a folder. Name a file/);
    await expect(attempt(join(folder, "none/model.gguf"))).rejects.toThrow(/does not exist, so .* cannot be created/);
    await expect(attempt(join(first, "model.safetensors"))).rejects.toThrow(/is one of the inputs/);
    await expect(attempt(join(first, "config.json"), true)).rejects.toThrow(/config\.json is one of the inputs/);
    await expect(attempt("/dev/null", true)).rejects.toThrow(/is not a regular file$/);
    const taken = join(folder, "taken.gguf");
    writeFileSync(taken, "mine");
    await expect(attempt(taken)).rejects.toMatchObject({ where: { option: "force" } });
    expect(readFileSync(taken, "utf8")).toBe("mine");
  });

  it("is refused for weights that blocks cannot hold, and warned about in float16", async () => {
    const broken = join(folder, "broken");
    await writeTiny(broken, {
      layers: 1,
      dtype: "F32",
      vocabulary: 20,
      edit: (tensors) =>
        tensors.map((tensor) => {
          const values = new Float32Array(tensor.data.slice().buffer);
          if (tensor.name.includes("down_proj")) values[3] = 1e30;
          return { ...tensor, data: new Uint8Array(values.buffer) };
        }),
    });
    writeTinyTokenizer(broken);
    const source = await openModelSource(broken);
    const out = join(folder, "broken.gguf");
    await expect(writeGguf(await planGguf(source, { type: "f16" }), { out })).rejects.toThrow(
      /not finite or too large in blk.0.ffn_down.weight. Use the type bf16/,
    );
    expect(existsSync(out)).toBe(false);
    await writeGguf(await planGguf(source, { type: "bf16" }), { out });
    const nan = await openModelSource(await writeWide(join(folder, "nan"), 3));
    const data = readFileSync(join(folder, "nan/model.safetensors"));
    data.fill(0xff, data.byteLength - 400_000, data.byteLength - 399_000);
    writeFileSync(join(folder, "nan/model.safetensors"), data);
    const reopened = await openModelSource(join(folder, "nan"));
    expect(reopened.digest).not.toBe(nan.digest);
    const failing = writeGguf(await planGguf(reopened, { type: "q4_k_m" }), { out: join(folder, "nan.gguf") });
    await expect(failing).rejects.toThrow(/has values that are not finite or too large in .*Find the broken weights/);
    expect(existsSync(join(folder, "nan.gguf"))).toBe(false);
  });
});

it("keeps the repetition penalty of the model, and names settings that the file cannot hold", async () => {
  const model = await writeTiny(join(folder, "penalised"));
  writeTinyTokenizer(model);
  const settings = { eos_token_id: 2, repetition_penalty: 1.1, no_repeat_ngram_size: 3 };
  writeFileSync(join(model, "generation_config.json"), JSON.stringify(settings));
  const out = join(folder, "penalised.gguf");
  const plan = await planGguf(await openModelSource(model), { type: "f32" });
  expect(plan.unstored).toEqual(["no_repeat_ngram_size"]);
  expect(plan.notes.join()).not.toContain("no_repeat_ngram_size");
  await writeGguf(plan, { out });
  const { applied } = await modelTextOf(await openModelSource(out)).generationConfig();
  expect(applied).toEqual({ repetition_penalty: 1.1 });
});
