// What merges are explained as: the recipe's bits, for every method that is a weighted average; and what is none.
// @module-tag slow
import { cpSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { Bench, readFolders, type Tensors, valuesOf } from "../../../test/support/merging.js";
import { type Family, family } from "../../../test/support/method-reference.js";
import { readFolder, roundTo } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { writeSafetensors } from "../../formats/safetensors/index.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { type Explanation, explainMerge } from "./explain.js";

const bench = new Bench();
let kin: Family;
beforeAll(async () => {
  kin = await family(bench, [0.3, 0.2, 0.1], { dtype: "BF16", layers: 4 });
});

async function explain(merged: string, from: readonly string[], base?: string): Promise<Explanation> {
  const names = [...from, ...(base === undefined ? [] : [base])];
  const models = await Promise.all(names.map(async (source) => ({ source, checkpoint: await openCheckpoint(source) })));
  return explainMerge(await openCheckpoint(merged), models, { hasBase: base !== undefined });
}

const merge = async (recipe: RecipeInput) => (await bench.write(recipe)).out;
const verdicts = ({ tensors }: Explanation) => new Set(tensors.map(({ verdict }) => verdict));

const swapped = (kin: Family, more: object) => ({
  method: "swap",
  task: kin.experts[0],
  language: kin.experts[1],
  ...more,
});

it("explains a model of zeros by a recipe", async () => {
  const [one] = kin.experts as [string, ...string[]];
  const recipe = { method: "soup", models: [{ model: one, weight: 0 }], normalize: false } as RecipeInput;
  const found = await explain(await merge(recipe), kin.experts.slice(0, 2));
  expect(found.recipe).toEqual(recipe);
});

describe("a weighted average is explained, bit for bit:", () => {
  const cases: readonly (readonly [
    string,
    (kin: Family) => { recipe: object; found: object; from?: number; base?: true },
  ])[] = [
    [
      "a soup of three",
      ({ experts }) => ({
        recipe: { method: "soup", models: experts },
        found: { method: "soup", models: experts },
        from: 3,
      }),
    ],
    [
      "a soup with weights, of two of three models",
      ({ experts: [a, b] }) => {
        const models = [
          { model: a, weight: 0.3 },
          { model: b, weight: 0.7 },
        ];
        return { recipe: { method: "soup", models }, found: { method: "soup", models }, from: 3 };
      },
    ],
    [
      "a soup of two and one parts",
      ({ experts: [a, b] }) => {
        const models = [
          { model: a, weight: 1 },
          { model: b, weight: 2 },
        ];
        return { recipe: { method: "soup", models }, found: { method: "soup", models } };
      },
    ],
    [
      "a swap with the outside averaged",
      (kin) => ({
        recipe: swapped(kin, { bottom: 1, top: 1 }),
        found: swapped(kin, { layers: { language: "0, 3" }, outside: "average" }),
      }),
    ],
    [
      "a swap with transitions, and the outside from the language",
      (kin) => ({
        recipe: swapped(kin, { bottom: 1, top: 1, bottom_transition: 1, outside: "language" }),
        found: swapped(kin, { layers: { language: "0, 3", average: "1" }, outside: "language" }),
        base: true,
      }),
    ],
    [
      "a swap with weighted averages",
      (kin) => ({
        recipe: swapped(kin, { bottom: 2, top: 0, top_transition: 1, weights: [0.75, 0.25] }),
        found: swapped(kin, { layers: { language: "0-1", average: "3" }, weights: [0.75, 0.25], outside: "average" }),
      }),
    ],
    [
      "layers that went back to the base",
      ({ experts: [expert], base }) => ({
        recipe: { method: "revert", expert, base, layers: "1-2" },
        found: { method: "swap", task: expert, language: base, layers: { language: "1-2" }, outside: "task" },
        from: 1,
        base: true,
      }),
    ],
    [
      "task arithmetic",
      ({ experts: [a, b], base }) => {
        const recipe = {
          method: "task_arithmetic",
          base,
          models: [
            { model: a, weight: 0.5 },
            { model: b, weight: 1.25 },
          ],
        };
        return { recipe, found: recipe, base: true };
      },
    ],
    [
      "a change that is scaled",
      ({ experts: [a], base }) => ({
        recipe: { method: "task_arithmetic", base, models: [a], lambda: 0.4 },
        found: { method: "task_arithmetic", base, models: [{ model: a, weight: 0.4 }] },
        from: 1,
        base: true,
      }),
    ],
    [
      "a chat vector",
      ({ experts: [a, b, c] }) => ({
        recipe: { method: "chat_vector", task: a, expert: b, base: c },
        found: {
          method: "soup",
          models: [a, b, { model: c, weight: -1 }].map((one) =>
            typeof one === "string" ? { model: one, weight: 1 } : one,
          ),
        },
        from: 3,
      }),
    ],
    [
      "a copy",
      ({ experts: [a] }) => ({
        recipe: { method: "passthrough", slices: [{ model: a }] },
        found: { method: "passthrough", slices: [{ model: a }] },
      }),
    ],
    [
      "a swap of attention alone",
      (kin) => ({
        recipe: swapped(kin, { bottom: 2, top: 0, parts: "attention", outside: "task" }),
        found: expect.objectContaining({ method: "soup" }),
      }),
    ],
    [
      "dominant layers",
      ({ experts, base }) => ({
        recipe: { method: "dominant", models: experts.slice(0, 2), base, margin: 0.01 },
        found: expect.anything(),
        base: true,
      }),
    ],
  ];
  it.each(cases)("%s", async (_, make) => {
    const { recipe, found, from = 2, base } = make(kin);
    const merged = await merge(recipe as RecipeInput);
    const explanation = await explain(merged, kin.experts.slice(0, from), base && kin.base);
    expect(explanation.recipe).toEqual(found);
    expect(verdicts(explanation)).toEqual(new Set(["identical"]));
  });
});

it("a swap of experts that changed little more than rounding does is a swap", async () => {
  const near = await family(bench, [0.008, 0.008], { dtype: "F32", layers: 4 });
  const [task, language] = near.experts;
  const recipe = { method: "swap", task, language, bottom: 1, top: 1, outside: "task", dtype: "bfloat16" };
  const found = await explain(await merge(recipe as RecipeInput), near.experts, near.base);
  const layers = { language: "0, 3" };
  expect(found.recipe).toEqual({ method: "swap", task, language, layers, outside: "task", dtype: "bfloat16" });
});

describe("of models that differ in the last bit of one element of each tensor of layers 0 and 1,", () => {
  let pair: readonly [string, string];
  beforeAll(async () => {
    const [task = ""] = kin.experts;
    const language = bench.next("last-bit");
    cpSync(task, language, { recursive: true });
    const changed = [...(await readFolder(task))].map(([name, { shape, data }]) => {
      const bytes = data.slice();
      if (/layers\.[01]\./.test(name)) bytes[0] = (bytes[0] ?? 0) ^ 1;
      return { name, dtype: "BF16" as const, shape, data: bytes };
    });
    await writeSafetensors(join(language, "model.safetensors"), changed);
    pair = [task, language];
  });

  it("a swap is explained by copies, bit for bit", async () => {
    const [task, language] = pair;
    const swap = { method: "swap", task, language, bottom: 1, top: 0 };
    const found = await explain(await merge(swap as RecipeInput), pair);
    const layers = { language: "0" };
    expect(found.recipe).toEqual({ method: "swap", task, language, layers, outside: "task" });
    for (const { layer, verdict } of found.tensors)
      expect(verdict).toBe(layer === 0 || layer === 1 ? "identical" : "same");
  });

  it("a copy and an average that rounds to either are explained", async () => {
    const [task, language] = pair;
    for (const recipe of [
      { method: "passthrough", slices: [{ model: language }] },
      { method: "soup", models: pair },
      { method: "soup", models: [task, language].map((model, i) => ({ model, weight: i + 1 })) },
    ] as unknown as RecipeInput[]) {
      const merged = await merge(recipe);
      const found = await explain(merged, pair, kin.base);
      expect(await readFolder(await merge(found.recipe as RecipeInput))).toEqual(await readFolder(merged));
    }
  });
});

it("an average of models that are nearly equal is one, also in tensors that it rounds to a copy", async () => {
  const near = await family(bench, [0.001, 0.001], { dtype: "BF16", layers: 4 });
  const recipe = { method: "soup", models: near.experts } as RecipeInput;
  const found = await explain(await merge(recipe), near.experts);
  expect(found.recipe).toEqual(recipe);
});

describe("a spherical interpolation", () => {
  const slerp = (models: readonly string[], t: unknown) => ({ method: "slerp", models, t });

  it.each((["F32", "BF16", "F16"] as const).flatMap((dtype) => [0.3, 3].map((change) => [dtype, change] as const)))(
    "of %s models whose changes are %d of their size is one, with the t it was made with",
    { tags: ["slow"] },
    async (dtype, change) => {
      const { experts, base } = await family(bench, [change, change], { dtype, layers: 2 });
      for (const t of [0.1, 0.35, 0.5]) {
        const recipe = slerp(experts, t);
        const merged = await merge(recipe as RecipeInput);
        for (const known of [undefined, base]) {
          const found = await explain(merged, experts, known);
          expect(found.recipe).toEqual(recipe);
          expect(verdicts(found)).toEqual(new Set(["identical"]));
        }
      }
    },
  );

  it("of nearly parallel models is the average that it is there", async () => {
    const { experts, base } = await family(bench, [0.03, 0.03], { dtype: "F16", layers: 2 });
    const found = await explain(await merge(slerp(experts, 0.3) as RecipeInput), experts, base);
    const [a, b] = experts;
    const models = [
      { model: a, weight: 0.7 },
      { model: b, weight: 0.3 },
    ];
    expect(found.recipe).toEqual({ method: "soup", models });
  });

  it("may begin at the base, and may have a t for each layer and part", async () => {
    const { experts, base } = kin;
    const [a = "", b = ""] = experts;
    const fromBase = await explain(await merge(slerp([base, b], 0.4) as RecipeInput), [a, b], base);
    expect(fromBase.recipe).toEqual(slerp([b, base], 0.6));
    const t = [{ parts: "mlp", value: 0.2 }, { layers: "0-1", parts: "attention", value: 0.75 }, { value: 0.5 }];
    const merged = await merge(slerp([a, b], t) as RecipeInput);
    const found = await explain(merged, [a, b]);
    expect(found.recipe).toMatchObject({ method: "slerp", models: [a, b] });
    expect(await readFolder((await bench.merge(found.recipe as RecipeInput)).out)).toEqual(await readFolder(merged));
  });
});

it("lists layers and rules by number, and what is outside of the layers last", async () => {
  const { experts } = await family(bench, [0.3, 0.2], { dtype: "F32", layers: 12 });
  const t = Array.from({ length: 12 }, (_, layer) => ({ layers: `${layer}`, value: (layer + 1) / 16 }));
  const merged = await merge({ method: "slerp", models: experts, t: [...t, { value: 0.5 }] } as RecipeInput);
  const found = await explain(merged, experts);
  const order = [...Array.from({ length: 12 }, (_, layer) => layer), null];
  expect([...new Set(found.tensors.map(({ layer }) => layer))]).toEqual(order);
  const rules = (found.recipe as unknown as { t: { layers?: string }[] }).t;
  expect(rules.flatMap(({ layers }) => layers ?? [])).toEqual(t.map(({ layers }) => layers));
});

it("a sum whose weights do not add up to 1 is one", async () => {
  const [a, b] = kin.experts;
  const models = [
    { model: a, weight: 0.6 },
    { model: b, weight: 0.7 },
  ];
  const recipe = { method: "soup", models, normalize: false };
  const found = await explain(await merge(recipe as RecipeInput), kin.experts.slice(0, 2), kin.base);
  expect(found.recipe).toEqual(recipe);
  expect(verdicts(found)).toEqual(new Set(["identical"]));
});

it("a soup that was computed in bfloat16, as mergekit does, is explained but for rounding", async () => {
  const [a = "", b = ""] = kin.experts;
  const sources = await readFolders([a, b]);
  const computed = bench.next("computed");
  cpSync(a, computed, { recursive: true });
  const round = (x: number) => roundTo("BF16", x);
  await writeSafetensors(
    join(computed, "model.safetensors"),
    [...(sources[0] as Tensors)].map(([name, { shape }]) => {
      const [x = [], y = []] = valuesOf(name, sources);
      const values = x.map((value, i) => round(round(round(0.375) * value) + round(round(0.625) * (y[i] ?? 0))));
      return { name, dtype: "BF16", shape, data: encodeValues(values, "BF16") };
    }),
  );
  const found = await explain(computed, [a, b], kin.base);
  const models = [
    { model: a, weight: 0.375 },
    { model: b, weight: 0.625 },
  ];
  expect(found.recipe).toEqual({ method: "soup", models });
  expect(verdicts(found)).toContain("rounding");
  const total = found.tensors.reduce((sum, { differing }) => sum + (differing ?? 0), 0);
  const [wanted, given] = await readFolders([computed, (await bench.merge(found.recipe as RecipeInput)).out]);
  const names = [...(wanted as Tensors).keys()];
  const differ = names.flatMap((name) => {
    const [x = [], y = []] = valuesOf(name, [wanted as Tensors, given as Tensors]);
    return x.filter((value, i) => value !== y[i]);
  });
  expect(total).toBe(differ.length);
});

/** Verdicts on the matrices of layers, of a merge of the first two experts. */
async function matrixVerdicts(recipe: object): Promise<Set<string>> {
  const { tensors } = await explain(await merge(recipe as RecipeInput), kin.experts.slice(0, 2), kin.base);
  return new Set(tensors.filter(({ tensor }) => tensor.endsWith("proj.weight")).map(({ verdict }) => verdict));
}

const pair = () => ({ models: kin.experts.slice(0, 2), base: kin.base });
const single = () => ({ expert: kin.experts[0], base: kin.base });

it.each([
  ["nuslerp", pair],
  ["multislerp", pair],
  ["karcher", () => ({ models: pair().models })],
  ["model_stock", pair],
  ["lines", single],
] as const)("%s, whose weights differ by tensor, is explained but for rounding", async (method, fields) => {
  const found = await matrixVerdicts({ method, ...fields() });
  found.delete("identical");
  expect([...found].filter((verdict) => verdict !== "rounding")).toEqual([]);
});

it.each([
  ...["ties", "dare_linear", "dare_ties", "della_linear", "della", "breadcrumbs", "breadcrumbs_ties"].map(
    (method) => [method, () => ({ ...pair(), density: 0.5 })] as const,
  ),
  ...["ram", "ramplus_tl", "consensus", "widen", "sce", "iso", "tsv_m"].map((method) => [method, pair] as const),
  ["arcee_fusion", single] as const,
])("%s, which no weights of tensors give, is not explained", async (method, fields) => {
  expect(await matrixVerdicts({ method, ...fields() })).toEqual(new Set(["unexplained"]));
});

it.each([
  [0.001, false],
  // A copy but for the last bit of few elements.
  [1e-5, false],
  [1e-5, true],
] as const)("nearswap, which moves elements by %d, is not explained, and no recipe is claimed", async (t, hasBase) => {
  const [task, language] = kin.experts;
  const found = await explain(
    await merge({ method: "nearswap", task, language, t } as RecipeInput),
    kin.experts.slice(0, 2),
    hasBase ? kin.base : undefined,
  );
  expect(verdicts(found)).toContain("unexplained");
  expect(found.recipe).toBeUndefined();
});

it.each([
  ["BF16", "float16"],
  ["F16", "bfloat16"],
  ["BF16", "float32"],
  ["F32", "bfloat16"],
] as const)(
  "a swap of %s models that is saved as %s is explained with its dtype, bit for bit",
  async (stored, dtype) => {
    const { experts, base } = await family(bench, [0.3, 0.2], { dtype: stored, layers: 4 });
    const [task, language] = experts;
    const recipe = { method: "swap", task, language, layers: { language: "0, 3" }, outside: "average", dtype };
    const found = await explain(await merge(recipe as RecipeInput), experts, base);
    expect(found.recipe).toEqual(recipe);
    expect(verdicts(found)).toEqual(new Set(["identical"]));
  },
);

it("what a recipe gives but for rounding differs by no more roundings than it says", async () => {
  const [a = "", b = ""] = kin.experts;
  const merged = await merge({ method: "karcher", models: [a, b] } as RecipeInput);
  const { recipe, tensors } = await explain(merged, [a, b], kin.base);
  const given = await merge(recipe as RecipeInput);
  const [wanted, found, ...sources] = await readFolders([merged, given, a, b, kin.base]);
  const differing = [];
  for (const { tensor, verdict, roundings } of tensors) {
    const [x = [], y = []] = valuesOf(tensor, [wanted as Tensors, found as Tensors]);
    const sizes = valuesOf(tensor, sources);
    // What was found was rounded once more.
    const most = (i: number) =>
      ((roundings ?? 0) + 1) * 2 ** -8 * sizes.reduce((sum, one) => sum + Math.abs(one[i] ?? 0), 0);
    expect(
      x.filter((value, i) => Math.abs(value - (y[i] ?? 0)) > most(i)),
      tensor,
    ).toEqual([]);
    if (verdict === "rounding") differing.push(...x.filter((value, i) => value !== y[i]));
  }
  expect(differing.length).toBeGreaterThan(0);
});

it("weights that a fraction nearly is are that fraction only if it gives as many bits", async () => {
  const { experts } = await family(bench, [0.3, 0.2], { dtype: "F32", layers: 4 });
  const weighed = (weights: readonly number[]) => ({
    method: "soup",
    models: experts.map((model, i) => ({ model, weight: weights[i] ?? 0 })),
  });
  const merged = await merge(weighed([0.333333, 0.666667]) as RecipeInput);
  const found = await explain(merged, experts);
  expect(found.recipe).toBeDefined();
  expect(found.tensors[0]?.weights?.[0]).toBeCloseTo(0.333333, 7);
  expect((await explain(await merge(weighed([1, 2]) as RecipeInput), experts)).recipe).toEqual(weighed([1, 2]));
});

it("an adapter that PEFT merged is explained, but for the rounding of another order of sums", async () => {
  const lora = "test/fixtures/lora";
  const merged = bench.next("peft");
  cpSync(`${lora}/base`, merged, { recursive: true });
  cpSync(`${lora}/expected.safetensors`, join(merged, "model.safetensors"));
  const found = await explain(merged, [`${lora}/base+${lora}/adapter`], `${lora}/base`);
  expect(found.recipe).toEqual({ method: "passthrough", slices: [{ model: `${lora}/base+${lora}/adapter` }] });
  expect(verdicts(found).has("unexplained")).toBe(false);
  // Norms and embeddings are not adapted.
  expect(found.tensors.filter(({ verdict }) => verdict === "same").every(({ tensor }) => !/proj/.test(tensor))).toBe(
    true,
  );
});

describe("what is no weighted average is not explained:", () => {
  it("another model, and one layer of another model", async () => {
    const { experts } = kin;
    const third = await explain(experts[2] as string, experts.slice(0, 2));
    expect(verdicts(third)).toEqual(new Set(["unexplained"]));
    expect(third.recipe).toBeUndefined();
    const mixed = await merge({
      method: "swap",
      task: experts[0],
      language: experts[2],
      layers: { language: "2" },
      outside: "task",
    } as RecipeInput);
    const found = await explain(mixed, experts.slice(0, 2));
    expect(found.recipe).toBeUndefined();
    for (const { layer, verdict } of found.tensors) expect(verdict).toBe(layer === 2 ? "unexplained" : "identical");
  });
});
