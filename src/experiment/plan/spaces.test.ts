import { describe, expect, it } from "vitest";
import { FakeWorld, ITEMS } from "../../../test/support/fake-world.js";
import type { EvaluateStep } from "../steps/step.js";
import { configurationsOf, withFields } from "./configurations.js";
import { parsePlan } from "./plan-file.js";

const plan = (merge: string, search: string) => `
name: small
base: base
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: it, ${merge} }
evaluate: { tasks: [quiz] }
search: { ${search} }
`;

const SWAP = "recipe: { method: swap, task: math, language: swahili, top: 0, weights: [1, 1] }";
const TIES = "recipe: { method: ties, base: base, models: [{ model: math, weight: 1 }, swahili], density: 0.5 }";

const problems = (merge: string, search = "how: cma-es") => {
  try {
    parsePlan(plan(merge, search));
  } catch (error) {
    return (error as Error).message;
  }
  return "";
};

const labelsOf = (merge: string, search: string) =>
  configurationsOf(parsePlan(plan(merge, search)).merges[0] as never).map(({ label }) => label);

describe("fields by path", () => {
  it("reach into mappings and lists, and leave the rest alone", () => {
    const recipe = { method: "soup", models: [{ model: "a", weight: 1 }, "b"], layers: { language: "0" } };
    expect(withFields(recipe, { "models.0.weight": 2, "layers.average": "1", "output.dtype": "f16", top: 1 })).toEqual({
      method: "soup",
      models: [{ model: "a", weight: 2 }, "b"],
      layers: { language: "0", average: "1" },
      output: { dtype: "f16" },
      top: 1,
    });
    expect(recipe.models[0]).toEqual({ model: "a", weight: 1 });
  });

  it("work in a grid, too", () => {
    expect(labelsOf(`${TIES}, grid: { "models.0.weight": [1, 2] }`, "")).toEqual([
      "models.0.weight 1",
      "models.0.weight 2",
    ]);
  });
});

describe("a space", () => {
  it("has whole numbers where the field takes no others", () => {
    const labels = labelsOf(`${SWAP}, space: { bottom: { from: 1, to: 8 } }`, "how: random, budget: 100");
    expect(labels.toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((bottom) => `bottom ${bottom}`));
    // The middle comes first.
    expect(labels[0]).toBe("bottom 4");
    const numbers = labelsOf(`${TIES}, space: { density: { from: 0, to: 1 } }`, "how: random, budget: 30");
    expect(new Set(numbers).size).toBe(30);
    expect(numbers.every((label) => /^density (0|1|0\.\d{1,3})$/.test(label))).toBe(true);
  });

  it("has choices, gradients over the layers, inner fields, and the grid beside it", () => {
    const { fields } = configurationsOf(
      parsePlan(
        plan(
          `${TIES}, grid: { trim: [tensor, model] }, space: { lambda: [0.5, 1], density: { from: 0.1, to: 0.9 }, "models.0.weight": { from: 0, to: 1, gradient: 3 } }`,
          "how: random, budget: 5",
        ),
      ).merges[0] as never,
    )[1] as { fields: Record<string, unknown> };
    expect(Object.keys(fields)).toEqual(["trim", "lambda", "density", "models.0.weight"]);
    expect([0.5, 1]).toContain(fields.lambda);
    const { gradient } = fields["models.0.weight"] as { gradient: number[] };
    expect(gradient).toHaveLength(3);
    expect(gradient.every((value) => value >= 0 && value <= 1)).toBe(true);
  });

  it("draws the same configurations for the same seed, and others for another", () => {
    const draw = (seed: number) =>
      labelsOf(`${TIES}, space: { density: { from: 0.1, to: 1 } }`, `how: random, budget: 9, seed: ${seed}`);
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1).slice(1)).not.toEqual(draw(2).slice(1));
    expect(draw(1)[0]).toBe(draw(2)[0]);
  });

  it("starts at the default", () => {
    const merge = `${SWAP}, space: { bottom: { from: 1, to: 8 } }, default: { bottom: 2 }`;
    expect(labelsOf(merge, "how: cma-es")).toEqual(["bottom 2"]);
  });

  it("is refused with every problem", () => {
    const space = (fields: string) => problems(`${SWAP}, space: { ${fields} }`);
    expect(space("bottom: { from: 0.5, to: 3 }")).toContain("space.bottom: ");
    expect(space("bottom: { from: 3, to: 3 }")).toContain("must be above from");
    expect(space("bottom: { from: 3, to: 4.5, whole: true }")).toContain("needs whole numbers for from and to");
    expect(space("botom: { from: 1, to: 3 }")).toContain("botom");
    expect(space("task: [math, swahili]")).toContain("cannot change the models");
    expect(space('"task.weight": [1, 2]')).toContain("is not a field of the recipe");
    expect(space("bottom: []")).toContain("must list at least one value");
    expect(problems(`${SWAP}, space: { bottom: { from: 1, to: 3 } }`, "how: grid")).toContain(
      "needs search.how: random, cma-es or halving",
    );
    expect(problems(`${SWAP}, space: { bottom: [1, 2] }, grid: { bottom: [1] }`)).toContain("is also in the grid");
    expect(problems("suggest: { task: math, language: swahili }, space: { bottom: [1, 2] }")).toContain(
      "needs a recipe",
    );
    expect(space("bottom: [1]")).toContain("has one configuration");
  });
});

/** Items are right with a probability that falls with the distance from bottom 6 and weight 0.25. */
function worth({ model }: EvaluateStep, item: number): number {
  if (typeof model === "string" || model.method !== "swap") return 0;
  const { bottom = 0, weights = [] } = model as { bottom?: number; weights?: readonly number[] };
  const distance = Math.abs(Number(bottom) - 6) / 12 + Math.abs((weights[1] ?? 1) - 0.25) / 2;
  return (item + 0.5) / ITEMS < 1 - distance ? 1 : 0;
}

describe("a search with CMA-ES", () => {
  const MERGE = `${SWAP}, space: { bottom: { from: 0, to: 12 }, "weights.1": { from: 0.05, to: 1.95 } }`;
  const searched = (more = "budget: 40") => new FakeWorld(plan(MERGE, `how: cma-es, ${more}`), { worth });

  it("approaches the best within its budget, generation by generation, for all pairs at once", () => {
    const world = searched();
    const { searches, models, waiting } = world.finish();
    expect(waiting).toEqual([]);
    const [search] = searches;
    const evaluated = search?.evaluated ?? [];
    expect(evaluated).toHaveLength(40);
    expect(evaluated[0]?.configuration).toBe("bottom 6, weights.1 1");
    expect(evaluated.slice(0, 7).map(({ generation }) => generation)).toEqual([0, 1, 1, 1, 1, 1, 1]);
    const best = Math.max(...evaluated.map(({ mean }) => mean));
    expect(evaluated.find(({ configuration }) => configuration === search?.chosen)?.mean).toBe(best);
    expect(best).toBeGreaterThan(0.85);
    // Two pairs of experts; the start and the chosen one are asked the other items, too.
    const merges = models.filter(({ model }) => model.kind === "merge");
    expect(merges).toHaveLength(2 * 40);
    const items = (steps: readonly EvaluateStep[]) => steps.map((step) => step.items?.length);
    const counts = merges.flatMap(({ tasks }) => tasks.map(({ steps }) => items(steps).length));
    expect(counts.filter((count) => count === 2)).toHaveLength(
      2 * (search?.chosen === evaluated[0]?.configuration ? 1 : 2),
    );
  });

  it("never evaluates an item that it reports", () => {
    const world = searched();
    const { searches } = world.finish();
    const held = new Set([...(searches[0]?.splits.values() ?? [])].flatMap((split) => split.held));
    const first = new Set(searches[0]?.evaluated?.map(({ configuration }) => configuration));
    expect(held.size).toBe(12);
    const chosen = [searches[0]?.chosen, searches[0]?.evaluated?.[0]?.configuration];
    for (const step of world.ran) {
      if (step.kind !== "evaluate" || !step.label.includes("evaluate it,")) continue;
      const isReported = chosen.some((label) => step.label.includes(`${label} on`));
      if (!isReported) expect(step.items?.some((item) => held.has(item))).toBe(false);
    }
    expect(first.size).toBe(40);
  });

  it("asks for a whole generation at a time, and says how much is left", () => {
    const world = searched();
    world.round();
    const { waiting, searches } = world.expand();
    expect(searches[0]?.evaluated).toHaveLength(7);
    expect(searches[0]?.chosen).toBeUndefined();
    expect(waiting.find(({ what }) => what.startsWith("later generations"))?.steps).toBe(2 * (40 - 13));
  });

  it("is a function of seed and results: other orders of running end the same", () => {
    const whole = searched().finish().searches;
    expect(searched().finish().searches).toEqual(whole);
    expect(searched("budget: 40, seed: 1").finish().searches[0]?.evaluated).not.toEqual(whole[0]?.evaluated);
  });

  it("counts a configuration once, and ends where nothing is new", () => {
    const small = `${SWAP}, space: { bottom: { from: 4, to: 7 } }`;
    const world = new FakeWorld(plan(small, "how: cma-es, budget: 30, choose_on: test"), { worth });
    // Two pairs of experts, and four configurations, however large the budget.
    const { models, waiting } = world.expand();
    const known = new Set(models.flatMap(({ model }) => ("configuration" in model ? [model.configuration.label] : [])));
    const later = waiting.find(({ what }) => what.startsWith("later generations"))?.steps ?? 0;
    expect(later).toBe(2 * (4 - known.size));
    const { searches } = world.finish();
    expect(searches[0]?.evaluated?.length).toBeLessThanOrEqual(4);
    expect(searches[0]?.chosen).toBe("bottom 6");
  });
});

it("halves what it draws in a space", () => {
  const merge = `${SWAP}, space: { bottom: { from: 0, to: 12 }, "weights.1": { from: 0.05, to: 1.95 } }`;
  const { searches } = new FakeWorld(plan(merge, "how: halving, budget: 16, rounds: 2"), { worth }).finish();
  expect(searches[0]?.rounds[0]?.ranked).toHaveLength(16);
  expect(searches[0]?.rounds[1]?.ranked.length).toBeLessThanOrEqual(8);
});
