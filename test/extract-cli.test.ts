// `layergraft extract` as a person runs it.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft, snapshot, WRONG_USAGE } from "./support/command.js";

const root = temporaryFolder();
const at = (name: string) => join(root, name);
const run = (...args: string[]) => layergraft(["extract", ...args], { cwd: root });
const MODELS = ["--base", "base", "--model", "tuned"];

beforeAll(async () => {
  await writeTiny(at("base"), { seed: 1, layers: 2 });
  await writeTiny(at("tuned"), { seed: 2, layers: 2 });
  writeFileSync(at("half.yaml"), "method: soup\nmodels: [base, tuned]\n");
});

describe("layergraft extract", () => {
  it("writes an adapter and prints the share kept by rank", async () => {
    const { status, stdout, stderr } = await run(...MODELS, "--rank", "3", "--out", "adapter");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^Share of the squared change kept, by rank:\n\npart +weights +rank +at 1 +at 2 +at 3\n/);
    expect(stdout).toMatch(/\nq +2 +3 +\d+\.\d% +\d+\.\d% +\d+\.\d%\n/);
    expect(stdout).toMatch(/\nall +15 +3 /);
    expect(stderr).toContain("note: saved whole, as factors cannot hold them: model.layers.0.input_layernorm.weight");
    expect(stderr).toMatch(/Wrote adapter: [\d.]+ kB, .*\. Use it as base\+adapter\n$/);
    expect((await layergraft(["inspect", "base+adapter"], { cwd: root })).status).toBe(DONE);
  });

  it("writes the same bytes with any number of threads", async () => {
    const digests = async (...options: string[]) => {
      await run(...MODELS, "--rank", "3", "--out", "again", "--force", ...options);
      return snapshot(at("again"));
    };
    const one = await digests("--threads", "1");
    expect(await digests("--threads", "3")).toEqual(one);
  });

  it("prints JSON of an extraction and of a plan; takes a recipe", async () => {
    const options = ["--base", "base", "--model", "half.yaml", "--energy", "0.5", "--json", "--quiet"];
    const plan = JSON.parse((await run(...options, "--dry-run")).stdout) as { linear: unknown[]; bytes: unknown };
    expect(plan.linear).toHaveLength(15);
    expect(plan.bytes).toBe(null);
    expect(existsSync(at("half"))).toBe(false);
    const { stdout, stderr } = await run(...options, "--linear-only", "--out", "half");
    const extraction = JSON.parse(stdout) as { model: string; modules: { share: number }[]; left: string[] };
    expect(extraction.model).toBe("a recipe (soup)");
    expect(extraction.modules.every(({ share }) => share >= 0.5)).toBe(true);
    expect(extraction.left).toHaveLength(6);
    expect(stderr).toBe("");
  });

  it.each([
    [
      [...MODELS],
      WRONG_USAGE,
      "Missing --out. Pass --out FOLDER to write the adapter, or --dry-run to print the plan.",
    ],
    [[...MODELS, "--rank", "0", "--out", "x"], WRONG_USAGE, "It must be at least 1."],
    [[...MODELS, "--energy", "95", "--out", "x"], WRONG_USAGE, "It must be a number above 0 and at most 1."],
    [[...MODELS, "--out", "tuned"], FAILED, "the output tuned is one of the inputs"],
    [["--base", "base", "--model", "base", "--out", "x"], FAILED, "there is nothing to extract"],
  ])("refuses %j", async (args, status, message) => {
    const outcome = await run(...args);
    expect(outcome.stderr).toContain(message);
    expect(outcome.status).toBe(status);
    expect(existsSync(at("x"))).toBe(false);
  });
});
