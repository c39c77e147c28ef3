// Which weights an outlook is made by.
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { sampleWeights } from "./sample-weights.js";

it("are of layers, in runs over each tensor as far as it has them", async () => {
  const folder = await writeTiny(join(temporaryFolder(), "tiny"), { vocabulary: 5000, layers: 2 });
  const { tensors } = await openCheckpoint(folder);
  const found = [...((await sampleWeights(tensors.values())) ?? [])];
  expect(found).toHaveLength(128 * 8);
  const stored = [...(await readFolder(folder))].filter(([name]) => name.includes("layers."));
  const known = new Set(stored.flatMap(([, tensor]) => toNumbers(tensor)));
  expect(found.filter((value) => !known.has(value))).toEqual([]);
  // As large as all of them, about.
  const size = (values: readonly number[]) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);
  const all = stored.flatMap(([, tensor]) => toNumbers(tensor));
  expect(size(found) / size(all)).toBeGreaterThan(0.9);
  expect(size(found) / size(all)).toBeLessThan(1.1);
});

it("are none where no tensor is stored as floats", async () => {
  expect(await sampleWeights([])).toBeUndefined();
});
