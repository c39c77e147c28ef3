// Infinite and NaN values: what a source holds is named and kept, what a merge makes of finite values is refused.
// @module-tag slow
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { decodeValues, encodeValues, type FloatDType } from "../../../test/support/checkpoints.js";
import { Bench, type Tensors } from "../../../test/support/merging.js";
import { readFolder } from "../../../test/support/numbers.js";
import { METHODS } from "../methods/index.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { executePlan } from "./execute-plan.js";
import { verifyOutput } from "./verify.js";

const bench = new Bench();
const UP = "model.layers.1.mlp.up_proj.weight";
const NORM = "model.norm.weight";
const { NaN: nan, POSITIVE_INFINITY: inf } = Number;

/** A model of eight layers with these values in the first places of some tensors. */
const modelWith = (values: Readonly<Record<string, readonly number[]>>, dtype: FloatDType = "F32") =>
  bench.model({
    ...{ layers: 8, dtype },
    edit: (tensors) =>
      tensors.map((tensor) => {
        const edited = decodeValues(tensor.data, dtype);
        for (const [i, value] of (values[tensor.name] ?? []).entries()) edited[i] = value;
        return { ...tensor, data: encodeValues(edited, dtype) };
      }),
  });

const brokenIn = (tensors: Tensors) =>
  [...tensors].flatMap(([name, { data, dtype }]) => {
    const count = [...decodeValues(data, dtype as FloatDType)].filter((value) => !Number.isFinite(value)).length;
    return count > 0 ? [{ tensor: name, count }] : [];
  });

/** Runs a recipe; what it says of infinite and NaN values, and what is in its output. */
async function merged(recipe: RecipeInput, allowNonFinite = false) {
  const out = bench.next("out");
  const result = await executePlan(await planRecipe(recipe), { out, allowUnrelated: true, allowNonFinite });
  return { ...result, broken: brokenIn(await readFolder(out)) };
}

async function refusal(recipe: RecipeInput): Promise<string> {
  const out = bench.next("refused");
  const error: unknown = await executePlan(await planRecipe(recipe), { out, allowUnrelated: true }).catch((one) => one);
  expect(error).toMatchObject({ code: "not-finite", where: { option: "allowNonFinite" } });
  expect([out, `${out}.partial`].map((path) => existsSync(path))).toEqual([false, false]);
  return (error as Error).message;
}

/** The models of the methods' examples, of which one is broken. */
const broken = await modelWith({ [UP]: [nan, inf, -inf], [NORM]: [nan] });
const named: Record<string, string> = { "math-expert": broken };
for (const name of ["swahili-expert", "base", "base+swahili-adapter"]) named[name] = await modelWith({});

// These need statistics, gates, experts in the layers, tokenizers or adapters.
const OTHERS = ["aim", "fisher", "regmean", "moe", "harc", "transplant"];

it.each(METHODS.filter(({ name }) => !OTHERS.includes(name)).map(({ name, example }) => [name, example] as const))(
  "%s names what a source holds, or says that it cannot be measured",
  async (_, example) => {
    const recipe = JSON.parse(JSON.stringify(example), (_key, value) => named[value as string] ?? value);
    const result = await merged(recipe).catch((error: Error) => error);
    if (result instanceof Error) {
      expect(result.message).toMatch(/cannot be measured, as a source has infinite or NaN values/);
      return;
    }
    const counts = { [UP]: 3, [NORM]: 1 } as const;
    expect(result.broken.length > 0).toBe(result.nonFinite.length > 0);
    for (const one of result.nonFinite) {
      expect(one).toEqual({ ...one, model: broken, count: counts[one.tensor as keyof typeof counts] });
    }
    if (result.nonFinite.length > 0) expect(result.warnings.join()).toContain(`${broken} holds infinite or NaN values`);
  },
);

// mergekit #704: norms of float16 that are summed in float16 overflow, and rescaled values become NaN.
it.each(["dare_linear", "dare_ties", "ties"] as const)(
  "%s rescales 90,000 float16 values without overflow",
  async (method) => {
    const model = (value: number) =>
      bench.model({
        dtype: "F16",
        edit: (tensors) =>
          tensors.map((tensor) => {
            if (tensor.name !== UP) return tensor;
            return { ...tensor, shape: [300, 300], data: encodeValues(new Float32Array(90_000).fill(value), "F16") };
          }),
      });
    const models = [{ model: await model(1), density: 0.5 }];
    const cutoff = method === "ties" ? { cutoff: "exact" } : {};
    const recipe = {
      method,
      models,
      base: await model(0),
      rescale: "norm",
      normalize: false,
      ...cutoff,
    } as RecipeInput;
    const out = bench.next("rescaled");
    await executePlan(await planRecipe(recipe), { out, allowUnrelated: true });
    const { data } = (await readFolder(out)).get(UP) as { data: Uint8Array };
    const [values, kept] = [decodeValues(data, "F16"), decodeValues(data, "F16").filter((value) => value !== 0)];
    // The norm is that of all ones, so the kept ones are as many times larger as they are fewer.
    expect(kept.length).toBeLessThan(values.length);
    expect([...new Set(kept)]).toEqual([expect.closeTo(values.length / kept.length, 2)]);
  },
);

describe("values that a merge makes of finite ones", () => {
  it.each([
    ["F32", "keep", 3e38],
    ["BF16", "keep", 3e38],
    ["F32", "float16", 60_000],
    ["F32", "bfloat16", 3.3985e38 / 2],
  ] as const)("%s to %s are refused, and written with allowNonFinite", async (from, dtype, size) => {
    const models = [
      await modelWith({ [UP]: [size, -size, 1] }, from),
      await modelWith({ [UP]: [size, -size, 2] }, from),
    ];
    const recipe = {
      method: "task_arithmetic",
      models,
      base: await modelWith({ [UP]: [0, 0, 0] }, from),
      dtype,
    } as const;
    expect(await refusal(recipe)).toMatch(
      /^2 values in 1 tensor \(model\.layers\.1\.mlp\.up_proj\.weight: 2\) would become infinite or NaN, although/,
    );
    const { nonFinite, broken, warnings, out } = await merged(recipe, true);
    expect(nonFinite).toEqual([{ tensor: UP, count: 2 }]);
    expect(broken).toEqual(nonFinite);
    expect(warnings.join()).toContain("2 values in 1 tensor");
    expect((await verifyOutput(out)).deviations).toEqual([]);
  });

  it("are told from what a source holds in the same tensor", async () => {
    const models = [await modelWith({ [UP]: [3e38, nan, 1] }), await modelWith({ [UP]: [3e38, 1, inf] })];
    const recipe = { method: "task_arithmetic", models, base: await modelWith({ [UP]: [0, 0, 0] }) } as const;
    expect(await refusal(recipe)).toMatch(/^1 value in 1 tensor/);
    expect((await merged(recipe, true)).nonFinite).toEqual([
      { tensor: UP, model: models[0], count: 1 },
      { tensor: UP, model: models[1], count: 1 },
      { tensor: UP, count: 1 },
    ]);
  });

  it("count on every thread and after a resumed run", async () => {
    const models = [await modelWith({ [UP]: [3e38] }), await modelWith({ [UP]: [3e38] })];
    const recipe = { method: "task_arithmetic", models, base: await modelWith({ [UP]: [0] }) } as const;
    const out = bench.next("resumed");
    const stop = new AbortController();
    const onProgress = ({ done, total }: { done: number; total: number }) => done === total && stop.abort();
    const opened = await planRecipe(recipe);
    const first = executePlan(opened, { out, threads: 2, allowUnrelated: true, signal: stop.signal, onProgress });
    await first.catch(() => undefined);
    const again = executePlan(await planRecipe(recipe), { out, resume: true, allowUnrelated: true });
    await expect(again).rejects.toMatchObject({ code: "not-finite" });
    expect(existsSync(out)).toBe(false);
  });
});

it("copies stay as they are, with the payloads of their NaN", async () => {
  const language = await bench.model({
    ...{ layers: 8, dtype: "BF16" },
    edit: (tensors) =>
      tensors.map((tensor) => {
        const data = tensor.data.slice();
        if (tensor.name.includes("layers.0.")) data.set([0x12, 0x7f, 0x81, 0xff, 0x80, 0x7f]);
        return { ...tensor, data };
      }),
  });
  const task = await bench.model({ layers: 8, dtype: "BF16" });
  const { out, nonFinite } = await merged({ method: "swap", task, language, bottom: 1, top: 0, outside: "task" });
  const [written, stored] = [await readFolder(out), await readFolder(language)];
  for (const [name, { data }] of stored) {
    if (name.includes("layers.0.")) expect(Buffer.compare(written.get(name)?.data as Uint8Array, data), name).toBe(0);
  }
  const layer = [...stored.keys()].filter((name) => name.includes("layers.0."));
  expect(nonFinite).toEqual(layer.map((tensor) => ({ tensor, model: language, count: 2 })));
});
