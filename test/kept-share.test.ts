// What the command line prints of a threshold that keeps more than the recipe asks for, and of rounding that keeps less.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeMiniature } from "../src/demo/miniature.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";
import { readFolders, valuesOf } from "./support/merging.js";

const cwd = temporaryFolder();
beforeAll(() => writeMiniature(cwd));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

const merged = async (fields: string) => {
  writeFileSync(join(cwd, "recipe.yaml"), `models: [math-expert, swahili-expert]\nbase: base\n${fields}`);
  const { status, stderr } = await layergraft(["merge", "recipe.yaml", "--out", "merged", "--force"], { cwd });
  expect(status).toBe(DONE);
  return stderr.split("\n").filter((line) => line.startsWith("note: keeps "));
};

it("notes a kept share that is a point above the density, unless the cut is exact", async () => {
  const why = "because all changes that equal the threshold are kept. Set cutoff: exact for the exact share.";
  expect(await merged("method: ties\ndensity: 0.2\n")).toEqual([
    `note: keeps 38.6% of the changes of math-expert instead of 20.0% and 24.7% of the changes of swahili-expert instead of 20.0%, ${why}`,
  ]);
  expect(await merged("method: ties\ndensity: 0.2\ncutoff: exact\n")).toEqual([]);
  // Fewer elements changed than this, so that nothing is kept that was not asked for.
  expect(await merged("method: ties\ndensity: 0.8\n")).toEqual([]);
});

const near = "method: task_arithmetic\nmodels: [math-expert]\nbase: base\nlambda: 0.02\n";

it("measures what rounding an expert of float32 keeps of its change", async () => {
  const out = async (recipe: string, folder: string) => {
    writeFileSync(join(cwd, "recipe.yaml"), recipe);
    const { status, stderr } = await layergraft(["merge", "recipe.yaml", "--out", folder], { cwd });
    expect(status).toBe(DONE);
    return stderr.split("\n").filter((line) => line.startsWith("note: rounding "));
  };
  expect(await out(`${near}dtype: float32\n`, "near")).toEqual([]);
  const notes = await out("method: task_arithmetic\nmodels: [near]\nbase: base\ndtype: bfloat16\n", "rounded");
  const all = await readFolders(["base", "near", "rounded"].map((folder) => join(cwd, folder)));
  let [changed, kept, errors, changes] = [0, 0, 0, 0];
  const norms = { changed: 0, kept: 0 };
  for (const name of all[1]?.keys() ?? []) {
    const [before = [], exact = [], after = []] = valuesOf(name, all);
    for (const [i, value] of exact.entries()) {
      const change = value - (before[i] ?? 0);
      if (change === 0) continue;
      const left = (after[i] ?? 0) - (before[i] ?? 0);
      changed++;
      kept += Number(left !== 0);
      if (name.endsWith("norm.weight")) {
        norms.changed++;
        norms.kept += Number(left !== 0);
      }
      errors += (left - change) ** 2;
      changes += change ** 2;
    }
  }
  const shares = [kept / changed, norms.kept / norms.changed, Math.sqrt(errors / changes)];
  const [share, ofNorms, off] = shares.map((x) => `${(100 * x).toFixed(1)}%`);
  expect(notes).toEqual([
    `note: rounding to bfloat16 keeps ${share} of the changed elements (${ofNorms} of those in norms and biases); the change is off by ${off}. Pass --dtype float32 to keep all of it`,
  ]);
  expect(changed).toBeGreaterThan(1000);
});
