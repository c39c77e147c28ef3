import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { markdownOf, matrixOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { crossedDifference, wilsonInterval } from "../../evaluate/scoring/index.js";
import { isNumber } from "../../figures/table.js";
import type { EvaluateStep } from "../steps/step.js";
import { writeReport } from "./files.js";
import { experimentPage } from "./page.js";
import { highestText } from "./variants.js";

const PLAN = `
name: ways
title: Two languages
base: base
experts:
  math: { role: task, folders: [m1] }
  target: { role: language, folders: [t1] }
merges:
  - { name: soup, recipe: { method: soup, models: [math, target] } }
  - { name: swap, recipe: { method: swap, task: math, language: target }, grid: { bottom: [1, 2] }, default: { bottom: 1 } }
controls: [itself]
evaluate: { tasks: [mgsm_en, "mgsm_{language}"] }
search: { by: "mgsm_{language}", choose_on: test }
matrix:
  language:
    Swahili: { experts: { target: { language: sw } } }
    Telugu: { experts: { target: { language: te } }, merges: [{ name: swap, recipe: { method: swap, task: math, language: target, bottom: 1 } }] }
`;

/** Right answers of ten: base 1, experts 2; a swap 3 and with two layers 4 in Swahili, 5 in Telugu; a soup 6. */
function strength({ model, request }: EvaluateStep): number {
  if (typeof model === "string") return model === "id:base" ? 1 : 2;
  if (model.method === "soup") return 6;
  return request.task === "mgsm_te" ? 5 : model.bottom === 2 ? 4 : 3;
}

const { report } = matrixOf(PLAN, strength);

describe("the report of a matrix", () => {
  it("compares the variants on each task as the plan writes it, the deciding one first", () => {
    expect(tablesIn(report).map(({ id }) => id)).toEqual(["variants-mgsm_language", "variants-mgsm_en", "cost"]);
    const [table] = report.compared;
    expect(table?.title).toBe("mgsm_sw, mgsm_te");
    // A control is no row, and the variant without a search has one row for its only configuration.
    const chosen = "swap, chosen on these items";
    expect(table?.columns).toEqual(["variant", "base", "math", "target", "soup", "swap, default", chosen, "swap"]);
    const values = table?.rows.map(([first, ...cells]) => [
      first,
      ...cells.map((cell) => (isNumber(cell) ? cell.value : cell)),
    ]);
    expect(values).toEqual([
      ["Swahili", 0.1, 0.2, 0.2, 0.6, 0.3, 0.4, null],
      ["Telugu", 0.1, 0.2, 0.2, null, null, null, 0.5],
      ["mean of 2 variants", 0.1, 0.2, 0.2, null, null, null, null],
    ]);
    const { low, high } = wilsonInterval(0.6, 20);
    expect(table?.rows[0]?.[4]).toMatchObject({ interval: { low, high } });
    expect(highestText(report.highest)).toBe("soup is highest in 1 of 2 variants, swap in 1.");
  });

  it("has columns for both rows of a default that was chosen", () => {
    const best = matrixOf(PLAN.replace(/, merges: \[.*\]/, ""), (step) =>
      step.request.task === "mgsm_te" ? 5 : strength(step),
    );
    const [table] = best.report.compared;
    expect(table?.columns.slice(5)).toEqual(["swap, default", "swap, chosen on these items"]);
    expect(table?.rows[1]?.slice(5)).toMatchObject([{ value: 0.5 }, { value: 0.5 }]);
    expect(table?.rows[2]?.slice(5)).toMatchObject([{ value: 0.4 }, { value: 0.45 }]);
  });

  it("has the report of each variant, under its values", () => {
    expect(report.variants.map(({ id, title, values }) => [id, title, values])).toEqual([
      ["Swahili", "Swahili", { language: "Swahili" }],
      ["Telugu", "Telugu", { language: "Telugu" }],
    ]);
    expect(report.variants.map((one) => one.report.title)).toEqual(["Two languages: Swahili", "Two languages: Telugu"]);
    const commands = report.variants[1]?.report.recipes.map(({ command }) => command);
    expect(commands?.[0]).toBe(
      "layergraft experiment plan.yaml export Telugu/swap-math-1-x-target-1 --out swap-math-1-x-target-1",
    );
    const languages = report.scores.map(({ values }) => values?.language);
    expect(new Set(languages)).toEqual(new Set(["Swahili", "Telugu"]));
    expect(report.scores).toHaveLength(report.variants.flatMap((one) => one.report.scores).length);
  });

  it("links to the pages of the variants, and they back", () => {
    const page = experimentPage(report);
    expect(page.lead).toBe("2 variants of one plan: language (Swahili, Telugu). Each variant has a page of its own.");
    const [figure] = page.sections[0]?.figures ?? [];
    const links =
      figure?.kind === "table"
        ? figure.rows.map(([first]) => (typeof first === "object" && "href" in first ? first.href : undefined))
        : [];
    expect(links).toEqual(["variants/Swahili/index.html", "variants/Telugu/index.html", undefined]);
    const own = report.variants[0]?.report;
    expect(own && experimentPage(own, true).up).toEqual({ text: "All variants", href: "../../index.html" });
    expect(own && experimentPage(own).up).toBeUndefined();
    expect(markdownOf(report)).toContain("| [Telugu](<variants/Telugu/report.md>) | 10.0 |");
  });

  it("says which variants are incomplete", () => {
    const open = experimentPage(matrixOf(PLAN, strength, { rounds: 1 }).report);
    expect(open.sections.map(({ id }) => id)).toContain("variants");
    const failed = matrixOf(PLAN, strength, { isFinished: false }).report;
    expect(failed.highest).toEqual({ of: 0, rows: [], tied: 0 });
    expect(failed.failures.map(({ label }) => label)).toContain("evaluate base on mgsm_te (Telugu)");
  });
});

it("writes the reports of variants, and removes those of variants that are gone", async () => {
  const folder = mkdtempSync(join(tmpdir(), "layergraft-variants-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  await writeReport(folder, report);
  const variants = () => readdirSync(join(folder, "variants")).sort();
  expect(variants()).toEqual(["Swahili", "Telugu"]);
  expect(existsSync(join(folder, "variants/Telugu/recipes/swap-math-1-x-target-1.yaml"))).toBe(true);
  const rows = readFileSync(join(folder, "scores.csv"), "utf8").split("\n");
  expect(rows[0]).toMatch(/^language,model,kind,/);
  expect(rows[1]).toMatch(/^Swahili,base,base,/);
  const data = JSON.parse(readFileSync(join(folder, "report.json"), "utf8")) as { variants: unknown };
  expect(data.variants).toEqual(report.variants.map(({ id, title, values }) => ({ id, title, values })));

  // What somebody put there stays.
  writeFileSync(join(folder, "variants/Telugu/own.txt"), "mine\n");
  await writeReport(
    folder,
    matrixOf(
      PLAN.replace(/ {4}(Swahili|Telugu): .*\n/g, "    $1 2: { experts: { target: { language: sw } } }\n"),
      strength,
    ).report,
  );
  expect(variants()).toEqual(["Swahili-2", "Telugu", "Telugu-2"]);
  expect(readdirSync(join(folder, "variants/Telugu"))).toEqual(["own.txt"]);
  // A plan without a matrix.
  await writeReport(
    folder,
    reportOf(PLAN.replace(/matrix:.*/s, "").replace("folders: [t1]", "folders: [t1], language: sw"), strength).report,
  );
  expect(variants()).toEqual(["Telugu"]);
  expect(readdirSync(folder)).not.toContain("variants-mgsm_en.csv");
});

describe("comparisons over the variants", () => {
  const matrix = (axis: string) => `
name: pooled
base: base
experts:
  math: { role: task, folders: [m1] }
  target: { role: language, folders: [t1] }
merges:
  - { name: soup, recipe: { method: soup, models: [math, target] } }
  - { name: swap, recipe: { method: swap, task: math, language: target, bottom: 1 } }
evaluate: { tasks: [mgsm_en, "mgsm_{language}"] }
comparisons: [[soup, swap], [math, base]]
matrix:
  language:
    Swahili: { experts: { target: { language: sw, folders: [t1] } } }
    Telugu: { experts: { target: { language: te, folders: [t2] } } }
    Bengali: { experts: { target: { language: bn, folders: [t3] } } }
${axis}`;
  // Of each ten of 20 items, the first ones are right: soups 6, 7 and 8, swaps 3.
  const right = ({ model, request: { task } }: EvaluateStep) => {
    if (typeof model === "string") return model === "id:base" ? 1 : 2;
    if (model.method !== "soup") return 3;
    const of = JSON.stringify(model);
    return task === "mgsm_en" || of.includes("t1") ? 6 : of.includes("t2") ? 7 : 8;
  };

  it("pair the two in each variant, which are drawn as items are", () => {
    const [table] = matrixOf(matrix(""), right).report.tables;
    expect(table?.title).toBe("Compared in pairs, over the variants");
    const row = table?.rows.find(([first, , task]) => first === "soup" && task === "mgsm_{language}");
    const answers = (count: number) => new Map(Array.from({ length: 20 }, (_, i) => [`${i}`, i % 10 < count ? 1 : 0]));
    const models = (counts: readonly number[]) =>
      counts.map((count, i) => ({ levels: { variant: `${i}` }, values: answers(count) }));
    const { difference, interval } = crossedDifference(models([3, 3, 3]), models([6, 7, 8]));
    expect(difference).toBeCloseTo(0.4, 12);
    expect(row?.slice(3, 6).map((cell) => (isNumber(cell) ? cell.value : cell))).toEqual(
      [difference, interval?.low, interval?.high].map((value) => expect.closeTo(Number(value), 9)),
    );
    expect(row?.at(-1)).toBe("3 variants x 20 items");
  });

  it("count variants that share the models of both once", () => {
    const again =
      "  extra: { one: { experts: { extra: { role: other, folders: [x1] } } }, two: { experts: { extra: { role: other, folders: [x2] } } } }";
    const [table] = matrixOf(matrix(again), right).report.tables;
    const found = table?.rows.map(([first, second, task, , , , , , over]) => [first, second, task, over]);
    // In English the math expert and the base are the same models in all six variants: nothing to pool.
    expect(found).toEqual([
      ["soup", "swap", "mgsm_en", "3 variants x 20 items"],
      ["soup", "swap", "mgsm_{language}", "3 variants x 20 items"],
      ["math", "base", "mgsm_{language}", "3 variants x 20 items"],
    ]);
  });
});
