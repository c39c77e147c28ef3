// Training that starts from merges, against the same by hand.
// @module-tag slow
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { runHere, writeSmallWorld } from "../../test/support/small-world.js";
import { planRecipe, type RecipeInput } from "../merge/index.js";
import { executePlan } from "../merge/output/index.js";
import { checkRun, trainRun } from "../train/index.js";
import { ReadFacts } from "./check/facts-reader.js";
import type { ExpertModel } from "./expand/plan-models.js";
import { openExperiment, previewExperiment, statusOf } from "./experiment.js";
import { outlookLines } from "./report/dry-run-and-status.js";
import { gatherReport, ofPlan } from "./report/gather.js";
import { findRecipe } from "./report/recipes.js";
import { runStepFolder } from "./steps/run-step.js";
import type { MergeStep } from "./steps/step.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-from-merges-"));
const at = (...names: string[]) => join(root, ...names);
const weightsIn = (folder: string) => readFileSync(join(folder, "model.safetensors"));

beforeAll(() => writeSmallWorld(root));

const RUN = {
  data: { source: "problems.jsonl", map: { prompt: "prompt", response: "response" } },
  ...{ optimizer: { lr: 1e-2 }, sequence_length: 96, batch: 4, samples: 8 },
};
const LORA = { method: "lora", lora: { rank: 2, alpha: 4 } };
const SWAP = { method: "swap", bottom: 1, top: 0, bottom_transition: 1, top_transition: 0 };
const train = (more: object) => ({ role: "task", train: more });
const PLAN = {
  name: "from",
  base: "base",
  allow_unrelated: true,
  experts: {
    math: train({ run: RUN }),
    swahili: { role: "language", language: "sw", folders: ["language"] },
    again: train({ from: "swap", run: RUN }),
    factors: train({ from: "swap", run: { ...RUN, ...LORA } }),
    folded: train({ from: "factors", run: RUN }),
  },
  merges: [
    { name: "swap", recipe: { ...SWAP, task: "math", language: "swahili" } },
    {
      name: "both",
      from: "swap",
      recipe: { method: "ties", base: "base", models: ["again", "factors"], density: 0.5 },
    },
  ],
  evaluate: { tasks: ["problems_sw.yaml"] },
};

/** Merges by hand. */
async function merged(name: string, recipe: object): Promise<string> {
  await executePlan(await planRecipe(recipe as RecipeInput), { out: at(name), force: true, allowUnrelated: true });
  return at(name);
}

/** Trains by hand. @returns the last checkpoint */
async function trained(name: string, base: string, more: object = {}): Promise<string> {
  const run = checkRun({ ...RUN, ...more, base, out: at(name), threads: 1 });
  return (await trainRun({ run, folder: root })).last;
}

it("gives the bytes of merging, training and merging by hand", { tags: ["slow"] }, async () => {
  writeFileSync(at("from.yaml"), JSON.stringify(PLAN));
  const { experiment, summary, ran } = await runHere(at("from.yaml"));
  expect(summary.failures).toEqual([]);
  expect(summary.counts).toMatchObject({ failed: 0, left: 0, waiting: 0 });
  expect(ran.filter((label) => label.startsWith("write"))).toEqual([
    "write swap, math-1 x swahili-1",
    "write factors-1",
  ]);
  const status = await statusOf(experiment);
  const expert = (name: string) => {
    const { model } = status.expansion.models.find((one) => one.model.name === name) as { model: ExpertModel };
    return status.store.locate(model.locations[model.source as string] as never, model.locations);
  };

  const math = await trained("math", at("base"));
  expect(weightsIn(expert("math-1"))).toEqual(weightsIn(math));
  const swap = await merged("swap", { ...SWAP, task: math, language: at("language") });
  const again = await trained("again", swap);
  expect(weightsIn(expert("again-1"))).toEqual(weightsIn(again));
  expect(weightsIn(again)).not.toEqual(weightsIn(math));

  const factors = await trained("factors", swap, LORA);
  const [base = "", adapter = ""] = expert("factors-1").split("+");
  const factorsIn = (folder: string) => readFileSync(join(folder, "adapter_model.safetensors"));
  expect(factorsIn(adapter)).toEqual(factorsIn(factors));
  expect(weightsIn(base)).toEqual(weightsIn(swap));
  expect(JSON.parse(readFileSync(join(adapter, "adapter_config.json"), "utf8")).base_model_name_or_path).toBe(base);

  const start = await merged("start", { method: "soup", models: [`${swap}+${factors}`] });
  expect(weightsIn(expert("folded-1"))).toEqual(weightsIn(await trained("folded", start)));

  const both = { method: "ties", base: swap, models: [again, `${swap}+${factors}`], density: 0.5 };
  const report = ofPlan(gatherReport(experiment, status), "the test");
  const { recipe } = findRecipe("both", report, status);
  const exported = weightsIn(await merged("exported", recipe));
  expect(exported).toEqual(weightsIn(await merged("both", both)));
  expect(report.recipes.find(({ model }) => model.startsWith("both"))?.text).toMatch(
    /base: "\.\.\/\.\.\/steps\/merge-/,
  );
  expect(report.cost.rows).toContainEqual(expect.objectContaining({ what: "written merges", steps: 2 }));
});

it("does so in rounds, and reports the scores over them", async () => {
  const { math, swahili } = PLAN.experts;
  const [swap] = PLAN.merges;
  const plan = { ...PLAN, name: "rounds", experts: { math, swahili }, merges: [swap], rounds: 3 };
  writeFileSync(at("rounds.yaml"), JSON.stringify(plan));
  const { experiment, summary } = await runHere(at("rounds.yaml"));
  expect(summary.failures).toEqual([]);
  expect(summary.counts).toMatchObject({ failed: 0, left: 0, waiting: 0 });
  const status = await statusOf(experiment);
  let base = at("base");
  for (const name of ["math-1", "math-round-2-1", "math-round-3-1"]) {
    const task = await trained(`${name} by hand`, base);
    const { model } = status.expansion.models.find((one) => one.model.name === name) as { model: ExpertModel };
    const own = status.store.locate(model.locations[model.source as string] as never, model.locations);
    expect(weightsIn(own)).toEqual(weightsIn(task));
    base = await merged(`swap after ${name}`, { ...SWAP, task, language: at("language") });
  }
  const { lines } = ofPlan(gatherReport(experiment, status), "the test");
  expect(lines.map(({ lines: drawn }) => drawn.map(({ label, points }) => [label, points.length]))).toEqual([
    [
      ["swap", 3],
      ["math", 3],
    ],
  ]);
}, 60_000);

it("shows what it will write", async () => {
  writeFileSync(at("dry.yaml"), JSON.stringify({ ...PLAN, name: "dry" }));
  const lines = outlookLines(await previewExperiment(await openExperiment(at("dry.yaml"))));
  expect(lines.join("\n")).toContain("about 1 step: writing swap");
  expect(lines.join("\n")).toContain("about 1 step: training of again");
});

it("resumes an interrupted step to the same bytes", async () => {
  const folder = at("kept", "steps", "merge-0");
  const facts = new ReadFacts({ folder: root });
  for (const name of ["base", "language"]) await facts.readModel(name, [name]);
  const [task, language] = ["base", "language"].map((name) => facts.modelIdentity(name).identity) as [string, string];
  const step: MergeStep = {
    ...{ kind: "merge", key: "merge-0", label: "write swap", needs: [], locations: {} },
    model: { ...SWAP, task, language },
  };
  const settings = { folder: root, allowCode: false, threads: 1 };
  mkdirSync(folder, { recursive: true });
  const order = { step, folders: { [task]: at("base"), [language]: at("language") }, settings };
  writeFileSync(join(folder, "step.json"), JSON.stringify(order));
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const stopped = runStepFolder(folder, { signal: stop.signal, onProgress: () => stop.abort() });
  await expect(stopped).rejects.toMatchObject({ code: "cancelled" });
  expect(await runStepFolder(folder)).toMatchObject({ kind: "merge" });
  const wanted = await merged("whole", { ...SWAP, task: at("base"), language: at("language") });
  expect(weightsIn(join(folder, "model"))).toEqual(weightsIn(wanted));
});
