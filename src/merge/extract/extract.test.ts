// Adapters extracted from tiny checkpoints. That PEFT opens them is checked by hand:
// test/reference/check_extract_with_peft.py.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  decodeValues,
  encodeValues,
  readAll,
  readJson,
  seededFloats,
  temporaryFolder,
  writeTiny,
} from "../../../test/support/checkpoints.js";
import type { TensorData } from "../../formats/safetensors/index.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "../plan/planner.js";
import { extractAdapter } from "./extract.js";
import type { ExtractOptions } from "./plan-extraction.js";
import { planExtraction } from "./plan-extraction.js";

const folder = temporaryFolder();
const at = (name: string) => join(folder, name);
let made = 0;
const fresh = () => at(`adapter-${made++}`);

/** The change of a matrix: the product of seeded factors of rank 2. */
function changeOf([rows = 0, columns = 0]: readonly number[], seed: number): Float64Array {
  const [b, a] = [seededFloats(rows * 2, seed), seededFloats(2 * columns, seed + 500)];
  return Float64Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const [b0 = 0, b1 = 0] = b.subarray(row * 2);
    return (b0 * (a[column] ?? 0) + b1 * (a[columns + column] ?? 0)) / 10;
  });
}

const isLinear = ({ name, shape }: TensorData) => shape.length === 2 && !name.includes("embed");

/** Adds a change of rank 2 to each linear weight, and `more` to the others. */
const changed = (more: (name: string) => number) => (tensors: TensorData[]) =>
  tensors.map((tensor, seed) => {
    const change = isLinear(tensor) ? changeOf(tensor.shape, seed + 1) : undefined;
    const values = decodeValues(tensor.data, "F32").map((x, i) => x + (change?.[i] ?? more(tensor.name)));
    return { ...tensor, data: encodeValues(values, "F32") };
  });

const base = await writeTiny(at("base"), { dtype: "F32", layers: 2 });
const tuned = await writeTiny(at("tuned"), { dtype: "F32", layers: 2, edit: changed(() => 0) });
const full = await writeTiny(at("full"), { dtype: "F32", layers: 2, edit: changed(() => 0.5) });

/** Values of every tensor of base plus adapter, merged by this toolkit's reader of adapters. */
async function merged(source: string): Promise<Map<string, number[]>> {
  const out = fresh();
  const { files } = await executePlan(await planRecipe({ method: "soup", models: [source] }), { out });
  const tensors = await readAll(
    out,
    files.filter((name) => name.endsWith(".safetensors")),
  );
  return new Map([...tensors].map(([name, { data }]) => [name, decodeValues(data, "F32")]));
}

const extract = (options: Partial<ExtractOptions> = {}, out = fresh()) =>
  extractAdapter({ base, model: tuned, rank: 2, ...options }, { out }).then((result) => ({ result, out }));

function largestDifference(a: Map<string, number[]>, b: Map<string, number[]>): number {
  expect([...a.keys()]).toEqual([...b.keys()]);
  return Math.max(
    ...[...a].flatMap(([name, values]) => values.map((x, i) => Math.abs(x - (b.get(name)?.[i] ?? Number.NaN)))),
  );
}

describe("extractAdapter", () => {
  it("recovers a known change of low rank", async () => {
    const { result, out } = await extract();
    expect(result).toMatchObject({ unchanged: 0, saved: [], left: [], ranks: [1, 2], warnings: [] });
    expect(result.modules).toHaveLength(15);
    const tensors = await readAll(out, ["adapter_model.safetensors"]);
    const module = "model.layers.1.mlp.down_proj";
    const factor = (side: string) =>
      decodeValues(tensors.get(`base_model.model.${module}.lora_${side}.weight`)?.data ?? new Uint8Array(), "F32");
    const [a, b] = [factor("A"), factor("B")];
    const seed = [...(await readAll(base, ["model.safetensors"])).keys()].indexOf(`${module}.weight`) + 1;
    const change = changeOf([8, 12], seed);
    const found = change.map((_, i) => {
      const [row, column] = [Math.floor(i / 12), i % 12];
      return (b[row * 2] ?? 0) * (a[column] ?? 0) + (b[row * 2 + 1] ?? 0) * (a[12 + column] ?? 0);
    });
    const error = Math.hypot(...found.map((x, i) => x - (change[i] ?? 0))) / Math.hypot(...change);
    expect(error).toBeLessThan(1e-5);
    expect(largestDifference(await merged(`${base}+${out}`), await merged(tuned))).toBeLessThan(1e-6);
    expect(readJson(out, "adapter_config.json")).toMatchObject({
      ...{ peft_type: "LORA", r: 2, lora_alpha: 2, base_model_name_or_path: "base", modules_to_save: null },
    });
    expect(readJson(out, "extraction.json")).toEqual(JSON.parse(JSON.stringify(result)));
    expect(readdirSync(out).sort()).toEqual([
      "README.md",
      "adapter_config.json",
      "adapter_model.safetensors",
      "extraction.json",
      "heatmap.svg",
    ]);
  });

  it("reports the share that each rank keeps, as the merged weights have it", async () => {
    const { result, out } = await extract({ rank: 1 });
    const [sum, model, start] = [await merged(`${base}+${out}`), await merged(tuned), await merged(base)];
    const squares = (a: Map<string, number[]>, b: Map<string, number[]>, name: string) =>
      (a.get(name) ?? []).reduce((total, x, i) => total + (x - (b.get(name)?.[i] ?? 0)) ** 2, 0);
    for (const { module, share, squaredChange } of result.modules) {
      const name = `${module}.weight`;
      expect(squaredChange).toBeCloseTo(squares(model, start, name), 5);
      expect(share).toBeCloseTo(1 - squares(model, sum, name) / squares(model, start, name), 5);
      expect(share).toBeGreaterThan(0.5);
      expect(share).toBeLessThan(1);
    }
  });

  it("gives each weight the smallest rank that keeps a share", async () => {
    const { result, out } = await extract({ rank: undefined, energy: 0.7 });
    const ranks = result.modules.map(({ rank }) => rank);
    expect(new Set(ranks)).toEqual(new Set([1, 2]));
    expect(result.modules.every(({ share }) => share >= 0.7)).toBe(true);
    const one = result.modules.find(({ rank }) => rank === 1);
    const config = readJson(out, "adapter_config.json");
    expect(config).toMatchObject({ r: 2, rank_pattern: { [one?.module ?? ""]: 1 } });
    expect(config.alpha_pattern).toEqual(config.rank_pattern);
    // The reader refuses factors whose rank the configuration does not name.
    await merged(`${base}+${out}`);
  });

  it("saves what factors cannot hold, or leaves it at the base's", async () => {
    const { result, out } = await extract({ model: full });
    const others = ["model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight"];
    expect(result.saved).toHaveLength(6);
    expect(result.saved).toEqual(expect.arrayContaining(others));
    expect(largestDifference(await merged(`${base}+${out}`), await merged(full))).toBeLessThan(1e-6);
    const linear = await extract({ model: full, linearOnly: true });
    expect(linear.result).toMatchObject({ saved: [], left: result.saved });
    const [sum, start] = [await merged(`${base}+${linear.out}`), await merged(base)];
    for (const name of others) expect(sum.get(name)).toEqual(start.get(name));
  });

  it("takes the tensors that patterns name, and leaves the others at the base's", async () => {
    const { result, out } = await extract({
      model: full,
      include: ["*.self_attn.*", "model.norm.*"],
      exclude: ["*.k_proj.*"],
    });
    const parts = result.modules.map(({ module }) => module.split(".").slice(3).join("."));
    expect(new Set(parts)).toEqual(new Set(["self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj"]));
    expect(result.saved).toEqual(["model.norm.weight"]);
    const [sum, start] = [await merged(`${base}+${out}`), await merged(base)];
    for (const [name, values] of sum) {
      if (/mlp|k_proj|embed|lm_head|layernorm/.test(name)) expect(values).toEqual(start.get(name));
    }
    await expect(extract({ model: full, include: ["*.wrong.*"] })).rejects.toThrow(/\*\.wrong\.\*\) matches no tensor/);
  });

  it("gives the embedding factors if it is asked to", async () => {
    const { result, out } = await extract({ model: full, embedLora: true, rank: 8 });
    expect(result.saved).not.toContain("model.embed_tokens.weight");
    const tensors = await readAll(out, ["adapter_model.safetensors"]);
    // PEFT's embeddings have A [rank, tokens] and B [width, rank].
    const shapeOf = (side: string) => tensors.get(`base_model.model.model.embed_tokens.lora_embedding_${side}`)?.shape;
    expect([shapeOf("A"), shapeOf("B")]).toEqual([
      [expect.any(Number), 24],
      [8, expect.any(Number)],
    ]);
    expect(readJson(out, "adapter_config.json").target_modules).toContain("embed_tokens");
    expect(largestDifference(await merged(`${base}+${out}`), await merged(full))).toBeLessThan(1e-5);
  });

  it("saves whole the modules that are named", async () => {
    const { result, out } = await extract({ saveModules: ["lm_head", "v_proj"] });
    expect([...result.saved].sort()).toEqual([
      "lm_head.weight",
      "model.layers.0.self_attn.v_proj.weight",
      "model.layers.1.self_attn.v_proj.weight",
    ]);
    expect(result.modules.some(({ module }) => /lm_head|v_proj/.test(module))).toBe(false);
    expect(largestDifference(await merged(`${base}+${out}`), await merged(tuned))).toBeLessThan(1e-6);
    await expect(extract({ saveModules: ["head"] })).rejects.toThrow("head is not a module of the model");
  });

  it("refuses added tokens in words that fit an adapter", async () => {
    const more = await writeTiny(at("more"), { dtype: "F32", layers: 2, vocabulary: 26 });
    const error = await extract({ model: more }).catch((thrown: Error) => thrown.message);
    expect(error).toMatch(/2 more, from added tokens or padding. An adapter cannot add rows or remove them/);
    expect(error).not.toMatch(/vocabulary to/);
  });

  it("names modules as transformers has them in memory where a tower has the same: Gemma 3", async () => {
    const edit = (isTuned: boolean) => (tensors: TensorData[]) => {
      const isQuery = ({ name }: TensorData) => name.endsWith("q_proj.weight");
      const own = isTuned ? changed(() => 0)(tensors).map((one, i) => (isQuery(one) ? one : tensors[i])) : tensors;
      const text = (own as TensorData[]).map((one) => ({ ...one, name: `language_model.${one.name}` }));
      const tower = "vision_tower.vision_model.encoder.layers.1.self_attn.q_proj.weight";
      return [...text, { ...(tensors.find(isQuery) as TensorData), name: tower }];
    };
    const wrapper = { dtype: "F32", layers: 2, config: { model_type: "gemma3" } } as const;
    const from = await writeTiny(at("gemma"), { ...wrapper, edit: edit(false) });
    const model = await writeTiny(at("gemma-tuned"), { ...wrapper, edit: edit(true) });
    const { out } = await extract({ base: from, model });
    expect(await readJson(join(out, "adapter_config.json"))).toMatchObject({
      target_modules: [0, 1].map((layer) => `model.language_model.layers.${layer}.self_attn.q_proj`),
      layers_to_transform: null,
    });
  });

  it("refuses a change that no adapter holds, and writes nothing", async () => {
    const [own, other] = await Promise.all([
      writeTiny(at("tied"), { dtype: "F32", layers: 2, tied: true }),
      writeTiny(at("tied-full"), { dtype: "F32", layers: 2, tied: true, edit: changed(() => 0.5) }),
    ]);
    const out = fresh();
    await expect(extractAdapter({ base: own, model: other }, { out })).rejects.toThrow(
      "an adapter cannot hold every change; these tensors would have to stay the base's:\n" +
        "  - model.embed_tokens.weight changed and is tied to the output head, which PEFT would leave at the base's",
    );
    expect(existsSync(out)).toBe(false);
    expect((await extract({ base: own, model: other, linearOnly: true })).result.left).toHaveLength(6);
  });

  it("extracts a recipe as it would be written", async () => {
    const recipe = { method: "soup" as const, models: [base, tuned] };
    const fromRecipe = await extract({ model: recipe });
    const written = fresh();
    await executePlan(await planRecipe(recipe), { out: written });
    const fromFolder = await extract({ model: written });
    const factors = async ({ out }: { out: string }) => readAll(out, ["adapter_model.safetensors"]);
    expect(await factors(fromRecipe)).toEqual(await factors(fromFolder));
    expect(fromRecipe.result.model).toBe("a recipe (soup)");
  });

  it("writes transposed matrices as PEFT reads those of GPT-2", async () => {
    const edit = (shift: boolean) => (): TensorData[] =>
      (
        [
          ["wte.weight", [24, 8]],
          ["h.0.attn.c_attn.weight", [8, 24]],
          ["h.0.attn.c_proj.weight", [8, 8]],
          ["h.0.mlp.c_fc.weight", [8, 32]],
          ["h.0.mlp.c_proj.weight", [32, 8]],
          ["h.0.ln_1.weight", [8]],
        ] as const
      ).map(([name, shape], seed) => {
        const change = shift && name.startsWith("h.") && shape.length === 2 ? changeOf(shape, seed + 1) : undefined;
        const count = shape.reduce((product, extent) => product * extent, 1);
        const values = seededFloats(count, seed + 70).map((x, i) => x + (change?.[i] ?? 0));
        return { name, dtype: "F32", shape: [...shape], data: encodeValues(values, "F32") };
      });
    const options = { dtype: "F32", layers: 1, modelType: "gpt2", tied: true } as const;
    const [own, other] = [
      await writeTiny(at("gpt2"), { ...options, edit: edit(false) }),
      await writeTiny(at("gpt2-tuned"), { ...options, edit: edit(true) }),
    ];
    const { result, out } = await extract({ base: own, model: other });
    expect(result.modules).toHaveLength(4);
    expect(readJson(out, "adapter_config.json")).toMatchObject({ fan_in_fan_out: true });
    expect(largestDifference(await merged(`${own}+${out}`), await merged(other))).toBeLessThan(1e-6);
  });

  it("reports bad input in one sentence", async () => {
    await expect(extract({ model: base })).rejects.toThrow(
      "base and base have equal linear weights, so there is nothing to extract.",
    );
    const { out } = await extract();
    await expect(extract({ base: `${base}+${out}` })).rejects.toThrow(/has an adapter|with an adapter/);
    await expect(extract({}, out)).rejects.toMatchObject({ where: { option: "force" } });
    const controller = new AbortController();
    controller.abort();
    const stopped = fresh();
    await expect(extract({ signal: controller.signal }, stopped)).rejects.toThrow("stopped before the end");
    expect(existsSync(stopped)).toBe(false);
    const broken = await writeTiny(at("broken"), {
      ...{ dtype: "F32", layers: 2 },
      edit: (tensors) =>
        tensors.map((tensor) =>
          tensor.name === "lm_head.weight"
            ? { ...tensor, data: encodeValues(new Array(192).fill(Number.POSITIVE_INFINITY), "F32") }
            : tensor,
        ),
    });
    await expect(extract({ model: broken })).rejects.toThrow("lm_head.weight has infinite or NaN values");
  });

  it("plans from headers", async () => {
    const plan = await planExtraction({ base, model: tuned, rank: 3 });
    expect(plan.linear).toHaveLength(15);
    expect(plan.others).toHaveLength(6);
    const { bytes } = (await extract({ rank: 3 })).result;
    expect(plan.bytes).toBe(bytes);
    expect((await planExtraction({ base, model: tuned, energy: 0.9 })).bytes).toBe(null);
  });
});
