// The demo's folder: nothing of others is replaced, and the plan that trains the shipped models asks the same of them.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readPlan } from "../experiment/plan/plan-file.js";
import { readRun } from "../train/index.js";
import { runDemo } from "./run-demo.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-demo-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("the demo's folder", () => {
  const signal = AbortSignal.abort();

  it("is not another program's folder with a plan", async () => {
    const out = join(root, "site");
    mkdirSync(out);
    writeFileSync(join(out, "plan.yaml"), "name: mine");
    await expect(runDemo({ out, force: true, signal })).rejects.toThrow(/is not empty and has no demo in it/);
    expect(readdirSync(out)).toEqual(["plan.yaml"]);
  });

  it("keeps a changed plan, and other files when a demo is replaced", async () => {
    const out = join(root, "earlier");
    await expect(runDemo({ out, signal })).rejects.toThrow(/stopped/);
    writeFileSync(join(out, "notes.txt"), "");
    writeFileSync(join(out, "swap.yaml"), "");
    writeFileSync(join(out, "plan.yaml"), "name: changed");
    await expect(runDemo({ out, signal })).rejects.toThrow(/stopped|plan\.yaml/);
    expect(existsSync(join(out, "swap.yaml"))).toBe(true);
    await expect(runDemo({ out, force: true, signal })).rejects.toThrow(/stopped/);
    expect(readdirSync(out)).toEqual(expect.arrayContaining(["base", "notes.txt", "plan.yaml"]));
    expect(existsSync(join(out, "swap.yaml"))).toBe(false);
    expect((await readPlan(join(out, "plan.yaml"))).plan.name).toBe("miniature");
  });
});

describe("the plan that trains the miniature", () => {
  it("has the merges, controls and tasks of the demo's", async () => {
    const { plan } = await readPlan("assets/demo/plan.yaml");
    const { plan: trained } = await readPlan("examples/miniature/plan.yaml");
    for (const field of ["merges", "controls", "search"] as const) expect(plan[field]).toEqual(trained[field]);
    const tasks = ({ evaluate }: typeof plan) => evaluate?.tasks.map(({ task }) => task);
    expect(tasks(plan)).toEqual(tasks(trained));
    const parts = Object.values(trained.experts).map(({ train }) => train?.runs[0]?.fields.train);
    expect(parts).toEqual(["layers 3-7", "embeddings, layers 0-2", undefined]);
    const { run } = await readRun("examples/miniature/base.yaml");
    expect(run).toMatchObject({ base: "base-untrained", out: "base", steps: 2000 });
  });
});
