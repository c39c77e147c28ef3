// What will come after what can be named, counted against what comes in fact; and the time that dependencies cost.
import { expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../plan/fake-world.test-util.js";
import { NO_RESULTS } from "../steps/facts.js";
import { forecastExperiment } from "./forecast.js";

const PLAN = `
name: foreseen
base: base
experts:
  math:
    role: task
    train:
      run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1.0e-5 }, steps: 12, batch: 8 }
      seeds: [1, 2]
    select: { top: 1, by: mgsm_en }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: swap, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2, 3, 4], top: [0, 1] } }
  - { name: suggested, suggest: { task: math, language: swahili } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
search: { how: halving }
`;

const none = { facts: fakeFacts, results: NO_RESULTS, isDone: () => false };

it("counts the steps that come in fact", () => {
  // Nine different suggestions, as an analysis makes them; every answer right, so that nothing is worse beyond chance.
  const suggested = Array.from({ length: 9 }, (_, bottom) => ({
    ...{ name: `s${bottom}`, reason: "" },
    recipe: { method: "swap", task: "task", language: "language", bottom: bottom + 5, top: 5 },
  }));
  const world = new FakeWorld(PLAN, { checkpoints: [{ path: "last", samples: 96 }], suggested });
  const before = world.expand();
  const { later, waiting, expansion } = forecastExperiment({ plan: world.plan, ...none });
  const after = world.finish();
  expect(expansion.steps.length - later.length).toBe(before.steps.length);
  const count = (steps: readonly { kind: string }[], kind: string) => steps.filter((step) => step.kind === kind).length;
  expect(count(expansion.steps, "train")).toBe(count(after.steps, "train"));
  expect(count(expansion.steps, "analyze")).toBe(1);
  // The chosen configuration is taken for another than the default, which here it is not: its rounds and other tasks come on top.
  expect(count(expansion.steps, "evaluate")).toBeGreaterThanOrEqual(count(after.steps, "evaluate"));
  expect(count(expansion.steps, "evaluate") - count(after.steps, "evaluate")).toBeLessThanOrEqual(8);
  expect(waiting.reduce((sum, { steps }) => sum + steps, 0)).toBe(later.length);
  // Two runs of twelve steps leave a checkpoint each, not twelve.
  expect(waiting.find(({ what }) => what === "scores of checkpoints of math")?.steps).toBe(2);
  expect(waiting.find(({ what }) => what === "analyses of pairs")?.steps).toBe(1);
});

it("foresees nothing where all is done", () => {
  const world = new FakeWorld(PLAN);
  world.finish();
  const forecast = forecastExperiment({
    plan: world.plan,
    facts: fakeFacts,
    results: world.results,
    isDone: () => true,
  });
  expect(forecast.later).toEqual([]);
  expect(forecast.waiting).toEqual([]);
  expect(forecast.wallSeconds).toBe(0);
});

it("lets a chain wait and gives the rest to as many as there are", () => {
  const world = new FakeWorld(PLAN);
  const { later, expansion, wallSeconds } = forecastExperiment({ plan: world.plan, ...none, secondsOf: () => 10 });
  // Training, checkpoints, the chosen expert's other task and the analysis and the first round, two more rounds or the
  // suggestions' three, the final scores.
  expect(wallSeconds).toBe(70);
  const alone = forecastExperiment({ plan: world.plan, ...none, secondsOf: () => 10, workers: 1 });
  expect(alone.wallSeconds).toBe(10 * alone.expansion.steps.length);
  expect(alone.later).toHaveLength(later.length);
  const two = forecastExperiment({ plan: world.plan, ...none, secondsOf: () => 10, workers: 2 });
  expect(two.wallSeconds).toBeGreaterThanOrEqual(5 * expansion.steps.length);
  expect(two.wallSeconds).toBeLessThan(7 * expansion.steps.length);
});
