// What the command line prints of a threshold that keeps more than the recipe asks for.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeMiniature } from "../src/demo/miniature.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";

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
