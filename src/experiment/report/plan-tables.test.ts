// A plan's own tables, comparisons in pairs, maps of changes, and the best configuration of each expert.
import { describe, expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { markdownOf, numbersOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { csvLines } from "../../figures/render.js";
import { parsePlan } from "../plan/plan-file.js";
import type { EvaluateStep } from "../steps/step.js";

const plan = (more: string) => `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1, s2] }
  telugu: { role: language, language: te, folders: [t1] }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: language, top: 0 }
    grid: { bottom: [1, 2] }
    default: { bottom: 1 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: reverted, recipe: { method: revert, expert: math, base: base, layers: "0" } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
averages: [{ name: both, tasks: [mgsm_sw, mgsm_te] }]
search: { by: "mgsm_{language}", choose_on: test }
${more}
`;

/** Of ten items. The second math expert is better with one layer, the first with two; others are as good as their number says. */
function strength({ model, request }: EvaluateStep): number {
  if (request.task === "mgsm_en") return 9;
  if (typeof model === "string")
    return { "id:b": 1, "id:m1": 2, "id:m2": 4, "id:s1": 3, "id:s2": 5, "id:t1": 6 }[model] ?? 0;
  const { method, task, bottom } = model as unknown as Record<string, unknown>;
  if (method !== "swap") return 3;
  return task === "id:m2" ? (bottom === 1 ? 7 : 6) : bottom === 1 ? 4 : 8;
}

const TABLES = `tables:
  - name: "Table 1: means and maxima"
    note: As printed.
    languages: [te, sw]
    rows: [{ tasks: "mgsm_{language}", show: [mean, max] }, both]
    columns:
      - { title: base, of: base }
      - { title: language expert, of: language }
      - { title: math expert, of: math }
      - { title: default, of: layer swap }
      - { title: best, of: layer swap, at: chosen }
      - { title: soups, of: [soup, reverted] }
  - name: Experts
    languages: [sw]
    rows: [{ tasks: ["mgsm_{language}", mgsm_en] }]
    columns: [{ title: Swahili, of: swahili }, { title: one, of: swahili-2 }, { title: Telugu, of: telugu }]
`;

describe("tables of a plan", () => {
  it("have its rows and columns in its order, with means, minima and maxima over the models of a language", () => {
    const { report } = reportOf(plan(TABLES), strength);
    const [first, second] = report.tables;
    expect(first).toMatchObject({ id: "table-1", title: "Table 1: means and maxima", note: "As printed." });
    const percent = (rows = first?.rows) =>
      rows?.map((row) => [
        row.filter((cell) => typeof cell === "string").join(" "),
        ...numbersOf(row).map(({ value }) => (value ? Math.round(100 * value) : value)),
      ]);
    expect(percent()).toEqual([
      // Two layers are best over both math experts: (8 + 6) / 2 against (4 + 7) / 2. A revert has no language, so it has all.
      ["mgsm_te mean", 10, 60, 30, 55, 70, 30],
      ["mgsm_te max", 10, 60, 40, 70, 80, 30],
      ["mgsm_sw mean", 10, 40, 30, 55, 70, 30],
      ["mgsm_sw max", 10, 50, 40, 70, 80, 30],
      // No language expert is asked both, so each language's mean is averaged, as in the main table.
      ["both mean", 10, 50, 30, 55, 70, 30],
    ]);
    expect(percent(second?.rows)).toEqual([
      ["mgsm_sw", 40, 50, null],
      ["mgsm_en", 90, 90, null],
    ]);
    expect(second?.note).toBe("Means over models.");
    expect(markdownOf(report)).toContain("## Table 1: means and maxima");
    const table = tablesIn(report).find(({ id }) => id === "table-2");
    expect(csvLines(table ?? { columns: [], rows: [] })).toEqual([
      ",Swahili,one,Telugu",
      "mgsm_sw,0.4,0.5,",
      "mgsm_en,0.9,0.9,",
    ]);
  });

  it("have a place for what is not known yet", () => {
    const cells = (rounds: number) => reportOf(plan(TABLES), strength, { rounds }).report.tables[0]?.rows[0]?.slice(2);
    // Nothing is evaluated.
    expect(cells(0)?.map((cell) => (cell as { value: unknown }).value)).toEqual(Array(6).fill(undefined));
    expect(cells(1)?.map((cell) => (cell as { value: unknown }).value)).not.toContain(undefined);
  });

  it.each([
    [
      "[{ name: a, rows: [mgsm_se], columns: [{ title: a, of: base }] }]",
      "mgsm_se is neither a task under evaluate nor an average; did you mean mgsm_sw?",
    ],
    [
      "[{ name: a, rows: [both], columns: [{ title: a, of: soop }] }]",
      '"soop" is not an expert, family, role or merge of this plan; did you mean soup?',
    ],
    [
      "[{ name: a, languages: [sv], rows: [both], columns: [{ title: a, of: base }] }]",
      "no expert has the language sv; did you mean sw?",
    ],
    [
      "[{ name: a, rows: [{ tasks: both, show: [median] }], columns: [{ title: a, of: base }] }]",
      "must be mean, min or max",
    ],
  ])("refuse %s", (tables, message) => {
    expect(() => parsePlan(plan(`tables: ${tables}`))).toThrow(message);
  });
});

describe("comparisons of a plan", () => {
  it("test pairs of rows on the same items, with Holm's correction for all of them", () => {
    const text = plan("comparisons: [[reverted, math], [layer swap, soup]]");
    const { report } = reportOf(text, strength);
    const table = report.tables.find(({ id }) => id === "comparisons");
    expect(table?.rows.map((row) => row.slice(0, 3))).toEqual([
      ["reverted", "math", "mgsm_sw"],
      ["reverted", "math", "mgsm_te"],
      ["reverted", "math", "mgsm_en"],
      ["reverted", "math", "both"],
      ["layer swap", "soup", "mgsm_sw"],
      ["layer swap", "soup", "mgsm_en"],
    ]);
    const [difference] = numbersOf(table?.rows[4]);
    expect(difference?.value).toBeCloseTo(0.55 - 0.3, 12);
    const pValues = table?.rows.map((row) => numbersOf(row)[3]?.value ?? 0) ?? [];
    const [alone] = numbersOf(
      reportOf(plan("comparisons: [[layer swap, soup]]").replace(", mgsm_en]", "]"), strength).report.tables[0]
        ?.rows[0],
    ).slice(3);
    // Of six, the smallest counts six times.
    expect(pValues[4]).toBeCloseTo(Math.min(1, 6 * Number(alone?.value)), 9);
    expect(table?.rows[4]?.at(-1)).toMatch(/^2 math x 2 swahili x 20 items$/);
  });

  it.each([
    ["[[math, math]]", "must be of two; these are the same"],
    ["[[math, maths]]", '"maths" is not an expert, family, role or merge of this plan; did you mean math?'],
    ["[[math]]", "must be a list of two families or merges"],
  ])("refuse %s", (comparisons, message) => {
    expect(() => parsePlan(plan(`comparisons: ${comparisons}`))).toThrow(message);
  });
});

describe("changes of a plan", () => {
  const changes = "changes: [{ of: math, threshold: paper }, { of: [swahili-2, telugu] }]";
  const changed = {
    threshold: 1.9e-5,
    columns: ["q", "down"],
    cells: [
      [0.5, null],
      [0.25, 0],
    ],
    total: 0.125,
  };

  it("analyze each expert against what it started from, at its threshold", () => {
    const steps = new FakeWorld(plan(changes))
      .finish()
      .steps.flatMap((step) => (step.kind === "analyze" ? [step] : []));
    expect(steps.map(({ label, base, experts, threshold }) => [label, base, experts, threshold])).toEqual([
      ["analyze math-1", "id:b", { expert: "id:m1" }, "paper"],
      ["analyze math-2", "id:b", { expert: "id:m2" }, "paper"],
      ["analyze swahili-2", "id:b", { expert: "id:s2" }, "auto"],
      ["analyze telugu-1", "id:b", { expert: "id:t1" }, "auto"],
    ]);
  });

  it("are figures, layers from the top, and CSV", () => {
    const { report } = reportOf(plan(changes), strength, { changed });
    expect(report.changes.map(({ title }) => title)).toEqual(
      ["math-1", "math-2", "swahili-2", "telugu-1"].map((name) => `Rows that ${name} changed by more than 1.9e-5`),
    );
    const table = tablesIn(report).find(({ id }) => id === "changes-math-1");
    expect(csvLines(table ?? { columns: [], rows: [] })).toEqual(["layer \\ projection,q,down", "1,0.25,0", "0,0.5,"]);
    expect(report.changes[0]?.note).toBe("Over the whole model, with embeddings and norms, 12.5%.");
  });

  it.each([
    ["[{ of: base }]", "must be experts; the base has no changes"],
    ["[{ of: soup }]", '"soup" is not an expert, family or role of this plan'],
    ["[{ of: math, threshold: papers }]", "must be a positive number, auto, paper or paper-fine"],
  ])("refuse %s", (text, message) => {
    expect(() => parsePlan(plan(`changes: ${text}`))).toThrow(message);
  });
});

describe("the best configuration", () => {
  it("is reported for each expert, beside the one that a search chose for all", () => {
    const { report } = reportOf(plan(""), strength);
    const [swahili, telugu] = report.searches;
    expect(swahili?.chosen).toBe("bottom 2");
    expect(
      swahili?.byExpert.map(({ expert, merges, best, mean, ties, chosen }) => [
        expert,
        merges,
        best,
        mean,
        ties,
        chosen?.mean,
      ]),
    ).toEqual([
      ["math-1", 2, "bottom 2", 0.8, 0, 0.8],
      ["math-2", 2, "bottom 1", 0.7, 0, 0.6],
      ["swahili-1", 2, "bottom 2", 0.7, 0, 0.7],
      ["swahili-2", 2, "bottom 2", 0.7, 0, 0.7],
    ]);
    // The only Telugu expert is in all merges.
    expect(telugu?.byExpert.map(({ expert }) => expert)).toEqual(["math-1", "math-2"]);
    const text = markdownOf(report);
    expect(text).toContain("Best configuration of each expert, layer swap of math and swahili");
    expect(text).toContain("For 1 of 4 experts it is not the chosen one, bottom 2.");
  });
});
