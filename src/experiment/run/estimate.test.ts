// Estimates by hand: operations of training and answering, speeds assumed and measured, bytes of checkpoints and states.
import { expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../plan/fake-world.test-util.js";
import { NO_RESULTS } from "../steps/facts.js";
import { estimateExperiment, type Measured } from "./estimate.js";

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
  ...fakeFacts,
  task: (request: Parameters<typeof fakeFacts.task>[0]) => ({
    ...fakeFacts.task(request),
    promptCharacters: 3000,
    newTokens: 200,
  }),
};
const base = { parameters: 1e6, bytes: 2e6 };

const checkpoints = [250, 500, 750, 1000].map((samples) => ({ path: `c${samples}`, samples }));
const estimated = (world: FakeWorld, measured: readonly Measured[] = [], workers = 2) => {
  const done = new Set(measured.map(({ step }) => step.key));
  const isDone = (key: string) => done.has(key);
  const results = { ...NO_RESULTS, trained: (key: string) => (isDone(key) ? checkpoints : undefined) };
  return estimateExperiment({ plan: world.plan, facts, results, isDone, measured, base, workers }).estimate;
};

it("counts operations, steps that cannot be named, and what stands on the disk", () => {
  const estimate = estimated(new FakeWorld(PLAN));
  expect(estimate.counts).toEqual({
    train: { done: 0, left: 2, later: 0 },
    analyze: { done: 0, left: 0, later: 0 },
    // The base; four checkpoints of each run. The one that is chosen was asked already.
    evaluate: { done: 0, left: 1, later: 2 * 4 },
  });
  expect(estimate.waiting).toBe(8);
  // 6 operations a parameter and token: 6e6 * 1,000 * 100 / 1e9 s a run.
  expect(estimate.seconds.train).toBeCloseTo(2 * 600, 6);
  // 2 a parameter and token: 2e6 * 1,200 / 1e9 s.
  expect(estimate.seconds.evaluate).toBeCloseTo(9 * 2.4, 6);
  expect(estimate.isMeasured).toBe(false);
  // Small files of two runs, nine answers to twenty items, four checkpoints of each run, and the states of both runs.
  expect(estimate.bytes).toBe(2 * 1e6 + 9 * 20 * 2000 + 2 * 4 * 2e6 + 2 * 12e6);
});

it("counts what must wait: a training, then the base and checkpoints side by side", () => {
  // With two workers: the trainings beside each other, then nine questions, the last one alone.
  expect(estimated(new FakeWorld(PLAN)).wallSeconds).toBeCloseTo(2.4 + 600 + 4 * 2.4, 6);
  // With many: the base beside the trainings, and all eight at once.
  expect(estimated(new FakeWorld(PLAN), [], 100).wallSeconds).toBeCloseTo(600 + 2.4, 6);
  expect(estimated(new FakeWorld(PLAN), [], 1).wallSeconds).toBeCloseTo(2 * 600 + 9 * 2.4, 6);
});

it("goes by what steps took as soon as some are done", () => {
  const world = new FakeWorld(PLAN);
  const { steps } = world.expand();
  const step = steps.find(({ kind }) => kind === "train");
  if (!step) throw new Error("no training");
  const estimate = estimated(world, [{ step, seconds: 60 }], 1);
  expect(estimate.isMeasured).toBe(true);
  expect(estimate.counts.train).toEqual({ done: 1, left: 1, later: 0 });
  expect(estimate.speed.train).toBeCloseTo(1e10, 0);
  expect(estimate.seconds.train).toBeCloseTo(60, 6); // the other run
  expect(estimate.seconds.evaluate).toBeCloseTo(9 * 2.4, 6); // of which nothing is known yet
});

it("has nothing left of what is done", () => {
  const world = new FakeWorld(PLAN, { checkpoints });
  const all = world.finish();
  const measured = all.steps.map((step) => ({ step, seconds: 0.3 }));
  const { estimate, forecast } = estimateExperiment({
    ...{ plan: world.plan, facts, results: world.results, isDone: () => true, measured, base, workers: 2 },
  });
  expect(forecast.later).toEqual([]);
  expect(estimate.wallSeconds).toBe(0);
  expect(estimate.counts.evaluate).toEqual({ done: 9, left: 0, later: 0 });
  // Short steps count what they took, and no more.
  const again = estimateExperiment({
    ...{ plan: world.plan, facts, results: NO_RESULTS, isDone: () => false, measured, base, workers: 1 },
  }).estimate;
  expect(again.seconds.evaluate).toBeCloseTo(9 * 0.3, 6);
});
