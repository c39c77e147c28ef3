import { describe, expect, it } from "vitest";
import { FakeWorld, ITEMS } from "../../../test/support/fake-world.js";
import { configurationsOf } from "../plan/configurations.js";
import type { Merge } from "../plan/plan-schema.js";
import { rankConfigurations, splitItems, survivors } from "../search/search.js";
import type { EvaluateStep } from "../steps/step.js";
import type { MergeModel } from "./plan-models.js";

const EXPERTS = `
name: small
base: base
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: { swa: s1, swb: s2 } }
  telugu: { role: language, language: te, folders: [t1] }
`;
const TASKS = 'evaluate: { tasks: ["mgsm_{language}", { task: mgsm_en, of: [base, merges] }] }\n';
const swap = (more = "") => `merges:
  - name: swap
    recipe: { method: swap, task: math, language: language }
    grid: { bottom: [1, 2], top: [0, 1] }
    default: { bottom: 2, top: 0 }
${more}`;

const asked = (world: FakeWorld) => world.ran.filter((step): step is EvaluateStep => step.kind === "evaluate");

describe("models", () => {
  it("are all pairs in all configurations, of each family of a role", () => {
    const world = new FakeWorld(`${EXPERTS}${swap()}${TASKS}`);
    const { models } = world.finish();
    const merges = models.filter((one): one is typeof one & { model: MergeModel } => one.model.kind === "merge");
    expect(merges).toHaveLength(2 * 3 * 4);
    expect(merges[0]?.model.name).toBe("swap, math-1 x swa, bottom 1, top 0");
    expect(merges[0]?.model.source).toEqual({
      ...{ method: "swap", task: "id:m1", language: "id:s1", bottom: 1, top: 0 },
    });
    expect(new Set(merges.map(({ model }) => model.group))).toEqual(
      new Set(["swap of math and swahili", "swap of math and telugu"]),
    );
    expect(merges.find(({ model }) => model.members.includes("telugu-1"))?.model.languages).toEqual(["te"]);
    const own = (name: string) =>
      models.find(({ model }) => model.name === name)?.tasks.map(({ request }) => request.task);
    expect(own("base")).toEqual(["mgsm_sw", "mgsm_te", "mgsm_en"]);
    expect(own("swa")).toEqual(["mgsm_sw"]);
    expect(own("math-1")).toEqual(["mgsm_sw", "mgsm_te"]);
  });

  it("are other steps with another backend, and in llama.cpp with another type", () => {
    const keysOf = (more: string) => {
      const world = new FakeWorld(`${EXPERTS}evaluate: { tasks: [mgsm_sw]${more} }`);
      world.finish();
      return asked(world).map(({ key, backend, type }) => ({ key, backend, type }));
    };
    const [engine, llama, small] = ["", ", backend: llama", ", backend: llama, type: q4_k_m"].map(keysOf) as [
      ReturnType<typeof keysOf>,
      ReturnType<typeof keysOf>,
      ReturnType<typeof keysOf>,
    ];
    expect(keysOf(", backend: llama, type: q8_0")).toEqual(llama);
    expect([engine[0], llama[0], small[0]]).toMatchObject([
      { backend: "engine", type: undefined },
      { backend: "llama", type: "q8_0" },
      { backend: "llama", type: "q4_k_m" },
    ]);
    const keys = [...engine, ...llama, ...small].map(({ key }) => key);
    expect(new Set(keys).size).toBe(3 * engine.length);
    const [thoughtless] = keysOf(", chat_template_kwargs: { enable_thinking: false }");
    expect(keys).not.toContain(thoughtless?.key);
    // Results of earlier versions stay valid.
    expect(engine[0]?.key).toBe("evaluate-c1b5d0c981c9b700a4038bc6bdf47e");
  });

  it("combine all experts at once, or listed pairs", () => {
    const world = new FakeWorld(`${EXPERTS}merges:
  - name: soups
    recipe: { method: swap, task: { method: soup, models: [all math] }, language: { method: soup, models: [all language] } }
  - name: soup
    recipe: { method: soup, models: [math, { model: swahili, weight: 2 }] }
    pairs: [[math-1, swb]]
${TASKS}`);
    const { models } = world.finish();
    const sources = models.flatMap(({ model }) => (model.kind === "merge" ? [model.source] : []));
    expect(sources).toEqual([
      {
        method: "swap",
        task: { method: "soup", models: ["id:m1", "id:m2"] },
        language: { method: "soup", models: ["id:s1", "id:s2", "id:t1"] },
      },
      { method: "soup", models: ["id:m1", { model: "id:s2", weight: 2 }] },
    ]);
  });
});

describe("names of models", () => {
  const namesOf = (merges: string, only = /./) =>
    new FakeWorld(`${EXPERTS}merges:\n${merges}\n${TASKS}`)
      .expand()
      .models.map(({ model }) => model.name)
      .filter((name) => only.test(name));

  it("distinguish merges of many experts", () => {
    const soup = "  - { name: soup, recipe: { method: soup, models: [{ model: math, weight: 9 }, all language] } }";
    expect(namesOf(soup, /^soup/)).toEqual(["soup, math-1 x all language", "soup, math-2 x all language"]);
    const few = "  - { name: soup, recipe: { method: soup, models: [math, all swahili] } }";
    expect(namesOf(few, /^soup/)).toEqual(["soup, math-1 x swa x swb", "soup, math-2 x swa x swb"]);
  });

  it("differ even if a merge is named like another model", () => {
    const merges = `  - { name: swa, recipe: { method: soup, models: [base] } }
  - { name: "a, swa", recipe: { method: soup, models: [base] } }
  - { name: a, recipe: { method: soup, models: [swa] } }`;
    const names = namesOf(merges);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain("a, swa (2)");
  });

  it("differ for values that print the same", () => {
    const merge: Merge = { name: "soup", grid: { seed: ["1", 1, 2] }, configurations: [], pairs: "all" };
    expect(configurationsOf(merge).map(({ label }) => label)).toEqual(['seed "1"', "seed 1", "seed 2"]);
  });
});

describe("keys", () => {
  const keys = (plan: string) => new Set(new FakeWorld(plan).finish().steps.map(({ key }) => key));
  const plan = `${EXPERTS}${swap()}${TASKS}`;

  it("do not change with names, order of fields or resources", () => {
    const renamed = plan
      .replace("name: swap", "name: grafts")
      .replaceAll("math", "sums")
      .replace("{ method: swap, task: sums, language: language }", "{ language: language, task: sums, method: swap }");
    expect(keys(`${renamed}executor: { cores: 2 }\n`)).toEqual(keys(plan));
  });

  it("change with the model and the task", () => {
    const before = keys(plan);
    const kept = (changed: string) => [...keys(changed)].filter((key) => before.has(key)).length;
    expect(kept(plan.replace("folders: [t1]", "folders: [other]"))).toBeLessThan(before.size);
    expect(kept(plan.replace("folders: [t1]", "folders: [other]"))).toBeGreaterThan(before.size / 2);
    expect(kept(`${plan}search: { seed: 1 }\n`)).toBe(3 + 7 + 6); // base, experts, other tasks of the default, which is chosen, as none is better
    // Another default was evaluated in the search, so only reported items are new.
    const other = plan.replace("default: { bottom: 2, top: 0 }", "default: { bottom: 1, top: 1 }");
    expect(before.size - kept(other)).toBeLessThanOrEqual(6 * 2);
  });
});

describe("merges of the same model", () => {
  const asked = (recipe: string) => {
    const world = new FakeWorld(
      `${EXPERTS}merges:
  - { name: one, recipe: { method: swap, task: m-one, language: swa, bottom: 1, top: 1 } }
  - { name: two, recipe: ${recipe} }
${TASKS}`.replace("folders: [m1, m2]", "folders: { m-one: m1, m-two: m2 }"),
    );
    return world.finish().steps.filter(({ label }) => /^evaluate (one|two),/.test(label)).length;
  };

  it("are evaluated once, with or without defaults spelled out", () => {
    expect(asked("{ method: swap, language: swa, task: m-one, top: 1, bottom: 1, bottom_transition: 0 }")).toBe(2);
    expect(asked("{ method: swap, task: m-one, language: swa, bottom: 1, top: 1, outside: average }")).toBe(2);
    for (const other of ["bottom_transition: 1", "outside: language", "weights: magnitude", "base: base"]) {
      expect(asked(`{ method: swap, task: m-one, language: swa, bottom: 1, top: 1, ${other} }`), other).toBe(4);
    }
    expect(asked("{ method: swap, task: m-two, language: swa, bottom: 1, top: 1 }")).toBe(4);
  });
});

describe("a search over a grid", () => {
  // bottom 1, top 1 is right on everything; the others on even items.
  const worth = ({ model }: EvaluateStep, item: number) =>
    typeof model === "object" && model.bottom === 1 && model.top === 1 ? 1 : (item + 1) % 2;
  const only = EXPERTS.replace(/ {2}telugu.*\n/, "");

  it("uses its share of the items; the chosen and the default configuration get the rest", () => {
    const world = new FakeWorld(`${only}${swap()}${TASKS}search: { share: 0.4 }\n`, { worth });
    const first = world.round();
    expect(first.waiting.reduce((sum, { steps }) => sum + steps, 0)).toBeGreaterThan(0);
    const { searches, models, waiting } = world.finish();
    expect(waiting).toEqual([]);
    expect(searches.map(({ chosen }) => chosen)).toEqual(["bottom 1, top 1"]);
    const items = (label: string) => {
      const found = models.find(({ model }) => model.name === `swap, math-1 x swa, ${label}`);
      const steps = found?.tasks.find(({ request }) => request.task === "mgsm_sw")?.steps ?? [];
      return steps.reduce((sum, step) => sum + (step.items?.length ?? ITEMS), 0);
    };
    expect(items("bottom 1, top 0")).toBe(8);
    expect(items("bottom 1, top 1")).toBe(ITEMS);
    expect(items("bottom 2, top 0")).toBe(ITEMS);
    // No item twice: the parts are a partition.
    const parts = asked(world).filter(
      ({ model }) => typeof model === "object" && model.task === "id:m1" && model.language === "id:s1",
    );
    const seen = parts
      .filter(
        ({ request, model }) =>
          request.task === "mgsm_sw" &&
          (model as { top?: number; bottom?: number }).bottom === 1 &&
          (model as { top?: number }).top === 1,
      )
      .flatMap(({ items: places }) => places ?? []);
    expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: ITEMS }, (_, i) => i));
  });

  it("chooses on the reported items", () => {
    const test = new FakeWorld(`${only}${swap()}${TASKS}search: { choose_on: test }\n`, { worth });
    expect(test.finish().searches[0]).toMatchObject({ chosen: "bottom 1, top 1" });
    const mgsm = asked(test).filter(({ model, request }) => typeof model === "object" && request.task === "mgsm_sw");
    expect(mgsm.reduce((sum, { items }) => sum + (items?.length ?? 0), 0)).toBe(4 * 4 * ITEMS);
  });
});

describe("successive halving", () => {
  const only = EXPERTS.replace(/ {2}telugu.*\n/, "");
  const many = `merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [1, 2, 3, 4], top: [0, 1] }
`;
  // The more bottom layers the better, so that the best is known.
  const worth = ({ model }: EvaluateStep, item: number) =>
    typeof model === "object" && item % 5 < Number(model.bottom) + (model.top === 1 ? 0.5 : 0) ? 1 : 0;

  it("evaluates bad configurations on few items", () => {
    const plan = `${only}${many}${TASKS}search: { how: halving, share: 0.8, rounds: 3 }\n`;
    const world = new FakeWorld(plan, { worth });
    const { searches, waiting } = world.finish();
    expect(waiting).toEqual([]);
    expect(searches[0]?.chosen).toMatch(/^bottom 4/);
    const spent = asked(world).filter(({ model, request }) => typeof model === "object" && request.task === "mgsm_sw");
    const items = spent.reduce((sum, { items: places }) => sum + (places?.length ?? 0), 0);
    const grid = 4 * 8 * 16 + 4 * 2 * 4; // all pairs and configurations on the search's items, two of them on the rest
    expect(items).toBeLessThan(0.65 * grid);
    expect(searches[0]?.rounds.at(-1)?.ranked.length).toBeLessThanOrEqual(2);
  });
});

describe("training", () => {
  const plan = `
name: trained
base: base
experts:
  math:
    role: task
    train: { run: { data: { source: a.jsonl, map: { prompt: prompt, response: response } }, optimizer: { lr: 1.0e-5 }, samples: 15000 }, seeds: [1, 2, 3] }
    select: { top: 2, by: [mgsm_en] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: suggested, suggest: { task: math, language: swahili } }
evaluate: { tasks: ["mgsm_{language}"] }
`;

  it("evaluates checkpoints with the plan's limit and shots", () => {
    const limited = plan.replace(
      'tasks: ["mgsm_{language}"]',
      'tasks: ["mgsm_{language}", { task: mgsm_en, limit: 4, shots: 2 }]',
    );
    const world = new FakeWorld(limited);
    world.round();
    const asked = world.expand().steps.filter(({ label }) => /@/.test(label)) as EvaluateStep[];
    expect(asked).toHaveLength(3);
    for (const { request } of asked) expect(request).toEqual({ task: "mgsm_en", limit: 4, shots: 2 });
  });

  it("keeps the best checkpoints of all runs, at most one of each", () => {
    const worth = ({ model, request }: EvaluateStep, item: number) => {
      const samples = Number(/cp-(\d+)/.exec(String(model))?.[1] ?? 0);
      return request.task === "mgsm_en" && item < samples / 1000 ? 1 : 0;
    };
    const checkpoints = [5000, 10000, 15000].map((samples) => ({
      path: `cp-${samples === 10000 ? 12000 : samples / 2}`,
      samples,
    }));
    const suggested = [
      { name: "reverse", reason: "r", recipe: { method: "swap", task: "task", language: "language", bottom: 1 } },
    ];
    const world = new FakeWorld(plan, { worth, checkpoints, suggested });
    const first = world.expand();
    expect(first.steps.filter(({ kind }) => kind === "train")).toHaveLength(3);
    expect(first.waiting.map(({ what }) => what)).toContain("scores of checkpoints of math");
    expect(first.waiting.find(({ what }) => what === "scores of checkpoints of math")?.steps).toBe(9);

    const { models, waiting } = world.finish();
    expect(waiting).toEqual([]);
    const math = models.filter(({ model }) => /^math-\d$/.test(model.name));
    expect(math.map(({ model }) => "origin" in model && model.origin)).toEqual([
      "math-1 after 10,000 samples",
      "math-2 after 10,000 samples",
    ]);
    expect(models.filter(({ model }) => "isCandidate" in model && model.isCandidate)).toHaveLength(9);
    const merged = models.filter(({ model }) => model.kind === "merge");
    expect(merged.map(({ model }) => model.name)).toEqual([
      "suggested, math-1 x swahili-1, reverse",
      "suggested, math-2 x swahili-1, reverse",
    ]);
    expect(world.ran.filter(({ kind }) => kind === "analyze")).toHaveLength(2);
    expect(new Set(world.ran.map(({ key }) => key)).size).toBe(world.ran.length);
  });
});

describe("statistics of a search", () => {
  const items = (values: number[]) => values.map((value, index) => ({ index, id: `${index}`, value }));

  it("compares on the same items", () => {
    const ranked = rankConfigurations([
      { configuration: "a", task: "t", items: items([1, 1, 0, 0]) },
      { configuration: "b", task: "t", items: items([1, 1, 1, 0]) },
      { configuration: "b", task: "t", items: items([1, 1, 0, 0]) }, // another pair: averaged item by item
    ]);
    expect(ranked.map(({ configuration, mean, behind }) => [configuration, mean, behind])).toEqual([
      ["b", 0.625, 0],
      ["a", 0.5, -0.125],
    ]);
    // Differences 0, 0, -1/2, 0: deviation 1/4, error 1/8.
    expect(ranked[1]?.margin).toBeCloseTo(1.959964 / 8, 6);
  });

  it("prefers the default in a tie", () => {
    const of = (configuration: string, values: number[]) => ({ configuration, task: "t", items: items(values) });
    const same = [of("a", [1, 0, 1]), of("b", [0, 1, 1]), of("c", [0, 0, 1])];
    expect(rankConfigurations(same).map(({ configuration }) => configuration)).toEqual(["a", "b", "c"]);
    expect(rankConfigurations(same, "b").map(({ configuration }) => configuration)).toEqual(["b", "a", "c"]);
    expect(rankConfigurations(same, "c").map(({ configuration }) => configuration)).toEqual(["a", "b", "c"]);
  });

  it("keeps the best share, without significantly worse ones", () => {
    const of = (configuration: string, behind: number, margin: number) => ({
      configuration,
      behind,
      margin,
      mean: 0,
      items: 9,
    });
    const ranked = [of("a", 0, 0), of("b", -0.1, 0.2), of("c", -0.3, 0.2), of("d", -0.3, 0.4)];
    expect(survivors(ranked, 0.75)).toEqual(["a", "b"]);
    expect(survivors(ranked, 0.1)).toEqual(["a"]);
  });

  it("divides items once", () => {
    const search = {
      how: "halving",
      choose_on: "held-out",
      share: 0.4,
      rounds: 3,
      keep: 0.5,
      seed: 0,
      budget: 40,
    } as const;
    const { rounds, held } = splitItems(250, search);
    expect([...rounds.map((round) => round.length), held.length]).toEqual([25, 25, 50, 150]);
    const all = [...rounds.flat(), ...held];
    expect(new Set(all).size).toBe(250);
    expect(splitItems(250, { ...search, how: "grid", choose_on: "test" })).toEqual({
      rounds: [Array.from({ length: 250 }, (_, i) => i)],
      held: [],
    });
    expect(splitItems(3, search).rounds.flat()).toHaveLength(1);
  });
});
