// A plan is plain data: what is written from its JSON is what is written from the plan itself, for every method.
// @module-tag slow
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench, type Tensors } from "../../../test/support/merging.js";
import { readFolder } from "../../../test/support/numbers.js";
import { writeSafetensors } from "../../formats/safetensors/index.js";
import { digestOf } from "../../kit/files/index.js";
import { type MeasureGates, runResults } from "../../tensor/measurements/index.js";
import { COMBINATIONS, METHODS } from "../methods/index.js";
import { OPERATIONS } from "../methods/operations.js";
import { executePlan } from "../output/execute-plan.js";
import { verifyOutput } from "../output/verify.js";
import type { Plan, RecipeInput } from "../recipe/recipe.js";
import { openPlan } from "./open-plan.js";
import { type OpenedPlan, planRecipe } from "./planner.js";

const bench = new Bench();
const gates: MeasureGates = async (one) => Float32Array.from({ length: runResults(one) }, (_, i) => Math.sin(i));

const fromJson = async ({ plan }: OpenedPlan): Promise<OpenedPlan> => openPlan(JSON.parse(JSON.stringify(plan)));

/** Digests of the weights that a plan writes. */
async function write(opened: OpenedPlan): Promise<string[]> {
  const { out } = await executePlan(opened, { out: bench.next("out"), allowUnrelated: true, gates });
  const names = readdirSync(out).filter((name) => name.endsWith(".safetensors"));
  return names.sort().map((name) => digestOf(readFileSync(join(out, name))));
}

/** Every string in a value, changed. */
function mapStrings(value: unknown, to: (text: string) => string): unknown {
  if (typeof value === "string") return to(value);
  if (Array.isArray(value)) return value.map((one) => mapStrings(one, to));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([field, one]) => [field, mapStrings(one, to)]));
}

/** Operations and combinations that a plan names. */
function namesIn(plan: Plan): string[] {
  const names: string[] = [];
  JSON.stringify(plan, (field, value) => {
    if (field === "op" || field === "by" || field === "rule") names.push(value);
    return value;
  });
  return names;
}

describe("from JSON", () => {
  /** What the methods' examples name. */
  const sources = new Map<string, string>();
  const located = (recipe: object) =>
    mapStrings(recipe, (text) => sources.get(text) ?? text) as Exclude<RecipeInput, string>;

  /** Statistics of the matrices in the layers, as `layergraft measure` writes them. */
  async function statistics(name: string, kind: string, shapeOf: (rows: number, columns: number) => number[]) {
    const folder = bench.next(kind);
    mkdirSync(folder);
    const model: Tensors = await readFolder(sources.get("base") ?? "");
    const tensors = [...model].flatMap(([tensor, { shape }]) => {
      const [rows = 0, columns] = shape;
      if (columns === undefined || !tensor.includes(".layers.")) return [];
      const own = shapeOf(rows, columns);
      const count = own.reduce((product, extent) => product * extent, 1);
      // Of [columns, columns], positive definite.
      const values = Array.from({ length: count }, (_, i) => (i % (columns + 1) === 0 ? 3 : 0.01 * (1 + (i % 3))));
      return [{ name: tensor, shape: own, dtype: "F32" as const, data: encodeValues(values, "F32") }];
    });
    await writeSafetensors(join(folder, "model.safetensors"), tensors, { statistics: kind });
    copyFileSync(join(sources.get("base") ?? "", "config.json"), join(folder, "config.json"));
    sources.set(name, folder);
  }

  beforeAll(async () => {
    const models = await bench.models(4, { layers: 8 });
    ["base", "math-expert", "swahili-expert", "base+swahili-adapter"].forEach((name, i) => {
      sources.set(name, models[i] as string);
    });
    for (const name of ["math-fisher", "swahili-fisher"]) await statistics(name, "fisher", (a, b) => [a, b]);
    for (const name of ["math-gram", "swahili-gram"]) await statistics(name, "gram", (_, b) => [b, b]);
    await statistics("base-inputs", "inputs", (_, b) => [b]);
  });

  /** Examples, and what they leave out of the arithmetic. A transplant needs tokenizers, and computes nothing here; HARC needs experts in the layers. */
  const pair = { models: ["math-expert", "swahili-expert"], base: "base" };
  const weighted = [
    { model: "math-expert", weight: 2 },
    { model: "swahili-expert", weight: 1 },
  ];
  const recipes: object[] = [
    ...METHODS.map(({ example }) => example).filter(({ method }) => method !== "transplant" && method !== "harc"),
    { method: "soup", ...pair, weights: "magnitude" },
    { method: "ties", ...pair, trim: "tensor", rescale: "norm", cutoff: "exact" },
    { method: "nuslerp", models: weighted, columns: true },
    { method: "nuslerp", models: weighted, rows: true },
    { method: "model_stock", ...pair, rows: true },
    { method: "revert", expert: "math-expert", base: "base", keep_share: 0.5 },
    { method: "swap", task: { method: "della", ...pair }, language: { method: "sce", ...pair, select: 0.5 } },
  ];

  it("a recipe in a recipe", async () => {
    const planned = await planRecipe(located(recipes.at(-1) as object));
    expect(await write(await fromJson(planned))).toEqual(await write(planned));
  });

  const named = recipes.map((recipe) => [JSON.stringify(recipe), recipe] as const);
  it.each(named)("%s", { tags: ["slow"] }, async (_, recipe) => {
    const planned = await planRecipe(located(recipe));
    expect(await write(await fromJson(planned))).toEqual(await write(planned));
  });

  it("uses all arithmetic that methods bring", async () => {
    const plans = [];
    for (const recipe of recipes) plans.push((await planRecipe(located(recipe))).plan);
    const used = new Set(plans.flatMap(namesIn));
    // Version 2.0 named the election of signs so.
    used.add("consensus");
    expect([...OPERATIONS, ...COMBINATIONS].filter(({ name }) => !used.has(name))).toEqual([]);
  });

  it("is understood if version 2.0 wrote it", async () => {
    const planned = await planRecipe(located({ method: "sce", ...pair, select: 0.5 }));
    const out = bench.next("out");
    await executePlan(planned, { out, allowUnrelated: true });
    const file = join(out, "layergraft.json");
    const written = readFileSync(file, "utf8");
    writeFileSync(file, written.replaceAll('"op": "elect-signs"', '"op": "consensus"'));
    expect(readFileSync(file, "utf8")).not.toBe(written);
    expect(await verifyOutput(out)).toMatchObject({ verified: true, deviations: [] });
  });

  it("resumes", async () => {
    const planned = await planRecipe(located({ method: "ties", ...pair }));
    const [out, stop] = [bench.next("out"), new AbortController()];
    const options = { out, allowUnrelated: true };
    const onProgress = ({ phase }: { phase: string }) => {
      if (phase === "reading and writing") stop.abort();
    };
    await expect(executePlan(planned, { ...options, signal: stop.signal, onProgress })).rejects.toThrow(/stopped/);
    const { resumed, bytesRead } = await executePlan(await fromJson(planned), { ...options, resume: true });
    const whole = await executePlan(planned, { ...options, out: bench.next("out") });
    expect([resumed, bytesRead]).toEqual([true, whole.bytesRead]);
    expect(await readFolder(out)).toEqual(await readFolder(whole.out));
  });

  it("is refused if another version of layergraft saved it", async () => {
    const { plan } = await planRecipe(located({ method: "model_stock", ...pair }));
    const saved = JSON.parse(JSON.stringify(plan));
    for (const measurement of saved.measurements) measurement.combine.by = "later-ratio";
    await expect(openPlan(saved)).rejects.toThrow(/cannot compute later-ratio.*Plan again/);
    for (const measurement of saved.measurements) delete measurement.combine;
    await expect(openPlan(saved)).rejects.toThrow(/angles between changes.*older version.*Plan again/);
  });
});
