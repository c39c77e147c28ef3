// Linked models hold the weights that executed merges hold, and what configurations share stands on the disk once.
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openCheckpoint } from "../../checkpoint/index.js";
import { executePlan, planRecipe, type RecipeInput } from "../../merge/index.js";
import { readTensor, type TensorData } from "../../safetensors/index.js";
import { initialWeights, writeInitialModel } from "../demo/world/untrained-model.js";
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

/** Changes one bit of the last weight, in place, with size and modification time as they were. */
function flip(path: string): void {
  const { atime, mtime } = statSync(path);
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  writeFileSync(path, bytes);
  utimesSync(path, atime, mtime);
}

it("is of the weights as they are, whatever their times say", async () => {
  const pool = join(root, "pool-3");
  const [changing, moved] = [join(root, "changing"), join(root, "moved")];
  cpSync(join(root, "expert-1"), changing, { recursive: true });
  const recipe = { ...swap(1), task: changing } as RecipeInput;
  const out = join(root, "of-changing");
  await writeLinked(await planRecipe(recipe), { out, pool });
  flip(join(changing, "model.safetensors"));
  expect((await writeLinked(await planRecipe(recipe), { out, pool })).written).toBeGreaterThan(0);
  await executePlan(await planRecipe(recipe), { out: join(root, "merged-changing") });
  expect(await weightsOf(out)).toEqual(await weightsOf(join(root, "merged-changing")));

  // Of known bytes, wherever they are.
  const identityOf = (folder: string) => `sha256:${folder.endsWith("expert-2") ? 2 : 1}`;
  expect((await writeLinked(await planRecipe(recipe), { out, pool, identityOf })).shared).toBe(0);
  cpSync(changing, moved, { recursive: true });
  const elsewhere = await planRecipe({ ...recipe, task: moved } as RecipeInput);
  expect((await writeLinked(elsewhere, { out, pool, identityOf })).written).toBe(0);
});

it("takes nothing into the pool that was read while a model was written to", async () => {
  const pool = join(root, "pool-4");
  const changing = join(root, "changing-2");
  cpSync(join(root, "expert-1"), changing, { recursive: true });
  const recipe = { ...swap(1), task: changing } as RecipeInput;
  const out = join(root, "of-changing-2");
  let flips = 0;
  const onProgress = () => {
    if (flips++ === 0) for (let i = 0; i < 2; i++) flip(join(changing, "model.safetensors"));
  };
  const told = writeLinked(await planRecipe(recipe), { out, pool, onProgress });
  await expect(told).rejects.toThrow("changing-2 changed while the model was written; write it again");
  expect(readdirSync(pool)).toEqual([]);
});

it("links to no layer that was cut short or written to", async () => {
  const pool = join(root, "pool-5");
  const out = join(root, "mended");
  const { written } = await writeLinked(await planRecipe(swap(1)), { out, pool });
  await executePlan(await planRecipe(swap(1)), { out: join(root, "merged-1") });
  const right = await weightsOf(join(root, "merged-1"));
  const layers = () => readdirSync(pool).filter((name) => name.endsWith(".safetensors"));
  const damage: ((path: string) => void)[] = [
    (path) => truncateSync(path, 5000),
    (path) => appendFileSync(path, "more"),
    (path) => writeFileSync(path, Buffer.concat([readFileSync(path).subarray(0, -8), Buffer.alloc(8)])),
    (path) => writeFileSync(path, readFileSync(path).fill(0, 0, 8)),
    (path) => rmSync(path.replace(/safetensors$/, "json")),
  ];
  for (const [i, spoil] of damage.entries()) {
    spoil(join(pool, layers()[i % layers().length] ?? ""));
    const mended = await writeLinked(await planRecipe(swap(1)), { out, pool });
    expect(mended.written).toBeGreaterThan(0);
    expect(mended.written).toBeLessThan(written);
    expect(await weightsOf(out)).toEqual(right);
  }
  expect((await writeLinked(await planRecipe(swap(1)), { out, pool })).written).toBe(0);
});
