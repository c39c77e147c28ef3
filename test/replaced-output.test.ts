// What --force replaces, and what --resume takes for complete: only files as a merge wrote them.
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { planRecipe } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { Bench } from "./support/merging.js";

const bench = new Bench();

async function merged() {
  const models = await bench.models(2);
  const out = bench.next("out");
  const write = async (options: { force?: boolean; resume?: boolean } = {}) =>
    executePlan(await planRecipe({ method: "soup", models }), { out, allowUnrelated: true, ...options });
  await write();
  return { out, write };
}

it("--force keeps a folder in which a person put files, and names them", async () => {
  const { out, write } = await merged();
  // Written by layergraft, and edited since: replaced.
  appendFileSync(join(out, "README.md"), "mine");
  expect((await write({ force: true })).alreadyComplete).toBe(false);
  mkdirSync(join(out, "evals"));
  for (const name of ["evals/scores.csv", "model.gguf"]) writeFileSync(join(out, name), "mine");
  await expect(write({ force: true })).rejects.toThrow(
    /out\d+ contains other files \(evals\/scores\.csv, model\.gguf\), so it is not replaced/,
  );
  expect(readFileSync(join(out, "evals/scores.csv"), "utf8")).toBe("mine");
  for (const name of ["evals", "model.gguf"]) rmSync(join(out, name), { recursive: true });
  await write({ force: true });
});

it.each([
  ["model.safetensors has \\d+ of \\d+ bytes", (out: string) => appendFileSync(join(out, "model.safetensors"), "x")],
  ["model.safetensors is missing", (out: string) => rmSync(join(out, "model.safetensors"))],
  ["config.json was changed", (out: string) => appendFileSync(join(out, "config.json"), " ")],
  ["config.json is missing", (out: string) => rmSync(join(out, "config.json"))],
])("--resume finds that %s", async (what, damage) => {
  const { out, write } = await merged();
  expect((await write({ resume: true })).alreadyComplete).toBe(true);
  damage(out);
  await expect(write({ resume: true })).rejects.toThrow(
    new RegExp(`is complete, so there is nothing to resume, but ${what}$`),
  );
  expect((await write({ resume: true, force: true })).alreadyComplete).toBe(false);
  expect((await write({ resume: true })).alreadyComplete).toBe(true);
  expect(existsSync(`${out}.partial`)).toBe(false);
});
