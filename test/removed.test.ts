// What layergraft 1 had and 2 does not is refused by name, with what to use instead.
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parsePlan } from "../src/experiment/index.js";
import { checkRun } from "../src/train/index.js";
import { layergraft } from "./support/command.js";

const work = mkdtempSync(join(tmpdir(), "removed-"));

it.each([
  ["train run.yaml --log-to tensorboard", "--log-to was removed in 2.0.0. Send log.jsonl"],
  ["train run.yaml --sparse.keep=0.1", "--sparse.keep was removed in 2.0.0. Train twice: first all weights"],
  ["moe mixture.yml --out m", "moe was removed in 2.0.0. Use merge, which runs configurations of mergekit-moe."],
  ["merge recipe.yaml --out m", "pcb was removed in 2.0.0. Use consensus, sce or widen"],
  [
    "eval m --tasks quiz --format lm-eval",
    "lm-eval was removed after 2.0.0. The results of an evaluation, results.json and",
  ],
  ["methods core_space", "core_space was removed in 2.0.0. Merge the full model by ties, iso or tsv_m"],
  [
    "generate m --weights int4",
    "--weights was removed in 2.0.0. Leave it out for float32, or choose the backend llama",
  ],
])("layergraft %s", async (command, refusal) => {
  writeFileSync(join(work, "recipe.yaml"), "method: pcb\nbase: b\nmodels: [a]\n");
  writeFileSync(join(work, "run.yaml"), "base: b\nout: o\ndata: d.jsonl\n");
  const { status, stderr } = await layergraft(command.split(" "), { cwd: work });
  expect(status).toBe(2);
  expect(stderr).toContain(refusal);
});

it.each([
  [{ sparse: { keep: 0.1 } }, "- sparse was removed in 2.0.0. Train twice: first all weights"],
  [{ data: { source: "d.jsonl", contamination: { files: ["e.txt"] } } }, "contamination was removed in 2.0.0. Remove"],
])("a run with %o", (fields, refusal) => {
  expect(() => checkRun({ base: "b", out: "o", data: "d.jsonl", ...fields })).toThrow(refusal);
});

it("a plan with the weights of the engine, but not another field of that name", () => {
  const plan = (evaluate: string, model: string) =>
    `name: p\nbase: b\nexperts: { a: { role: task, folders: [a] } }\nmerges: [{ name: m, recipe: { method: soup, ${model} } }]\nevaluate: { tasks: [quiz]${evaluate} }\n`;
  expect(() => parsePlan(plan(", weights: int8", "models: [a]"))).toThrow("weights was removed in 2.0.0. Leave it out");
  expect(() => parsePlan(plan("", "models: [{ model: a, weights: 1 }]"))).toThrow(/unknown field "weights"/);
});
