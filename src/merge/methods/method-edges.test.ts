// Edge cases of methods: nested random methods, packed floats, NaN with weight 0.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { toNumbers } from "../../../test/support/numbers.js";
import type { TensorData } from "../../formats/safetensors/index.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";

const bench = new Bench();

/** A model all of whose values are one number. */
const constant = (value: number) =>
  bench.model({
    dtype: "F32",
    vocabulary: 1500,
    edit: (tensors) =>
      tensors.map((tensor) => ({
        ...tensor,
        data: encodeValues(new Array(tensor.data.byteLength / 4).fill(value), "F32"),
      })),
  });

it("DARE inside DARE draws independently: a quarter is kept, and its mean is the change's", async () => {
  const [base, expert] = [await constant(0), await constant(1)];
  const dare = { method: "dare_linear" as const, density: 0.5, base };
  const { tensors } = await bench.merge({ ...dare, models: [{ ...dare, models: [expert] }] });
  const values = toNumbers(tensors.get("model.embed_tokens.weight") as Parameters<typeof toNumbers>[0]);
  const kept = values.filter((x) => x !== 0);
  const sigma = Math.sqrt((0.25 * 0.75) / values.length);
  expect(Math.abs(kept.length / values.length - 0.25)).toBeLessThan(5 * sigma);
  expect(new Set(kept)).toEqual(new Set([4]));
  // And two experts of sibling recipes are not dropped together.
  const soup = await bench.merge({ method: "soup", models: [0, 1].map(() => ({ ...dare, models: [expert] })) });
  const both = toNumbers(soup.tensors.get("model.embed_tokens.weight") as Parameters<typeof toNumbers>[0]);
  expect(Math.abs(both.filter((x) => x === 0).length / both.length - 0.25)).toBeLessThan(5 * sigma);
});

it("packed floats are rejected by every method that would compute with them", async () => {
  const packed: TensorData = { name: "model.layers.0.scales", dtype: "F8_E4M3", shape: [4], data: new Uint8Array(4) };
  const [base = "", a = "", b = ""] = await bench.models(3, { edit: (tensors) => [...tensors, packed] });
  const models = [a, b];
  const recipes: RecipeInput[] = [
    { method: "ties", models, base },
    { method: "task_arithmetic", models, base },
    { method: "dare_ties", models, base },
    { method: "model_stock", models, base },
    { method: "sce", models, base },
    { method: "slerp", models, t: 0.5 },
    { method: "nearswap", task: a, language: b, t: 0.1 },
  ];
  for (const recipe of recipes) {
    await expect(planRecipe(recipe), recipe.method).rejects.toThrow(/F8_E4M3 would need arithmetic/);
  }
  const revert = await planRecipe({ method: "revert", expert: a, base, rows_below: 1 });
  expect(revert.plan.notes.join()).toMatch(/dtype F8_E4M3 have no rows to measure and are taken whole from base/);
});

it("an expert of weight 0 is not read, and NaN values are not measured", async () => {
  const [base = "", expert = ""] = await bench.models(2, { dtype: "F32" });
  const broken = await bench.model({
    dtype: "F32",
    edit: ([first, ...rest]) => [
      { ...(first as TensorData), data: (first as TensorData).data.map(() => 0xff) },
      ...rest,
    ],
  });
  const models = [expert, { model: broken, weight: 0 }];
  const { tensors } = await bench.merge({ method: "ties", models, base, density: 1, trim: "tensor" });
  for (const [name, tensor] of tensors) expect(toNumbers(tensor).every(Number.isFinite), name).toBe(true);
  const measured: RecipeInput[] = [
    { method: "model_stock", models: [expert, broken], base },
    { method: "ties", models: [expert, broken], base, density: 0.5, trim: "tensor" },
  ];
  for (const recipe of measured) {
    const out = bench.next("refused");
    await expect(executePlan(await planRecipe(recipe), { out }), recipe.method).rejects.toThrow(/infinite or NaN/);
  }
});

it("recipes that multiply are rejected before they exhaust memory", async () => {
  const [base = "", expert = ""] = await bench.models(2);
  let recipe: RecipeInput = { method: "task_arithmetic", models: [expert], base };
  for (let depth = 0; depth < 14; depth++)
    recipe = { method: "task_arithmetic", models: [expert], base: { ...recipe } };
  await expect(planRecipe(recipe)).rejects.toThrow(/of more than 10000 tensors, as recipes within recipes multiply/);
});

it.each([
  [{ method: "ties" }, "Method: Yadav et al., NeurIPS 2023, [arXiv 2306.01708](https://arxiv.org/abs/2306.01708)."],
  [
    { method: "della", seed: 3 },
    "DELLA of 2 models of 2 layers on model2: lambda 1, density 0.5, epsilon 0.15, seed 3, normalize true.",
  ],
] as const)("the model card of %j describes and cites its method", async (recipe, line) => {
  const cards = new Bench();
  const [a = "", b = "", base = ""] = await cards.models(3);
  const { out } = await cards.merge({ ...recipe, models: [a, b], base });
  expect(readFileSync(join(out, "README.md"), "utf8")).toContain(line);
});

it("revert keeps a share of the layers, in each order", async () => {
  const [base = "", expert = ""] = await bench.models(2, { layers: 5 });
  const restored = async (fields: object) => {
    const { plan } = await planRecipe({ method: "revert", expert, base, ...fields } as RecipeInput);
    const back = plan.steps.filter(({ origin }) => String(origin) === "base");
    const layers = back.map(({ tensor }) => Number(/layers\.(\d)/.exec(tensor)?.[1] ?? -1));
    return [...new Set(layers)].sort();
  };
  expect(await restored({ keep_share: 0.6, from: "bottom" })).toEqual([0, 1]);
  expect(await restored({ keep_share: 0.6, from: "top" })).toEqual([3, 4]);
  expect(await restored({ keep_share: 0.4, from: "middle" })).toEqual([1, 2, 3]);
  expect(await restored({ keep_share: 0.5, from: "top", layers: "0-1,3" })).toEqual([3]);
  expect(await restored({ keep_share: 1, from: "top" })).toEqual([]);
  await expect(restored({ keep_share: 0.5, rows_below: 1 })).rejects.toThrow("both say what is kept");
  await expect(restored({ keep_share: 0.5, keep: true })).rejects.toThrow("both say what is kept");
  await expect(restored({ layers: 0, from: "top" })).rejects.toThrow("from needs keep_share");
});
