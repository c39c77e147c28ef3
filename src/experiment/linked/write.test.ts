// Linked models hold the weights that executed merges hold, and what configurations share stands on the disk once.
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openCheckpoint } from "../../checkpoint/index.js";
import { executePlan, planRecipe, type RecipeInput } from "../../merge/index.js";
import { readTensor, type TensorData } from "../../safetensors/index.js";
import { initialWeights, writeInitialModel } from "../demo/model.js";
import { writeLinked } from "./write.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-linked-"));
afterAll(() => rmSync(root, { recursive: true }));
const size = { layers: 4, width: 16, heads: 2, feedForward: 32 };

beforeAll(async () => {
  for (const seed of [1, 2]) await writeInitialModel(join(root, `expert-${seed}`), seed, size);
});

const swap = (bottom: number): RecipeInput => ({
  ...{ method: "swap", task: join(root, "expert-1"), language: join(root, "expert-2"), bottom, top: 0 },
});

async function weightsOf(folder: string): Promise<Map<string, Uint8Array>> {
  const { files } = await openCheckpoint(folder);
  const tensors = files.flatMap((file) => file.tensors.map((tensor) => ({ file, tensor })));
  return new Map(
    await Promise.all(tensors.map(async ({ file, tensor }) => [tensor.name, await readTensor(file, tensor)] as const)),
  );
}

const bytesOf = (tensors: readonly TensorData[]) => tensors.reduce((sum, { data }) => sum + data.byteLength, 0);

it("is the merge, and shares its layers", async () => {
  const pool = join(root, "pool");
  const all = initialWeights(size, 0);
  const outside = bytesOf(all.filter(({ name }) => !name.includes("layers.")));
  const layer = (bytesOf(all) - outside) / size.layers;

  const first = await writeLinked(await planRecipe(swap(1)), { out: join(root, "linked-1"), pool });
  expect(first).toEqual({ written: bytesOf(all), shared: 0, by: "hard links" });
  // Layer 1 from the other expert is new; the average outside the layers is the same.
  const second = await writeLinked(await planRecipe(swap(2)), { out: join(root, "linked-2"), pool });
  expect(second).toEqual({ written: layer, shared: bytesOf(all) - layer, by: "hard links" });
  const again = await writeLinked(await planRecipe(swap(1)), { out: join(root, "linked-1"), pool });
  expect(again.written).toBe(0);

  await executePlan(await planRecipe(swap(2)), { out: join(root, "merged-2") });
  expect(await weightsOf(join(root, "linked-2"))).toEqual(await weightsOf(join(root, "merged-2")));
  const files = readdirSync(join(root, "linked-2"));
  expect(files).toContain("tokenizer.json");
  expect(files.filter((name) => name.endsWith(".safetensors"))).toHaveLength(size.layers + 1);
  expect(statSync(join(root, "linked-2", "model-00002-of-00005.safetensors")).nlink).toBeGreaterThan(1);
  expect(readdirSync(pool).some((name) => name.endsWith(".tmp"))).toBe(false);
});

it("keeps apart what is measured differently, and what is converted", async () => {
  const pool = join(root, "pool-2");
  const recipe = { ...swap(1), base: join(root, "expert-1"), weights: [1, 3] } as RecipeInput;
  const first = await writeLinked(await planRecipe(recipe), { out: join(root, "weighted"), pool });
  const equal = await writeLinked(await planRecipe(swap(1)), { out: join(root, "equal"), pool });
  expect(equal.written).toBeGreaterThan(0);
  expect(equal.written).toBeLessThan(first.written);
  const half = await writeLinked(await planRecipe({ ...swap(1), dtype: "bfloat16" }), {
    out: join(root, "half"),
    pool,
  });
  expect(half).toMatchObject({ shared: 0, written: first.written / 2 });
});
