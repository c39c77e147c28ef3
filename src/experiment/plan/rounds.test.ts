import { describe, expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { RecipeError } from "../../kit/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import type { EvaluateStep, TrainStep } from "../steps/step.js";
import { parsePlan } from "./plan-file.js";

const RUN = "run: { data: { source: x.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1 }, samples: 8 }";
const PLAN = `
name: rounds
base: base
experts:
  math: { role: task, train: { ${RUN} } }
  swahili: { role: language, language: sw, train: { ${RUN}, runs: [{ name: swa, seed: 2 }] } }
merges:
  - { name: swap, recipe: { method: swap, task: math, language: language }, grid: { bottom: [1, 2] } }
evaluate: { tasks: ["mgsm_{language}"] }
rounds: 3
`;

const trained = (world: FakeWorld) => world.ran.filter((step): step is TrainStep => step.kind === "train");
/** Bottom 2 is worth more. */
const worth = ({ model }: EvaluateStep) => (typeof model === "object" && model.bottom === 2 ? 1 : 0);

function problemsOf(text: string): readonly string[] {
  try {
    parsePlan(text);
    return [];
  } catch (error) {
    if (error instanceof RecipeError) return error.problems;
    throw error;
  }
}

describe("rounds", () => {
  it("are families and merges that start from the merge before", () => {
    const plan = parsePlan(PLAN);
    expect(Object.keys(plan.experts)).toEqual([
      ...["math", "swahili", "math-round-2", "swahili-round-2", "math-round-3", "swahili-round-3"],
    ]);
    expect(plan.experts["swahili-round-3"]?.train).toMatchObject({
      from: "swap, round 2",
      runs: [{ name: "swa-round-3", fields: { seed: 2 } }],
    });
    expect(plan.merges.map(({ name, from }) => [name, from])).toEqual([
      ["swap", undefined],
      ["swap, round 2", "swap"],
      ["swap, round 3", "swap, round 2"],
    ]);
    // A role would mean the experts of all rounds.
    expect(plan.merges.map(({ recipe }) => recipe)).toMatchObject([
      { task: "math", language: "swahili" },
      { task: "math-round-2", language: "swahili-round-2" },
      { task: "math-round-3", language: "swahili-round-3" },
    ]);
  });

  it("train each expert from what the search chose in the round before", () => {
    const world = new FakeWorld(PLAN, { worth });
    expect(world.expand().waiting).toContainEqual(expect.objectContaining({ what: "training of math-round-3" }));
    const { models, waiting, searches } = world.finish();
    expect(waiting).toEqual([]);
    expect(searches.map(({ merge, chosen }) => [merge, chosen])).toEqual([
      ["swap", "bottom 2"],
      ["swap, round 2", "bottom 2"],
      ["swap, round 3", "bottom 2"],
    ]);
    const written = world.ran.filter(({ kind }) => kind === "merge");
    expect(written.map(({ label }) => label)).toEqual([
      "write swap, math-1 x swa, bottom 2",
      "write swap, round 2, math-round-2-1 x swa-round-2, bottom 2",
    ]);
    const [first, second] = written.map(({ key }) => `step:${key}:model`);
    expect(trained(world).map(({ name, run }) => [name, run.base])).toEqual([
      ...[
        ["math-1", "id:base"],
        ["swa", "id:base"],
        ["math-round-2-1", first],
        ["swa-round-2", first],
      ],
      ...[
        ["math-round-3-1", second],
        ["swa-round-3", second],
      ],
    ]);
    expect(models.filter(({ model }) => (model as MergeModel).merge?.name === "swap, round 3")).toHaveLength(2);
  });

  it("keep the steps of the same plan without rounds", () => {
    const keys = (text: string) => {
      const world = new FakeWorld(text, { worth });
      world.finish();
      return world.ran.map(({ key }) => key);
    };
    expect(keys(PLAN)).toEqual(expect.arrayContaining(keys(PLAN.replace("rounds: 3", ""))));
  });

  it("repeat the merges of the same experts, with the round's base, pairs, controls and overlaps", () => {
    const merges = `  - { name: ties, recipe: { method: ties, base: base, models: [math, swahili] } }
  - { name: other, recipe: { method: soup, models: [mixed, base] } }
  - { name: soup, recipe: { method: soup, models: [all math, swap] }, pairs: [[math-1]] }
  - { name: suggested, suggest: { task: math, language: swa } }
controls: { kinds: [into-base], of: [swap] }
overlaps: [[math, swa]]
`;
    const text = PLAN.replace("evaluate:", `${merges}evaluate:`)
      .replace("rounds: 3", "rounds: { count: 2, from: swap }")
      .replace("merges:", `  mixed: { role: joint, train: { ${RUN} } }\nmerges:`);
    const plan = parsePlan(text);
    expect(plan.merges.slice(5)).toMatchObject([
      { name: "swap, round 2", from: "swap" },
      { name: "ties, round 2", from: "swap", recipe: { base: "base", models: ["math-round-2", "swahili-round-2"] } },
      {
        ...{ name: "soup, round 2", from: "swap", pairs: [["math-round-2-1"]] },
        recipe: { models: ["all math-round-2", "swap, round 2"] },
      },
      { name: "suggested, round 2", suggest: { task: "math-round-2", language: "swa-round-2" } },
    ]);
    expect(plan.overlaps).toEqual([
      ["math", "swa"],
      ["math-round-2", "swa-round-2"],
    ]);
    const world = new FakeWorld(plan, { worth });
    const { models } = world.finish();
    // In the plan's order, although the second round needs the first swap before the other merges.
    const order = models.flatMap(({ model }) => (model.kind === "merge" ? [(model as MergeModel).merge.name] : []));
    expect([...new Set(order)].slice(0, 6)).toEqual([
      ...["swap", "ties", "other", "soup", "swap, round 2", "ties, round 2"],
    ]);
    const written = world.ran.find(({ kind }) => kind === "merge")?.key;
    const sourceOf = (name: string) =>
      models.map(({ model }) => model as MergeModel).find(({ merge }) => merge?.name === name)?.source;
    expect(sourceOf("ties, round 2")).toMatchObject({ base: `step:${written}:model` });
    expect(sourceOf("swap into the base, control of swap, round 2")).toMatchObject({
      task: `step:${written}:model`,
    });
    const analyzed = world.ran.flatMap((step) => (step.kind === "analyze" ? [step.base] : []));
    expect(analyzed).toEqual(["id:base", `step:${written}:model`]);
  });

  it("continue from what a family started from in the first", () => {
    const text = PLAN.replace("merges:", `  more: { role: other, train: { from: math-1, ${RUN} } }\nmerges:`).replace(
      "language: language",
      "language: more",
    );
    const plan = parsePlan(text);
    expect(plan.experts["math-round-2"]?.train?.from).toBe("swap");
    expect(plan.experts["more-round-2"]?.train?.from).toBe("math-round-2-1");
    expect(Object.keys(plan.experts)).not.toContain("swahili-round-2");
  });

  it("are refused where it is not clear what to repeat", () => {
    const soup = "  - { name: soup, recipe: { method: soup, models: [math, swahili] } }\nevaluate:";
    const two = PLAN.replace("evaluate:", soup);
    expect(problemsOf(two)).toEqual([
      "line 11: rounds: must say which merge the next round starts from, as in { count: 3, from: swap }; there are swap, soup",
    ]);
    expect(problemsOf(two.replace("rounds: 3", "rounds: { count: 3, from: swop }"))).toEqual([
      "line 11: rounds.from: there is no merge swop; did you mean swap?",
    ]);
    expect(problemsOf(PLAN.replace("rounds: 3", "rounds: 0"))).toEqual(["line 10: rounds: must be at least 2"]);
    expect(problemsOf(PLAN.replace("rounds: 3", "rounds: 1"))).toEqual(["line 10: rounds: must be at least 2"]);
    expect(problemsOf(PLAN.replace("runs: [{ name: swa, seed: 2 }]", "seeds: [1, 2]"))).toEqual([
      expect.stringMatching(/^line 10: rounds: swap makes models of 2 combinations of experts, and one is needed/),
    ]);
    const folders = PLAN.replaceAll(/train: \{ run: .*\} \}$/gm, "folders: [x] }");
    expect(problemsOf(folders)).toEqual([
      "line 10: rounds: needs trained experts in swap; none of its families has train",
    ]);
    const wide = PLAN.replace("merges:", `  more: { role: language, language: te, folders: [x] }\nmerges:`).replace(
      "grid:",
      "pairs: [[math-1, swa]], grid:",
    );
    expect(problemsOf(wide)).toEqual([
      "line 9: merges[0]: language means 2 families; with rounds, name one of them: swahili, more",
    ]);
    const taken = PLAN.replace("merges:", `  math-round-2: { role: other, folders: [x] }\nmerges:`);
    expect(problemsOf(taken)).toEqual([
      "line 11: rounds: would give the name math-round-2 to a second expert or merge; rename the first",
    ]);
    expect(problemsOf(PLAN.replace(/merges:\n.*\n/, ""))).toEqual([
      "line 8: rounds: needs a merge to start the next round from; add one under merges",
    ]);
  });
});
