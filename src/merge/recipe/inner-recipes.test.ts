// Recipe files as sources: the same plan as with the recipes inside, from any folder.

import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { analyzeExperts } from "../analysis/analysis.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "./recipe.js";

const root = realpathSync(temporaryFolder());
const write = (name: string, text: string) => writeFileSync(join(root, name), text);
const plan = (recipe: unknown, folder = root) => planRecipe(recipe as RecipeInput, { folder });

beforeAll(async () => {
  mkdirSync(join(root, "inner"));
  for (const [i, name] of ["task", "one", "inner/two", "inner/org"].entries()) {
    await writeTiny(join(root, name), { seed: i + 1 });
  }
  write("inner/soup.yaml", "method: soup\nmodels: [../one, two]\ndtype: bfloat16\ntokenizer_from: two\n");
  write("inner/swap.yaml", "method: swap\ntask: ../task\nlanguage: soup.yaml\nbottom: 1\ntop: 1\n");
});

it("read like the recipe that they hold, with paths from their folder", async () => {
  const swap = { method: "swap", task: "task", bottom: 1, top: 1 };
  const [inFile, inside] = await Promise.all([
    plan({ ...swap, language: "inner/soup.yaml" }),
    plan({ ...swap, language: { method: "soup", models: ["one", "inner/two"] } }),
  ]);
  expect(inFile.plan.recipe).toEqual(inside.plan.recipe);
  expect(inFile.plan.steps).toEqual(inside.plan.steps);
  expect(inFile.plan.sources).toEqual(inside.plan.sources);
  expect(inFile.plan.notes).toEqual([
    "dtype, tokenizer_from of soup.yaml ignored: the outer recipe sets the output",
    ...inside.plan.notes,
  ]);
});

it("nest, in lists too, and are models of an analysis", async () => {
  const { plan: nested } = await plan({ method: "soup", models: [{ model: "inner/swap.yaml", weight: 2 }, "one"] });
  expect(nested.recipe).toMatchObject({
    models: [{ model: { method: "swap", task: "task", language: { models: ["one", "inner/two"] } }, weight: 2 }, "one"],
  });
  expect(nested.sources.map(({ folder }) => folder)).toEqual(
    ["task", "one", "inner/two", "one"].map((name) => join(root, name)),
  );
  const { analysis } = await analyzeExperts({ base: "task", experts: { merged: "inner/swap.yaml" }, folder: root });
  expect(analysis.experts).toEqual(["merged"]);
});

it("report problems in the inner file, missing files, circles and too many", async () => {
  write("wrong.yaml", "method: soup\nmodels: [one]\nwieght: 2\n");
  await expect(plan({ method: "soup", models: ["wrong.yaml"] })).rejects.toThrow(/wrong\.yaml.*line 3: unknown field/s);
  await expect(plan({ method: "soup", models: ["inner/none.yaml"] })).rejects.toThrow(/none\.yaml does not exist/);
  write("a.yaml", "method: soup\nmodels: [one, inner/b.yaml]\n");
  write("inner/b.yaml", "method: soup\nmodels: [../a.yaml]\n");
  const circle = await plan({ method: "soup", models: ["a.yaml"] }).catch((error: Error) => error);
  expect((circle as Error).message).toBe(
    `recipes name each other in a circle: ${["a.yaml", "inner/b.yaml", "a.yaml"].map((name) => join(root, name)).join(" > ")}. Break it.`,
  );
  // Each file doubles those before it.
  write("0.yaml", "method: soup\nmodels: [one]\n");
  for (let i = 1; i <= 8; i++) write(`${i}.yaml`, `method: soup\nmodels: [${i - 1}.yaml, ${i - 1}.yaml]\n`);
  await expect(plan({ method: "soup", models: ["8.yaml"] })).rejects.toThrow(/more than 100 recipe files/);
});
