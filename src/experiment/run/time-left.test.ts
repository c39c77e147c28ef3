// The time that is left by the work that is left, at each point of a run, against what the steps then take.
import { expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
import type { Expansion } from "../expand/expand-plan.js";
import type { Step } from "../steps/step.js";
import { estimateExperiment } from "./estimate.js";

const PLAN = `
name: uneven
base: base
training:
  few: { run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, sequence_length: 100, batch: 4, optimizer: { lr: 1.0e-5 }, steps: 10, checkpoints: { keep: last } } }
experts:
  math: { role: task, train: { like: few, seeds: [1, 2] } }
  sw: { role: language, language: sw, train: { like: few, seeds: [1, 2], run: { steps: 40 } } }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: sw }
    grid: { bottom: [1, 2, 3], top: [0, 1] }
    default: { bottom: 2, top: 1 }
    pairs: [[math-1, sw-1], [math-2, sw-2]]
  - { name: soup, recipe: { method: soup, models: [math, sw] }, pairs: [[math-1, sw-1], [math-2, sw-2]] }
controls: { kinds: [random, reverse], draws: 4 }
evaluate:
  tasks: ["mgsm_{language}", { task: "mgsm_{language}", of: [controls], limit: 5 }, mgsm_en, { task: gsm8k, limit: 10 }]
search: { by: "mgsm_{language}" }
`;
const facts = {
  ...fakeFacts,
  modelIdentity: (source: string) => ({ identity: `id:${source}`, folder: `/models/${source}`, layers: 18 }),
};
/** Of an item. */
const COSTS: Readonly<Record<string, number>> = { mgsm_sw: 0.4, mgsm_en: 0.3, gsm8k: 5 };

/** A step on the text takes longer than one on the problems. */
function secondsOf(step: Step): number {
  if (step.kind === "train") return Number(step.run.steps) * (step.name.startsWith("sw") ? 60 : 40);
  if (step.kind !== "evaluate") return 1;
  const { items } = facts.task(step.request);
  return (step.items?.length ?? items) * (COSTS[step.request.task] ?? Number.NaN);
}

const total = (steps: readonly Step[]) => steps.reduce((sum, step) => sum + secondsOf(step), 0);

it("is within a tenth of what is left once one run of each family is done, before any merge is scored", () => {
  // The chosen configuration is not the default.
  const make = () => new FakeWorld(PLAN, { facts, worth: ({ of }) => (of.configuration.includes("bottom 3") ? 1 : 0) });
  const world = make();
  const expansion: Expansion = world.expand();
  const begun = new Set([
    "train math-1",
    "train sw-1",
    "evaluate base on mgsm_sw",
    "evaluate base on mgsm_en",
    "evaluate base on gsm8k",
  ]);
  const isDone = ({ label }: Step) => begun.has(label);
  expect(expansion.steps.filter(isDone)).toHaveLength(begun.size);
  const estimate = (known: Expansion, done: (step: Step) => boolean) => {
    const byKey = new Map(known.steps.filter(done).map((step) => [step.key, secondsOf(step)]));
    return estimateExperiment({
      variants: [{ plan: world.plan, expansion: known, base: { parameters: 1e6, bytes: 2e6 }, facts }],
      expansion: known,
      secondsOf: (key) => byKey.get(key),
      workers: 1,
    }).seconds;
  };
  const early = estimate(expansion, isDone) ?? Number.NaN;
  const whole = make();
  whole.finish();
  const left = total(whole.ran.filter((step) => !isDone(step)));
  expect(early / left).toBeGreaterThan(0.9);
  expect(early / left).toBeLessThan(1.1);
  // All experts are there: what is waiting are searches.
  world.round();
  const keys = new Set(world.ran.map(({ key }) => key));
  const later = estimate(world.expand(), ({ key }) => keys.has(key)) ?? Number.NaN;
  const rest = total(whole.ran.filter(({ key }) => !keys.has(key)));
  expect(later / rest).toBeGreaterThan(0.9);
  expect(later / rest).toBeLessThan(1.1);
});
