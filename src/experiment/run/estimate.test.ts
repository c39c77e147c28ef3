// Estimates by hand: operations of training and answering, speeds assumed and measured, bytes of checkpoints and states.
import { expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../plan/fake-world.test-util.js";
import { estimateExperiment } from "./estimate.js";

const PLAN = `
name: estimated
base: base
experts:
  math:
    role: task
    train:
      run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1.0e-5 }, samples: 1000, sequence_length: 100, checkpoints: { every_samples: 250 } }
      seeds: [1, 2]
    select: { top: 1, by: mgsm_en }
evaluate: { tasks: [mgsm_en] }
executor: { flops: 1.0e+9 }
`;

// Twenty items of 150 characters and 10 new tokens: 20 * (150 / 3 + 10) = 1,200 tokens.
const facts = {
  task: (request: Parameters<typeof fakeFacts.task>[0]) => ({
    ...fakeFacts.task(request),
    promptCharacters: 3000,
    newTokens: 200,
  }),
};
const base = { parameters: 1e6, bytes: 2e6 };

it("counts operations, steps that cannot be named, and what stands on the disk", () => {
  const world = new FakeWorld(PLAN);
  const expansion = world.expand();
  const estimate = estimateExperiment({ plan: world.plan, expansion, facts, base, done: [], workers: 2 });
  expect(estimate.steps).toEqual({ train: 2, analyze: 0, evaluate: 1 });
  // Four checkpoints of each run, and the one that is chosen.
  expect(estimate.waiting).toBe(2 * 4 + 1);
  // 6 operations a parameter and token: 6e6 * 1,000 * 100 / 1e9 s a run.
  expect(estimate.seconds.train).toBeCloseTo(2 * 600, 6);
  // 2 a parameter and token: 2e6 * 1,200 / 1e9 s.
  expect(estimate.seconds.evaluate).toBeCloseTo(10 * 2.4, 6);
  expect(estimate.wallSeconds).toBeCloseTo((1200 + 24) / 2, 6);
  expect(estimate.isMeasured).toBe(false);
  // Small files of twelve steps, four checkpoints of each run, and both runs' states while they run.
  expect(estimate.bytes).toBe(12 * 1e6 + 2 * 4 * 2e6 + 2 * 12e6);
});

it("goes by what steps took as soon as some are done", () => {
  const world = new FakeWorld(PLAN);
  const expansion = world.expand();
  const step = expansion.steps.find(({ kind }) => kind === "train");
  if (!step) throw new Error("no training");
  const estimate = estimateExperiment({
    plan: world.plan,
    expansion,
    facts,
    base,
    done: [{ step, seconds: 60 }],
    workers: 1,
  });
  expect(estimate.isMeasured).toBe(true);
  expect(estimate.speed.train).toBeCloseTo(1e10, 0);
  expect(estimate.seconds.train).toBeCloseTo(60, 6); // the other run
  expect(estimate.seconds.evaluate).toBeCloseTo(10 * 2.4, 6); // of which nothing is known yet
});
