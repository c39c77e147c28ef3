// A method that takes matrices whole refuses one beyond WebAssembly's 4 GiB when it is planned, before weights are read.
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { LayergraftError } from "../../kit/index.js";
import { planRecipe } from "./planner.js";

const folder = temporaryFolder();
const DOWN = "model.layers.0.mlp.down_proj.weight";

/** A model of one matrix, whose values are a hole in the file. */
function sparse(name: string, shape: readonly [number, number]): string {
  const path = join(folder, name);
  mkdirSync(path);
  writeFileSync(join(path, "config.json"), JSON.stringify({ model_type: "llama", hidden_size: shape[0] }));
  const bytes = 2 * shape[0] * shape[1];
  const header = JSON.stringify({ [DOWN]: { dtype: "BF16", shape, data_offsets: [0, bytes] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = openSync(join(path, "model.safetensors"), "w");
  writeSync(file, length);
  writeSync(file, header);
  ftruncateSync(file, 8 + header.length + bytes);
  closeSync(file);
  return path;
}

// As wide as the down projection of Llama 3 405B, and as high.
const [base, a, b] = ["base", "a", "b"].map((name) => sparse(name, [53_248, 53_248])) as [string, string, string];

const models = [a, b];
test.each([
  { method: "iso", models, base },
  { method: "tsv_m", models, base },
  { method: "dg_hard", expert: a, base },
] as const)("$method", async (recipe) => {
  const error = await planRecipe(recipe).catch((problem: unknown) => problem);
  expect(error).toBeInstanceOf(LayergraftError);
  expect(error).toMatchObject({ code: "memory", where: { tensor: DOWN } });
  // Also where it is part of another merge.
  const soup = planRecipe({ method: "soup", models: [b, recipe] });
  await expect(soup).rejects.toThrow(
    /^model\.layers\.0\.mlp\.down_proj\.weight is computed as a whole matrix, which takes/,
  );
});

test("another method takes it in pieces", async () => {
  const { plan } = await planRecipe({ method: "task_arithmetic", models, base });
  expect(plan.steps.map(({ tensor }) => tensor)).toEqual([DOWN]);
});
