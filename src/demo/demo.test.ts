import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { configurationsOf } from "../experiment/plan/configurations.js";
import { readPlan } from "../experiment/plan/plan-file.js";
import { readRun } from "../train/index.js";
import { writePlan } from "./demo-plan.js";
import { runDemo } from "./run-demo.js";
import { stepsOf, writeTasks, writeTrainingWorld } from "./world/world-files.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-demo-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("the demo's files", () => {
  const out = join(root, "files");
  const settings = { train: true, seed: 3, pairs: 2, quick: true, full: false, threads: 1 };
  const parts = (plan: Awaited<ReturnType<typeof readPlan>>["plan"]) =>
    Object.values(plan.experts).map(({ train }) => train?.run.train);
  const linesOf = (file: string) => readFileSync(join(out, file), "utf8").trimEnd().split("\n");

  it("have data for every run, and are the same for the same seed", async () => {
    mkdirSync(out);
    await writeTrainingWorld(out, settings);
    await writeTasks(out, settings);
    expect(readdirSync(join(out, "data")).sort()).toEqual([
      "base.jsonl",
      "choosing.jsonl",
      ...[1, 2].flatMap((number) => [`joint-${number}-language.jsonl`, `joint-${number}-math.jsonl`]),
      ...["language-1.jsonl", "language-2.jsonl", "math-1.jsonl", "math-2.jsonl", "problems.jsonl", "reading.jsonl"],
    ]);
    // 66 examples a step; joint training takes them from two files.
    expect(linesOf("data/math-1.jsonl")).toHaveLength(66 * stepsOf("math", settings));
    expect(linesOf("data/joint-2-math.jsonl")).toHaveLength(33 * stepsOf("joint", settings));
    expect(["problems", "choosing", "reading"].map((name) => linesOf(`data/${name}.jsonl`).length)).toEqual([
      200, 40, 200,
    ]);
    const [first, second] = [linesOf("data/math-1.jsonl"), linesOf("data/math-2.jsonl")];
    expect(second).not.toEqual(first);
    await writeTrainingWorld(out, settings);
    expect(linesOf("data/math-1.jsonl")).toEqual(first);
  });

  it("are a valid run and a valid plan", async () => {
    await writePlan(out, settings);
    const { run } = await readRun(join(out, "base.yaml"));
    expect(run).toMatchObject({
      base: "base-untrained",
      steps: stepsOf("base", settings),
      packing: true,
      seed: 300,
      threads: 1,
    });
    expect(run.optimizer).toMatchObject({ lr: 3e-3, betas: [0.9, 0.98], decay: 0.1, clip: 1 });
    const { plan } = await readPlan(join(out, "plan.yaml"));
    expect(plan.experts.swahili?.train?.runs?.map(({ name, seed }) => [name, seed])).toEqual([
      ["swahili-1", 301],
      ["swahili-2", 302],
    ]);
    const swap = plan.merges.find(({ name }) => name === "layer swap");
    const configurations = swap ? configurationsOf(swap) : [];
    const labels = configurations.map(({ label }) => label);
    expect(labels.length).toBeGreaterThan(1);
    expect(labels.filter((label) => !/^bottom \d, top \d$/.test(label))).toEqual([]);
    expect(new Set(labels).size).toBe(labels.length);
    expect(configurations.filter(({ isDefault }) => isDefault)).toHaveLength(1);
    expect(parts(plan)).toEqual(["layers 3-7", "embeddings, layers 0-2", undefined]);
  });

  it("train all layers if asked to", async () => {
    await writePlan(out, { ...settings, full: true });
    const { plan } = await readPlan(join(out, "plan.yaml"));
    expect(parts(plan)).toEqual([undefined, undefined, undefined]);
  });
});

describe("the plan of the shipped models", () => {
  it("reads their folders, trains nothing, and has the same merges, controls and tasks", async () => {
    const [shipped, trained] = [join(root, "shipped"), join(root, "trained")];
    const settings = { seed: 0, pairs: 1, quick: false, full: false, threads: 1 };
    for (const out of [shipped, trained]) {
      mkdirSync(out);
      await writePlan(out, { ...settings, train: out === trained });
    }
    expect(readdirSync(shipped)).toEqual(["plan.yaml"]);
    const { plan } = await readPlan(join(shipped, "plan.yaml"));
    expect(plan.base).toBe("base");
    const families = Object.entries(plan.experts).map(([name, { role, train, folders }]) => ({
      ...{ name, role, train, folders: Object.values(folders ?? {}) },
    }));
    expect(families).toEqual([
      { name: "math", role: "task", train: undefined, folders: ["math-expert"] },
      { name: "swahili", role: "language", train: undefined, folders: ["swahili-expert"] },
    ]);
    const { plan: other } = await readPlan(join(trained, "plan.yaml"));
    for (const field of ["merges", "controls", "search"] as const) expect(plan[field]).toEqual(other[field]);
    const tasks = ({ evaluate }: typeof plan) =>
      evaluate?.tasks.map((one) => [one.task, "limit" in one ? one.limit : undefined]);
    expect(tasks(other)).toEqual(
      ["problems_sw.yaml", "problems_en.yaml", "reading_sw.yaml", "choosing_sw.yaml"].map((task) => [task, undefined]),
    );
    // Fewer problems in English, and none that are only read, so that the comparison takes a minute.
    expect(tasks(plan)).toEqual([
      ["problems_sw.yaml", undefined],
      ["problems_en.yaml", 250],
      ["choosing_sw.yaml", undefined],
    ]);
  });
});

describe("the demo's folder", () => {
  const stopped = AbortSignal.abort();

  it("is not another program's folder with a demo.json", async () => {
    const out = join(root, "site");
    mkdirSync(out);
    writeFileSync(join(out, "demo.json"), '{"site": "mine"}');
    writeFileSync(join(out, "precious"), "");
    await expect(runDemo({ out, force: true, signal: stopped })).rejects.toThrow(/is not empty and has no demo in it/);
    expect(readdirSync(out).sort()).toEqual(["demo.json", "precious"]);
  });

  it("keeps other files when a demo is replaced", async () => {
    const out = join(root, "earlier");
    mkdirSync(join(out, "base"), { recursive: true });
    writeFileSync(join(out, "demo.json"), '{"seed": 1, "pairs": 1, "quick": true}');
    writeFileSync(join(out, "notes.txt"), "");
    await expect(runDemo({ out, signal: stopped })).rejects.toThrow(/a demo with other settings.*--force/);
    await expect(runDemo({ out, quick: true, force: true, signal: stopped })).rejects.toThrow(/stopped/);
    expect(readdirSync(out)).toContain("notes.txt");
  });
});
