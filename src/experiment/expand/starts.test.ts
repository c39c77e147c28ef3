import { describe, expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
import { RecipeError } from "../../kit/index.js";
import { parsePlan } from "../plan/plan-file.js";
import { estimateExperiment } from "../run/estimate.js";
import type { EvaluateStep, TrainStep } from "../steps/step.js";
import type { ExpertModel, MergeModel } from "./plan-models.js";

const DATA = "run: { data: { source: x.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1 }, samples: 8";
const HEAD = `
name: rounds
base: base
experts:
  math: { role: task, folders: [m1] }
  swahili: { role: language, language: sw, folders: [s1] }
  again: { role: task, train: { from: layer swap, ${DATA} }, seeds: [1, 2] } }
`;
const MERGES = `merges:
  - { name: layer swap, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2] } }
`;
const TASKS = 'evaluate: { tasks: ["mgsm_{language}"] }\n';
const PLAN = `${HEAD}${MERGES}${TASKS}`;

const trained = (world: FakeWorld) => world.ran.filter((step): step is TrainStep => step.kind === "train");
const written = (world: FakeWorld) => world.ran.filter((step) => step.kind === "merge");
const modelNamed = (world: FakeWorld, name: string) =>
  world.expand().models.find(({ model }) => model.name === name)?.model;

/** Bottom 2 is worth more. */
const worth = ({ model }: EvaluateStep) => (typeof model === "object" && model.bottom === 2 ? 1 : 0);

describe("training from a merge", () => {
  it("starts from the configuration that the search chooses, which is written once", () => {
    const world = new FakeWorld(PLAN, { worth });
    const { waiting } = world.expand();
    expect(waiting).toContainEqual(expect.objectContaining({ what: "training of again", steps: 2, kind: "train" }));
    expect(waiting).toContainEqual({ what: "writing layer swap", steps: 1, kind: "merge" });
    expect(world.finish().waiting).toEqual([]);
    const [step, ...others] = written(world);
    expect(others).toEqual([]);
    expect(step).toMatchObject({
      label: "write layer swap, math-1 x swahili-1, bottom 2",
      model: { method: "swap", task: "id:m1", language: "id:s1", bottom: 2 },
    });
    const identity = `step:${step?.key}:model`;
    for (const run of trained(world)) {
      expect(run.run.base).toBe(identity);
      expect(run.needs).toEqual([step?.key]);
      expect(run.locations).toEqual({ [identity]: { step: step?.key, path: "model" } });
    }
    expect(trained(world).map(({ name }) => name)).toEqual(["again-1", "again-2"]);
    expect(modelNamed(world, "again-2")?.locations).toEqual({
      [`step:${trained(world)[1]?.key}:last`]: { step: trained(world)[1]?.key, path: "last" },
    });
  });

  it("keeps what an adapter was trained on", () => {
    const world = new FakeWorld(PLAN, { worth, checkpoints: [{ path: "last", samples: 8, isAdapter: true }] });
    world.finish();
    const [key] = written(world).map((step) => step.key);
    const [run] = trained(world);
    const base = `step:${key}:model`;
    expect(modelNamed(world, "again-1")?.locations).toEqual({
      [base]: { step: key, path: "model" },
      [`step:${run?.key}:last`]: { step: run?.key, path: "last", adapterOf: base },
    });
  });

  it("uses the default where no search chooses", () => {
    const line = PLAN.replace("grid: {", "figure: line, default: { bottom: 1 }, grid: {");
    const world = new FakeWorld(line, { worth });
    world.finish();
    expect(written(world)[0]).toMatchObject({ model: { bottom: 1 } });
  });

  it("counts the runs and the written merge that are to come", () => {
    const world = new FakeWorld(PLAN, { worth });
    const estimate = (w: FakeWorld) => {
      const expansion = w.expand();
      return estimateExperiment({
        variants: [{ plan: w.plan, expansion, facts: fakeFacts, base: { parameters: 1000, bytes: 2000 } }],
        ...{ expansion, workers: 1 },
        secondsOf: (key) => (w.ran.some((step) => step.key === key) ? 1 : undefined),
      }).bytes;
    };
    // Two checkpoints, one state in float32 with two moments, one merge.
    expect(estimate(world)).toBe(2 * 2000 + 12 * 1000 + 2000);
    world.finish();
    expect(estimate(world)).toBe(0);
  });
});

describe("training from an expert", () => {
  const chain = (isAdapter: boolean) => {
    const plan = `
name: chain
base: base
experts:
  first: { role: task, train: { ${DATA} } } }
  second: { role: task, train: { from: first, ${DATA}, seed: 2 } } }
${TASKS.replace("mgsm_{language}", "mgsm_en")}`;
    const world = new FakeWorld(plan, { checkpoints: [{ path: "last", samples: 8, isAdapter }] });
    world.finish();
    return world;
  };

  it("starts from its folder", () => {
    const world = chain(false);
    const [first, second] = trained(world);
    expect(written(world)).toEqual([]);
    expect(second?.run.base).toBe(`step:${first?.key}:last`);
    expect(second?.needs).toEqual([first?.key]);
  });

  it("writes an expert with an adapter first", () => {
    const world = chain(true);
    const [first, second] = trained(world);
    const [step] = written(world);
    expect(step).toMatchObject({ label: "write first-1", model: `step:${first?.key}:last` });
    expect(step?.locations).toMatchObject({ "id:base": { folder: "/models/base" } });
    expect(second?.run.base).toBe(`step:${step?.key}:model`);
  });
});

describe("merges of merges", () => {
  it("name them in recipes, and as the base", () => {
    const more = `  - { name: both, recipe: { method: soup, models: [soup, layer swap] } }
  - { name: ties, from: layer swap, recipe: { method: ties, base: base, models: [again-1, again-2] } }
  - { name: ties of base, recipe: { method: ties, base: layer swap, models: [again-1, again-2] } }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
controls: true
`;
    const world = new FakeWorld(`${HEAD}${MERGES}${more}${TASKS}`, { worth });
    const { models } = world.finish();
    const ids = new Map(written(world).map(({ label, key }) => [label, `step:${key}:model`]));
    const swap = ids.get("write layer swap, math-1 x swahili-1, bottom 2");
    const soup = ids.get("write soup, math-1 x swahili-1");
    expect(ids.size).toBe(2);
    const found = (merge: string) =>
      models.map(({ model }) => model as MergeModel).find((model) => model.merge?.name === merge);
    expect(found("both")).toMatchObject({
      name: "both, soup x layer swap",
      source: { method: "soup", models: [soup, swap] },
      members: ["math-1", "swahili-1"],
      expertFamilies: ["math", "swahili"],
      languages: ["sw"],
    });
    expect(found("ties")?.source).toEqual(found("ties of base")?.source);
    expect(found("ties")).toMatchObject({ name: "ties, again-1 x again-2", source: { method: "ties", base: swap } });
    expect(found("ties of base")?.name).toBe("ties of base, again-1 x again-2 x layer swap");
  });

  it("compare experts with what both started from", () => {
    const world = new FakeWorld(`${HEAD}${MERGES}overlaps: [[again-1, again-2], [again-1, math-1]]\n${TASKS}`, {
      worth,
    });
    world.finish();
    const bases = world.ran.flatMap((step) => (step.kind === "analyze" ? [step.base] : []));
    expect(bases).toEqual([`step:${written(world)[0]?.key}:model`, "id:base"]);
  });
});

describe("problems", () => {
  const problemsOf = (text: string) => {
    try {
      parsePlan(text);
      return [];
    } catch (error) {
      if (error instanceof RecipeError) return error.problems;
      throw error;
    }
  };

  it("are names that mean nothing, or several models", () => {
    expect(problemsOf(PLAN.replace("from: layer swap", "from: layer swpa"))).toEqual([
      'line 7: experts.again.train.from: "layer swpa" is not an expert or merge of this plan; did you mean layer swap?',
    ]);
    expect(problemsOf(PLAN.replace("folders: [m1]", "folders: [m1, m2]"))).toEqual([
      "line 7: experts.again.train.from: layer swap makes models of 2 combinations of experts, and one is needed here. List one combination in its pairs, or name single experts in its recipe",
    ]);
    const paired = PLAN.replace("folders: [m1]", "folders: [m1, m2]").replace(
      "grid:",
      "pairs: [[math-2, swahili-1]], grid:",
    );
    expect(problemsOf(paired)).toEqual([]);
    const several = PLAN.replace("folders: [m1]", "folders: [m1, m2]").replace("from: layer swap", "from: math");
    expect(problemsOf(several)).toEqual([
      "line 7: experts.again.train.from: math means 2 experts; name one of them: math-1, math-2",
    ]);
    expect(problemsOf(PLAN.replace("grid:", "from: task, grid:"))).toContain(
      "line 9: merges[0].from: task means 3 experts; name one of them: math-1, again-1, again-2",
    );
  });

  it("are cycles, each once", () => {
    expect(problemsOf(PLAN.replace("task: math,", "task: again-1,"))).toEqual([
      "line 7: experts.again.train.from: again needs layer swap, which needs again. Start one of them from a model that does not need it",
    ]);
    expect(problemsOf(PLAN.replace("from: layer swap", "from: again-1"))).toEqual([
      expect.stringContaining("again needs again. Start"),
    ]);
    const merges = `merges:
  - { name: a, recipe: { method: soup, models: [b, math] } }
  - { name: b, recipe: { method: soup, models: [c, math] } }
  - { name: c, from: a, recipe: { method: soup, models: [math, swahili] } }
`;
    expect(problemsOf(`${HEAD.replace("layer swap", "a")}${merges}${TASKS}`)).toEqual([
      expect.stringMatching(/^line 9: merges\[0\]\.recipe: a needs b, which needs c, which needs a\. Start/),
    ]);
  });

  it("do not wait for experts that guards left out", () => {
    const plan = `
name: left
base: base
experts:
  math:
    role: task
    train: { ${DATA} } }
    select: { top: 1, by: mgsm_en, guards: [{ task: mmlu_en }] }
  more: { role: task, train: { from: math-1, ${DATA} } } }
  last: { role: task, train: { from: soup, ${DATA} } } }
merges: [{ name: soup, recipe: { method: soup, models: [more-1, base] } }]
evaluate: { tasks: [mgsm_en] }
`;
    const isBase = ({ model }: EvaluateStep) => (model === "id:base" ? 1 : 0);
    const world = new FakeWorld(plan, { worth: isBase });
    const { waiting, models } = world.finish();
    expect(waiting).toEqual([]);
    expect(trained(world).map(({ name }) => name)).toEqual(["math-1"]);
    expect(models.filter(({ model }) => (model as ExpertModel).isCandidate !== true)).toHaveLength(1);
  });
});
