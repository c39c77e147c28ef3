import { describe, expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
import type { MergeModel } from "../expand/plan-models.js";
import type { EvaluateStep } from "../steps/step.js";
import { parsePlan } from "./plan-file.js";

const plan = (controls: string, merges = "") => `
name: small
base: base
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, top: 1 }
    grid: { bottom: [1, 2] }
    default: { bottom: 2, top_transition: 1 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
${merges}evaluate: { tasks: ["mgsm_{language}", mmlu] }
controls: ${controls}
`;

const LAYERS = 8;
const facts = {
  ...fakeFacts,
  modelIdentity: (source: string) => ({ ...fakeFacts.modelIdentity(source), layers: LAYERS }),
};
function controlsOf(text: string) {
  const world = new FakeWorld(text, { facts });
  const { models, searches, waiting } = world.finish();
  expect(waiting).toEqual([]);
  const merges = models.flatMap(({ model }) => (model.kind === "merge" ? [model as MergeModel] : []));
  const controls = merges.filter(({ merge }) => merge.controlOf !== undefined);
  return { controls, searches, world, merges };
}

describe("controls", () => {
  it("exchange the experts, the base and random layers in the default configuration", () => {
    const { controls } = controlsOf(plan("true"));
    const sources = new Map(controls.map(({ name, source }) => [name, source]));
    const swap = { method: "swap", top: 1, bottom: 2, top_transition: 1 };
    expect(sources.get("reverse swap, control of swap, swahili-1 x math-1, bottom 2, top transition 1")).toEqual({
      ...{ ...swap, task: "id:s1", language: "id:m1" },
    });
    expect(sources.get("swap into the base, control of swap, swahili-1, bottom 2, top transition 1")).toEqual({
      ...{ ...swap, task: "id:base", language: "id:s1" },
    });
    expect(sources.get("swap from the base, control of swap, math-2, bottom 2, top transition 1")).toEqual({
      ...{ ...swap, task: "id:m2", language: "id:base" },
    });
    expect(sources.get("swap with itself, control of swap, math-2, bottom 2, top transition 1")).toEqual({
      ...{ ...swap, task: "id:m2", language: "id:m2" },
    });
    // Two pairs of experts, two task experts, one language expert, three draws.
    expect(controls.map(({ merge }) => merge.name.split(",")[0])).toEqual([
      ...Array.from({ length: 6 }, () => "random layers"),
      ...["reverse swap", "reverse swap", "swap into the base", "swap from the base", "swap from the base"],
      ...["swap with itself", "swap with itself"],
    ]);
  });

  it("run the tasks of merges, or those that name controls, with their own limit", () => {
    const tasksOf = (evaluate: string) => {
      const text = plan("[random]").replace(/^evaluate: .*$/m, `evaluate: { tasks: ${evaluate} }`);
      const { models } = controlsOf(text).world.finish();
      const requests = models.flatMap(({ model, tasks }) =>
        tasks.map(({ request: { task, limit } }) => {
          const isControl = "merge" in model && (model as MergeModel).merge.controlOf !== undefined;
          return `${isControl ? "control" : model.kind} ${task} ${limit}`;
        }),
      );
      return [...new Set(requests)].filter((one) => /^(control|merge)/.test(one)).sort();
    };
    expect(tasksOf("[{ task: mmlu, of: [merges], limit: 9 }]")).toEqual(["control mmlu 9", "merge mmlu 9"]);
    expect(tasksOf("[mmlu, { task: mmlu, of: [controls], limit: 5 }, { task: mgsm_sw, of: [merges] }]")).toEqual([
      ...["control mmlu 5", "merge mgsm_sw undefined", "merge mmlu undefined"],
    ]);
  });

  it("draw as many layers as the swap takes and averages, each draw another set, the same for the same seed", () => {
    const drawn = (seed: number) => {
      const { controls } = controlsOf(plan(`{ kinds: [random], draws: 5, seed: ${seed} }`));
      return controls.map(({ source }) => source as unknown as { layers: { language: string; average: string } });
    };
    const first = drawn(3);
    expect(first).toHaveLength(2 * 5);
    for (const { layers, ...recipe } of first) {
      expect(Object.keys(recipe)).toEqual(["method", "task", "language"]);
      const [language, average] = [layers.language, layers.average].map((text) => text.split(",").map(Number));
      expect([language?.length, average?.length]).toEqual([3, 1]);
      expect(new Set([...(language ?? []), ...(average ?? [])]).size).toBe(4);
      expect(Math.max(...(language ?? []))).toBeLessThan(LAYERS);
    }
    const sets = new Set(first.map(({ layers }) => JSON.stringify(layers)));
    expect(sets.size).toBe(5);
    // The swap's own layers: 0, 1 and 7, with 6 averaged.
    expect(sets).not.toContain('{"language":"0,1,7","average":"6"}');
    expect(drawn(3)).toEqual(first);
    expect(drawn(4)).not.toEqual(first);
  });

  it("are as many as there are sets of layers, and none without the model", () => {
    const of = (layers: number | undefined) => {
      const world = new FakeWorld(plan("{ kinds: [random], draws: 9 }").replace(", top_transition: 1", ""), {
        facts: { ...fakeFacts, modelIdentity: (source) => ({ ...fakeFacts.modelIdentity(source), layers }) },
      });
      const { models } = world.expand();
      return models.filter(({ model }) => model.name.startsWith("random")).length;
    };
    // 3 of 4 layers: four sets, one of them the swap's.
    expect(of(4)).toBe(2 * 3);
    expect(of(undefined)).toBe(0);
  });

  it("are in no search, and are asked everything", () => {
    const { searches, world } = controlsOf(plan("[random, reverse]"));
    expect(searches.map(({ merge }) => merge)).toEqual(["swap"]);
    const asked = world.ran.filter((step): step is EvaluateStep => step.kind === "evaluate");
    const own = asked.filter(({ label }) => label.startsWith("evaluate random layers"));
    expect(own).toHaveLength(2 * 3 * 2);
    expect(own.every(({ items }) => items === null)).toBe(true);
  });

  it("are of the merges that the plan lists, and of its pairs", () => {
    const other =
      "  - { name: other, pairs: [[math-2, swahili-1]], recipe: { method: swap, task: math, language: swahili, bottom: 1 } }\n";
    const of = (text: string) => controlsOf(text).controls.map(({ name }) => name);
    expect(of(plan("{ kinds: [reverse, into-base, itself], of: [other] }", other))).toEqual([
      "reverse swap, control of other, swahili-1 x math-2",
      "swap into the base, control of other, swahili-1",
      "swap with itself, control of other, math-2",
    ]);
    expect(of(plan("[itself]", other))).toHaveLength(2 + 1);
  });

  it("leave the steps of a plan without them as they are", () => {
    const keys = (text: string) => controlsOf(text).world.ran.map(({ key }) => key);
    const before = keys(plan("false"));
    expect(
      keys(plan("true"))
        .filter((key) => before.includes(key))
        .sort(),
    ).toEqual(before.toSorted());
    expect(keys(plan("false").replace("controls: false\n", "")).sort()).toEqual(before.toSorted());
  });

  it("are checked with the plan", () => {
    const problems = (controls: string) => () => parsePlan(plan(controls));
    expect(problems("{ of: [swop] }")).toThrow(
      "line 14: controls.of[0]: swop is not a merge with method swap; did you mean swap?",
    );
    expect(problems("[reversed]")).toThrow("controls[0]: must be one of random, reverse, into-base, from-base, itself");
    expect(problems("{ draws: 0 }")).toThrow("controls.draws: must be at least 1");
    expect(problems("yes")).toThrow("controls: must be true, a list of controls, or { kinds, of, draws, seed }");
    expect(() => parsePlan(plan("true").replace(/ {2}- name: swap\n(.*\n){3}/, ""))).toThrow(
      "controls: needs a merge whose recipe has method: swap; add one, or remove controls",
    );
  });
});

describe("a search", () => {
  it("asks all configurations the deciding task, and only reported ones the others", () => {
    const { world } = controlsOf(plan("false"));
    const asked = world.ran.filter((step): step is EvaluateStep => step.kind === "evaluate");
    const labels = (task: string) => {
      const of = asked.filter(({ request, label }) => request.task === task && label.startsWith("evaluate swap"));
      return [...new Set(of.map(({ label }) => label.replace(/^evaluate | on .*/g, "")))];
    };
    const [default1, default2] = [1, 2].map((i) => `swap, math-${i} x swahili-1, bottom 2, top transition 1`);
    expect(labels("mgsm_sw")).toHaveLength(2 * 3);
    // All are tied, so the default wins.
    expect(labels("mmlu")).toEqual([default1, default2]);
  });
});
