// Functions that merge in one call: the bytes are those of the plan, and what is wrong is said before anything is written.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../test/support/checkpoints.js";
import { merge } from "./merge.js";
import { planMerge } from "./plan-merge.js";
import { soup } from "./soup.js";
import { swap } from "./swap.js";

const folder = temporaryFolder();
const at = (...names: string[]) => join(folder, ...names);
await writeTiny(at("a"), { layers: 4, seed: 1 });
await writeTiny(at("b"), { layers: 4, seed: 2 });
const weightsOf = (out: string) => readFileSync(at(out, "model.safetensors"));
const models = { task: "a", language: "b", allowUnrelated: true } as const;

it("swap, merge and a plan write the same bytes", async () => {
  const { allowUnrelated, ...sources } = models;
  const recipe = { method: "swap", ...sources, bottom: 1, top: 2 } as const;
  await (await planMerge(recipe, { folder })).write({ out: at("planned"), allowUnrelated });
  const merged = await merge(recipe, { out: "merged", folder, allowUnrelated });
  const swapped = await swap({ ...models, bottom: 1, top: 2, out: "swapped" }, { folder });
  expect([merged.out, swapped.out]).toEqual([at("merged"), at("swapped")]);
  expect(weightsOf("merged")).toEqual(weightsOf("planned"));
  expect(weightsOf("swapped")).toEqual(weightsOf("planned"));
  expect(swapped.summary).toEqual((await planMerge(recipe, { folder })).summary);
  expect(swapped.evaluation).toBeUndefined();
  expect(JSON.parse(JSON.stringify(swapped))).toEqual(swapped);
});

it("fields of the output override those of a recipe's file, and absent ones do not", async () => {
  const half = { method: "soup", models: ["a", "b"], dtype: "float16" } as const;
  const { out, ...kept } = { out: "half", folder, allowUnrelated: true };
  expect((await merge(half, { out, ...kept })).bytesWritten * 2).toBe(
    (await merge(half, { out: "whole", ...kept, dtype: "float32" })).bytesWritten,
  );
});

it("what is wrong is said with every problem, before anything is written", async () => {
  await expect(swap({ ...models, bottom: -1, botom: 1, out: "wrong" } as never, { folder })).rejects.toMatchObject({
    problems: ["bottom: must not be negative", 'unknown field "botom"; did you mean bottom?'],
  });
  await expect(soup({ models: ["a"], force: true, out: "wrong" } as never, { folder })).rejects.toMatchObject({
    problems: ["force is an option. Pass it in the second argument."],
  });
  await expect(swap({ task: "a", language: "b", out: "a" }, { folder })).rejects.toMatchObject({ code: "output" });
  expect(existsSync(at("wrong"))).toBe(false);
});
