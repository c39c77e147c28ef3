// Methods of papers against plain float64 references, and the inputs that their formulas divide by zero for.
// @module-tag slow
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { type Expectation, expectMerged, type Family, family } from "../../../test/support/method-reference.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { dgHard, isoC, isoCts, tsvM, turnedColumns, widen } from "../../../test/support/research-reference.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";

const bench = new Bench();
const check = async (recipe: RecipeInput, wanted: Expectation) =>
  expectMerged((await bench.merge(recipe)).tensors, wanted);

const inDType = (dtype: "BF16" | "F16" | "F32") => () => {
  let kin: Family;
  beforeAll(async () => {
    kin = await family(bench, [0.3, 0.2, 0.1], { dtype });
  });

  it("widen", async () => {
    const { experts, models, base, origin } = kin;
    await check({ method: "widen", models: experts, base }, widen(models, origin));
    await check({ method: "widen", models: experts, base, ratio: 1.4, score: 0.7 }, widen(models, origin, 1.4, 0.7));
  });

  it("iso, tsv_m and dg_hard", async () => {
    const { experts, models, base, origin } = kin;
    await check({ method: "iso", models: experts, base, lambda: 0.6 }, isoC(models, origin, 0.6));
    await check({ method: "iso", models: experts, base, common: 0.4 }, isoCts(models, origin, 0.4));
    // Two models of matrices with 8 rows: 5 triples are halved to 2, not to 3.
    const [[a, b], [x, y]] = [experts, models];
    await check({ method: "iso", models: [a, b], base, common: 0.4 }, isoCts([x, y], origin, 0.4));
    await check({ method: "tsv_m", models: experts, base }, tsvM(models, origin));
    for (const scale of [1, 0.4]) {
      await check({ method: "dg_hard", expert: experts[0], base, scale }, dgHard(models[0], origin, scale));
    }
  });

  it("nuslerp by column", async () => {
    const { experts, models, base, origin } = kin;
    const [[a, b], [x, y]] = [experts, models];
    const recipe = { method: "nuslerp", columns: true } as const;
    const weighted = [
      { model: a, weight: 1 },
      { model: b, weight: 3 },
    ];
    await check({ ...recipe, models: weighted }, turnedColumns([x, y], 0.75));
    await check({ ...recipe, models: weighted, base }, turnedColumns([x, y], 0.75, origin));
  });
};

describe("in BF16", inDType("BF16"));
describe("in F32", { tags: ["slow"] }, inDType("F32"));
describe("in F16", { tags: ["slow"] }, inDType("F16"));

describe("degenerate inputs", { tags: ["slow"] }, () => {
  const methods = ["widen", "iso", "tsv_m"] as const;
  /** A model, and experts with this change times a pattern of large and small numbers. */
  const withChanges = async (
    factors: readonly number[],
    edit: (value: number, i: number) => number = (x) => x,
    start = (i: number, t: number) => Math.sin(i + t),
  ) => {
    const models: string[] = [];
    for (const factor of [0, ...factors]) {
      models.push(
        await bench.model({
          dtype: "F32",
          edit: (tensors) =>
            tensors.map((tensor, t) => {
              const n = tensor.data.byteLength / 4;
              const values = Array.from({ length: n }, (_, i) => {
                const value = start(i, t) + factor * Math.fround(Math.cos(3 * i * i + t));
                return factor === 0 ? value : edit(value, i);
              });
              return { ...tensor, data: encodeValues(values, "F32") };
            }),
        }),
      );
    }
    const [base = "", ...experts] = models;
    return { base, experts };
  };

  it.each(methods)("%s: experts that changed nothing give the base, bit for bit", async (method) => {
    const { base } = await withChanges([]);
    const { tensors } = await bench.merge({ method, models: [base, base], base });
    const origin = (await bench.merge({ method: "soup", models: [base] })).tensors;
    for (const [name, { data }] of tensors) expect(Buffer.compare(data, origin.get(name)?.data as Uint8Array)).toBe(0);
  });

  it.each(methods)(
    "%s: finite for equal models and for opposite changes, which sums leave nothing of",
    async (method) => {
      const { base, experts } = await withChanges([0.1, -0.1]);
      const [a = "", b = ""] = experts;
      for (const models of [
        [a, a],
        [a, b],
        [a, base],
      ]) {
        const { tensors } = await bench.merge({ method, models, base });
        for (const tensor of tensors.values()) expect(toNumbers(tensor).every(Number.isFinite)).toBe(true);
      }
      if (method !== "iso") return;
      const { tensors } = await bench.merge({ method, models: [a, b], base });
      const { tensors: origin } = await bench.merge({ method: "soup", models: [base] });
      const [found, stored] = [tensors, origin].map((one) =>
        toNumbers(one.get("model.layers.0.mlp.up_proj.weight") as never),
      );
      found?.forEach((x, i) => {
        expect(x).toBeCloseTo(stored?.[i] as number, 5);
      });
    },
  );

  it.each([...methods, "dg_hard"] as const)("%s: NaN is refused, by tensor", async (method) => {
    const { base, experts } = await withChanges([0.1, 0.2], (x, i) => (i === 7 ? Number.NaN : x));
    const [a = "", b = ""] = experts;
    const recipe = method === "dg_hard" ? { method, expert: a, base } : { method, models: [a, b], base };
    await expect(bench.merge(recipe as RecipeInput)).rejects.toThrow(
      /cannot be measured, as a source has infinite or NaN values/,
    );
  });

  it("dg_hard: a change of few directions stays whole", async () => {
    const { base, experts } = await withChanges(
      [1],
      (_, i) => Math.fround(Math.sin(i) + 0.01 * ((i % 8) + 1)),
      (i) => Math.sin(i),
    );
    const { tensors } = await bench.merge({ method: "dg_hard", expert: experts[0] as string, base });
    for (const [name, tensor] of await readFolder(experts[0] as string)) {
      const wanted = toNumbers(tensor);
      toNumbers(tensors.get(name) as never).forEach((x, i) => {
        expect(x).toBeCloseTo(wanted[i] as number, 5);
      });
    }
  });

  it("the same bytes on one thread and three", async () => {
    const { experts, base } = await withChanges([0.1, 0.2, 0.15]);
    for (const method of methods) {
      const recipe: RecipeInput = { method, models: experts, base };
      const opened = await planRecipe(recipe);
      const [one, three] = await Promise.all(
        [1, 3].map(async (threads) => {
          const { out } = await executePlan(opened, { out: bench.next("threads"), allowUnrelated: true, threads });
          return readFolder(out);
        }),
      );
      expect([...(one ?? [])].map(([, { data }]) => data)).toEqual([...(three ?? [])].map(([, { data }]) => data));
    }
  });
});
