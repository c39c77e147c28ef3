// Merges written as adapters: base plus adapter against the merged weights, and refusals.
// @module-tag slow

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { encodeValues, type ReadTensor, seededFloats, seededTensor } from "../../../test/support/checkpoints.js";
import { Bench, type Tensors } from "../../../test/support/merging.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { openSafetensors, readTensor, type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import type { Progress } from "../../kit/index.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { executePlan } from "./execute-plan.js";
import { summarizePlan } from "./summary.js";
import { verifyOutput } from "./verify.js";

const bench = new Bench();
const PREFIX = "base_model.model.";
const decoder = (name: string) => fileURLToPath(new URL(`../../../test/fixtures/decoders/${name}`, import.meta.url));

interface AdapterOptions {
  readonly seed: number;
  readonly rank?: number;
  readonly modules?: RegExp;
  readonly dtype?: "F32" | "BF16";
  readonly config?: Record<string, unknown>;
  /** Ranks that differ, by module. */
  readonly ranks?: Readonly<Record<string, number>>;
  /** Tensors saved whole. */
  readonly whole?: readonly string[];
}

const MATRICES = /\.(q_proj|v_proj|down_proj)$/;

/** An adapter of all matching matrices of a base, with values of a size of 0.1. */
async function writeAdapter(base: string, options: AdapterOptions): Promise<string> {
  const { seed, rank = 2, modules = MATRICES, dtype = "F32", config, ranks = {}, whole = [] } = options;
  const small = (tensor: TensorData, at: number): TensorData => ({
    ...tensor,
    dtype,
    data: encodeValues(
      seededFloats(
        tensor.shape.reduce((product, extent) => product * extent, 1),
        seed * 1000 + at,
      ).map((x) => x / 8),
      dtype,
    ),
  });
  const { tensors } = await openCheckpoint(base);
  const adapted = [...tensors.values()].flatMap(({ name, shape }, at): TensorData[] => {
    if (whole.includes(name)) return [small(seededTensor(`${PREFIX}${name}`, [...shape], 0), at)];
    const module = name.replace(/\.weight$/, "");
    if (!modules.test(module) || !name.endsWith(".weight")) return [];
    const [out = 0, input = 0] = shape;
    const own = ranks[module] ?? rank;
    return [
      small(seededTensor(`${PREFIX}${module}.lora_A.weight`, [own, input], 0), 2 * at + 100),
      small(seededTensor(`${PREFIX}${module}.lora_B.weight`, [out, own], 0), 2 * at + 101),
    ];
  });
  const folder = bench.next("adapter");
  mkdirSync(folder);
  await writeSafetensors(join(folder, "adapter_model.safetensors"), adapted);
  const json = { peft_type: "LORA", r: rank, lora_alpha: 3, rank_pattern: ranks, ...config };
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(json));
  return folder;
}

async function readAdapter(folder: string): Promise<{ config: Record<string, unknown>; tensors: Tensors }> {
  const file = await openSafetensors(join(folder, "adapter_model.safetensors"));
  const tensors = new Map<string, { dtype: string; shape: readonly number[]; data: Uint8Array }>();
  for (const tensor of file.tensors) tensors.set(tensor.name, { ...tensor, data: await readTensor(file, tensor) });
  const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8")) as Record<string, unknown>;
  return { config, tensors: tensors as Tensors };
}

/** Writes a recipe as an adapter and checks that it verifies. */
async function writeAsAdapter(recipe: RecipeInput): Promise<string> {
  const { out } = await executePlan(await planRecipe({ ...recipe, as: "adapter" }), { out: bench.next("written") });
  expect(await verifyOutput(out)).toMatchObject({ deviations: [], files: [] });
  return out;
}

/** Base plus written adapter must equal the merged model to 1e-6, and differ from the base. */
async function expectEqualToModel(base: string, recipe: RecipeInput): Promise<string> {
  const { tensors: wanted } = await bench.merge(recipe);
  const out = await writeAsAdapter(recipe);
  const { tensors: found } = await bench.merge({ method: "soup", models: [`${base}+${out}`] });
  const before = await readFolder(base);
  expect([...found.keys()]).toEqual([...wanted.keys()]);
  let changed = 0;
  for (const [name, tensor] of found) {
    const [x, y] = [toNumbers(tensor), toNumbers(wanted.get(name) ?? tensor)];
    const error = Math.max(...x.map((value, i) => Math.abs(value - (y[i] ?? Number.NaN))));
    expect(error, name).toBeLessThanOrEqual(1e-6);
    if (before.get(name) && Buffer.compare(tensor.data, (before.get(name) ?? tensor).data) !== 0) changed++;
  }
  expect(changed).toBeGreaterThan(0);
  return out;
}

/** Two experts that differ in ranks, scales and modules. */
async function experts(base: string): Promise<[string, string]> {
  const task = await writeAdapter(base, {
    seed: 1,
    rank: 3,
    config: { lora_alpha: 5, use_rslora: true, alpha_pattern: { "layers.1.self_attn.q_proj": 2 } },
  });
  const language = await writeAdapter(base, {
    seed: 2,
    modules: /\.(q_proj|k_proj|gate_proj)$/,
    ranks: { "model.layers.0.self_attn.k_proj": 4 },
  });
  return [`${base}+${task}`, `${base}+${language}`];
}

const expectEqualToModels = async (family: string) => {
  const base = decoder(family);
  const [task, language] = await experts(base);
  const models = [task, language];
  for (const recipe of [
    { method: "swap", task, language, bottom: 1, top: 0 },
    { method: "swap", task, language, bottom: 0, top: 1, bottom_transition: 1, weights: [1, 3] },
    { method: "swap", task, language, base, bottom: 0, top: 0, bottom_transition: 2, weights: "magnitude" },
    { method: "soup", models },
    { method: "soup", models: [{ model: task, weight: 0.3 }, { model: language, weight: 0.9 }, base] },
    { method: "task_arithmetic", models, base, lambda: 0.7 },
    { method: "task_arithmetic", models: [{ model: task, weight: -0.5 }, language], base },
    { method: "revert", expert: task, base, layers: "1" },
    { method: "model_stock", models: [task, { method: "soup", models }], base },
    { method: "soup", models: [{ method: "swap", task, language, bottom: 1, top: 0 }, task] },
  ] as RecipeInput[]) {
    await expectEqualToModel(base, recipe);
  }
};

test("base plus adapter equals the merged model: llama", () => expectEqualToModels("llama"));
test.each(["qwen2", "qwen3"])("base plus adapter equals the merged model: %s", { tags: ["slow"] }, expectEqualToModels);

test("swapped layers are the expert's factors, byte for byte; an average joins their ranks", async () => {
  const base = decoder("llama");
  const task = await writeAdapter(base, { seed: 3, dtype: "BF16" });
  const language = await writeAdapter(base, { seed: 4, dtype: "BF16", rank: 3, config: { lora_alpha: 4.5 } });
  const [a, b] = [await readAdapter(language), await readAdapter(task)];
  const sources = { task: `${base}+${task}`, language: `${base}+${language}` };

  const swapped = await readAdapter(await writeAsAdapter({ method: "swap", ...sources, bottom: 1, top: 0 }));
  for (const [name, { dtype, data }] of swapped.tensors) {
    const owner = name.includes("layers.0.") ? a : b;
    expect([name, dtype, Buffer.compare(data, owner.tensors.get(name)?.data ?? new Uint8Array())]).toEqual([
      name,
      "BF16",
      0,
    ]);
  }
  expect(swapped.config).toMatchObject({ r: 3, lora_alpha: 4.5, use_rslora: false, modules_to_save: null });
  expect(swapped.config.target_modules).toEqual(["down_proj", "q_proj", "v_proj"]);
  expect(swapped.config.rank_pattern).toEqual(
    Object.fromEntries(
      ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"].map((m) => [`model.layers.1.${m}`, 2]),
    ),
  );
  expect(Object.values(swapped.config.alpha_pattern as object)).toEqual([3, 3, 3]);

  const blended = await readAdapter(
    await writeAsAdapter({
      method: "soup",
      models: [sources.language, { model: sources.task, weight: 3 }],
    } as RecipeInput),
  );
  const factor = `${PREFIX}model.layers.0.self_attn.q_proj.lora_`;
  const numbers = ({ tensors }: { tensors: Tensors }, side: string) => {
    const tensor = tensors.get(`${factor}${side}.weight`);
    return tensor ? toNumbers(tensor) : [];
  };
  expect(blended.tensors.get(`${factor}A.weight`)).toMatchObject({ dtype: "BF16", shape: [5, 8] });
  expect(numbers(blended, "A")).toEqual([...numbers(a, "A"), ...numbers(b, "A")]);
  // Both scales are 1.5, so B only has the weights: a fourth and three fourths, exact in float32.
  const [left, right] = [numbers(a, "B"), numbers(b, "B")];
  const rows = left.length / 3;
  expect(numbers(blended, "B")).toEqual(
    Array.from({ length: rows }, (_, row) => [
      ...left.slice(3 * row, 3 * row + 3).map((x) => x * 0.25),
      ...right.slice(2 * row, 2 * row + 2).map((x) => x * 0.75),
    ]).flat(),
  );
  expect(blended.config).toMatchObject({ r: 5, lora_alpha: 7.5, rank_pattern: {}, base_model_name_or_path: "llama" });
});

const peft = fileURLToPath(new URL("../../../test/fixtures/peft", import.meta.url));

/** The largest difference of a written adapter's changes, B A times a scale, from recorded ones. */
async function distanceFrom(recorded: string, written: Tensors, scale: number): Promise<number> {
  const wanted = await openSafetensors(join(peft, "combined", `${recorded}.safetensors`));
  expect(written.size).toBe(2 * wanted.tensors.length);
  let most = 0;
  for (const tensor of wanted.tensors) {
    const input = tensor.shape[1] ?? 0;
    const [a, b] = ["A", "B"].map((side) =>
      toNumbers(written.get(`${PREFIX}${tensor.name}.lora_${side}.weight`) as ReadTensor),
    ) as [number[], number[]];
    const rank = a.length / input;
    const expected = toNumbers({ ...tensor, data: await readTensor(wanted, tensor) } as ReadTensor);
    for (const [i, value] of expected.entries()) {
      const [row, column] = [Math.floor(i / input), i % input];
      let sum = 0;
      for (let r = 0; r < rank; r++) sum += (b[row * rank + r] as number) * (a[r * input + column] as number);
      most = Math.max(most, Math.abs(value - scale * sum));
    }
  }
  return most;
}

test("methods that trim or drop merge factor by factor, as PEFT does", async () => {
  const base = join(peft, "patterns/base");
  const [first, second] = ["first", "second"].map((name) => `${base}+${join(peft, "combined", name)}`);
  const pruned = [
    { model: first, weight: 0.7 },
    { model: second, weight: -0.4 },
  ];
  const recipes = {
    ties: { method: "ties", base, models: [first, second], density: 0.5 },
    pruned: { method: "breadcrumbs", base, models: pruned, density: 0.5, gamma: 0 },
  };
  const planned = await planRecipe({ ...recipes.ties, as: "adapter" } as unknown as RecipeInput);
  expect(summarizePlan(planned).adapter).toEqual({ matrices: 9, ranks: [3, 3], whole: 0 });
  for (const [name, recipe] of Object.entries(recipes)) {
    const { config, tensors } = await readAdapter(await writeAsAdapter(recipe as unknown as RecipeInput));
    expect(config).toMatchObject({ r: 3, lora_alpha: 4 });
    expect(await distanceFrom(name, tensors, 4 / 3), name).toBeLessThan(1e-7);
  }
});

test("tensors saved whole are blended; the others keep their factors", async () => {
  const base = decoder("llama");
  const whole = ["lm_head.weight", "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"];
  const task = await writeAdapter(base, { seed: 5, whole });
  const language = await writeAdapter(base, { seed: 6 });
  const models = [`${base}+${task}`, `${base}+${language}`];
  const out = await expectEqualToModel(base, { method: "soup", models });
  const { config, tensors } = await readAdapter(out);
  expect(config.modules_to_save).toEqual(
    ["model.layers.0.self_attn.q_proj", "model.norm", "lm_head"].sort(
      (x, y) =>
        [...tensors.keys()].indexOf(`${PREFIX}${x}.weight`) - [...tensors.keys()].indexOf(`${PREFIX}${y}.weight`),
    ),
  );
  expect(config.target_modules).not.toContain("q_proj");
  expect(config.target_modules).toContain("model.layers.1.self_attn.q_proj");
  expect(tensors.has(`${PREFIX}model.layers.0.self_attn.q_proj.lora_A.weight`)).toBe(false);
});

test("GPT-2: [in, out] weights and an embedding", async () => {
  const folder = fileURLToPath(new URL("../../../test/fixtures/peft/patterns", import.meta.url));
  const base = join(folder, "base");
  const expert = `${base}+${join(folder, "adapter")}`;
  await expectEqualToModel(base, { method: "soup", models: [expert, base] });
});

test("the summary has ranks and bytes, and another dtype is used", async () => {
  const base = decoder("llama");
  const [task, language] = await experts(base);
  const recipe = { method: "soup", models: [task, language], as: "adapter", dtype: "bfloat16" } as const;
  const opened = await planRecipe({ ...recipe, models: [...recipe.models] });
  const summary = summarizePlan(opened);
  expect(summary.adapter).toEqual({ matrices: 10, ranks: [2, 5], whole: 0 });
  const { out, bytesWritten } = await executePlan(opened, { out: bench.next("bf16") });
  const { tensors } = await readAdapter(out);
  expect(new Set([...tensors.values()].map(({ dtype }) => dtype))).toEqual(new Set(["BF16"]));
  const bytes = [...tensors.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
  expect([summary.bytesToWrite, bytesWritten, summary.tensors]).toEqual([bytes, bytes, 20]);
  const card = readFileSync(join(out, "README.md"), "utf8");
  expect(card).toContain("base_model_relation: adapter");
  expect(card).toContain("library_name: peft");
});

test("verify finds a changed factor and a changed configuration", async () => {
  const base = decoder("llama");
  const [task, language] = await experts(base);
  const out = await writeAsAdapter({ method: "soup", models: [task, language] });
  const path = join(out, "adapter_model.safetensors");
  const bytes = readFileSync(path);
  const file = await openSafetensors(path);
  const [tensor] = file.tensors;
  bytes.writeUInt8((bytes[(tensor?.offset ?? 0) + 4] ?? 0) ^ 1, (tensor?.offset ?? 0) + 4);
  writeFileSync(path, bytes);
  writeFileSync(join(out, "adapter_config.json"), "{}");
  expect(await verifyOutput(out)).toMatchObject({
    deviations: [{ tensor: tensor?.name, differing: 1, first: 1 }],
    files: [{ file: "adapter_config.json", what: "changed" }],
  });
});

test("refusals", async () => {
  const base = decoder("llama");
  const [task, language] = await experts(base);
  const models = [task, language];
  const refused = async (recipe: object, what: RegExp) => {
    await expect(planRecipe({ ...recipe, as: "adapter" } as RecipeInput)).rejects.toThrow(what);
  };
  await refused({ method: "sce", models, base }, /SCE is not a weighted sum .* use layergraft extract/);
  await refused({ method: "ties", models, base, density: 0.5 }, /merges their factors.*differ in rank, \d and \d/s);
  const whole = await writeAdapter(base, { seed: 9, whole: ["model.layers.0.self_attn.q_proj.weight"] });
  const both = [task, `${base}+${whole}`];
  await refused({ method: "ties", models: both, base }, /q_proj\.weight is adapted by one and saved whole by another/);
  const soup = { method: "soup", models };
  await refused({ method: "ties", models: [task, soup], base, density: 0.5 }, /models\[1\] is a recipe; write it/);
  const arc = await planRecipe({
    method: "slerp",
    t: 0.5,
    models: [base, `${base}+${await writeAdapter(base, { seed: 9, whole: ["lm_head.weight"] })}`],
    as: "adapter",
  } as RecipeInput);
  const out = bench.next("slerp");
  await expect(executePlan(arc, { out })).rejects.toThrow(/do not sum to 1, so the base would be scaled/);
  expect([existsSync(out), existsSync(`${out}.partial`)]).toEqual([false, false]);
  await refused({ method: "soup", models: [base] }, /no source is BASE\+ADAPTER; use layergraft extract/);
  await refused({ method: "revert", expert: task, base, layers: "all", parts: ["mlp", "attention"] }, /no LoRA change/);
  await refused({ method: "soup", models, shard_size: "1GB" }, /shard_size does not apply to an adapter\. Remove/);
  const slices = [{ model: task, layers: "0,0" }];
  await refused({ method: "passthrough", slices }, /moves, repeats or leaves out layers/);

  const [one, other] = [await bench.model({ seed: 3 }), await bench.model({ seed: 3 })];
  const near = await writeAdapter(one, { seed: 1 });
  await refused(
    { method: "soup", models: [`${one}+${near}`, other] },
    /models\[1\] has another base than .*give every expert as BASE\+ADAPTER with one BASE/,
  );

  const tied = decoder("qwen3");
  const saved = await writeAdapter(tied, { seed: 1, whole: ["model.embed_tokens.weight"] });
  await refused(
    { method: "soup", models: [`${tied}+${saved}`, tied] },
    /embed_tokens\.weight changes, and the base ties/,
  );

  const biased = decoder("qwen2");
  const bias = await writeAdapter(biased, { seed: 1, whole: ["model.layers.0.self_attn.q_proj.bias"] });
  await refused({ method: "soup", models: [`${biased}+${bias}`] }, /q_proj\.bias was trained beside the LoRA factors/);

  const dora = await writeAdapter(base, { seed: 1, config: { use_dora: true } });
  await refused(
    { method: "soup", models: [`${base}+${dora}`] },
    /has no lora_magnitude_vector for .*, but use_dora is true/,
  );
});

test("factors report their bytes, and stop when asked", async () => {
  const base = decoder("llama");
  const [task, language] = await experts(base);
  const plan = await planRecipe({ method: "soup", models: [task, language], as: "adapter" });
  const seen: Progress[] = [];
  const { out } = await executePlan(plan, { out: bench.next("progress"), onProgress: (one) => seen.push(one) });
  const factors = seen.filter(({ phase }) => phase === "writing factors");
  const { tensors } = await readAdapter(out);
  const totalBytes = [...tensors.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
  expect(factors[0]).toMatchObject({ done: 0, total: totalBytes });
  expect(factors.at(-1)).toMatchObject({ done: totalBytes, total: totalBytes });
  expect(factors).toHaveLength(tensors.size + 1);

  const controller = new AbortController();
  const stopped = bench.next("stopped");
  const onProgress = ({ phase, done }: Progress) => {
    if (phase === "writing factors" && done > 0) controller.abort();
  };
  await expect(executePlan(plan, { out: stopped, onProgress, signal: controller.signal })).rejects.toThrow("stopped");
  expect(existsSync(stopped)).toBe(false);
});
