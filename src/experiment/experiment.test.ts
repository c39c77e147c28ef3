// @module-tag slow
import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { writeByteModel, writeLetters } from "../../test/support/byte-model.js";
import { FAKE_LLAMA } from "../../test/support/fake-llama.js";
import { runHere, writeSmallWorld } from "../../test/support/small-world.js";
import { RecipeError } from "../kit/errors.js";
import { takeLock } from "../kit/files/lock.js";
import { planRecipe } from "../merge/index.js";
import { openExperiment, previewExperiment, runOpened, statusOf } from "./experiment.js";
import type { ExperimentInput } from "./plan/plan-schema.js";
import { outlookLines, statusLines } from "./report/dry-run-and-status.js";
import { gatherReport, ofPlan } from "./report/gather.js";
import { experimentPage } from "./report/page.js";
import { findRecipe } from "./report/recipes.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-experiment-"));
afterAll(() => rmSync(root, { recursive: true }));
const file = (name: string) => join(root, name);

const PLAN = `
name: tiny
base: base
experts:
  math:
    role: task
    train:
      run:
        data: { source: problems.jsonl, map: { prompt: prompt, response: response } }
        optimizer: { lr: 1.0e-3 }
        sequence_length: 96
        batch: 4
        samples: 8
        checkpoints: { every_samples: 4 }
      seeds: [1, 2]
    select: { top: 1, by: "problems_{language}.yaml" }
  swahili: { role: language, language: sw, folders: [language] }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, top: 0, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: [1, 2] }
  - { name: suggested, suggest: { task: math, language: swahili } }
evaluate: { tasks: ["problems_{language}.yaml"] }
allow_unrelated: true
`;

beforeAll(async () => {
  await writeSmallWorld(root);
  writeFileSync(file("plan.yaml"), PLAN);
});

const run = (plan: string) => runHere(file(plan));

it("refuses steps that this machine has no memory for, before the first one", async () => {
  const experiment = await openExperiment(file("plan.yaml"));
  vi.stubEnv("LAYERGRAFT_MEMORY", "100MB");
  try {
    const { problems } = await previewExperiment(experiment);
    expect(problems).toEqual([
      expect.stringMatching(/^train math: .* training of .* needs about/),
      expect.stringMatching(/^evaluate: .* in float32 needs about/),
    ]);
    await expect(runOpened(experiment)).rejects.toMatchObject({ problems });
  } finally {
    vi.unstubAllEnvs();
  }
  expect(existsSync(file("tiny.experiment/steps"))).toBe(false);
});

it("goes from a plan to a report, and computes nothing twice", async () => {
  const preview = await previewExperiment(await openExperiment(file("plan.yaml")));
  expect(preview.problems).toEqual([]);
  expect(outlookLines(preview).join("\n")).toMatch(
    /training +0 +2\nanalysis +0 +0\nevaluation +0 +2\n.*time left: unknown/s,
  );
  expect(existsSync(file("tiny.experiment/steps"))).toBe(false);

  const { experiment, summary, ran } = await runHere(file("plan.yaml"));
  expect(summary.failures).toEqual([]);
  expect(summary.counts).toMatchObject({ failed: 0, left: 0, waiting: 0 });
  // Two runs of two checkpoints each; the best is not evaluated again under its new name.
  expect(ran.filter((label) => label.startsWith("train"))).toHaveLength(2);
  expect(ran.filter((label) => /^evaluate math-\d@\d+/.test(label))).toHaveLength(4);
  expect(ran.filter((label) => label.startsWith("evaluate swap"))).toHaveLength(2 + 1);
  expect(ran).toContain("analyze math-1 and swahili-1");

  const status = await statusOf(experiment);
  expect(statusLines(status)[0]).toBe(`${ran.length} of ${ran.length} steps done`);
  const report = ofPlan(gatherReport(experiment, status), "the test");
  expect(report.experts[0]?.origin).toMatch(/^math-\d after \d samples$/);
  const index = readFileSync(file("tiny.experiment/steps/index.txt"), "utf8").trimEnd().split("\n");
  expect(index.map((line) => line.split("  ")[1]).sort()).toEqual(ran.toSorted());
  expect(index.every((line) => existsSync(file(`tiny.experiment/steps/${line.split(" ")[0]}/step.json`)))).toBe(true);
  // The expert, the default of the grid, and of the suggestions.
  expect(report.recipes.length).toBeGreaterThanOrEqual(3);
  for (const { id, model, text } of report.recipes) {
    const planned = await planRecipe(parse(text), { folder: file("tiny.experiment/report/recipes") });
    const { recipe } = findRecipe(id, report, status);
    const found = await planRecipe(recipe);
    expect([model, found.plan.steps]).toEqual([model, planned.plan.steps]);
    expect([...found.sources.values()].map(({ folder }) => folder)).toEqual(
      [...planned.sources.values()].map(({ folder }) => folder),
    );
  }
  expect(report.overviews[0]?.bars.some(({ label }) => /^swap, (first of the grid|chosen)$/.test(label))).toBe(true);
  expect(experimentPage(report).state?.text).toMatch(/^Complete:/);

  // Another name for a merge and a third configuration: only that one is new.
  writeFileSync(
    file("changed.yaml"),
    PLAN.replace("name: swap", "name: grafts")
      .replace("bottom: [1, 2]", "bottom: [1, 2, 3]")
      .replace("name: tiny", "name: tiny\nout: tiny.experiment"),
  );
  const second = await run("changed.yaml");
  expect(second.summary.failures).toEqual([]);
  expect(second.ran[0]).toMatch(/^evaluate grafts, math-1 x swahili-1, bottom 3 /);
  // On the search's items, and, should it be the best, on the others.
  expect(second.ran.length).toBeLessThanOrEqual(2);
}, 60_000);

it("starts what a plan names only where it is allowed, and lists it before", async () => {
  const marker = file("started");
  const plan = `
name: foreign
base: base
training: { unused: { engine: trl, trl: { python: /opt/python } } }
evaluate: { tasks: [problems_sw.yaml], backend: "serve:touch '${marker}'; echo {model} {port}; exit 1" }
`;
  writeFileSync(file("foreign.yaml"), plan);
  const { programs } = await previewExperiment(await openExperiment(file("foreign.yaml")));
  expect(programs).toEqual([{ when: "For each model", what: `touch '${marker}'; echo {model} {port}; exit 1` }]);
  const refused = await run("foreign.yaml").catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(RecipeError);
  expect(refused).toHaveProperty(
    "message",
    expect.stringMatching(/^foreign\.yaml names programs: touch '.*\. A dry run lists them/),
  );
  expect(refused).toHaveProperty("where.option", "allowCode");
  expect(existsSync(marker)).toBe(false);
  // The server of this plan ends at once.
  expect((await runHere(file("foreign.yaml"), { allowCode: true })).summary.failures).toHaveLength(1);
  expect(existsSync(marker)).toBe(true);
});

it("runs models and merges in llama.cpp, and again only with another type", async () => {
  for (const [i, name] of ["origin", "first", "second"].entries()) await writeByteModel(file(name), i + 1);
  writeLetters(root);
  vi.stubEnv("NODE_LLAMA_CPP", FAKE_LLAMA);
  vi.stubEnv("LAYERGRAFT_CACHE", file("cache"));
  const plan = (type: string) => `
name: quantized
base: origin
experts: { math: { role: task, folders: [first] }, swahili: { role: language, language: sw, folders: [second] } }
merges: [{ name: soup, recipe: { method: soup, models: [math, swahili] } }]
evaluate: { tasks: [letters.yaml], backend: llama, type: ${type} }
`;
  const exports = () => readdirSync(file("cache/gguf")).length;
  writeFileSync(file("quantized.yaml"), plan("q8_0"));
  const opened = await openExperiment(file("quantized.yaml"));
  expect(outlookLines(await previewExperiment(opened)).at(-1)).toMatch(/^up to 4 GGUF files of [\d.]+ kB in .*gguf$/);
  const first = await run("quantized.yaml");
  expect(first.summary.failures).toEqual([]);
  expect([first.ran.length, exports()]).toEqual([4, 4]);
  expect((await run("quantized.yaml")).ran).toEqual([]);
  writeFileSync(file("quantized.yaml"), plan("q4_0"));
  expect((await run("quantized.yaml")).ran).toHaveLength(4);
  expect(exports()).toBe(8);
  vi.unstubAllEnvs();
});

it("refuses a plan that is a pipe, whose read nothing could cancel", async () => {
  execFileSync("mkfifo", [file("pipe.yaml")]);
  await expect(openExperiment(file("pipe.yaml"))).rejects.toThrow(/pipe\.yaml is not a regular file\. Save the plan/);
});

it("a plan whose check is interrupted is not an invalid one", async () => {
  const opening = openExperiment(file("plan.yaml"), { signal: AbortSignal.abort() });
  await expect(opening).rejects.toThrow(/^stopped while checking the plan; run it again to resume$/);
});

it.skipIf(process.platform === "win32")("words what the system says of a file", async () => {
  symlinkSync("loop.jsonl", file("loop.jsonl"));
  writeFileSync(file("loop.yaml"), PLAN.replace("source: problems.jsonl", "source: loop.jsonl"));
  const { problems } = await previewExperiment(await openExperiment(file("loop.yaml")));
  expect(problems).toContainEqual(
    expect.stringMatching(/loop\.jsonl is a symbolic link that leads back to itself; replace it with the file$/),
  );
});

it("reports everything that is missing at once", async () => {
  mkdirSync(file("bad"), { recursive: true });
  const plan = PLAN.replace("folders: [language]", "folders: [nowhere]")
    .replace("source: problems.jsonl", "source: lost.jsonl")
    .replace("bottom: [1, 2]", "bottom: [1, 9]")
    .replace('tasks: ["problems_{language}.yaml"]', 'tasks: ["problems_{language}.yaml", mgsm_xx, missing.yaml]')
    .replace("base: base", "base: ../base")
    .replace('by: "problems', 'by: "../problems')
    .replace('["problems', '["../problems')
    .replace("name: tiny", "name: bad");
  writeFileSync(file("bad/plan.yaml"), plan);
  const experiment = await openExperiment(file("bad/plan.yaml"));
  const { problems } = await previewExperiment(experiment);
  const text = problems.join("\n");
  expect(text).toMatch(/line 17: experts\.swahili\.folders\[0\]: nowhere does not exist/);
  expect(text).toMatch(/line 9: experts\.math\.train\.run\.data: lost\.jsonl does not exist/);
  expect(text).toMatch(/task mgsm_xx: /);
  expect(text).toMatch(/task missing\.yaml: .*does not exist/);
  expect(text).toMatch(/swap, bottom 9: .*9/);
  expect(problems).toHaveLength(5);
  await expect(runOpened(experiment)).rejects.toThrow(
    /plan\.yaml cannot run here:\n {2}- line 9: experts\.math\.train\.run\.data: lost/,
  );
  expect(existsSync(file("bad/bad.experiment/steps"))).toBe(false);
});

it("writes each step and its result into its folder", async () => {
  const experiment = await openExperiment(file("plan.yaml"));
  const { steps } = await statusOf(experiment);
  const train = steps.find(({ step }) => step.kind === "train")?.step;
  const result = JSON.parse(readFileSync(file(`tiny.experiment/steps/${train?.key}/result.json`), "utf8")) as {
    checkpoints: { path: string }[];
  };
  expect(result.checkpoints.map(({ path }) => path)).toEqual(["run/checkpoint-4", "run/checkpoint-8"]);
  expect(existsSync(file(`tiny.experiment/steps/${train?.key}/run/state`))).toBe(false);
});

it("reports steps whose process is gone, and resources that the machine does not have", async () => {
  const lacking = PLAN.replace("name: tiny", "name: gone\nexecutor: { cores: 200, memory: 900TB }");
  writeFileSync(file("gone.yaml"), lacking);
  const experiment = await openExperiment(file("gone.yaml"));
  expect(experiment.world.problems).toEqual([]);
  expect(experiment.world.notes).toEqual([
    expect.stringMatching(/^executor\.cores is 200, but this machine has \d+ cores?$/),
    expect.stringMatching(/^executor\.memory is 900 TB, but this machine has .* GB$/),
    expect.stringMatching(/^the search sees \d of the \d+ items of /),
  ]);
  const before = await statusOf(experiment);
  const [step] = before.steps;
  if (!step) throw new Error("no step");
  const { key, label } = step.step;
  const folder = file(`gone.experiment/steps/${key}`);
  mkdirSync(folder, { recursive: true });
  const dead = spawnSync(process.execPath, ["--version"]).pid;
  const note = (pid: number) => {
    const runner = { kind: "local", host: hostname(), pid };
    writeFileSync(join(folder, "attempt.json"), JSON.stringify({ state: "running", since: "2026-01-01", runner }));
  };
  note(dead);
  const after = await statusOf(experiment);
  expect(after.counts).toEqual({ ...before.counts, running: 0 });
  expect(after.steps[0]?.state).toMatchObject({ state: "pending", reason: "its process is gone" });
  expect(statusLines(after)).toContain(`stopped  ${label}: its process is gone; resume continues it`);

  // While somebody holds the folder, a living process is one that works on it.
  note(process.pid);
  const lock = await takeLock(file("gone.experiment"));
  expect((await statusOf(experiment)).counts.running).toBe(1);
  await lock.release();
  expect((await statusOf(experiment)).counts.running).toBe(0);
});

it("runs a plan given as a value, with paths from the working folder", async () => {
  const value = parse(PLAN) as ExperimentInput;
  const { plan, planFolder, out, file: name } = await openExperiment(value, { out: file("value"), base: file("base") });
  expect(plan).toEqual({ ...(await openExperiment(file("plan.yaml"))).plan, base: file("base") });
  expect({ planFolder, out, name }).toEqual({ planFolder: process.cwd(), out: file("value"), name: "the plan" });
  const { world } = await openExperiment({ ...value, base: "nowhere" });
  expect(world.problems).toContainEqual(expect.stringMatching(/^base: nowhere does not exist/));
  await expect(openExperiment({ ...value, merges: [{ name: "none" }] })).rejects.toMatchObject({
    problems: ["merges[0]: must have either recipe or suggest"],
  });
});

it("reports problems of the plan, its models and its data in one list, with their lines", async () => {
  const plan = PLAN.replace("folders: [language]", "folders: [nowhere]")
    .replace("response: response", "response: answer")
    .replace('tasks: ["problems_{language}.yaml"]', 'tasks: [{ task: "problems_{language}.yaml", shots: 900 }]')
    .replace("grid: { bottom: [1, 2] }", "grid: { bottom: [1, 2] }\n    pairs: [[math-9, swahili-1]]");
  writeFileSync(file("many.yaml"), plan);
  const error = await openExperiment(file("many.yaml")).catch((one: RecipeError) => one);
  const problems = error instanceof RecipeError ? error.problems.map((problem) => problem.replace(/: .*/s, "")) : [];
  expect(problems).toEqual(["line 9", "line 17", "line 22", "line 24"]);
  expect(String(error)).toMatch(/experts\.math\.train\.run\.data: problems\.jsonl: .* has no column answer/);
  expect(String(error)).toMatch(/evaluate\.tasks\[0\]: task problems_sw\.yaml: .*900/);
  expect(String(error)).toMatch(/pairs\[0\]: there is no expert math-9; did you mean math-1\?/);
});
