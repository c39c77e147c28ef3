// Models that are not of one shape: tensors that only some have, other depths in a passthrough, other families.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readJson, seededTensor, writeTiny } from "../../../test/support/checkpoints.js";
import { expectRefused, layergraft } from "../../../test/support/command.js";
import { Bench, expectClosely, readFolders, type Tensors, valuesOf } from "../../../test/support/merging.js";
import { readFolder } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { type TensorData, writeSharded } from "../../formats/safetensors/index.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { planRecipe } from "./planner.js";

const bench = new Bench();
const EXTRA = ["both", "one", "two"].map((name) => `model.extra.${name}.weight`);
const [BOTH = "", ONE = "", TWO = ""] = EXTRA;
let [base, a, b, c] = ["", "", "", ""];

/** A copy of a model with tensors of more names. */
async function extended(model: string, names: readonly string[], seed: number): Promise<string> {
  const { folder } = await openCheckpoint(model);
  const stored = [...(await readFolder(folder))].map(([name, tensor]) => ({ ...tensor, name }) as TensorData);
  const out = await bench.model();
  await writeSharded(out, [...stored, ...names.map((name, i) => seededTensor(name, [3, 2], seed + i, "F32"))]);
  writeFileSync(join(out, "config.json"), readFileSync(join(folder, "config.json")));
  return out;
}

beforeAll(async () => {
  const plain = await bench.models(3, { dtype: "F32" });
  [base = "", b = ""] = plain;
  a = await extended(base, [BOTH, ONE], 70);
  c = await extended(plain[2] ?? "", [BOTH, TWO], 80);
});

describe("tensors that some sources lack", () => {
  it("are an error by default", async () => {
    await expectRefused(
      ["merge", await recipeFile({ method: "soup", models: [a, b] }), "-o", "no"],
      bench.folder,
      1,
      /lacks 2 tensors/,
    );
  });

  it("are merged from the sources that have them in a union: averaged with their own weights, copied if one has them", async () => {
    const models = [
      { model: a, weight: 0.5 },
      { model: b, weight: 2 },
      { model: c, weight: 1.5 },
    ];
    const { tensors } = await bench.merge({ method: "soup", models, tensors: "union" });
    const [left, plain, right] = (await readFolders([a, b, c])) as [Tensors, Tensors, Tensors];
    expect([...tensors.keys()].sort()).toEqual([...new Set([...left.keys(), ...right.keys()])].sort());
    const shared = new Map([...tensors].filter(([name]) => plain.has(name)));
    expectClosely(
      shared,
      [plain, left, right],
      () => (y, x, z) => (0.5 * (x as number) + 2 * (y as number) + 1.5 * (z as number)) / 4,
    );
    expect(tensors.get(ONE)?.data).toEqual(left.get(ONE)?.data);
    expect(tensors.get(TWO)?.data).toEqual(right.get(TWO)?.data);
    valuesOf(BOTH, [tensors])[0]?.forEach((found, i) => {
      const [x = [], z = []] = valuesOf(BOTH, [left, right]);
      expect(found).toBeCloseTo((0.5 * (x[i] as number) + 1.5 * (z[i] as number)) / 2, 6);
    });
  });

  it("of experts are changes of those that have them; a rule may name what only some have", async () => {
    const lambda = [{ tensors: "model.extra.*", value: 0.5 }, { value: 1 }];
    const { tensors } = await bench.merge({
      method: "task_arithmetic",
      models: [b, c],
      base: a,
      tensors: "union",
      lambda,
    });
    const [root, only] = (await readFolders([a, c])) as [Tensors, Tensors];
    expect(tensors.get(ONE)?.data).toEqual(root.get(ONE)?.data);
    expect(tensors.get(TWO)?.data).toEqual(only.get(TWO)?.data);
    const [x = [], z = []] = valuesOf(BOTH, [root, only]);
    valuesOf(BOTH, [tensors])[0]?.forEach((found, i) => {
      expect(found).toBeCloseTo(((x[i] as number) + (z[i] as number)) / 2, 6);
    });
  });

  it("are left out of an intersection; a flag of the command line, as mergekit's", async () => {
    const file = await recipeFile({ method: "soup", models: [a, b, c] });
    const out = bench.next("intersection");
    const { status, stderr } = await layergraft(
      ["merge", file, "-o", out, "--tensor-intersection", "--allow-unrelated"],
      { cwd: bench.folder },
    );
    expect(stderr).not.toContain("error");
    expect(status).toBe(0);
    expect([...(await readFolder(out)).keys()].sort()).toEqual([...(await readFolder(b)).keys()].sort());
    expect(readJson(out, "layergraft.json").recipe).toMatchObject({ tensors: "intersection" });
  });

  it("are merged of the models that have them while a method has as many as it needs", async () => {
    const union = { method: "consensus", base: a, tensors: "union" } as const;
    await expect(planRecipe({ ...union, models: [a, b, a] })).resolves.toMatchObject({ plan: { layers: 2 } });
    await expect(planRecipe({ ...union, models: [a, b] })).rejects.toThrow(
      "consensus cannot merge model.extra.both.weight, which only models[0], base have. Leave out such tensors with tensors: intersection.",
    );
    const ties = await planRecipe({ ...union, method: "ties", models: [a, b] });
    expect(ties.plan.steps.find(({ tensor }) => tensor === BOTH)?.origin).toEqual(["models[0]", "base"]);
  });

  it("are refused where a method needs the source that lacks them", async () => {
    const recipe: RecipeInput = { method: "task_arithmetic", models: [a, c], base: b, tensors: "union" };
    const file = await recipeFile(recipe);
    await expectRefused(
      ["merge", file, "-o", "no"],
      bench.folder,
      2,
      /task_arithmetic cannot merge model\.extra\.both\.weight, which only models\[0\], models\[1\] have/,
    );
  });
});

async function recipeFile(recipe: RecipeInput): Promise<string> {
  const file = `${bench.next("recipe")}.yml`;
  writeFileSync(file, JSON.stringify(recipe));
  return file;
}

describe("models of other depths", () => {
  it("are stacked by a passthrough, also in merges of their slices", async () => {
    const deep = await writeTiny(bench.next("deep"), { layers: 5, seed: 31, dtype: "F32" });
    const inner = (model: string, layers: string) => ({ method: "passthrough", slices: [{ model, layers }] });
    const { tensors, out } = await bench.merge({
      method: "passthrough",
      slices: [
        { model: base, layers: "0" },
        { model: deep, layers: "3-4" },
        { model: { method: "soup", models: [inner(b, "0-1"), inner(deep, "1-2")] } },
      ],
    });
    const [first, other, long] = (await readFolders([base, b, deep])) as [Tensors, Tensors, Tensors];
    expect(readJson(out, "config.json").num_hidden_layers).toBe(5);
    const at = (layer: number) => `model.layers.${layer}.mlp.up_proj.weight`;
    expect(tensors.get(at(0))?.data).toEqual(first.get(at(0))?.data);
    expect(tensors.get(at(1))?.data).toEqual(long.get(at(3))?.data);
    expect(tensors.get(at(2))?.data).toEqual(long.get(at(4))?.data);
    const [x = [], y = []] = [valuesOf(at(1), [other])[0], valuesOf(at(2), [long])[0]];
    expect(valuesOf(at(4), [tensors])[0]).toEqual(
      x.map((one, i) => Math.fround(Math.fround(one + (y[i] as number)) / 2)),
    );
    const file = await recipeFile({ method: "soup", models: [base, deep] });
    await expectRefused(["merge", file, "-o", "no"], bench.folder, 1, /has 2 layers, .* has 5/);
  });
});

describe("models of other families", () => {
  it("merge where their tensors are alike, with a note", async () => {
    const other = await writeTiny(bench.next("other"), { layers: 2, seed: 41, dtype: "F32" });
    const config = join(other, "config.json");
    writeFileSync(config, JSON.stringify({ ...readJson(config), model_type: "mistral" }));
    const { tensors } = await bench.merge({ method: "soup", models: [base, other] });
    expectClosely(tensors, await readFolders([base, other]), () => (x, y) => ((x as number) + (y as number)) / 2);
    const { plan } = await planRecipe({ method: "soup", models: [base, other] });
    expect(plan.notes.join("\n")).toMatch(/is of the family "llama", .* of "mistral"/);
    const shallow = await writeTiny(bench.next("shallow"), { layers: 1, seed: 42, dtype: "F32" });
    writeFileSync(
      join(shallow, "config.json"),
      JSON.stringify({ ...readJson(shallow, "config.json"), model_type: "mistral" }),
    );
    const file = await recipeFile({ method: "soup", models: [base, shallow] });
    const message = await expectRefused(["merge", file, "-o", "no"], bench.folder, 1, /is of the family "llama"/);
    expect(message).not.toMatch(/layers?,/);
  });
});
