import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
import type { RecipeError } from "../../kit/index.js";
import { expandVariants } from "../expand/expand-variants.js";
import type { Step } from "../steps/step.js";
import { commonTitle } from "./matrix.js";
import { parsePlan, parseVariants, readPlan } from "./plan-file.js";

const PLAN = `
name: ways
base: llama
training:
  common: { run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1.0e-5 }, samples: 8, sequence_length: 16 } }
experts:
  math: { role: task, train: { like: common } }
  target: { role: language, folders: [one] }
merges:
  - { name: soup, recipe: { method: soup, models: [math, target] } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
matrix:
  model:
    llama: {}
    aya: { base: aya }
  language:
    Swahili: { experts: { target: { language: sw } } }
    Telugu: { experts: { target: { language: te, folders: [two] } }, evaluate: { tasks: [mgsm_te] } }
`;

/** The plan that a person would write for a variant. */
const written = (base: string, language: "sw" | "te") =>
  PLAN.replace("base: llama", `base: ${base}`)
    .replace("folders: [one]", `language: ${language}, folders: [${language === "sw" ? "one" : "two"}]`)
    .replace('["mgsm_{language}", mgsm_en]', language === "sw" ? '["mgsm_{language}", mgsm_en]' : "[mgsm_te]")
    .replace(/matrix:.*/s, "");

const problemsOf = (text: string) => {
  try {
    parseVariants(text, "plan.yaml");
    return [];
  } catch (error) {
    return (error as RecipeError).problems;
  }
};

describe("the variants of a plan", () => {
  it("are the plans of all combinations, the last axis changing first", () => {
    const variants = parseVariants(PLAN);
    expect(variants.map(({ title, id, values }) => [title, id, values])).toEqual([
      ["llama, Swahili", "llama-Swahili", { model: "llama", language: "Swahili" }],
      ["llama, Telugu", "llama-Telugu", { model: "llama", language: "Telugu" }],
      ["aya, Swahili", "aya-Swahili", { model: "aya", language: "Swahili" }],
      ["aya, Telugu", "aya-Telugu", { model: "aya", language: "Telugu" }],
    ]);
    const plans = (["llama", "aya"] as const).flatMap((base) =>
      (["sw", "te"] as const).map((language) => parsePlan(written(base, language))),
    );
    expect(variants.map(({ plan }) => plan)).toEqual(plans);
  });

  it("is the plan alone without a matrix", () => {
    const text = written("llama", "sw");
    expect(parseVariants(text)).toEqual([{ id: "", title: "", values: {}, plan: parsePlan(text) }]);
  });

  it("have folders whose names differ", () => {
    const values = "{ a/b: {}, a b: {}, A-B: {}, '..': {} }";
    const variants = parseVariants(
      PLAN.replace(/matrix:.*/s, `matrix: { x: ${values} }`).replace("folders: [one]", "language: sw, folders: [one]"),
    );
    expect(variants.map(({ id }) => id)).toEqual(["a-b", "a-b-2", "A-B-3", "variant"]);
  });
});

describe("the steps of a matrix", () => {
  /** Runs all variants without running anything. */
  function finished() {
    const variants = parseVariants(PLAN);
    const worlds = variants.map(({ plan }) => new FakeWorld(plan));
    for (const world of worlds) world.finish();
    // The worlds agree, as a result depends on the step alone.
    const results = { ...(worlds[0] as FakeWorld).results };
    for (const kind of ["trained", "suggested", "overlap", "evaluated"] as const) {
      const any = (key: string) => worlds.map(({ results: own }) => own[kind](key)).find((one) => one !== undefined);
      Object.assign(results, { [kind]: any });
    }
    return { worlds, ...expandVariants(variants, fakeFacts, results) };
  }
  const labelsOf = (steps: readonly Step[], what: RegExp) =>
    steps.map(({ label }) => label).filter((label) => what.test(label));

  it("are those of the separate plans, and what they share is one step", () => {
    const { expansion, variants, worlds } = finished();
    const separate = worlds.map((world) => world.expand());
    expect(variants.map((one) => one.expansion)).toEqual(separate);
    const keys = separate.flatMap(({ steps }) => steps.map(({ key }) => key));
    expect(expansion.steps.map(({ key }) => key)).toEqual([...new Set(keys)]);
    // Each base trains once and is evaluated on mgsm_en once, though two variants need it.
    expect(labelsOf(expansion.steps, /^train/)).toEqual(["train math-1 (llama)", "train math-1 (aya)"]);
    expect(keys.filter((key) => key.startsWith("train"))).toHaveLength(4);
    expect(labelsOf(expansion.steps, /^evaluate target-1/)).toEqual([
      "evaluate target-1 on mgsm_sw (Swahili)",
      "evaluate target-1 on mgsm_en (Swahili)",
      "evaluate target-1 on mgsm_te (Telugu)",
    ]);
    // Per model: base and math on three tasks, a soup on two tasks and another on one; experts that are folders once.
    expect(expansion.steps).toHaveLength(2 * (1 + 3 + 3 + 2 + 1) + 3);
    expect(expansion.waiting).toEqual([]);
  });

  it("that depend on results are counted once where they are known to be the same", () => {
    const variants = parseVariants(
      PLAN.replace(", evaluate: { tasks: [mgsm_te] }", "").replace('"mgsm_{language}", ', ""),
    );
    const { expansion } = expandVariants(variants, fakeFacts, new FakeWorld(parsePlan(PLAN)).results);
    expect(expansion.waiting).toEqual([
      { what: "scores of math-1", steps: 2 },
      { what: "scores of soup", steps: 4 },
    ]);
  });

  it("are named after what their variants have in common", () => {
    const all = parseVariants(PLAN);
    expect(commonTitle(all.slice(0, 2), all)).toBe("llama");
    expect(commonTitle(all.slice(1, 2), all)).toBe("llama, Telugu");
    expect(commonTitle(all.slice(0, 3), all)).toBe("");
  });
});

describe("problems of variants", () => {
  it.each([
    [
      "in the plan, once",
      PLAN.replace("samples: 8", "sample: 8"),
      ['line 7: experts.math.train.run: unknown field "sample"; did you mean samples?'],
    ],
    [
      "in an override",
      PLAN.replace("base: aya }", "bas: aya }"),
      ['line 15: matrix.model.aya: unknown field "bas"; did you mean base?'],
    ],
    [
      "in an override that is wrong with another value",
      PLAN.replace("mgsm_te]", '"mgsm_te", "mgsm_{langage}"]'),
      ["line 18: matrix.language.Telugu.evaluate.tasks[1]: {langage} is not supported; write mgsm_{language}"],
    ],
    [
      "in the plan, with some overrides",
      PLAN.replace("{ experts: { target: { language: sw } } }", "{}"),
      [
        "line 8: experts.target.language: is missing; set it to the language's code in task names, such as sw (in Swahili)",
        "line 11: evaluate.tasks[0]: mgsm_{language} needs experts with a language (in Swahili)",
      ],
    ],
    [
      "of values that are wrong alike",
      PLAN.replace("llama: {}", "llama: { search: { how: a } }").replace(
        "base: aya }",
        "base: aya, search: { how: a } }",
      ),
      [
        "line 14: matrix.model.llama.search.how: must be grid, halving, random or cma-es",
        "line 15: matrix.model.aya.search.how: must be grid, halving, random or cma-es",
      ],
    ],
    [
      "that set what the experiment has once",
      PLAN.replace("llama: {}", "llama: { name: a, evaluate: { data: b } }"),
      [
        "line 14: matrix.model.llama.name: is the same for all variants; set it outside the matrix",
        "line 14: matrix.model.llama.evaluate.data: is the same for all variants; set it outside the matrix",
      ],
    ],
    [
      "of a value that is no mapping",
      PLAN.replace("llama: {}", "llama: 8"),
      ["line 14: matrix.model.llama: must be a mapping of fields of the plan; {} if it overrides none"],
    ],
    [
      "of an axis without values",
      PLAN.replace(/model:\n.*\n.*/, "model: {}"),
      ["line 13: matrix.model: must have at least one value"],
    ],
    [
      "of a value without a name",
      PLAN.replace("llama: {}", '"": {}'),
      ["line 13: matrix.model: must not have a value without a name"],
    ],
    [
      "of a matrix without axes",
      PLAN.replace(/matrix:.*/s, "matrix: {}"),
      ["line 12: matrix: must have at least one axis"],
    ],
    [
      "of too many variants",
      PLAN.replace(
        /matrix:.*/s,
        `matrix: { a: &a { ${Array.from({ length: 11 }, (_, i) => `v${i}: {}`).join(", ")} }, b: *a }`,
      ),
      ["line 12: matrix: has 121 combinations; the limit is 100. List fewer values, or split the plan"],
    ],
  ])("are reported %s", (_, text, problems) => {
    expect(problemsOf(text)).toEqual(problems);
  });
});

const folder = mkdtempSync(join(tmpdir(), "layergraft-matrix-"));
afterAll(() => rmSync(folder, { recursive: true }));

it("is read from a file", async () => {
  const file = join(folder, "plan.yaml");
  writeFileSync(file, PLAN);
  const { plan, variants } = await readPlan(file);
  expect(variants).toHaveLength(4);
  expect(plan).toBe(variants[0]?.plan);
  writeFileSync(file, PLAN.replace("base: aya }", "bas: aya }"));
  await expect(readPlan(file)).rejects.toMatchObject({
    problems: [expect.stringContaining("line 15: matrix.model.aya")],
  });
});
