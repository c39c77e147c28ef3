import { describe, expect, it } from "vitest";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { markdownOf, numbersOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { csvLines, latexText } from "../../figures/render.js";
import type { EvaluateStep } from "../steps/step.js";
import { experimentPage } from "./page.js";
import { flipsTable } from "./tables.js";

const plan = (grid: string, search = "", recipe = "") => `
name: small
base: ../folder/base/last
experts:
  math: { role: task, folders: [m1] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: graft, recipe: { method: swap, task: math, language: swahili${recipe} }, ${grid} }
evaluate: { tasks: ["mgsm_{language}"] }
search: { share: 0.8${search} }
`;

const GRID = "grid: { bottom: [1, 2, 3], top: [0, 1, 2] }, default: { bottom: 2, top: 0 }";

/** Two more of ten items for each bottom layer, one less for each top layer. */
function strength({ model }: EvaluateStep): number {
  if (typeof model === "string") return 1;
  return 2 + 2 * Number(model.bottom ?? 0) - Number(model.top ?? 0);
}

describe("halving", () => {
  const { report } = reportOf(plan(GRID, ", how: halving"), strength);
  const [search] = report.searches;

  it("is reported round by round", () => {
    // 16 of 20 items are the search's: 4, 8, 16 in three rounds, in which half of 9, rounded up, stay at most.
    expect(search?.tasks).toEqual([{ title: "mgsm_sw", searched: 16, all: 20 }]);
    expect(search?.rounds.map(({ configurations, items }) => [configurations, items])[0]).toEqual([9, 4]);
    expect(search?.rounds.map(({ items }) => items)).toEqual([4, 8, 16]);
    for (const [i, { configurations, dropped }] of (search?.rounds ?? []).entries()) {
      expect(search?.rounds[i + 1]?.configurations ?? configurations).toBe(configurations - dropped);
      expect(search?.configurations.filter(({ round }) => round === i + 1)).toHaveLength(
        i === 2 ? configurations : dropped,
      );
    }
    expect(search?.summary).toMatch(
      /^Successive halving of 9 configurations in 3 rounds, on 16 of the 20 items of mgsm_sw/,
    );
  });

  it("lists every configuration, the chosen one first", () => {
    expect(search?.configurations).toHaveLength(9);
    expect(search?.configurations[0]).toMatchObject({ label: search?.chosen, isChosen: true, round: 3, items: 16 });
    const rounds = tablesIn(report).find(({ id }) => id === "search-graft-of-math-and-swahili-rounds");
    expect(rounds?.rows[0]).toMatchObject(["1", { value: 9 }, { value: 4 }, { value: expect.any(Number) }]);
  });
});

it("reports an unfinished search", () => {
  const after = (rounds: number) => reportOf(plan(GRID, ", how: halving"), strength, { rounds }).report;
  const none = after(0);
  expect(none.searches[0]?.summary).toMatch(
    /^Successive halving of 9 configurations in 3 rounds \(none of them done\)/,
  );
  expect(none.searches[0]?.summary).toContain("Nothing is chosen yet.");
  expect(tablesIn(none).filter(({ id }) => id.startsWith("search-"))).toEqual([]);
  expect(markdownOf(none)).toContain("### Configurations of graft of math and swahili\n\nSuccessive halving of 9");
  const [one] = after(1).searches;
  expect(one?.rounds).toHaveLength(1);
  expect(one?.configurations).toHaveLength(9);
  expect(one?.summary).toContain("in 3 rounds (1 of them done)");
});

it("reports a tie with the default", () => {
  const { report } = reportOf(plan(GRID), ({ model }) => (typeof model === "object" && model.top === 0 ? 5 : 1));
  const [search] = report.searches;
  // Tied on every item, which is not certainty; the others lack four of ten items.
  const table = tablesIn(report).find(({ id }) => id === search?.id);
  const shown = table?.rows.map((row) => numbersOf(row).slice(1, 3)) ?? [];
  expect(shown).toHaveLength(9);
  for (const [behind, margin] of shown.slice(0, 3)) {
    expect(behind).toMatchObject({ value: 0 });
    expect(margin).toMatchObject({ value: null });
  }
  for (const [behind, margin] of shown.slice(3)) {
    expect(behind?.value).toBeLessThan(0);
    expect(margin?.value).toBeGreaterThan(0);
  }
  expect([...(search?.ties ?? [])].sort()).toEqual(["bottom 1, top 0", "bottom 2, top 0", "bottom 3, top 0"]);
  expect(search?.summary).toMatch(/Tied: bottom ., top 0; bottom ., top 0 scored the same\. The default wins a tie\./);
  const [alone] = reportOf(plan(GRID), strength).report.searches;
  expect(alone?.ties).toEqual([]);
  expect(alone?.summary).not.toContain("Tied");
});

describe("figures of the grid", () => {
  it("are strips if one field is searched, titled with fixed layers", () => {
    const [strip] = reportOf(plan("grid: { bottom: [1, 2, 3] }, default: { bottom: 2 }", "", ", top: 1"), strength)
      .report.heatmaps;
    expect(strip).toMatchObject({ title: "graft of math and swahili, top 1", rowTitle: "", columnTitle: "bottom" });
    expect(strip).toMatchObject({ rows: ["mean"], columns: ["1", "2", "3"] });
    const [first, second, third] = strip?.cells[0] ?? [];
    expect([first, second, third].every((value) => typeof value === "number")).toBe(true);
    expect(third).toBeGreaterThan(first ?? 1);
    expect(strip?.marked).toEqual([
      { row: 0, column: 1, what: "default" },
      { row: 0, column: 2, what: "chosen" },
    ]);
  });

  it("have the numbers of the search's table, also for several pairs", () => {
    const text = plan("grid: { bottom: [1, 2, 3], top: [0, 1, 2] }").replace("folders: [m1]", "folders: [m1, m2, m3]");
    // Not every item of every pair is answered, so a mean of means would be another number.
    const isSilent = ({ model }: EvaluateStep, item: number) => JSON.stringify(model).includes("m1") && item % 10 < 3;
    const { report } = reportOf(text, strength, { isSilent });
    const [search] = report.searches;
    const table = search?.configurations.map(({ mean }) => mean) ?? [];
    const cells = report.heatmaps.find(({ id }) => id.startsWith("grid"))?.cells.flat() ?? [];
    expect(cells).toHaveLength(9);
    expect([...cells].sort()).toEqual([...table].sort());
  });

  it("are of numbers only", () => {
    const [density] = reportOf(plan("grid: { top_transition: [0, 1], bottom: [1, 2] }"), strength).report.heatmaps;
    expect(density).toMatchObject({ rowTitle: "bottom", columnTitle: "top transition" });
    expect(
      reportOf(plan("grid: { outside: [average, language] }", "", ", bottom: 1, top: 0"), strength).report.heatmaps,
    ).toEqual([]);
  });
});

describe("every table", () => {
  const { report } = reportOf(plan(GRID), strength);

  it("is written as CSV and LaTeX", () => {
    const tables = tablesIn(report);
    expect(tables.map(({ id }) => id)).toEqual([
      "main-mgsm_sw",
      "grid-graft-of-math-and-swahili-1",
      "search-graft-of-math-and-swahili",
      "cost",
    ]);
    for (const table of [...tables, flipsTable(report.flips)]) {
      const lines = csvLines(table);
      expect(lines).toHaveLength(1 + table.rows.length);
      expect(latexText(table)).toContain("\\begin{tabular}{l");
    }
    const cost = tables.at(-1) as (typeof tables)[number];
    expect(csvLines(cost).join("\n")).toMatch(/^,steps,time\nevaluations,3,6\nevaluations of merges,\d+,\d+$/);
    const main = tables[0] as (typeof tables)[number];
    expect(csvLines(main)[1]).toMatch(/^base,the experts start from it,0,0,0\.489\d+$/);
    expect(latexText(main)).toContain("\\begin{tabular}{llrrr}");
  });

  it("aligns words left in Markdown and explains its intervals", () => {
    const text = markdownOf(report);
    expect(text).toContain(
      "| model | task | protocol | score | 95% interval | items |\n| --- | --- | --- | ---: | ---: | ---: |",
    );
    expect(text).toContain("± is a 95% interval");
  });

  it("is on the page under short names, with an axis to 100", async () => {
    const page = await drawnPage(experimentPage(report));
    expect(page).toContain("fine-tuned from base/last");
    expect(page).toContain('<span style="left:100.00%">100</span>');
    expect(page).toMatch(/<th scope="col" class="text">task<\/th>/);
    expect(page).not.toContain("1 more comparisons");
  });
});

it("draws the progress of a search in a space, with its configurations in a table", async () => {
  const space = "space: { bottom: { from: 1, to: 3 }, top: { from: 0, to: 2 } }";
  const { report } = reportOf(plan(space, ", how: cma-es, budget: 9"), strength);
  const evaluated = report.searches[0]?.evaluated ?? [];
  expect(evaluated.length).toBeGreaterThan(1);
  const table = tablesIn(report).find(({ id }) => id === "search-graft-of-math-and-swahili-progress");
  expect(table?.columns).toEqual(["evaluation", "generation", "configuration", "score", "best so far"]);
  expect(table?.rows.map(([, , label]) => label)).toEqual(evaluated.map(({ label }) => label));
  expect(markdownOf(report)).toContain("### Progress of the search in graft of math and swahili");
  expect(await drawnPage(experimentPage(report))).toContain("best so far");
});
