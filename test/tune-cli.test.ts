// layergraft tune, as a user runs it.
// @module-tag slow
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { writeExample } from "../src/demo/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { layergraft, start } from "./support/command.js";

const world = join(temporaryFolder(), "world");
beforeAll(() => writeExample(world));

const TUNE = ["tune", "--task", "math-expert", "--language", "swahili-expert", "--on", "quiz.yaml", "--method", "swap"];
const BUDGET = ["--budget", "12", "--seed", "3"];

describe("tune", () => {
  it("prints its plan without writing anything", async () => {
    const { stdout, status } = await layergraft([...TUNE, "--dry-run"], { cwd: world });
    expect(status).toBe(0);
    expect(stdout).toContain("how: cma-es");
    expect(stdout).toContain("budget: 40");
    expect(stdout).toContain("later generations of tuned");
    expect(existsSync(join(world, "tuned"))).toBe(false);
  });

  it.each([
    [["--on", "quizz.yaml"], "quizz.yaml does not exist"],
    [["--method", "ties"], "ties needs the base that both were fine-tuned from. Pass it with --base"],
    [["--budget", "1"], "It must be at least 2"],
    [["--out", "mine"], "was not written by tune"],
    [["--out", "endless"], "was not written by tune"],
  ])("refuses %s", async (args, message) => {
    mkdirSync(join(world, "mine"), { recursive: true });
    writeFileSync(join(world, "mine", "plan.yaml"), "name: mine\n");
    mkdirSync(join(world, "endless"), { recursive: true });
    if (!existsSync(join(world, "endless", "plan.yaml"))) symlinkSync("/dev/zero", join(world, "endless", "plan.yaml"));
    const { stderr, status } = await layergraft([...TUNE, "--out", "other", ...args], { cwd: world });
    expect(status).not.toBe(0);
    expect(stderr).toContain(message);
    expect(existsSync(join(world, "other"))).toBe(false);
  });

  it("says that all configurations tie, continues with a larger budget, and keeps its report from another search", async () => {
    const own = [...TUNE, "--limit", "5", "--out", "tied"];
    const first = await layergraft([...own, "--budget", "2"], { cwd: world });
    expect({ status: first.status, stderr: first.stderr.slice(-3000) }).toMatchObject({ status: 0 });
    expect(first.stderr).toContain("the search sees 2 of the 5 items of quiz. Use more, or its choice is chance");
    // Every swap of the example scores the same on the two items of this search.
    expect(first.stdout).toMatch(/Chosen: bottom \d.* Tied: .* scored the same\. The choice among them is arbitrary\./);
    const recipe = join(world, /^Recipe: (.+)$/m.exec(first.stdout)?.[1] ?? "");
    expect(existsSync(recipe)).toBe(true);
    const other = await layergraft([...own, "--method", "slerp"], { cwd: world });
    expect(other.status).toBe(1);
    expect(other.stderr).toMatch(/tied.experiment.report is of another search.* Choose another --out\.\n$/);
    expect(existsSync(recipe)).toBe(true);
    expect((await layergraft([...own, "--budget", "3"], { cwd: world })).status).toBe(0);
  });

  it("ends the same after ten kills as without any, and its command writes the recipe", {
    tags: ["slow"],
    timeout: 240_000,
  }, async () => {
    const [whole, killed] = [join(temporaryFolder(), "whole"), join(temporaryFolder(), "killed")];
    for (const folder of [whole, killed]) cpSync(world, folder, { recursive: true });
    expect((await layergraft([...TUNE, ...BUDGET], { cwd: whole })).status).toBe(0);
    let kills = 0;
    while (kills < 10) {
      const before = doneIn(killed);
      const { child, ended } = start([...TUNE, ...BUDGET], { cwd: killed });
      let hasEnded = false;
      void ended.then(() => {
        hasEnded = true;
      });
      // In the first step of this run, or when one more is done.
      while (!hasEnded && doneIn(killed) < before + (kills % 2))
        await new Promise((resolve) => setTimeout(resolve, 20));
      if (kills % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 100 * (kills + 1)));
      expect(hasEnded).toBe(false);
      child.kill("SIGKILL");
      await ended;
      kills++;
    }
    const { status, stdout } = await layergraft([...TUNE, ...BUDGET], { cwd: killed });
    expect(status).toBe(0);
    const reports = [whole, killed].map(reportIn);
    expect(reports[1]).toEqual(reports[0]);
    expect(reports[0]?.searches[0]?.evaluated.length).toBeGreaterThan(3);
    const command = /^Write it: layergraft (.*)$/m.exec(stdout)?.[1] ?? "";
    expect((await layergraft(command.split(" "), { cwd: killed })).status).toBe(0);
    expect(existsSync(join(killed, "best", "model.safetensors"))).toBe(true);
  });
});

/** Finished steps. */
function doneIn(folder: string): number {
  const steps = join(folder, "tuned", "experiment", "steps");
  if (!existsSync(steps)) return 0;
  return readdirSync(steps).filter((name) => existsSync(join(steps, name, "result.json"))).length;
}

/** What does not depend on time. */
function reportIn(folder: string): { searches: { evaluated: unknown[] }[]; scores: unknown } {
  const { searches, scores, recipes } = JSON.parse(
    readFileSync(join(folder, "tuned", "experiment", "report", "report.json"), "utf8"),
  );
  return { searches, scores, ...{ recipes } };
}
