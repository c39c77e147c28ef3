import { describe, expect, it } from "vitest";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { ITEMS } from "../../../test/support/fake-world.js";
import { markdownOf, reportOf, rowOf, tablesIn } from "../../../test/support/report-of.js";
import { drawnFigure, reportPage } from "../../figures/page.js";
import { csvLines, latexText } from "../../figures/render.js";
import type { EvaluateStep } from "../steps/step.js";
import { experimentPage } from "./page.js";
import { scoresTable } from "./tables.js";

const PLAN = `
name: small
title: A <small> experiment & more
notes: "Not | real"
base: models/Base-1B
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1, s2] }
  both: { role: joint, folders: [j1] }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [1, 2], top: [0, 1] }
    default: { bottom: 2, top: 0 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: soups first, recipe: { method: swap, task: { method: soup, models: [all math] }, language: { method: soup, models: [all swahili] } } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
search: { share: 0.4 }
`;

/** How many of ten items in a row a model gets right. */
function strength({ model, request }: EvaluateStep): number {
  if (request.task === "mgsm_en") return 8;
  if (typeof model === "string")
    return { "id:models/Base-1B": 1, "id:m1": 3, "id:m2": 4, "id:s1": 2, "id:s2": 1, "id:j1": 5 }[model] ?? 0;
  if (model.method === "soup") return 4;
  if (typeof model.task === "object") return 6;
  return model.bottom === 1 && model.top === 1 ? 7 : model.bottom === 2 && model.top === 0 ? 5 : 3;
}
const { report, expansion } = reportOf(PLAN, strength);
const held = expansion.searches[0]?.splits.get("mgsm_sw")?.held ?? [];
/** Share of the held-out items that a model of this strength gets right. */
const heldShare = (right: number) => held.filter((item) => item % 10 < right).length / held.length;

describe("the data of a report", () => {
  it("has a figure of bottom against top on the search's items", () => {
    const [heatmap] = report.heatmaps;
    const seen = Array.from({ length: ITEMS }, (_, i) => i).filter((i) => !held.includes(i));
    const share = (right: number) => seen.filter((item) => item % 10 < right).length / seen.length;
    expect(heatmap).toMatchObject({ rows: ["1", "2"], columns: ["0", "1"] });
    expect(heatmap?.cells).toEqual([
      [share(3), share(7)],
      [share(5), share(3)],
    ]);
    // The lowest of each figure, here 3 of ten, is without colour.
    const page = experimentPage({ ...report, heatmaps: [report.heatmaps, report.heatmaps].flat() });
    const figures = page.sections.find(({ id }) => id === "grids")?.figures ?? [];
    expect(figures).toHaveLength(2);
    for (const figure of figures) {
      const depths = JSON.stringify(drawnFigure(figure))
        .match(/(?<="depth":)[\d.]+/g)
        ?.map(Number);
      expect(depths).toEqual([0, 1, (share(5) - share(3)) / (share(7) - share(3)), 0]);
    }
    expect(heatmap?.marked).toEqual([
      { row: 0, column: 1, what: "chosen" },
      { row: 1, column: 0, what: "default" },
    ]);
  });

  it("has what merges gained and lost", () => {
    const flip = report.flips.find(
      ({ model, against }) => model === "layer swap, math-1 x swahili-1, bottom 1, top 1" && against === "base",
    );
    const gained = held.filter((item) => item % 10 >= 1 && item % 10 < 7).map((item) => `item ${item}`);
    expect(flip?.gained).toEqual(gained);
    expect(flip?.lost).toEqual([]);
    expect(flip?.difference).toBeCloseTo(gained.length / held.length, 12);
    expect(report.flips.some(({ model }) => model.includes("bottom 1, top 0"))).toBe(false); // nobody reports it
  });

  it("has an overview, and every score", () => {
    const [overview] = report.overviews;
    expect(overview?.bars.map(({ label, count }) => [label, count])).toEqual([
      ["base", 1],
      ["math", 2],
      ["swahili", 2],
      ["both", 1],
      ["layer swap, default", 4],
      ["layer swap, chosen", 4],
      ["soup", 4],
      ["soups first", 1],
    ]);
    expect(overview?.bars.map(({ detail }) => detail).slice(0, 6)).toEqual([
      ...["", "task expert", "language expert, Swahili", "trained on both", "bottom 2, top 0", "bottom 1, top 1"],
    ]);
    expect(overview?.items).toBe("the 12 of 20 items that no search saw");
    expect(overview?.choice).toBe("Configurations were chosen on 8 other items of mgsm_sw.");
    const partial = report.scores.find(({ model }) => model === "layer swap, math-1 x swahili-1, bottom 1, top 0");
    expect(partial).toMatchObject({ items: 8, of: ITEMS, kind: "merge" });
    expect(report.cost.seconds).toBe(2 * expansion.steps.length);
  });

  it("has the language of the answers, weighted by items where a search asked in parts", () => {
    expect(tablesIn(report).some(({ id }) => id === "language")).toBe(false);
    const asides = [{ metric: "in_language", title: "in the asked language", value: 0.25, items: 3 }];
    const { report: measured } = reportOf(PLAN, strength, { asides });
    const table = tablesIn(measured).find(({ id }) => id === "language");
    expect(table?.columns).toEqual(["model", "task", "in the asked language", "of answers"]);
    // Three answers in one part; the rows of a task are together.
    expect(rowOf(table, "base").map(({ value }) => value)).toEqual([0.25, 3]);
    const tasks = table?.rows.map(([, task]) => task) ?? [];
    expect(tasks.filter((task, i) => task !== tasks[i - 1])).toEqual([...new Set(tasks)]);
    expect(table?.rows).toHaveLength(measured.scores.filter(({ isReported }) => isReported).length);
    expect(markdownOf(measured)).toContain("## The language of the answers");
  });

  it("exists before any step is done", async () => {
    const { report: early } = reportOf(PLAN, strength, { isFinished: false });
    expect(markdownOf(early)).toContain("Incomplete. Steps: 0 done");
    expect(await drawnPage(experimentPage(early))).toContain("no &lt;memory&gt;");
  });
});

describe("formats", () => {
  const table = tablesIn(report).find(({ id }) => id === "main-mgsm_sw");
  if (!table) throw new Error("no table");

  it("are Markdown", () => {
    const text = markdownOf(report);
    const value = (right: number) => (100 * heldShare(right)).toFixed(1);
    expect(text).toContain("# A \\<small\\> experiment & more");
    expect(text).toContain("Not \\| real");
    expect(text).toContain(`| ${value(7)} |`);
    const rows = text.split("\n").filter((line) => line.startsWith("|"));
    for (const row of rows) expect(row.replaceAll("\\|", "").split("|").length).toBeGreaterThan(3);
  });

  it("are CSV, unrounded", () => {
    const lines = csvLines(scoresTable(report));
    expect(lines).toHaveLength(1 + report.scores.length);
    expect(lines[0]).toBe("model,kind,task,protocol,scale,score,low,high,items,of,unanswered,backend");
    expect(lines[1]).toMatch(/^base,base,mgsm_sw,"fake@1, 0-shot",share,0\.1,0\.02\d+,0\.30\d+,20,20,0,engine$/);
    const silent = reportOf(PLAN, strength, { isSilent: ({ model }, item) => model === "id:m1" && item < 3 }).report;
    expect(csvLines(scoresTable(silent)).find((line) => line.startsWith("math-1,"))).toMatch(/,20,20,3,engine$/);
    expect(markdownOf(silent)).toMatch(/\| math-1 \|.*\| 20, 3 unanswered \|/);
    expect(silent.notes).toContain(
      '6 items in 2 scores had no answer that could be judged, and are left out of means; see "Every score".',
    );
    expect(csvLines(table).join("\n")).toContain(`,${heldShare(7)},`);
  });

  it("say what ran the models", () => {
    const backendOf = (evaluate: string) => {
      const { report } = reportOf(PLAN.replace(/^evaluate: \{/m, `evaluate: { ${evaluate},`), strength);
      for (const text of [markdownOf(report).replaceAll("\\", ""), experimentPage(report).state?.text]) {
        expect(text).toContain(`Evaluated with: ${report.backend}.`);
      }
      return report.backend;
    };
    expect(backendOf("backend: engine")).toBe("engine");
    expect(backendOf("backend: llama")).toBe("llama.cpp, q8_0");
    expect(backendOf("backend: llama, type: q4_0")).toBe("llama.cpp, q4_0");
    expect(backendOf('backend: "serve:vllm serve {model} --port {port}"')).toBe("vllm serve {model} --port {port}");
  });

  it("are LaTeX", () => {
    const text = latexText(table);
    expect(text).toContain("\\begin{tabular}{llrrrrrr}");
    expect(text).toContain(` & ${(100 * heldShare(7)).toFixed(1)} & `);
    expect(text).toContain("mgsm\\_sw".slice(0, 4));
    expect(text.match(/\\\\$/gm)).toHaveLength(1 + table.rows.length);
    expect(latexText({ ...table, title: "100% of {a_b} & $5 ~ x^2 \\" })).toContain(
      "100\\% of \\{a\\_b\\} \\& \\$5 \\textasciitilde{} x\\textasciicircum{}2 \\textbackslash{}",
    );
  });

  it("are a page that needs no network", async () => {
    const whole = await reportPage(experimentPage(report));
    expect(whole).not.toMatch(/https?:|src=|@import|url\(/);
    expect(whole).toContain("prefers-color-scheme: dark");
    const page = await drawnPage(experimentPage(report));
    expect(page).toContain("<h1>A &lt;small&gt; experiment &amp; more</h1>");
    for (const id of ["overview", "grids", "search", "flips", "scores", "costs"]) {
      expect(page).toContain(`href="#${id}"`);
      expect(page).toContain(`id="${id}"`);
    }
    expect(page).toContain("1.2 billion parameters, 16 layers");
    const opened = page.match(/<(section|figure|table|tr|td|th|details|div|p)\b/g)?.length;
    expect(page.match(/<\/(section|figure|table|tr|td|th|details|div|p)>/g)?.length).toBe(opened);
  });
});

it("lists the notes of the plan and of its steps in a section, with the steps", () => {
  const stepNotes = [
    { note: "of | the plan", steps: [] },
    { note: "saving as bfloat16 keeps 12.4%", steps: Array.from({ length: 8 }, (_, i) => `train math-${i + 1}`) },
  ];
  const section = experimentPage({ ...report, stepNotes }).sections.find(({ id }) => id === "notes");
  expect(section).toMatchObject({ title: "Notes", figures: [{ kind: "table", columns: ["note", "steps"] }] });
  const text = markdownOf({ ...report, stepNotes });
  expect(text).toContain("| of \\| the plan | the plan |");
  expect(text).toMatch(/\| saving as bfloat16 keeps 12\.4% \| train math-1, .*train math-6.* \|/);
  expect(experimentPage(report).sections.some(({ id }) => id === "notes")).toBe(false);
});
