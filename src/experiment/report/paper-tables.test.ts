import { expect, it } from "vitest";
import { numbersOf, reportOf, rowOf } from "./report-of.test-util.js";
import { taskIn } from "./task-language.js";

const plan = (tasks: string, rest = "") => `
name: small
base: b
experts:
  math: { role: task, folders: [m1] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: graft, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 0 } }
  - { name: other graft, recipe: { method: swap, task: math, language: swahili, bottom: 3, top: 0 } }
evaluate: { tasks: ${tasks} }
tables: [1, 2, 6]
${rest}`;

/** Nine of ten right in English, and two of ten else; the second graft three. */
const report = (text: string) =>
  reportOf(text, ({ model, request }) =>
    request.task.includes("en") ? 9 : typeof model === "object" && model.bottom === 3 ? 3 : 2,
  ).report;

const table = (text: string, id: string) => report(text).tables.find((one) => one.id === id);

it("reads the language of a task from its name", () => {
  expect(
    ["mgsm_{language}", "problems_sw.yaml", "own/problems_en.yaml", "toy.yaml"].map((task) => taskIn(task, "en")),
  ).toEqual([...["mgsm_en", "problems_en.yaml", "own/problems_en.yaml", undefined]]);
});

it("has English scores in the English row, in any order of tasks", () => {
  for (const tasks of ["[problems_sw.yaml, problems_en.yaml]", "[problems_en.yaml, problems_sw.yaml]"]) {
    const two = table(plan(tasks), "table-2-sw");
    expect(two?.rows.map((row) => [row[0], numbersOf(row)[0]?.value])).toEqual([
      ...[
        ["Swahili min", 0.2],
        ["Swahili mean", 0.2],
        ["Swahili max", 0.2],
        ["English mean", 0.9],
      ],
    ]);
  }
});

it("has no score for models that are not evaluated", () => {
  const two = table(plan("[problems_sw.yaml, { task: problems_en.yaml, of: [base, merges] }]"), "table-2-sw");
  const english = rowOf(two, "English mean").map(({ value }) => value);
  expect(english).toEqual([0.9, null, null, null, null, null, 0.9, null]);
});

it("explains why rows are missing", () => {
  expect(table(plan("[problems_sw.yaml]"), "table-2-sw")?.rows).toHaveLength(3);
  const { tables, notes } = report(plan("[toy.yaml]"));
  expect(tables.filter(({ kind }) => kind === "paper")).toEqual([]);
  expect(notes[0]).toBe(
    "The paper's tables 1, 2, 6: no rows for Swahili, because the name of toy.yaml does not end in a language's code.",
  );
});

it("has the paper's numbers only beside MGSM", () => {
  const published = (tasks: string, id: string) =>
    table(plan(tasks), id)?.rows.map((row) => numbersOf(row)[0]?.published);
  expect(published("['mgsm_{language}', mgsm_en]", "table-2-sw")).toEqual([0.248, 0.248, 0.248, 0.56]);
  expect(published("['mgsm_{language}']", "table-1")).toEqual([0.248, 0.248]);
  for (const id of ["table-1", "table-2-sw", "table-6"]) {
    expect(new Set(published("[problems_sw.yaml, problems_en.yaml]", id))).toEqual(new Set([undefined]));
    expect(table(plan("[problems_sw.yaml]"), id)?.note).toContain("those are of MGSM, and this is another task");
  }
  expect(report(plan("[problems_sw.yaml]")).notes).toEqual([]);
});

it("shows one merge in a column and names others that fit", () => {
  const [first, named] = [
    plan("[mgsm_sw]"),
    plan("[mgsm_sw]").replace("{ name: other graft,", "{ name: other graft, column: swap,"),
  ];
  const cell = (text: string) => numbersOf(table(text, "table-1")?.rows[0])[4];
  expect([cell(first)?.value, cell(first)?.range]).toEqual([0.2, undefined]);
  expect(cell(named)?.value).toBe(0.3);
  expect(table(first, "table-1")?.note).toContain(
    "Several merges fit swap: graft is shown, other graft only in the main table.",
  );
  expect(table(named, "table-1")?.note).not.toContain("Several");
});

it("titles a column by its models", () => {
  expect(table(plan("[mgsm_sw]"), "table-1")?.columns.slice(5)).toEqual([
    ...["layer swap", "layer swap, best configuration (none was searched)"],
  ]);
  const searched = plan("[mgsm_sw]").replace("bottom: 2, top: 0 }", "top: 0 }, grid: { bottom: [1, 2] }");
  expect(table(searched, "table-1")?.columns[5]).toBe("layer swap, first of the grid (bottom 1)");
});

it("titles tables by how configurations were chosen", () => {
  const both = plan("[mgsm_sw]", "search: { choose_on: both }").replace(
    "bottom: 2, top: 0 }",
    "top: 0 }, grid: { bottom: [1, 2] }",
  );
  const titles = report(both)
    .tables.filter(({ kind }) => kind === "paper")
    .map(({ title }) => title);
  expect(titles).toContain("Table 2. Swahili in detail, chosen on held-out items");
  expect(titles).toContain("Table 2. Swahili in detail, chosen on the test items");
  expect(new Set(titles).size).toBe(titles.length);
});
