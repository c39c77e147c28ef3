import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { RecipeError } from "../../kit/errors.js";
import { stringifyWritten } from "../../kit/numbers/index.js";
import { defineMethod, modelsField, sourceField } from "../../merge/methods/method.js";
import { addMethod } from "../../merge/recipe/recipe.js";
import { checkedRecipes } from "./configurations.js";
import { combinationsOf, membersOf } from "./expert-names.js";
import { inspectPlan, parsePlan } from "./plan-file.js";

const problemsOf = (text: string): readonly string[] => {
  try {
    parsePlan(text, "plan.yaml");
  } catch (error) {
    if (error instanceof RecipeError) return error.problems;
    throw error;
  }
  return [];
};

const GOOD = `
name: small
base: base
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: { swa: s1, swb: s2 } }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [1, 2], top: [0, 1] }
    default: { bottom: 2, top: 0 }
  - name: soup of soups
    recipe: { method: swap, task: { method: soup, models: [all math] }, language: { method: soup, models: [all language] } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
`;

describe("plans", () => {
  it("keep floats of chat template variables", () => {
    const variables = "evaluate: { chat_template_kwargs: { n: 2.0, m: 2 }, ";
    const { evaluate } = parsePlan(GOOD.replace("evaluate: { ", variables));
    expect(stringifyWritten(evaluate.chat_template_kwargs)).toBe('{"n":2.0,"m":2}');
  });

  it("are read with every default", () => {
    const plan = parsePlan(GOOD);
    expect(plan.search).toEqual({
      how: "grid",
      budget: 40,
      choose_on: "held-out",
      share: 0.4,
      rounds: 3,
      keep: 0.5,
      seed: 0,
    });
    expect(plan.executor).toMatchObject({ kind: "local", attempts: 3 });
    expect(plan.merges[1]?.pairs).toBe("all");
    expect(parsePlan("{ name: one, base: b, evaluate: { tasks: [mgsm_en] } }").merges).toEqual([]);
  });

  it("report unknown fields, with what was meant", () => {
    const problems = problemsOf(GOOD.replace("folders: [m1, m2]", "folder: [m1]").replace("merges:", "merge:"));
    expect(problems).toEqual([
      'line 5: experts.math: unknown field "folder"; did you mean folders?',
      'line 7: unknown field "merge"; did you mean merges?',
    ]);
  });

  it("report unknown names and problems of methods, with their lines", () => {
    const text = GOOD.replace("task: math, language: swahili }", "task: mathh, language: swahili }")
      .replace("[all math]", "[all maths]")
      .replace("  - name: soup of", "    pairs: [[math-1, swa], [math-9, swa]]\n  - name: soup of");
    expect(problemsOf(text)).toEqual([
      'line 9: merges[0].recipe.task: "mathh" is not an expert, family, role or merge of this plan; did you mean math?',
      "line 12: merges[0].pairs[1]: there is no expert math-9; did you mean math-1?",
      expect.stringMatching(/^line 14: merges\[1\]\.recipe\.task\.models\[0\]: "all maths" is not an expert/),
    ]);
    const wrong = GOOD.replace("bottom: [1, 2]", "bottom: [1, many]").replace(
      "method: soup, models: [all math]",
      "method: soop",
    );
    expect(problemsOf(wrong)).toEqual([
      expect.stringMatching(/^line 10: merges\[0\]\.grid\.bottom: bottom: must be/),
      expect.stringMatching(/^line 13: .*: is "soop"; did you mean soup\?$/),
    ]);
  });

  it.each([
    [
      "search: { budget: 5, rounds: 5, keep: 0.2 }",
      ["budget", "rounds", "keep"].map((field) => `search.${field}: is not used with how: grid`),
    ],
    [
      "search: { how: cma-es, keep: 0.2 }",
      ["search.keep: is not used with how: cma-es. Remove it, or set how: halving"],
    ],
    ["search: { how: random, budget: 1 }", ["search.budget: must be at least 2"]],
    ["search: { how: halving, rounds: 2, keep: 0.2, budget: 9 }", []],
    ["search: { how: cmaes }", ["search.how: must be grid, halving, random or cma-es; did you mean cma-es?"]],
    [
      "controls: [reversed]",
      ["controls[0]: must be one of random, reverse, into-base, from-base, itself; did you mean reverse?"],
    ],
    ["averages: [{ name: a, task: [mgsm_en] }]", ["tasks: is missing", 'unknown field "task"; did you mean tasks?']],
    ["overlaps: [[math, soup of soups]]", ["overlaps[0]: soup of soups is a merge; overlaps take experts"]],
    ["overlaps: [[maths, swahilli]]", ["overlaps[0]: "]],
    [
      "overlaps: [[math]]",
      ["overlaps[0]: must be a list of two experts or families, as in overlaps: [[math, swahili]]"],
    ],
    ["overlaps: [[math, swahili]]", []],
    ["overlaps: [math, swahili]", ["overlaps[0]: must be a list of two", "overlaps[1]: must be a list of two"]],
  ])("say what is wrong with %s", (line, messages) => {
    expect(problemsOf(`${GOOD}${line}\n`)).toEqual(messages.map((message) => expect.stringContaining(message)));
  });

  it("name both fields of numbers of a line, and the weight of a model that is a name", () => {
    const line = GOOD.replace("default: { bottom: 2, top: 0 }", "figure: line");
    expect(problemsOf(line)).toEqual([expect.stringContaining("here bottom and top do, so give all but one")]);
    const soup = `  - { name: soup, recipe: { method: soup, models: [math, swahili] }, space: { "models.0.weight": { from: 0, to: 1 } } }`;
    expect(problemsOf(`${GOOD.replace("evaluate:", `${soup}\nevaluate:`)}search: { how: cma-es }\n`)).toEqual([
      expect.stringContaining("models.0 is the name math; write { model: math, weight: 1 } in its place"),
    ]);
  });

  it("say that several models need a list", () => {
    expect(problemsOf(GOOD.replace("language: swahili }", "language: all swahili }"))).toEqual([
      "line 9: merges[0].recipe.language: all swahili means several models; use a soup with it in the list",
    ]);
  });

  it("refuse the base's name for a merge, and names that a table cannot show", () => {
    const named = (name: string) => problemsOf(GOOD.replace("name: soup of", `name: ${name} # `));
    expect(named("base")).toEqual(["line 12: merges[1].name: base is a reserved name; choose another"]);
    expect(named("x".repeat(201))).toEqual(["line 12: merges[1].name: must be at most 200 characters"]);
    expect(named('"a\\nb"')).toEqual([
      "line 12: merges[1].name: must not contain line breaks or other control characters",
    ]);
  });

  it("check experts", () => {
    const text = `
name: e
base: b
experts:
  base: { role: other, folders: [x] }
  sw: { role: language, folders: [x], train: { seeds: [1] } }
  both: { role: joint, folders: [x], select: { by: mgsm_en } }
  runs:
    role: task
    train:
      run: { data: { source: x.jsonl, map: { prompt: prompt, response: response } }, optimizer: { lr: -1 } }
      runs: [{ name: r1 }, { name: r1, shedule: { kind: wsd } }]
      seeds: [1]
evaluate: { tasks: [mgsm_en] }
`;
    const problems = problemsOf(text);
    expect(problems).toContain("line 5: experts.base: base is a reserved name; choose another");
    expect(problems).toContain("line 6: experts.sw: must have either folders or train");
    expect(problems).toContain(
      "line 6: experts.sw.language: is missing; set it to the language's code in task names, such as sw",
    );
    expect(problems).toContain(
      "line 7: experts.both.select: needs train: it chooses among the checkpoints of training runs",
    );
    expect(problems).toContain("line 8: experts.runs: two experts are named r1; rename one");
    expect(problems).toContain("line 13: experts.runs.train.seeds: cannot be combined with runs");
    expect(problems.filter((problem) => problem.includes("optimizer.lr: must be above 0"))).toHaveLength(1);
    expect(problems.some((problem) => problem.includes("shedule") && problem.includes("did you mean schedule?"))).toBe(
      true,
    );
  });

  it("check the type of weights in llama.cpp", () => {
    const problems = (evaluate: string) =>
      problemsOf(`name: a\nbase: b\nevaluate: { tasks: [mgsm_en], ${evaluate} }`).join("\n");
    expect(problems("type: q8_0")).toMatch(/evaluate\.type: needs backend: llama/);
    expect(problems("backend: llama, type: q3_k")).toMatch(/evaluate\.type: must be one of f32, .*q4_0/);
    expect(problems("backend: vllm")).toMatch(/evaluate\.backend: must be engine, llama, or serve:COMMAND/);
  });

  it("refuse a line break in what becomes a line of a job's script", () => {
    const executor = 'executor: { kind: slurm, time: "1\\ntouch x", options: ["--qos=a\\ntouch x"] }';
    const problems = problemsOf(`name: a\nbase: b\nevaluate: { tasks: [mgsm_en] }\n${executor}`).join("\n");
    expect(problems).toMatch(/executor\.time: must be one line/);
    expect(problems).toMatch(/executor\.options\[0\]: must be one line/);
  });

  it("check tasks and search", () => {
    const text = `
name: s
base: b
experts: { m: { role: task, folders: [x] } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en, mgsm_en, { task: mgsm_en, of: [controls] }] }
search: { by: mgsm_sw, how: halving, choose_on: test }
`;
    expect(problemsOf(text)).toEqual([
      "line 5: evaluate.tasks[0]: mgsm_{language} needs experts with a language",
      "line 5: evaluate.tasks[2]: mgsm_en is listed twice",
      "line 6: search.by: must be one of the tasks, mgsm_{language}, mgsm_en, mgsm_en, mgsm_en",
      expect.stringMatching(/^line 6: search\.choose_on: must be held-out with how: halving/),
    ]);
  });

  it("report everything that breaks the schema at once, then problems across fields", () => {
    const text = GOOD.replace("mgsm_en]", 'mgsm_en, "mgsm_{lang}"]').replace(
      "  - name: soup of",
      "    pairs: [[math-1, nobody]]\n  - name: soup of",
    );
    const broken = text.replace("mgsm_en,", "{ task: mgsm_en, limit: 0 },");
    expect(problemsOf(`${broken}rounds: 0\noverlaps: 3\n`)).toEqual([
      "line 15: evaluate.tasks[1].limit: must be at least 1",
      "line 16: rounds: must be at least 2",
      "line 17: overlaps: must be a list, not a number",
    ]);
    expect(problemsOf(text)).toEqual([
      "line 12: merges[0].pairs[0]: there is no expert nobody; there are math-1, math-2, swa, swb",
      "line 15: evaluate.tasks[2]: {lang} is not supported; write mgsm_{language}",
    ]);
  });

  it("do not report the consequences of a problem", () => {
    // A misspelt section hides which experts there are; a wrong role is not missing.
    expect(problemsOf(GOOD.replace("experts:", "expert:"))).toEqual([
      'line 4: unknown field "expert"; did you mean experts?',
    ]);
    expect(problemsOf(GOOD.replace("role: task", "role: tsk"))).toEqual([
      "line 5: experts.math.role: must be one of task, language, joint, other",
    ]);
    expect(problemsOf(GOOD.replace("folders: [m1, m2]", "folders: 3"))).toEqual([
      "line 5: experts.math.folders: must be a list of folders, or names with a folder each",
    ]);
    expect(problemsOf(GOOD.replace(/recipe: \{ method: swap, task: math.*/, "recipe: swap"))).toEqual([
      expect.stringMatching(/^line 9: merges\[0\]\.recipe: must be a mapping/),
    ]);
    expect(problemsOf("name: x\nbase: b\nevaluate: { tasks: mgsm_en }\n")).toEqual([
      expect.stringMatching(/^line 3: evaluate\.tasks: must be a list/),
    ]);
  });

  it("report every section where nearly all is wrong", () => {
    const text = "name: 3\nbase: [x]\nexperts: { m: { role: task, folders: [a, 4] } }\nmerges: {}\nevaluate: 3\n";
    expect(problemsOf(text)).toEqual([
      "line 1: name: must be text",
      "line 2: base: must be text",
      "line 3: experts.m.folders[1]: must be text",
      "line 4: merges: must be a list, not a mapping",
      "line 5: evaluate: must be a mapping, not a number",
    ]);
  });

  it("say where a misplaced field belongs", () => {
    expect(problemsOf(`${GOOD}data: sets\nchoose_on: test\n`)).toEqual([
      'line 15: unknown field "data"; it belongs under evaluate',
      'line 16: unknown field "choose_on"; it belongs under search',
    ]);
  });

  it("report problems of YAML in words", () => {
    expect(problemsOf(GOOD.replace("base: base", "name: again"))).toEqual([
      "line 3: name is repeated here; keep one of the two",
    ]);
    expect(problemsOf(GOOD.replace("  - name: layer swap", "  - name: layer swap\n      column: swap"))[0]).toMatch(
      /^line 8: this value is followed by another field; check the indentation of this line and the next/,
    );
  });

  it("accept names that every object has", () => {
    const text = `
name: own
base: b
experts:
  toString: { role: task, folders: { valueOf: x } }
  constructor: { role: language, language: hasOwnProperty, train: { like: constructor } }
merges: [{ name: m, recipe: { method: soup, models: [toString, constructor] }, grid: { valueOf: [1, 2] } }]
evaluate: { tasks: [mgsm_en] }
`;
    const problems = problemsOf(text);
    expect(problems).toContain("line 6: experts.constructor.train.like: there is no constructor under training");
    expect(problems.filter((problem) => problem.includes("valueOf"))).toEqual([
      expect.stringMatching(/^line 7: .*unknown field "valueOf"/),
    ]);
  });

  it("refuse too many configurations, models and checkpoints before they are made", () => {
    const numbers = JSON.stringify(Array.from({ length: 1000 }, (_, i) => i));
    expect(
      problemsOf(GOOD.replace("bottom: [1, 2], top: [0, 1]", `bottom: ${numbers}, top: ${numbers}, x: ${numbers}`)),
    ).toEqual([
      "line 10: merges[0].grid: has 1,000,000,000 combinations; the limit is 10,000. List fewer values, or split the merge",
    ]);
    const expertFamilies = ["a", "b", "c", "d"].map(
      (one) => `  ${one}: { role: other, folders: ${numbers.replace(/\d+/g, "f")} }`,
    );
    const soup = "  - { name: all pairs, recipe: { method: soup, models: [a, b, c, d] } }";
    expect(problemsOf(GOOD.replace("merges:", `${expertFamilies.join("\n")}\nmerges:\n${soup}`))).toEqual([
      expect.stringContaining("makes 1,000,000,000,000 models"),
    ]);
    const trained = `math:
    role: task
    train: { run: { data: { source: x.jsonl, map: { prompt: p, response: r } }, samples: 100000000, checkpoints: { every_samples: 1 }, optimizer: { lr: 1.0e-5 } } }
    select: { by: mgsm_en, top: 100000000 }`;
    expect(problemsOf(GOOD.replace(/math: .*/, trained))).toEqual([
      "line 8: experts.math.select.top: must be at most 1,000",
    ]);
    expect(problemsOf(GOOD.replace(/math: .*/, trained.replace(", top: 100000000", "")))).toEqual([
      "line 7: experts.math.train.run: checkpoints.every_samples: the run would leave 100,000,000 checkpoints; the limit is 1,000. Raise it.",
    ]);
  });

  it("report an empty entry of a list", () => {
    expect(
      problemsOf(GOOD.replace("models: [all math]", "models: [all math, ]").replace("[all language]", "[null]")),
    ).toEqual([expect.stringMatching(/^line 13: .*models\[0\]/)]);
  });

  it("refuse configurations that name models", () => {
    const message =
      "configurations cannot change the models. Name a family in the recipe to merge each of its experts in turn, or write another merge";
    expect(problemsOf(GOOD.replace("grid: { bottom: [1, 2],", "grid: { task: [math-1, ./other],"))).toEqual([
      `line 10: merges[0].grid.task: ${message}`,
    ]);
    const listed = "configurations: [{ models: [[math-1, swa]] }, { slices: [null] }]\n    default: { language: swa }";
    expect(problemsOf(GOOD.replace("default: { bottom: 2, top: 0 }", listed))).toEqual([
      `line 11: merges[0].configurations[0].models: ${message}`,
      `line 11: merges[0].configurations[1].slices: ${message}`,
      `line 12: merges[0].default.language: ${message}`,
    ]);
  });

  it("name experts in whatever fields a method declares as sources", () => {
    addMethod(
      defineMethod({
        name: "distilled",
        title: "Distilled",
        fields: () => ({
          base: sourceField("the base"),
          teacher: sourceField("the teacher").optional(),
          students: modelsField("the students", {}),
        }),
        tensors: () => new Map(),
      }),
    );
    const recipe = "{ method: distilled, base: base, teacher: swa, students: [all math, math] }";
    const text = GOOD.replace("{ method: swap, task: math, language: swahili }", recipe).replace(
      / {4}grid: .*\n {4}default: .*\n/,
      "",
    );
    const plan = parsePlan(text);
    const [merge] = plan.merges;
    const members = membersOf(plan);
    const used = merge && combinationsOf(merge, members).map((one) => one.used.map(({ name }) => name));
    expect(used).toEqual([
      ["swa", "math-1", "math-2"],
      ["swa", "math-1", "math-2"],
    ]);
    const bound = merge && checkedRecipes(merge, members, (one) => `models/${one === "base" ? one : one.name}`);
    expect(bound?.[0]?.bound).toEqual({
      ...{ method: "distilled", base: "models/base", teacher: "models/swa" },
      students: ["models/math-1", "models/math-2", "models/math-1"],
    });
    expect(problemsOf(text.replace("teacher: swa", "teacher: swahilli"))).toEqual([
      expect.stringMatching(
        /^line 9: merges\[0\]\.recipe\.teacher: "swahilli" is not an expert.* did you mean swahili/,
      ),
    ]);
    expect(problemsOf(text.replace("teacher: swa", "teacher: all math"))).toEqual([
      expect.stringMatching(/^line 9: merges\[0\]\.recipe\.teacher: all math means several models/),
    ]);
    expect(problemsOf(text.replace(recipe, `${recipe}\n    configurations: [{ students: [swa] }]`))).toEqual([
      expect.stringMatching(
        /^line 10: merges\[0\]\.configurations\[0\]\.students: configurations cannot change the models/,
      ),
    ]);
  });

  it("refuse a search by a task that merges are not evaluated on", () => {
    const message =
      "mgsm_en chooses among the configurations of layer swap, but merges are not evaluated on it. Add merges to its `of`, or set search.by to another task";
    const first = GOOD.replace('["mgsm_{language}", mgsm_en]', '[{ task: mgsm_en, of: [base] }, "mgsm_{language}"]');
    expect(problemsOf(first)).toEqual([`line 14: evaluate.tasks[0]: ${message}`]);
    expect(problemsOf(`${first}search: { by: mgsm_en }\n`)).toEqual([`line 15: search.by: ${message}`]);
    expect(problemsOf(`${first}search: { by: "mgsm_{language}" }\n`)).toEqual([]);
  });

  it("refuse a value that contains itself", async () => {
    const endless: Record<string, unknown> = { name: "x", base: "b", evaluate: { tasks: ["t"] } };
    endless.notes = endless;
    await expect(inspectPlan(endless as never)).rejects.toThrow("nests more than 100 levels deep");
  });

  it("refuse a file of aliases of aliases", async () => {
    const folder = mkdtempSync(join(tmpdir(), "layergraft-plan-"));
    try {
      const lines = Array.from(
        { length: 9 },
        (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(", ")}]`,
      );
      writeFileSync(join(folder, "plan.yaml"), `a0: &a0 [1]\n${lines.join("\n")}\n`);
      await expect(inspectPlan(join(folder, "plan.yaml"))).rejects.toThrow("write the values out");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
