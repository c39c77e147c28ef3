// Methods that weigh by statistics, against plain float64 references, and inputs that their formulas divide by zero for.
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { toNumbers } from "../../../test/support/numbers.js";
import { Random } from "../../core/index.js";
import { writeSafetensors } from "../../weights/index.js";
import { planRecipe, type RecipeInput } from "../index.js";
import {
  average,
  type Expectation,
  each,
  expectMerged,
  type Family,
  family,
  type Model,
  readModel,
  tensorOf,
} from "./reference.test-util.js";

const bench = new Bench();
type Statistics = ReadonlyMap<string, { readonly shape: readonly number[]; readonly values: readonly number[] }>;

/** Writes statistics as `layergraft measure` does. */
async function write(model: string, kind: string, statistics: Statistics): Promise<string> {
  const folder = bench.next(kind);
  mkdirSync(folder);
  copyFileSync(join(model, "config.json"), join(folder, "config.json"));
  const tensors = [...statistics].map(([name, { shape, values }]) => {
    return { name, shape, dtype: "F32" as const, data: encodeValues(values, "F32") };
  });
  await writeSafetensors(join(folder, "model.safetensors"), tensors, { statistics: kind });
  return folder;
}

/** Positive numbers of very different sizes; for all tensors but the last norm. */
const fisherOf = (model: Model, seed: number): Statistics => {
  const random = Random.of(seed, "fisher");
  return new Map(
    [...model].flatMap(([name, { shape, values }]) =>
      name === "model.norm.weight"
        ? []
        : [[name, { shape, values: values.map(() => Math.fround(10 ** (-8 + 8 * random.float()))) }] as const],
    ),
  );
};

/** Matena and Raffel, equation 4 with a floor. */
function fisher(models: readonly Model[], all: readonly Statistics[], weights: readonly number[], floor: number) {
  return each(models[0] as Model, (name, tensor) => {
    const tensors = models.map((model) => tensorOf(model, name));
    if (!all[0]?.has(name)) return average(tensors, weights);
    const [values, sizes]: [number[], number[]] = [[], []];
    tensor.values.forEach((_, e) => {
      const shares = all.map((one, i) => (weights[i] as number) * Math.max(floor, one.get(name)?.values[e] as number));
      const total = shares.reduce((a, b) => a + b, 0);
      const own = tensors.map(({ values }) => values[e] as number);
      values.push(own.reduce((sum, x, i) => sum + (x * (shares[i] as number)) / total, 0));
      sizes.push(own.reduce((sum, x) => sum + Math.abs(x), 0));
    });
    return { ...tensor, values, sizes, how: "near" };
  });
}

const check = async (recipe: RecipeInput, wanted: Expectation) =>
  expectMerged((await bench.merge(recipe)).tensors, wanted);

const inDType = (dtype: "BF16" | "F16" | "F32") => () => {
  let kin: Family;
  beforeAll(async () => {
    kin = await family(bench, [0.3, 0.2, 0.1], { dtype });
  });

  it("fisher", async () => {
    const { experts, models } = kin;
    const all = models.map((model, i) => fisherOf(model, i));
    const folders = await Promise.all(all.map((one, i) => write(experts[i] as string, "fisher", one)));
    const entries = experts.map((model, i) => ({ model, statistics: folders[i] as string }));
    await check({ method: "fisher", models: entries }, fisher(models, all, [1, 1, 1], 1e-6));
    const weights = [1, 0.2, 5];
    const weighted = entries.map((entry, i) => ({ ...entry, weight: weights[i] as number }));
    await check({ method: "fisher", models: weighted, floor: 1e-3 }, fisher(models, all, weights, 1e-3));
  });
};

describe("in BF16", inDType("BF16"));
describe("in F32", { tags: ["slow"] }, inDType("F32"));
describe("in F16", { tags: ["slow"] }, inDType("F16"));

describe("degenerate inputs", () => {
  const constant = (value: number) =>
    bench.model({
      dtype: "F32",
      edit: (tensors) =>
        tensors.map((tensor) => {
          return { ...tensor, data: encodeValues(new Array(tensor.data.byteLength / 4).fill(value), "F32") };
        }),
    });
  /** For all tensors but the last norm. */
  const filled = (model: Model, of: (i: number) => number): Statistics =>
    new Map(
      [...fisherOf(model, 0)].map(([name, { shape, values }]) => [
        name,
        { shape, values: values.map((_, i) => of(i)) },
      ]),
    );

  it("fisher: equal models stay bit for bit; without information it is the mean; NaN stays where it is", async () => {
    const [a, b] = [await constant(0.3), await constant(-0.3)];
    const model = await readModel(a);
    const random = await write(a, "fisher", fisherOf(model, 1));
    const none = await write(
      a,
      "fisher",
      filled(model, () => 0),
    );
    const broken = await write(
      a,
      "fisher",
      filled(model, (i) => (i === 1 ? Number.NaN : 1)),
    );
    const merge = async (models: { model: string; statistics: string }[]) =>
      toNumbers((await bench.merge({ method: "fisher", models })).tensors.get("model.embed_tokens.weight") as never);
    const own = toNumbers({ dtype: "F32", data: encodeValues([0.3], "F32") })[0];
    const same = [
      { model: a, statistics: random },
      { model: a, statistics: none },
    ];
    expect(new Set(await merge(same))).toEqual(new Set([own]));
    const opposite = [
      { model: a, statistics: none },
      { model: b, statistics: none },
    ];
    expect(new Set(await merge(opposite))).toEqual(new Set([0]));
    const [first, second, third] = await merge([
      { model: a, statistics: broken },
      { model: b, statistics: none },
    ]);
    expect(second).toBeNaN();
    expect([first, third].every((x) => Math.abs((x as number) - 0.3) < 1e-6)).toBe(true);
  });

  it("refuses statistics of another kind, of another model, and models in their place", async () => {
    const [a = "", b = ""] = await bench.models(2);
    const own = await write(a, "fisher", fisherOf(await readModel(a), 1));
    const plan = (statistics: string) =>
      planRecipe({
        method: "fisher",
        models: [
          { model: a, statistics: own },
          { model: b, statistics },
        ],
      });
    await expect(plan(b)).rejects.toThrow(/has no statistics. Make them with: layergraft measure/);
    const other = await write(a, "gram", fisherOf(await readModel(a), 1));
    await expect(plan(other)).rejects.toThrow(/has statistics of the kind gram/);
    const wide = await bench.model({ vocabulary: 40 });
    const foreign = await write(a, "fisher", fisherOf(await readModel(wide), 1));
    await expect(plan(foreign)).rejects.toThrow(/statistics of models\[1\] have shape/);
    const { plan: made } = await plan(own);
    expect(made.notes).toEqual([]);
    expect(made.sources.map(({ id }) => id)).toContain("models[1].statistics");
  });
});
