// What layergraft explain prints: the finding first, then where each layer is from, then the recipe.
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { writeExample } from "../src/demo/index.js";
import { openSafetensors } from "../src/formats/safetensors/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft, snapshot } from "./support/command.js";

const cwd = join(temporaryFolder(), "example");
beforeAll(() => writeExample(cwd));

async function explain(model: string, ...flags: readonly string[]): Promise<string> {
  const { status, stdout } = await layergraft(["explain", model, ...flags], { cwd });
  expect(status).toBe(DONE);
  return stdout;
}

it("finds the swap of two adapters, as briefly as it was written, beside their base", async () => {
  const [task, language] = ["base+math-adapter", "base+swahili-adapter"];
  const made = ["swap", "--task", task, "--language", language, "--bottom", "1", "--top", "1", "--out", "swapped"];
  await layergraft(made, { cwd });
  const stdout = await explain("swapped", "--from", task, "--from", language, "--base", "base");
  const [finding = "", ...rest] = stdout.split("\n");
  expect(finding).toBe("Explained: the recipe gives all 75 tensors, bit for bit.");
  expect(rest.length).toBeLessThan(16);
  const recipe = stdout.slice(stdout.indexOf("method:"));
  expect(parse(recipe)).toEqual({ method: "swap", task, language, layers: { language: "0, 7" }, outside: "average" });
  writeFileSync(join(cwd, "found.yaml"), recipe);
  await layergraft(["merge", "found.yaml", "--out", "again"], { cwd });
  const weights = (folder: string) => snapshot(join(cwd, folder))["model.safetensors"];
  expect(weights("again")).toBe(weights("swapped"));
});

it("names layers that are missing", async () => {
  const cut = "method: passthrough\nslices: [{ model: math-expert, layers: 0-4 }]\n";
  writeFileSync(join(cwd, "cut.yaml"), cut);
  await layergraft(["merge", "cut.yaml", "--out", "cut"], { cwd });
  const [finding, missing] = (await explain("cut", "--from", "math-expert", "--from", "swahili-expert")).split("\n");
  expect(finding).toBe("Explained: the recipe gives all 48 tensors, bit for bit.");
  expect(missing).toBe(
    "The models have 27 more tensors, which are missing here: layers 5-7. The recipe gives them, too.",
  );
});

it("tells the sign of zero from rounding", async () => {
  const file = (model: string) => join(cwd, model, "model.safetensors");
  const { tensors } = await openSafetensors(file("base"));
  const first = tensors.find(({ name }) => name.endsWith("0.mlp.up_proj.weight"));
  for (const [model, source, high] of [
    ["signed", "base", 0x80],
    ["zero", "base", 0],
    ["other", "math-expert", 0],
  ] as const) {
    cpSync(join(cwd, source), join(cwd, model), { recursive: true });
    const bytes = readFileSync(file(model));
    bytes.set([0, high], first?.offset ?? 0);
    writeFileSync(file(model), bytes);
  }
  const [finding] = (await explain("signed", "--from", "zero", "--from", "other")).split("\n");
  expect(finding).toBe(
    "Explained: the recipe gives all 75 tensors, bit for bit but for the sign of zero in 1 element of 1.",
  );
});
