// Merge methods against plain float64 references: bit for bit for copies and equal averages, else within one rounding.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readJson } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import {
  addChanges,
  arceeFusion,
  at,
  type Changes,
  changesOf,
  choose,
  consensus,
  copy,
  crumbs,
  type Expectation,
  type Expected,
  each,
  expectMerged,
  type Family,
  family,
  groupOf,
  karcher,
  type Model,
  magnitude,
  majority,
  mapChanges,
  modelStock,
  multislerp,
  nearswap,
  type Parameter,
  placeOf,
  ram,
  rowSizes,
  scaledChange,
  sce,
  shares,
  slerp,
  soup,
  type Tensor,
  tensorOf,
  trim,
  trimExactly,
} from "../../../test/support/method-reference.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { METHODS } from "./index.js";

const bench = new Bench();
const LAYERS = 2;

const check = async (recipe: RecipeInput, wanted: Expectation) => {
  const result = await bench.merge(recipe);
  expectMerged(result.tensors, wanted);
  return result;
};

type Written = Extract<RecipeInput, { method: "nearswap" }>["t"];
type Test = (name: string) => boolean;
const everything: Test = () => true;
const isLayer =
  (layer: number): Test =>
  (name) =>
    placeOf(name).layer === layer;
const isPart =
  (...parts: string[]): Test =>
  (name) =>
    parts.includes(placeOf(name).part) || parts.includes(placeOf(name).block);
const both =
  (...tests: Test[]): Test =>
  (name) =>
    tests.every((test) => test(name));

/** Parameters in every notation, with their meaning. */
const PARAMETERS: readonly { written: Written; meant: Parameter }[] = [
  { written: 0.4, meant: 0.4 },
  { written: [0.2, 0.7], meant: [0.2, 0.7] },
  { written: { gradient: [0.1, 0.9, 0.5], outside: 0.3 }, meant: { gradient: [0.1, 0.9, 0.5], outside: 0.3 } },
  { written: { gradient: [0.25, 0.75] }, meant: { gradient: [0.25, 0.75] } },
  {
    written: [
      { layers: 1, parts: "attention", value: 0.15 },
      { tensors: "model.layers.*.down_proj.weight", value: [0.35, 0.65] },
      { parts: ["q_proj", "outside"], value: 0.85 },
      { layers: "0-1", value: { gradient: [0.05, 0.95] } },
    ],
    meant: [
      { fits: both(isLayer(1), isPart("attention")), value: 0.15 },
      { fits: isPart("down_proj"), value: [0.35, 0.65] },
      { fits: isPart("q_proj", "outside"), value: 0.85 },
      { fits: everything, value: { gradient: [0.05, 0.95] } },
    ],
  },
];

it("every method has a test here, or in test/", () => {
  const tests = [import.meta.dirname, join(import.meta.dirname, "../../../test")].flatMap((folder) =>
    readdirSync(folder).flatMap((name) =>
      name.endsWith(".test.ts") ? [readFileSync(join(folder, name), "utf8")] : [],
    ),
  );
  const named = (method: string) =>
    tests.some((text) => text.includes(`method: "${method}"`) || text.includes(`method: ${method}`));
  expect(METHODS.map(({ name }) => name as string).filter((name) => !named(name))).toEqual([]);
});

const inDType = (dtype: "BF16" | "F16" | "F32") => () => {
  let kin: Family;
  beforeAll(async () => {
    kin = await family(bench, [0.3, 0.2, 0.1], { dtype, config: { key_rows: [4, 3] } });
  });

  it("soup: equal, by numbers, by layer, by gradient, by rules", async () => {
    const { experts, models } = kin;
    const [a, b, c] = experts;
    await check({ method: "soup", models: [a, b, c] }, soup(models));
    for (const { written, meant } of PARAMETERS) {
      const weightOf = (i: number, name: string) => [at(meant, name, LAYERS), 1, -0.1][i] as number;
      const entries = [{ model: a, weight: written }, b, { model: c, weight: -0.1 }];
      await check({ method: "soup", models: entries }, soup(models, weightOf));
    }
    // What no rule fits has weight 1; 0 leaves a model out.
    const some = (name: string) => (isPart("mlp")(name) ? at([0, 3], name, LAYERS) : 1);
    const weight = [{ parts: "mlp", value: [0, 3] }];
    const left = choose(models, (name) => [some(name), 1, 0]);
    await check({ method: "soup", models: [{ model: a, weight }, b] }, left);
    const nothing = new Map(
      [...models[0]].map(([name, tensor]) => [name, { ...tensor, values: tensor.values.map(() => 0) }]),
    );
    const summed = addChanges(
      nothing,
      models.map((model) => changesOf(model, nothing)),
      { weightOf: (i) => [0.4, 1, -2][i] as number },
    );
    const entries = [{ model: a, weight: 0.4 }, b, { model: c, weight: -2 }];
    await check({ method: "soup", models: entries, normalize: false }, summed);
  });

  it("soup: by inverse magnitude", async () => {
    const { experts, models, origin, base } = kin;
    const sizes = models.map((expert) => magnitude(expert, origin));
    const wanted = soup(models, (i) => 1 / (sizes[i] as number));
    await check({ method: "soup", models: experts, base, weights: "magnitude" }, wanted);
  });

  it("swap: layers by name, averaged ones with weights of their own, parts", async () => {
    const { experts, models } = kin;
    const [task, language] = experts;
    const swap = { method: "swap", task, language } as const;
    const pair = (name: string) => [at([0.2, 0.9], name, LAYERS), at({ gradient: [1, 2], outside: 3 }, name, LAYERS)];
    await check(
      { ...swap, weights: [[0.2, 0.9], { gradient: [1, 2], outside: 3 }], layers: { language: "0", average: [1] } },
      choose(models, (name, { layer }) => (layer === 0 ? [0, 1, 0] : [...pair(name), 0])),
    );
    const taken = both(isLayer(1), isPart("q_proj", "mlp"));
    await check(
      { ...swap, layers: { language: [1] }, parts: ["q_proj", "mlp"], outside: "language" },
      choose(models, (name, { layer }) => (layer === null || taken(name) ? [0, 1, 0] : [1, 0, 0])),
    );
    await check(
      { ...swap, layers: { average: "all" }, parts: "attention", outside: "task" },
      choose(models, (_, { block }) => [1, block === "attention" ? 1 : 0, 0]),
    );
  });

  it("slerp: one t, and by layer, with copies at 0 and 1", async () => {
    const { experts, models } = kin;
    const [[a, b], [x, y]] = [experts, models];
    const third = slerp([x, y], () => 0.3);
    await check({ method: "slerp", models: [a, b], t: 0.3 }, third);
    const t = (name: string) => at({ gradient: [0, 1], outside: 0.5 }, name, LAYERS);
    await check({ method: "slerp", models: [a, b], t: { gradient: [0, 1], outside: 0.5 } }, slerp([x, y], t));
  });

  it.each([false, true])("nuslerp: of models and of changes, by rows %s", async (rows) => {
    const { experts, models, origin, base } = kin;
    const [[a, b], [x, y]] = [experts, models];
    const entries = [a, b].map((model, i) => ({ model, weight: i === 0 ? 3 : [1, 2] }));
    const t = (name: string) => at([1, 2], name, LAYERS) / (3 + at([1, 2], name, LAYERS));
    const nuslerp = { method: "nuslerp", models: entries, rows } as const;
    await check(nuslerp, slerp([x, y], t, { rows, straight: 1 }));
    await check({ ...nuslerp, base }, slerp([x, y], t, { rows, straight: 1, base: origin }));
  });

  it.each([false, true])("nuslerp: linear if two models point away from each other, by rows %s", async (rows) => {
    const elementOf = (expert: number | "base", _: number, i: number) =>
      expert === "base" ? 0 : ((((i * 37) % 11) - 5) / 8 + 0.0625) * (expert === 0 ? 1 : -2);
    const { experts, models } = await family(bench, [1, 1], { dtype, elementOf });
    const [a, b] = experts;
    const line = soup(models, (i) => (i === 0 ? 3 : 1));
    await check({ method: "nuslerp", models: [{ model: a, weight: 3 }, b], rows }, line);
  });

  it.each([false, true])("nuslerp: a zero change counts as at a right angle, by rows %s", async (rows) => {
    const elementOf = (expert: number | "base", _: number, i: number) =>
      (((i * 37) % 11) - 5) / 8 + (expert === 1 ? ((i % 7) + 1) / 16 : 0);
    const { experts, origin, base, changes } = await family(bench, [1, 1], { dtype, elementOf });
    const [a, b] = experts;
    const entries = [{ model: a, weight: 2 }, b];
    // sin(90 / 3 degrees) of the only change
    const half = addChanges(origin, changes, { weightOf: () => 0.5 });
    const wanted: typeof half = new Map([...half].map(([name, tensor]) => [name, { ...tensor, how: "near" }]));
    await check({ method: "nuslerp", base, models: entries, rows }, wanted);
  });

  it("nearswap: one t, by layer, by gradient, by rules", async () => {
    const { experts, models } = kin;
    const [[task, language], [x, y]] = [experts, models];
    for (const { written, meant } of PARAMETERS) {
      const small = (name: string) => at(meant, name, LAYERS);
      await check({ method: "nearswap", task, language, t: written }, nearswap(x, y, small));
    }
    const t = [{ parts: "mlp", value: 0.01 }];
    await check(
      { method: "nearswap", task, language, t },
      nearswap(x, y, (name) => (isPart("mlp")(name) ? 0.01 : 0)),
    );
  });

  it("task_arithmetic: weights, lambda, normalised", async () => {
    const { experts, base, origin, changes } = kin;
    const [a, b, c] = experts;
    const method = { method: "task_arithmetic", base } as const;
    await check({ ...method, models: [a, b, c] }, addChanges(origin, changes));
    for (const { written, meant } of PARAMETERS) {
      const weightOf = (i: number, name: string) => [at(meant, name, LAYERS), -2, 1][i] as number;
      const lambda = (name: string) => at(meant, name, LAYERS);
      const models = [{ model: a, weight: written }, { model: b, weight: -2 }, c];
      for (const normalize of [false, true]) {
        const wanted = addChanges(origin, changes, { weightOf, lambda, normalize });
        await check({ ...method, models, lambda: written, normalize }, wanted);
      }
    }
    const untouched = choose([origin], () => [1]);
    await check({ ...method, models: [a, b, c], lambda: 0 }, untouched);
  });

  it("ties: trimmed over the model, ties of signs to the majority", async () => {
    const { experts, base, origin, changes } = kin;
    for (const [density, weights, normalize] of [
      [0.2, [1, 1, 1], true],
      [0.37, [1, 0.5, 2], true],
      [1, [1, 1, 0.25], false],
    ] as const) {
      const weightOf = (i: number) => weights[i] as number;
      const trimmed = changes.map((one) => trim(one, density, "model"));
      const elect = { tie: majority(trimmed, weightOf) };
      const models = experts.map((model, i) => ({ model, weight: weightOf(i) }));
      const wanted = addChanges(origin, trimmed, { weightOf, normalize, elect, lambda: () => 0.7 });
      await check({ method: "ties", base, models, density, normalize, lambda: 0.7 }, wanted);
    }
  });

  it("ties: trimmed by tensor, with a share for each expert", async () => {
    const { experts, base, origin, changes } = kin;
    const [a, b, c] = experts;
    const densities = [0.3, 0.6, { gradient: [0.1, 1], outside: 0 }] as const;
    const trimmed = changes.map((one, i) => trim(one, densities[i] as Parameter, "tensor"));
    const models = [a, { model: b, density: 0.6 }, { model: c, density: { gradient: [0.1, 1], outside: 0 } }];
    const wanted = addChanges(origin, trimmed, { elect: { tie: 1 } });
    await check({ method: "ties", base, models, density: 0.3, trim: "tensor" }, wanted);
  });

  // Changes of sizes 1, 2, 3 and 4 in turn, whose signs cancel out in every third element.
  const sizeOf = (i: number) => ((i * 7) % 4) + 1;
  const tiedFamily = () => {
    const elementOf = (expert: number | "base", _: number, i: number) =>
      expert === "base" ? 0.5 : 0.5 + sizeOf(i) * (expert === 0 || i % 3 ? 0.25 : -0.25) * (i % 2 ? 1 : -1);
    return family(bench, [1, 1], { dtype, elementOf });
  };

  it("ties, breadcrumbs and sce keep all elements tied with the last kept one", async () => {
    const { experts, base, origin, models, changes } = await tiedFamily();
    for (const least of [4, 3]) {
      const density = least === 4 ? 0.1 : 0.3;
      const kept = changes.map((one) => mapChanges(one, (values) => values.map((x, i) => (sizeOf(i) < least ? 0 : x))));
      const wanted = addChanges(origin, kept, { elect: { tie: majority(kept) } });
      await check({ method: "ties", base, models: experts, density }, wanted);
    }
    const crumbed = changes.map((one) => crumbs(one, 0.6, 0.2));
    const breadcrumbs = { method: "breadcrumbs", base, models: experts, density: 0.6, gamma: 0.2 } as const;
    await check(breadcrumbs, addChanges(origin, crumbed));
    await check(
      { method: "sce", base, models: experts, select: 0.3 },
      sce(models, origin, () => 0.3),
    );
  });

  it("ties, breadcrumbs and sce keep exactly the share with cutoff: exact", async () => {
    const { experts, base, origin, models, changes } = await tiedFamily();
    for (const [density, trim] of [
      [0.1, "model"],
      [0.3, "model"],
      [0.6, "tensor"],
      [0, "tensor"],
    ] as const) {
      const kept = changes.map((one) => trimExactly(one, density, trim));
      const wanted = addChanges(origin, kept, { elect: { tie: trim === "model" ? majority(kept) : 1 } });
      const recipe = { method: "ties", base, models: experts, density, trim, cutoff: "exact" } as const;
      const result = await check(recipe, wanted);
      for (const share of result.kept) expect(share.kept).toBe(share.asked);
    }
    for (const [density, gamma] of [
      [0.6, 0.2],
      [0.05, 0.1],
      [0.9, 0.1],
    ] as const) {
      const crumbed = changes.map((one) => crumbs(one, density, gamma, true));
      const recipe = { method: "breadcrumbs", base, models: experts, density, gamma, cutoff: "exact" } as const;
      await check(recipe, addChanges(origin, crumbed));
    }
    for (const select of [0.3, 0.6]) {
      const wanted = sce(models, origin, () => select, 1, true);
      await check({ method: "sce", base, models: experts, select, cutoff: "exact" }, wanted);
    }
  });

  it("what a threshold keeps is counted, and zeros are not", async () => {
    const { experts, base, changes } = await tiedFamily();
    const shareOf = (own: Changes) => {
      const values = [...own.values()].flat();
      return values.filter((x) => x !== 0).length / values.length;
    };
    const keptBy = async (recipe: RecipeInput) => (await bench.merge(recipe)).kept.map(({ kept }) => kept);
    const ties = { method: "ties", base, models: experts } as const;
    expect(await keptBy({ ...ties, density: 0.3 })).toEqual(changes.map((one) => shareOf(trim(one, 0.3, "model"))));
    const byTensor = changes.map((one) => shareOf(trim(one, 0.3, "tensor")));
    expect(await keptBy({ ...ties, density: 0.3, trim: "tensor" })).toEqual(byTensor);
    const crumbed = changes.map((one) => shareOf(crumbs(one, 0.6, 0.2)));
    expect(await keptBy({ method: "breadcrumbs", base, models: experts, density: 0.6, gamma: 0.2 })).toEqual(crumbed);
    const { kept } = await bench.merge({ ...ties, models: [base, experts[0]], density: 0.9 });
    // The base has no changes, and an expert's are as many as asked for at most.
    expect(kept).toEqual([
      { of: ["models[0]"], asked: expect.closeTo(0.9, 3), kept: 0 },
      { of: ["models[1]"], asked: expect.closeTo(0.9, 3), kept: shareOf(trim(changes[0], 0.9, "model")) },
    ]);
  });

  it("breadcrumbs and breadcrumbs_ties", async () => {
    const { experts, base, origin, changes } = kin;
    const thinned = changes.map((one) => crumbs(one, 0.6, 0.07));
    const weightOf = (i: number) => [0.5, 1, -1][i] as number;
    const thin = { base, density: 0.6, gamma: 0.07 };
    const models = experts.map((model, i) => ({ model, weight: weightOf(i) }));
    await check({ method: "breadcrumbs", ...thin, models }, addChanges(origin, thinned, { weightOf }));
    const elected = addChanges(origin, thinned, { elect: { tie: 1 } });
    await check({ method: "breadcrumbs_ties", ...thin, models: experts }, elected);
    // Where gamma and the density leave no room, fewer are dropped at the top, and with all kept none.
    const crowded = addChanges(
      origin,
      changes.map((one) => crumbs(one, 0.95, 0.2)),
    );
    await check({ method: "breadcrumbs", base, models: experts, density: 0.95, gamma: 0.2 }, crowded);
    await check({ method: "breadcrumbs", base, models: experts }, addChanges(origin, changes));
  });

  it("ties and breadcrumbs: what is kept with the L1 norm of the whole change", async () => {
    const { experts, base, origin, changes } = kin;
    const restored = (kept: typeof changes) =>
      kept.map((one, i) =>
        mapChanges(one, (values, name) => {
          const norm = (of: readonly number[]) => of.reduce((sum, x) => sum + Math.abs(x), 0);
          const ratio = norm(changes[i]?.get(name) ?? []) / (norm(values) || 1);
          return values.map((x) => ratio * x);
        }),
      );
    const added = { base, models: experts, rescale: "norm" } as const;
    const crumbed = restored(changes.map((one) => crumbs(one, 0.6, 0.07)) as unknown as typeof changes);
    const breadcrumbs = { method: "breadcrumbs", ...added, density: 0.6, gamma: 0.07 } as const;
    await check(breadcrumbs, addChanges(origin, crumbed));
    const trimmed = restored(changes.map((one) => trim(one, 0.4, "tensor")) as unknown as typeof changes);
    const ties = { method: "ties", ...added, density: 0.4, trim: "tensor" } as const;
    await check(ties, addChanges(origin, trimmed, { elect: { tie: 1 } }));
  });

  it("model_stock", async () => {
    const { experts, models, base, origin } = kin;
    await check({ method: "model_stock", base, models: experts }, modelStock(models, origin));
    await check({ method: "model_stock", base, models: experts, rows: true }, modelStock(models, origin, true));
  });

  it("multislerp and karcher", async () => {
    const { experts, models, base, origin } = kin;
    const weights = [3, 1, 2];
    const entries = experts.map((model, i) => ({ model, weight: weights[i] as number }));
    const shares = weights.map((weight) => weight / 6);
    await check({ method: "multislerp", models: entries }, multislerp(models, shares));
    await check({ method: "multislerp", models: entries, base }, multislerp(models, shares, origin));
    await check({ method: "multislerp", models: entries, base, normalize: false }, multislerp(models, weights, origin));
    await check({ method: "karcher", models: experts }, karcher(models, [1, 1, 1]));
    await check({ method: "karcher", models: entries, iterations: 2 }, karcher(models, weights, 2));
  });

  it("ram and ramplus_tl", async () => {
    const { experts, models, base, origin } = kin;
    // Exact in float32, so that a change of this size does not count.
    const threshold = 2 ** -6;
    await check({ method: "ram", models: experts, base, threshold }, ram(models, origin, threshold));
    const [r, alpha] = [0.5, 0.75];
    await check(
      { method: "ramplus_tl", models: experts, base, threshold, r, alpha },
      ram(models, origin, threshold, r, alpha),
    );
  });

  it("consensus", async () => {
    const { experts, models, base, origin } = kin;
    for (const [threshold, agree] of [
      [0.45, 2],
      [0.3, 3],
      [0, 1],
    ] as const) {
      const method = { method: "consensus", models: experts, base, threshold, agree, lambda: 0.7 } as const;
      await check(method, consensus(models, origin, threshold, agree, 0.7));
    }
  });

  it("lines and chat_vector", async () => {
    const { experts, models, base, origin } = kin;
    const scale = (name: string) => 0.3 + 0.9 * (placeOf(name).layer ?? 0);
    const lines = { method: "lines", expert: experts[0], base } as const;
    await check({ ...lines, alpha: 0.3, beta: 0.9 }, scaledChange(models[0], origin, scale));
    // Of a merge, and with the whole change in the last layer.
    const half = (name: string) => (placeOf(name).layer === 1 ? 1 : 0.25);
    const expert = { method: "soup", models: [experts[0]] } as const;
    await check({ ...lines, expert, alpha: 0.25 }, scaledChange(models[0], origin, half));
    const vector = { method: "chat_vector", task: experts[1], expert: experts[0], base, lambda: 0.7 } as const;
    await check(
      vector,
      scaledChange(models[0], origin, () => 0.7, models[1]),
    );
  });

  it("shuffle: whole layers by chance, or as many as asked", async () => {
    const { experts, models } = kin;
    const ownersOf = async (more: object) => {
      const { tensors } = await bench.merge({ method: "shuffle", models: experts, outside: "first", ...more });
      return [0, 1].map((layer) => {
        const own = [...tensors].filter(([name]) => placeOf(name).layer === layer);
        const owners = models.map((model) =>
          own.every(([name, { data }]) => tensorOf(model, name).data?.every((x, i) => x === data[i])),
        );
        expect(owners.filter(Boolean)).toHaveLength(1);
        return owners.indexOf(true);
      });
    };
    const seeds = Array.from({ length: 8 }, (_, seed) => seed);
    const drawn: number[][] = [];
    for (const seed of seeds) drawn.push(await ownersOf({ seed }));
    expect(new Set(drawn.flat())).toEqual(new Set([0, 1, 2]));
    expect(await ownersOf({ seed: 3 })).toEqual(drawn[3]);
    for (const seed of seeds.slice(0, 2)) {
      expect((await ownersOf({ seed, layers: 1 })).filter((owner) => owner !== 0)).toHaveLength(1);
      expect(await ownersOf({ seed, layers: 0 })).toEqual([0, 0]);
      const shares = experts.map((model, i) => ({ model, share: i === 2 ? 1 : 0 }));
      expect(await ownersOf({ seed, models: shares })).toEqual([2, 2]);
    }
    const averaged = choose(models, (_, { layer }) => (layer === null ? [1, 1, 1] : [1, 0, 0]));
    await check({ method: "shuffle", models: experts, layers: 0 }, averaged);
    await expect(bench.merge({ method: "shuffle", models: experts, layers: 3 })).rejects.toThrow(
      /layers is 3, but the models have 2/,
    );
  });

  it("arcee_fusion", async () => {
    const { experts, models, base, origin } = kin;
    await check({ method: "arcee_fusion", expert: experts[0], base }, arceeFusion(models[0], origin));
  });

  it("sce: all elements, and those that differ most", async () => {
    const { experts, models, base, origin } = kin;
    const method = { method: "sce", base, models: experts } as const;
    const half = sce(models, origin, () => 1, 0.5);
    await check({ ...method, lambda: 0.5 }, half);
    const select = (name: string) => at({ gradient: [0.2, 0.6], outside: 0.4 }, name, LAYERS);
    await check({ ...method, select: { gradient: [0.2, 0.6], outside: 0.4 } }, sce(models, origin, select));
  });

  it("sce: elements with equal changes do not count as different", async () => {
    const elementOf = (expert: number | "base", t: number, i: number) => {
      if (expert === "base") return 0;
      return i % 4 ? (((97 * t + i) * 7919) % 104_729) / 104_729 : (((i % 29) + 1) / 32) * (0.25 - 0.5 * expert);
    };
    const { experts, models, base, origin } = await family(bench, [1, 1, 1], { dtype, elementOf });
    await check(
      { method: "sce", base, models: experts, select: 0.4 },
      sce(models, origin, () => 0.4),
    );
  });

  describe("by shares of change", () => {
    // Each expert changed the attention of one layer and the feed-forward of another more than the other expert did.
    const scaleOf = (expert: number, name: string) =>
      (isPart("attention")(name) === (placeOf(name).layer === expert) ? 1 : 0.5) / (1 + (placeOf(name).layer ?? 0));
    let two: Family;
    beforeAll(async () => {
      two = await family(bench, [0.4, 0.3], { dtype, scaleOf, layers: 3 });
    });

    it.each(["layer", "module"] as const)("dominant: by %s", async (by) => {
      const { experts, models, origin, base } = two;
      const owned = shares(models, origin, by, "root");
      expect(new Set([...owned.values()].map(([x = 0, y = 0]) => x > y)).size).toBe(2);
      for (const outside of ["average", "first"] as const) {
        const wanted = choose(models, (_, place) => {
          const [x = 1, y = 1] = owned.get(groupOf(by, place)) ?? [];
          return place.layer === null ? [1, outside === "first" ? 0 : 1] : x >= y ? [1, 0] : [0, 1];
        });
        await check({ method: "dominant", models: experts, base, by, outside }, wanted);
      }
    });

    it.each(["layer", "module"] as const)(
      "dominant: by %s, with a margin that some pass and some do not",
      async (by) => {
        const { experts, models, origin, base } = two;
        const owned = shares(models, origin, by, "root");
        const leads = [...owned.values()]
          .map(([x = 0, y = 0]) => Math.max(x, y) / Math.min(x, y) - 1)
          .sort((x, y) => x - y);
        const [least = 0, next = 0] = leads.slice(leads.length / 2 - 1);
        const margin = (least + next) / 2;
        for (const otherwise of ["base", "average"] as const) {
          const wanted = choose([...models, origin], (_, place) => {
            if (place.layer === null) return [0, 0, 1];
            const [x = 0, y = 0] = owned.get(groupOf(by, place)) ?? [];
            if (Math.max(x, y) < (1 + margin) * Math.min(x, y)) return otherwise === "base" ? [0, 0, 1] : [1, 1, 0];
            return x >= y ? [1, 0, 0] : [0, 1, 0];
          });
          await check({ method: "dominant", models: experts, base, by, margin, otherwise, outside: "base" }, wanted);
        }
      },
    );

    it.each(["layer", "module"] as const)("share_swap: by %s, blended if the shares are close", async (by) => {
      const { experts, models, origin, base } = two;
      const [task, language] = experts;
      const owned = shares(models, origin, by, by === "layer" ? "sum" : "root");
      const [least = 0, next = 0] = [...owned.values()].map(([x = 0, y = 0]) => Math.abs(x - y)).sort((x, y) => x - y);
      for (const [tau, alpha] of [
        [0.001, 0.5],
        [(least + next) / 2, 0.3],
        [1, 0.5],
      ] as const) {
        const wanted = choose(models, (_, place) => {
          const [x = 0, y = 0] = owned.get(groupOf(by, place)) ?? [];
          return x - y > tau ? [1, 0] : y - x > tau ? [0, 1] : [alpha, 1 - alpha];
        });
        await check({ method: "share_swap", task, language, base, by, tau, alpha }, wanted);
      }
    });
  });

  it("revert: layers, parts, and the complement", async () => {
    const { experts, base, models, origin } = kin;
    const [expert] = experts;
    const back = (test: Test) => choose([models[0], origin], (name) => (test(name) ? [0, 1] : [1, 0]));
    const revert = { method: "revert", expert, base } as const;
    await check({ ...revert, layers: 0 }, back(isLayer(0)));
    await check({ ...revert, parts: ["mlp", "outside"] }, back(isPart("mlp", "outside")));
    const kept = both(isLayer(1), isPart("k_proj"));
    const others = back((name) => !kept(name));
    await check({ ...revert, layers: "1", parts: "k_proj", keep: true }, others);
  });

  it.each(["input", "output"] as const)("revert: rows of %s features that changed little", async (rows) => {
    const { experts, base, models, origin, changes } = kin;
    const [[expert], [x], [change]] = [experts, models, changes];
    const rowsOf = (name: string, { shape }: Tensor) => rowSizes(change.get(name) ?? [], shape, rows);
    const all = [...x].flatMap(([name, tensor]) => rowsOf(name, tensor)).sort((a, b) => a - b);
    const [below = 0, above = 0] = all.slice(all.length / 2);
    const threshold = (below + above) / 2;
    const reverted = (chosen: Test, keep: boolean): Expectation =>
      each(x, (name, tensor) => {
        const other = tensorOf(origin, name);
        if (!chosen(name)) return copy(keep ? other : tensor);
        const [sizes, width] = [rowsOf(name, tensor), tensor.shape.at(-1) as number];
        const rowOf = (i: number) => (tensor.shape.length > 1 && rows === "input" ? i % width : Math.floor(i / width));
        const isKept = (i: number) => (sizes[rowOf(i)] as number) < threshold === keep;
        const values = tensor.values.map((value, i) => (isKept(i) ? value : (other.values[i] as number)));
        return { ...tensor, values, sizes: [], how: "exact" };
      });
    const revert = { method: "revert", expert, base, rows_below: threshold, rows } as const;
    await check(revert, reverted(everything, false));
    await check({ ...revert, keep: true }, reverted(everything, true));
    await check({ ...revert, parts: "mlp", layers: [1] }, reverted(both(isPart("mlp"), isLayer(1)), false));
  });

  it.each([0, 0.3, 0.75, 1])("revert: the rows that changed least, all but a share of %d", async (share) => {
    const { experts, base, models, origin, changes } = kin;
    const [[expert], [x], [change]] = [experts, models, changes];
    const chosen = isPart("attention", "outside");
    const rows = [...x].flatMap(([name, { shape, values }]) => {
      if (!chosen(name)) return [];
      const sizes = rowSizes(change.get(name) ?? [], shape, "input");
      return sizes.map((size, row) => ({ name, row, size, width: values.length / sizes.length }));
    });
    const all = rows.reduce((sum, { width }) => sum + width, 0);
    const kept = new Set<string>();
    let elements = 0;
    for (const { name, row, width } of rows.sort((a, b) => b.size - a.size)) {
      if (elements >= Math.round(share * all)) break;
      kept.add(`${name} ${row}`);
      elements += width;
    }
    const wanted = each(x, (name, tensor) => {
      const columns = tensor.shape.length > 1 ? (tensor.shape.at(-1) as number) : tensor.values.length;
      const isKept = (i: number) => !chosen(name) || kept.has(`${name} ${tensor.shape.length > 1 ? i % columns : 0}`);
      const values = tensor.values.map((value, i) =>
        isKept(i) ? value : (tensorOf(origin, name).values[i] as number),
      );
      return { ...tensor, values, sizes: [], how: "exact" };
    });
    await check({ method: "revert", expert, base, parts: ["attention", "outside"], keep_share: share }, wanted);
  });

  it("passthrough: layers repeated, dropped, in another order, of two models, scaled", async () => {
    const { experts, models } = kin;
    const [[a, b], [x, y]] = [experts, models];
    const scaled = (tensor: Tensor, by: number): Expected => {
      const values = tensor.values.map((value) => by * value);
      return by === 1 ? copy(tensor) : { ...tensor, values, sizes: values, how: "near" };
    };
    const stack = (...order: readonly [Model, number, number][]): Expectation => {
      const wanted = new Map<string, Expected>();
      const outside = (name: string) => order.at(/norm|lm_head/.test(name) ? -1 : 0) as (typeof order)[number];
      for (const [name] of x) {
        const [model, , by] = outside(name);
        if (placeOf(name).layer === null) wanted.set(name, scaled(tensorOf(model, name), by));
      }
      order.forEach(([model, layer, by], place) => {
        for (const [name, tensor] of model) {
          if (isLayer(layer)(name))
            wanted.set(name.replace(`layers.${layer}.`, `layers.${place}.`), scaled(tensor, by));
        }
      });
      return wanted;
    };
    const method = "passthrough";
    const slices = [
      { model: a, layers: "1" },
      { model: b, scale: 0.7 },
      { model: a, layers: [1, 0] },
    ];
    await check({ method, slices }, stack([x, 1, 1], [y, 0, 0.7], [y, 1, 0.7], [x, 1, 1], [x, 0, 1]));
    await check({ method, slices: [{ model: b, layers: 1 }] }, stack([y, 1, 1]));
    await check({ method, slices: [{ model: a }, { model: b }] }, stack([x, 0, 1], [x, 1, 1], [y, 0, 1], [y, 1, 1]));
  });
};

describe("in BF16", inDType("BF16"));
// Their rounding is also tested with every kernel.
describe("in F32", { tags: ["slow"] }, inDType("F32"));
describe("in F16", { tags: ["slow"] }, inDType("F16"));

describe("passthrough", () => {
  const perLayer = (count: number, types: string[]) => ({ num_hidden_layers: count, layer_types: types });
  const before = perLayer(3, ["full", "sliding", "linear"]);
  const after = perLayer(4, ["full", "sliding", "sliding", "linear"]);
  const other = { eos_token_id: [3, 4], rope: { factors: [1, 2, 3] } };

  it.each([
    ["config.json", { ...before, ...other }, { ...after, ...other }],
    ["its text_config", { num_hidden_layers: undefined, text_config: before }, { text_config: after }],
    ["its llm_config", { num_hidden_layers: undefined, llm_config: before }, { llm_config: after }],
  ])("counts its layers in %s, and gives each its entry in lists of them", async (_, config, wanted) => {
    const { base } = await family(bench, [], { layers: 3, config });
    const slices = [
      { model: base, layers: "0-1" },
      { model: base, layers: "1-2" },
    ];
    const { out } = await bench.merge({ method: "passthrough", slices });
    expect(readJson(out, "config.json")).toEqual({ ...readJson(base, "config.json"), ...wanted });
  });
});

it("a tied head is not measured", async () => {
  const { experts, base, models, origin, changes } = await family(bench, [0.3, 0.2, 0.1], {
    dtype: "BF16",
    tied: true,
  });
  expect(origin.has("lm_head.weight")).toBe(false);
  const trimmed = changes.map((one) => trim(one, 0.3, "model"));
  const wanted = addChanges(origin, trimmed, { elect: { tie: majority(trimmed) } });
  await check({ method: "ties", base, models: experts, density: 0.3 }, wanted);
  const sizes = models.map((expert) => magnitude(expert, origin));
  const weighted = soup(models, (i) => 1 / (sizes[i] as number));
  await check({ method: "soup", models: experts, base, weights: "magnitude" }, weighted);
});
