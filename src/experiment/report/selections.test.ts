import { expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { markdownOf, reportOf } from "../../../test/support/report-of.js";
import { csvLines } from "../../figures/render.js";
import type { EvaluateStep } from "../steps/step.js";
import { statusLines } from "./dry-run-and-status.js";
import { experimentPage } from "./page.js";
import { findRecipe } from "./recipes.js";

const plan = (select: string, more = "", souped = "[all math]") => `
name: small
base: b
experts:
  math:
    role: task
    train:
      runs:
        - { name: run-a, seed: 1, data: { sets: [{ source: one.jsonl }] } }
        - { name: run-b, seed: 2, data: { sets: [{ source: one.jsonl }] } }
        - { name: run-c, seed: 3, data: { sets: [{ source: two.jsonl }] } }
      run: { batch: 1, samples: 8, optimizer: { lr: 0.001 }, checkpoints: { every_samples: 4 } }
    select: { ${select} }
merges: [{ name: souped, recipe: { method: soup, models: ${souped} } }]
evaluate: { tasks: [quiz${more === "" ? "" : ", gsm, mmlu"}] }
${more}
`;
const CHECKPOINTS = [4, 8].map((samples) => ({ path: `checkpoint-${samples}`, samples }));

/** Later checkpoints are better at gsm and worse at mmlu; the base has 8 of ten of mmlu. */
const worth = (keyOf: (run: number) => string) => (step: EvaluateStep, item: number) => {
  const model = typeof step.model === "string" ? step.model : "";
  const run = [0, 1, 2].find((one) => model.includes(keyOf(one))) ?? -1;
  if (run < 0) return item % 10 < 8 ? 1 : 0;
  const isLate = model.endsWith("checkpoint-8");
  const right = step.request.task === "mmlu" ? (isLate ? 6 : 8 - run) : isLate ? 9 : 5 + run;
  return item % 10 < right ? 1 : 0;
};

function run(select: string, more?: string, soup?: string) {
  const text = plan(select, more, soup);
  const keys = new FakeWorld(text).expand().steps.flatMap(({ kind, key }) => (kind === "train" ? [key] : []));
  const value = worth((one) => keys[one] ?? "?");
  const world = new FakeWorld(text, { checkpoints: CHECKPOINTS, worth: value });
  const { selections, models, waiting, steps } = world.finish();
  const souped = models.find(({ model }) => model.kind === "merge")?.model;
  const { report, status } = reportOf(
    text,
    (step) => [...Array(10).keys()].filter((item) => value(step, item)).length,
    {
      checkpoints: CHECKPOINTS,
    },
  );
  return { selection: selections[0], waiting, souped, report, status, steps };
}

const names = (selection: ReturnType<typeof run>["selection"]) =>
  selection?.checkpoints.flatMap(({ name, origin }) => (name === undefined ? [] : [`${name}: ${origin}`]));

it("waits for no more checkpoints than there are, with guards or without", () => {
  const { selection, waiting, souped, report } = run("top: 5, by: quiz");
  expect(names(selection)).toHaveLength(3);
  expect(waiting).toEqual([]);
  expect(souped?.source).toMatchObject({ models: Array(3).fill(expect.any(String)) });
  expect(report.selections[0]?.note).toMatch(/^3 of 6 checkpoints kept; 5 wanted\./);
  const named = run("top: 5, by: quiz", "", "[math-1, math-5]");
  expect(named.waiting).toEqual([]);
  expect(named.report.warnings).toEqual([
    "math has 3 of the 5 checkpoints that the plan names: the others are of the same runs.",
    "Without these checkpoints, there is no model of souped.",
  ]);
});

it("refuses checkpoints that lost more than a guard allows", () => {
  const { selection, waiting, souped, report, steps } = run("top: 3, by: gsm, guards: [{ task: mmlu, within: 10 }]");
  // The late checkpoints lose 20 points of mmlu; the early ones 0, 10 and 20.
  expect(selection?.guards).toEqual([{ task: "mmlu", within: 10, base: 0.8 }]);
  expect(selection?.checkpoints.map(({ refusedBy }) => refusedBy.length)).toEqual([1, 1, 1, 1, 0, 0]);
  expect(names(selection)).toEqual(["math-1: run-b after 4 samples", "math-2: run-a after 4 samples"]);
  expect(steps.filter(({ label }) => label === "evaluate base (for guards) on mmlu")).toHaveLength(1);
  // There is no third, and nothing waits for it.
  expect([waiting, report.warnings]).toEqual([[], []]);
  expect(souped?.source).toMatchObject({ models: [expect.any(String), expect.any(String)] });
  const table = report.selections[0];
  expect(table?.note).toBe(
    "2 of 6 checkpoints kept; 3 wanted. Best first by gsm; tied ones in the order of the plan. Guards: mmlu: at most 10 below the base's 80.0. They refused 4.",
  );
  const lines = csvLines(table ?? { columns: [], rows: [] });
  expect(lines[0]).toBe("checkpoint,gsm,mmlu against the base,outcome");
  expect(lines[1]).toMatch(/^run-a after 8 samples,0\.9,-0\.2\d*,refused by mmlu$/);
  expect(lines[5]).toMatch(/^run-b after 4 samples,0\.6,-0\.1\d*,kept as math-1$/);
  expect(lines[6]).toMatch(/^run-a after 4 samples,0\.5,0,kept as math-2$/);
  expect(markdownOf(report)).toContain("| refused by mmlu |");
});

it("merges nothing where guards leave no expert, and says so", () => {
  const { selection, waiting, souped, report, status } = run(
    "top: 1, by: gsm, guards: [{ task: mmlu }, { task: gsm, within: 0 }]",
  );
  expect(selection?.checkpoints.every(({ name }) => name === undefined)).toBe(true);
  expect([waiting, souped]).toEqual([[], undefined]);
  const warnings = [
    "Guards refused all 6 checkpoints of math (5 by mmlu, 3 by gsm), so math has no model.",
    "Without these checkpoints, there is no model of souped.",
  ];
  expect(report.warnings).toEqual(warnings);
  expect(markdownOf(report)).toMatch(/^\*\*.*Guards refused all 6 checkpoints.*\*\*$/m);
  expect(experimentPage(report).state).toMatchObject({ isOpen: true });
  expect(experimentPage(report).state?.text).toContain(warnings.join(" "));
  expect(statusLines({ ...status, seconds: 0 })).toContain(`warning  ${warnings[0]}`);
  // Refused checkpoints are not offered.
  for (const row of ["math", "math-1", "souped"]) {
    expect(() => findRecipe(row, report, status)).toThrow(
      `there is no row ${row} in the report; there are base. ${warnings.join(" ")}`,
    );
  }
});

it("says which checkpoints are of the run of a kept one", () => {
  const { report } = run("top: 2, by: gsm, guards: [{ task: mmlu, within: 100 }]");
  expect(report.selections[0]?.rows.map((row) => `${row[0]}: ${row.at(-1)}`)).toEqual([
    "run-a after 8 samples: kept as math-1",
    "run-b after 8 samples: kept as math-2",
    "run-c after 8 samples: below the best 2",
    "run-c after 4 samples: below the best 2",
    "run-b after 4 samples: same run as math-2",
    "run-a after 4 samples: same run as math-1",
  ]);
});

it("keeps the keys of plans without guards", () => {
  const keys = (select: string) =>
    new FakeWorld(plan(select), { checkpoints: CHECKPOINTS }).finish().steps.map(({ key }) => key);
  const guarded = new Set(keys("top: 3, by: gsm, guards: [{ task: mmlu, within: 100 }]"));
  for (const key of keys("top: 3, by: gsm")) expect(guarded.has(key)).toBe(true);
});

it("says which checkpoints were chosen on the reported items", () => {
  const reported = (select: string, tasks: string) =>
    reportOf(plan(select).replace("tasks: [quiz]", `tasks: [${tasks}]`), () => 5, {
      checkpoints: CHECKPOINTS,
    }).report.overviews.map(({ task, choice }) => [task, choice]);
  expect(reported("top: 2, by: gsm", "gsm, quiz")).toEqual([
    [
      "gsm",
      "Checkpoints of math were chosen on these items, so their scores and those of their merges are optimistic.",
    ],
    ["quiz", ""],
  ]);
  // All are kept, so nothing was chosen.
  expect(reported("top: 6, by: gsm, one_per_run: false", "gsm")).toEqual([["gsm", ""]]);
});

it("refuses checkpoints that did not gain what a negative limit asks", () => {
  // Against the base's 80, the late checkpoints have 60, the early ones 80, 70 and 60.
  const { selection, report } = run("top: 3, by: gsm, guards: [{ task: gsm8, within: -10 }]");
  expect(
    selection?.checkpoints.every(({ guarded, refusedBy }) => refusedBy.length > 0 === (guarded[0] ?? 0) < 0.9),
  ).toBe(true);
  expect(selection?.checkpoints.map(({ refusedBy }) => refusedBy.length)).toEqual([0, 0, 0, 1, 1, 1]);
  expect(report.selections[0]?.note).toContain("Guards: gsm8: at least 10 above the base's 80.0.");
});

it("selects by averages, and by z-scores where percent and points are mixed", () => {
  // BLEU is 90 for the late checkpoints, and 50, 60 and 70 for the early ones; mmlu 60, and 80, 70 and 60.
  const bleu = [0.5, 0.9, 0.6, 0.9, 0.7, 0.9];
  const mmlu = [0.8, 0.6, 0.7, 0.6, 0.6, 0.6];
  const standard = (values: readonly number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
    return values.map((value) => (value - mean) / spread);
  };
  const [x, y] = [standard(bleu), standard(mmlu)];
  const wanted = x.map((value, i) => (value + (y[i] ?? 0)) / 2).sort((a, b) => b - a);
  const mixed = run("top: 3, by: [flores_en-sw, mmlu], guards: [{ task: mmlu, within: 50 }]");
  expect(mixed.selection?.scale).toBe("z-score");
  mixed.selection?.checkpoints.forEach(({ score }, i) => void expect(score).toBeCloseTo(wanted[i] ?? 0, 9));
  expect(mixed.report.selections[0]?.note).toContain(
    "on average of their z-scores over these checkpoints, as percent and points cannot be averaged",
  );
  const named = run(
    "top: 3, by: [both, gsm], guards: [{ task: mmlu, within: 50 }]",
    "averages: [{ name: both, tasks: [gsm, mmlu] }]",
  );
  expect(named.selection).toMatchObject({ by: ["both", "gsm"], scale: "share" });
  // (mean of 0.9 and 0.6, with 0.9) / 2
  expect(named.selection?.checkpoints[0]?.score).toBeCloseTo((0.75 + 0.9) / 2, 12);
});
