import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { openModelSource } from "../../engine/index.js";
import { estimateEngine } from "../../engine/memory/index.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { estimateTraining } from "../../train/index.js";
import type { Variant } from "../plan/matrix.js";
import { inspectPlan } from "../plan/plan-file.js";
import { memoryProblems } from "./step-memory.js";

const folder = temporaryFolder();
const PLAN = `
name: tiny
base: base
experts:
  math:
    role: task
    train: { run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, method: full, optimizer: { lr: 1 } } }
merges: []
evaluate: { tasks: [a.yaml], backend: BACKEND }
`;
beforeAll(() => writeTiny(join(folder, "base"), { vocabulary: 300 }));
afterEach(() => vi.unstubAllEnvs());

async function problemsOf(free: number, left: Parameters<typeof memoryProblems>[2], backend = "engine") {
  const file = join(folder, "plan.yaml");
  writeFileSync(file, PLAN.replace("BACKEND", backend));
  const [variant] = (await inspectPlan(file)).variants;
  vi.stubEnv("LAYERGRAFT_MEMORY", `${free}`);
  return memoryProblems((variant as Variant).plan, await openCheckpoint(join(folder, "base")), left);
}

it("names the steps that this machine has no memory for, before any runs", async () => {
  const source = await openModelSource(join(folder, "base"));
  const evaluated = estimateEngine(source).total;
  const trained = estimateTraining(source, { method: "full", texts: 1, tokens: 1 }).total;
  expect(trained).toBeGreaterThan(evaluated);
  const all = { train: true, evaluate: true };
  expect(await problemsOf(evaluated - 1, all)).toEqual([
    expect.stringMatching(/^train math: Full training of base needs about .* but LAYERGRAFT_MEMORY is/),
    expect.stringMatching(/^evaluate: base in float32 needs about .* but LAYERGRAFT_MEMORY is/),
  ]);
  expect(await problemsOf(evaluated, all)).toEqual([expect.stringMatching(/^train math: /)]);
  expect(await problemsOf(1e9, all)).toEqual([]);
  // What is done takes nothing, and a server has its own memory.
  expect(await problemsOf(1, { train: false, evaluate: false })).toEqual([]);
  expect(await problemsOf(1, { train: false, evaluate: true }, "openai:http://localhost:1")).toEqual([]);
});
