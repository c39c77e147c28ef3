import { describe, expect, it } from "vitest";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { markdownOf, reportOf } from "../../../test/support/report-of.js";
import { csvLines } from "../../figures/render.js";
import { experimentPage } from "./page.js";

const plan = (experts: number, bottoms: number) => `
name: large
base: base
experts:
  math: { role: task, folders: [${Array.from({ length: experts }, (_, i) => `m${i}`).join(", ")}] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - name: graft
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [${Array.from({ length: bottoms }, (_, i) => i).join(", ")}], top: [0, 1, 2, 3] }
    default: { bottom: 1, top: 1 }
evaluate: { tasks: ["mgsm_{language}"] }
`;
const of = (experts: number, bottoms: number) =>
  reportOf(plan(experts, bottoms), ({ model }) => (typeof model === "object" && model.top === 2 ? 9 : 1)).report;

import { scoresTable } from "./tables.js";

describe("a large report", async () => {
  const report = of(20, 16);
  const page = await drawnPage(experimentPage(report));
  const text = markdownOf(report);

  it("is bounded and names the files with the rest", () => {
    expect(report.scores).toHaveLength(1 + 20 + 1 + 20 * 64);
    expect(report.flips).toHaveLength(2 * 20 * 3);
    expect(page).toContain("all 1,302, with those of the searches, are in scores.csv.");
    expect(page).toContain("The first 50 of 120 comparisons; all of them are in gained-lost.csv");
    expect(text).toContain("\n4 more rows in search-graft-of-math-and-swahili.csv.\n");
    expect(text).toContain("The first 50 of 120 comparisons; all of them are in gained-lost.csv");
    expect(text).toContain("all 1,302, with those of the searches, are in scores.csv.");
    expect(page.length).toBeLessThan(120_000);
    expect(text.length).toBeLessThan(40_000);
  });

  it("is complete in scores.csv", () => {
    expect(csvLines(scoresTable(report))).toHaveLength(1 + 1302);
  });

  it("names scores of reported models only", () => {
    const scores = text.slice(text.indexOf("## Every score"));
    expect(scores).toContain("| graft, math-1 x swahili-1, bottom 1, top 1 |");
    expect(scores).not.toContain("bottom 15, top 3 |");
  });
});

it("a small report is whole on its page", async () => {
  const report = of(1, 2);
  const page = await drawnPage(experimentPage(report));
  expect(page).not.toContain("scores.csv");
  expect(page).not.toContain("gained-lost.csv");
  for (const id of report.flips.flatMap(({ gained }) => gained)) expect(page).toContain(`<code>${id}</code>`);
  expect(markdownOf(report)).not.toContain("more row");
});
