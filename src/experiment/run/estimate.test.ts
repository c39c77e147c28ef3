import { expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
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
`;
const base = { parameters: 1e6, bytes: 2e6 };
const checkpoints = [250, 500, 750, 1000].map((samples) => ({ path: `c${samples}`, samples }));

const estimate = (world: FakeWorld, seconds: Readonly<Record<string, number>>, workers = 2) => {
  const expansion = world.expand();
  const secondsOf = (key: string) => seconds[expansion.steps.find((step) => step.key === key)?.label ?? ""];
  return estimateExperiment({
    variants: [{ plan: world.plan, expansion, base, facts: fakeFacts }],
    expansion,
    secondsOf,
    workers,
  });
};

it("is unknown until a step of each kind is done", () => {
  const world = new FakeWorld(PLAN, { checkpoints });
  expect(estimate(world, {}).seconds).toBeUndefined();
  expect(estimate(world, { "train math-1": 60 }).seconds).toBeUndefined();
});

it("is the mean duration of each kind times the steps left, over all workers", () => {
  const world = new FakeWorld(PLAN, { checkpoints });
  const { seconds } = estimate(world, { "train math-1": 60, "evaluate base on mgsm_en": 3 });
  // One more run; the scores of two runs' four checkpoints, and of the one that is chosen.
  expect(seconds).toBeCloseTo((60 + 9 * 3) / 2, 9);
});

it("is zero if all steps are done", () => {
  const world = new FakeWorld(PLAN, { checkpoints });
  world.finish();
  const expansion = world.expand();
  const variants = [{ plan: world.plan, expansion, base, facts: fakeFacts }];
  const done = estimateExperiment({ variants, expansion, secondsOf: () => 1, workers: 2 });
  expect(done).toEqual({ seconds: 0, bytes: 0, workers: 2 });
});

it("counts no more workers than steps are left, for servers' models and for hours", () => {
  const merges = `merges: [{ name: soup, recipe: { method: soup, models: [math, base] } }]`;
  const served = PLAN.replace(
    "tasks: [mgsm_en]",
    'tasks: [mgsm_en], backend: "serve:vllm serve {model} --port {port}"',
  );
  const world = new FakeWorld(`${served}${merges}\n`, { checkpoints });
  world.finish();
  const { steps } = world.expand();
  const left = steps.filter(({ kind }) => kind === "evaluate").slice(-3);
  const estimate = (workers: number) =>
    estimateExperiment({
      variants: [{ plan: world.plan, expansion: world.expand(), base, facts: fakeFacts }],
      expansion: world.expand(),
      secondsOf: (key) => (left.some((step) => step.key === key) ? undefined : 60),
      workers,
    });
  expect(estimate(200)).toMatchObject({ bytes: 3 * 2e6, seconds: 60, workers: 200 });
  expect(estimate(2)).toMatchObject({ bytes: 2 * 2e6, seconds: 90 });
});

it("counts the bytes of checkpoints and of states of parallel runs", () => {
  const world = new FakeWorld(PLAN, { checkpoints });
  expect(estimate(world, {}).bytes).toBe(2 * 4 * 2e6 + 2 * 12e6);
  expect(estimate(world, {}, 1).bytes).toBe(2 * 4 * 2e6 + 12e6);
  expect(estimate(world, { "train math-1": 60 }).bytes).toBe(4 * 2e6 + 12e6);
  const expansion = world.expand();
  const variants = [{ plan: world.plan, expansion, base: undefined, facts: fakeFacts }];
  const unknown = { variants, expansion, secondsOf: () => undefined, workers: 1 };
  expect(estimateExperiment(unknown).bytes).toBeUndefined();
});

it("counts GPU hours of TRL and of servers, and none of layergraft's own training and engine", () => {
  expect(estimate(new FakeWorld(PLAN, { checkpoints }), {}).gpuHours).toBeUndefined();
  const serve = 'backend: "serve:vllm serve {model} --port {port}"';
  const plan = (method: string) =>
    PLAN.replace("run: {", `engine: trl\n      run: { method: ${method},`).replace(
      "tasks: [mgsm_en]",
      `tasks: [mgsm_en], ${serve}`,
    );
  const hours = (method: string, seconds: Readonly<Record<string, number>> = {}) =>
    estimate(new FakeWorld(plan(method), { checkpoints }), seconds).gpuHours;
  // Two runs of 1,000 samples of 100 tokens, 8 operations for each parameter: 1.6e12 at 3.956e14 a second.
  const training = 1.6e12 / 3.956e14 / 3600;
  expect(hours("full")?.training).toBeCloseTo(training, 12);
  expect(hours("lora")?.training).toBeCloseTo((training * 6) / 8, 12);
  expect(hours("full", { "train math-1": 60 })?.training).toBeCloseTo(training / 2, 12);
  // The base now; four checkpoints of either run, and the chosen one, later. 20 answers of 200 tokens take 0.8 seconds.
  expect(hours("full")?.evaluation).toBeCloseTo((10 * (170 + 0.8)) / 3600, 9);
});
