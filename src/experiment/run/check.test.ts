// Faults of a plan that only its world shows: tasks by which nothing can be chosen.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeInitialModel } from "../demo/model.js";
import { openExperiment } from "../experiment.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-check-"));
afterAll(() => rmSync(root, { recursive: true }));
const file = (name: string) => join(root, name);

beforeAll(async () => {
  await writeInitialModel(file("base"), 1, { layers: 3, width: 16, heads: 2, feedForward: 32 });
  writeFileSync(file("one.jsonl"), '{"text":"asha had 3 mangoes .","answer":"3"}\n');
  const task = ["task: one", "data: one.jsonl", 'prompt: "{{text}}"', "answer: generate", 'gold: "{{answer}}"'];
  writeFileSync(file("one.yaml"), [...task, "max_new_tokens: 4", "read: number", ""].join("\n"));
  const corpus = [...task.with(0, "task: other-name"), "max_new_tokens: 4", "read: line", "score: [bleu, exact]", ""];
  writeFileSync(file("corpus.yaml"), corpus.join("\n"));
});

async function faultsOf(search: string, grid = "[1, 2]", task = "one.yaml"): Promise<string> {
  const plan = `
name: one
base: base
experts:
  math: { role: task, folders: [base] }
  swahili: { role: language, language: sw, folders: [base] }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, top: 0, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: ${grid} }
evaluate: { tasks: [${task}] }
search: { ${search} }
`;
  writeFileSync(file("plan.yaml"), plan);
  return (await openExperiment(file("plan.yaml"))).world.faults.join("\n");
}

it("one item cannot be searched on and compared on", async () => {
  const message =
    "search.by: one has one item, of which none would be left to compare on; give it more, choose another task, or set choose_on: test";
  expect(await faultsOf("how: grid")).toContain(message);
  expect(await faultsOf("how: grid, choose_on: both")).toContain(message);
  expect(await faultsOf("choose_on: test")).toBe("");
  expect(await faultsOf("how: grid", "[1]")).toBe(""); // nothing to choose
});

it("a score of a whole corpus decides nothing, whatever the file of the task is called and however it is asked", async () => {
  const message = "other-name has a score of the whole corpus; configurations are compared item by item";
  for (const task of ["corpus.yaml", "./corpus.yaml", "{ task: corpus.yaml, limit: 1 }"]) {
    expect(await faultsOf("choose_on: test", "[1, 2]", task), task).toContain(message);
  }
  expect(await faultsOf("how: halving, by: corpus.yaml", "[1, 2]", "one.yaml, corpus.yaml")).toContain(message);
  expect(await faultsOf("choose_on: test, by: one.yaml", "[1, 2]", "one.yaml, corpus.yaml")).toBe("");
});

it("of many configurations that cannot be planned the first are told, and how many others there are", async () => {
  const faults = (
    await faultsOf("choose_on: test", `[1, ${Array.from({ length: 30 }, (_, i) => 4 + i).join(", ")}]`)
  ).split("\n");
  expect(faults).toHaveLength(9);
  expect(faults[0]).toMatch(/^line 8: merges\[0\]: swap, bottom 4: /);
  expect(faults[8]).toBe("line 8: merges[0]: swap: 22 further configurations cannot be planned either");
});
