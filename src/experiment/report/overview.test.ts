import { describe, expect, it } from "vitest";
import { reportOf } from "../../../test/support/report-of.js";
import { findingText } from "../../figures/index.js";
import type { EvaluateStep } from "../steps/step.js";
import { experimentPage } from "./page.js";
import { leadsTable, overviewLines } from "./tables.js";

const HEAD = `
name: small
base: b
experts:
  math: { role: task, folders: [m1] }
  other-math: { role: task, folders: [m2] }
  swahili: { role: language, language: sw, folders: [s1] }
  together: { role: joint, folders: [j1] }
`;
const MERGES = `
merges:
  - { name: swap averaged, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 0 } }
  - { name: swap outside, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 0, outside: language } }
  - { name: equal soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: soup 3 to 1, recipe: { method: soup, models: [{ model: math, weight: 3 }, swahili] } }
  - { name: swap any, recipe: { method: swap, task: task, language: language, bottom: 3, top: 0 } }
`;
const TASKS = "evaluate: { tasks: [own_sw.yaml, { task: own_en.yaml, of: [base, merges] }] }";
const GRID = `
merges:
  - { name: graft, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2], top: [0, 1] } }
  - { name: TIES, recipe: { method: ties, models: [math, swahili], base: base } }
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }
`;

/** Of each model another: experts by name, merges by what is set. */
function strength({ model }: EvaluateStep): number {
  if (typeof model === "string") return { "id:b": 1, "id:m1": 2, "id:m2": 3, "id:s1": 0, "id:j1": 4 }[model] ?? 0;
  if (model.method === "soup") return JSON.stringify(model).includes('"weight":3') ? 6 : 5;
  if (model.outside === "language") return 8;
  if (model.bottom === 3) return model.task === "id:m1" ? 9 : 10;
  return model.bottom === 2 && model.top === 1 ? 9 : 7;
}

const rowsOf = (text: string, i = 0) => reportOf(text, strength).report.overviews[i]?.bars ?? [];

describe("rows of the main tables", () => {
  it("are the base, each family and each merge of the plan", () => {
    expect(rowsOf(HEAD + MERGES + TASKS).map(({ label, detail, count, mean }) => [label, detail, count, mean])).toEqual(
      [
        ["base", "", 1, 0.1],
        ["math", "task expert", 1, 0.2],
        ["other-math", "task expert", 1, 0.3],
        ["swahili", "language expert, Swahili", 1, 0],
        ["together", "trained on both", 1, 0.4],
        ["swap averaged", "", 1, 0.7],
        ["swap outside", "", 1, 0.8],
        ["equal soup", "", 1, 0.5],
        ["soup 3 to 1", "", 1, 0.6],
        ["swap any", "", 2, 0.95],
      ],
    );
  });

  it("say in words whose each layer is, and what a method does that its name does not say", () => {
    const merges = `
merges:
  - { name: swap, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 1, top_transition: 1 } }
  - { name: attention, recipe: { method: swap, task: math, language: swahili, layers: { language: "0-1,15" }, parts: attention, outside: task } }
  - { name: swap of soups, recipe: { method: swap, task: { method: soup, models: [math, other-math] }, language: language, bottom: 16, top: 0 } }
  - { name: equal soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: soup 3 to 1, recipe: { method: soup, models: [{ model: math, weight: 3 }, swahili] } }
  - { name: trimmed, recipe: { method: ties, models: [math, swahili], base: base } }
  - { name: TIES, recipe: { method: ties, models: [math, swahili], base: base } }
`;
    expect(rowsOf(HEAD + merges + TASKS).map(({ about }) => about)).toEqual([
      ...["the experts start from it", "", "", "", ""],
      "layers 0-1, 15 from swahili, layers 2-13 from math, layer 14 and embeddings and output from the average of both",
      "attention of layers 0-1, 15 from swahili, layers 2-14 and all other parts and embeddings and output from math",
      "layers 0-15 from the language expert, embeddings and output from the average of both",
      ...["mean of all parameters", "mean of all parameters, weighted 3, 1", "TIES", ""],
    ]);
    const controls = rowsOf(`${HEAD + merges + TASKS}\ncontrols: { kinds: [reverse, into-base], of: [swap] }`);
    expect(controls.flatMap(({ about, kind }) => (kind === "control" ? [about] : []))).toEqual([
      "layers 0-1, 15 from math, layers 2-13 from swahili, layer 14 and embeddings and output from the average of both",
      "layers 0-1, 15 from swahili, layers 2-13 from the base, layer 14 and embeddings and output from the average of both",
    ]);
    // A nested recipe has no name, which a reversed swap would need.
    const nested = rowsOf(`${HEAD + merges + TASKS}\ncontrols: { kinds: [reverse], of: [swap of soups] }`);
    expect(nested.flatMap(({ about, kind }) => (kind === "control" ? [about] : []))).toEqual([""]);
    const { lead, sections } = experimentPage(reportOf(HEAD + merges + TASKS, strength).report);
    expect(lead).toMatch(/ The best layer swap takes layers 0-1, 15 from swahili, /);
    const [bars] = sections.find(({ id }) => id === "overview")?.figures ?? [];
    expect(JSON.stringify(bars)).toContain('"detail":"the experts start from it"');
    expect(bars?.note).toContain(" Such as: “What is asked by own_sw.yaml?”");
  });

  it("are of every task, with the models that are evaluated on it", () => {
    const { report } = reportOf(HEAD + MERGES + TASKS, strength);
    expect(report.overviews.map(({ title }) => title)).toEqual(["own_sw.yaml", "own_en.yaml"]);
    const labels = report.overviews[1]?.bars.map(({ label }) => label);
    expect(labels).toEqual(["base", "swap averaged", "swap outside", "equal soup", "soup 3 to 1", "swap any"]);
    expect(new Set(report.flips.map(({ task }) => task))).toEqual(new Set(["own_sw.yaml", "own_en.yaml"]));
  });

  it("name the first configuration if the plan has no default", () => {
    const [, , , , , first, chosen, ties] = rowsOf(HEAD + GRID);
    expect([first?.label, first?.detail]).toEqual(["graft, first of the grid", "bottom 1, top 0"]);
    expect([chosen?.label, chosen?.detail]).toEqual(["graft, chosen", "bottom 2, top 1"]);
    expect(ties?.label).toBe("TIES");
    const named = rowsOf(HEAD + GRID.replace("top: [0, 1] }", "top: [0, 1] }, default: { bottom: 2, top: 1 }"));
    expect(named[5]).toMatchObject({ label: "graft, default and chosen", detail: "bottom 2, top 1" });
    expect(named[5]?.about).toMatch(/^layers 0-1, 15 from swahili, layers 2-14 from math, /);
    // The mean of a search's configurations has no layers.
    expect(rowsOf(`${HEAD + GRID}search: { choose_on: test }`).find(({ isSummary }) => isSummary)?.about).toBe("");
  });

  it("have the grid's first configuration where CMA-ES searches the grid, and the middle of a space", () => {
    const labels = (merge: string) =>
      rowsOf(`${HEAD}merges: [${merge}]\nevaluate: { tasks: ["mgsm_{language}"] }\nsearch: { how: cma-es, budget: 12 }`)
        .filter(({ kind }) => kind === "swap")
        .map(({ label, detail }) => [label, detail]);
    const swap = "name: graft, recipe: { method: swap, task: math, language: swahili }";
    expect(labels(`{ ${swap}, grid: { bottom: [1, 2, 3, 4], top: [2, 1, 0] } }`)[0]).toEqual([
      "graft, first of the grid",
      "bottom 1, top 2",
    ]);
    const space = "space: { bottom: { from: 1, to: 5 }, top: { from: 0, to: 4 } }";
    expect(labels(`{ ${swap}, ${space} }`)[0]?.[0]).toMatch(/^graft, middle of the space/);
  });

  it("have the first suggestion and the chosen one", () => {
    const recipe = (bottom: number) => ({
      method: "swap",
      base: "base",
      task: "task",
      language: "language",
      bottom,
      top: 1,
    });
    const suggested = [
      { name: "paper-default", reason: "", recipe: recipe(1) },
      { name: "wide", reason: "", recipe: recipe(2) },
    ];
    const text = `${HEAD}
merges: [{ name: suggested, suggest: { task: math, language: swahili } }]
evaluate: { tasks: ["mgsm_{language}"] }`;
    const bars = reportOf(text, strength, { suggested }).report.overviews[0]?.bars.slice(5);
    expect(bars?.map(({ label, detail, mean }) => [label, detail, mean])).toEqual([
      ["suggested, first suggestion", "paper-default", 0.75],
      ["suggested, chosen", "wide", expect.closeTo(10 / 12, 12)],
    ]);
  });
});

describe("how the best was chosen", () => {
  const on = (where: string) => reportOf(`${HEAD + GRID}search: { choose_on: ${where} }`, strength).report;

  it("is reported if it was chosen on the reported items", () => {
    const [own, english] = on("test").overviews;
    expect(own?.bars.map(({ label }) => label)).toContain("graft, chosen on these items");
    expect(own?.choice).toContain("chosen on these same items, as in the paper");
    expect(own?.bars.at(-2)).toMatchObject({
      label: "graft, mean over 4 configurations",
      count: 4,
      mean: expect.closeTo(0.75, 12),
    });
    expect(english?.bars.map(({ label }) => label)).toContain("graft, chosen on mgsm_sw");
    expect(english?.choice).toContain("all 20 items of mgsm_sw: the test items of that task");
    expect(overviewLines(own as NonNullable<typeof own>).join("\n")).toContain("these same items");
  });
});

it("names the rows without results", () => {
  // With the first answers, which the default's are among, and no answer of the chosen one to what is reported.
  const { overviews } = reportOf(HEAD + GRID, strength, { rounds: 1 }).report;
  expect(overviews[0]?.missing).toBe("Not known yet: “graft, chosen”.");
  expect(overviews[0]?.bars.at(-1)?.label).toBe("TIES");
  expect(reportOf(HEAD + GRID, strength).report.overviews[0]?.missing).toBe("");
});

describe("significance", () => {
  it("has Wilson's interval if all items are wrong", () => {
    const swahili = rowsOf(HEAD + MERGES + TASKS).find(({ label }) => label === "swahili");
    expect(swahili?.interval).toEqual({ low: 0, high: expect.closeTo(3.841459 / 23.841459, 5) });
  });

  it("marks a best only if its lead over every other row is significant", () => {
    // 18 of 20 against 16: two items more are no more than chance.
    const close = reportOf(HEAD + MERGES + TASKS, (step) => Math.min(9, strength(step))).report.overviews[0];
    expect(close?.bars.some(({ isBest }) => isBest)).toBe(false);
    expect(findingText(close?.finding)).toMatch(
      /^Swap any scores 90\.0%, 10\.0 points above swap outside, the best alternative \(80\.0%; 95% .*; p = 0\.163\)\. It is not significantly above swap outside and .* Train more experts to tell them apart/,
    );
    expect(close?.finding?.outcome).toBe("unclear");
    // 20 of 20 against at most 4.
    const clear = reportOf(HEAD + MERGES + TASKS, (step) => (strength(step) === 8 ? 10 : strength(step) / 5));
    expect(clear.report.overviews[0]?.bars.filter(({ isBest }) => isBest).map(({ label }) => label)).toEqual([
      "swap outside",
    ]);
    const finding = clear.report.overviews[0]?.finding;
    const verdict = findingText(finding);
    expect(verdict).toMatch(
      /^Swap outside scores 100\.0%, 80\.0 points above swap averaged, the best alternative \(20\.0%; 95% /,
    );
    expect(verdict).toMatch(
      /It is significantly above all others\. Soup 3 to 1 and swap any score 20\.0%, too\. More items are not needed\.$/,
    );
    expect(finding?.outcome).toBe("above");
    const tied = reportOf(HEAD + MERGES + TASKS, (step) => ({ 8: 10, 7: 2, 6: 2 })[strength(step)] ?? 1).report;
    expect(findingText(tied.overviews[0]?.finding)).toMatch(
      / above swap averaged, the best alternative \(20\.0%; .*It is significantly above all others\. Soup 3 to 1 scores 20\.0%, too\. More items are not needed\.$/,
    );
  });

  it("names a ceiling or a floor that all rows are at, and counts tied choices", () => {
    const verdict = (right: number, options = {}) =>
      findingText(reportOf(HEAD + MERGES + TASKS, () => right, options).report.overviews[0]?.finding);
    const tie = (at: string) => `The math expert, the other-math expert and 8 more are tied at ${at}%.`;
    const useless = (limit: string, at: string) =>
      `All rows are at the ${limit}, so this task cannot tell these models apart. ${tie(at)}`;
    expect(verdict(10)).toBe(`${useless("ceiling", "100.0")} Ask a harder task.`);
    expect(verdict(0)).toBe(`${useless("floor", "0.0")} Ask an easier task.`);
    expect(verdict(5)).toBe(`${tie("50.0")} Ask more items to tell them apart.`);
    const isTied = ({ model }: EvaluateStep, item: number) => model === "id:b" && item < 3;
    // Eleven models: one of the ten rows has two.
    expect(verdict(5, { isTied })).toMatch(
      new RegExp(
        `^${tie("50.0")} 3 of \\d+ answers of these models have tied choices\\. Ask more items to tell them apart\\.$`,
      ),
    );
  });

  it("leaves the page's conclusion open unless the highest is above the best alternative", () => {
    const opennessOf = (rank: (step: EvaluateStep) => number) =>
      experimentPage(reportOf(HEAD + MERGES + TASKS, rank).report).verdicts.map(({ isOpen }) => isOpen);
    expect(opennessOf(() => 5)).toEqual([true]);
    expect(opennessOf((step) => (strength(step) === 8 ? 10 : strength(step) / 5))).toEqual([false]);
  });

  it("reports ties", () => {
    const alike = reportOf(HEAD + MERGES + TASKS, ({ model }) => (model === "id:m1" || model === "id:m2" ? 9 : 1));
    expect(findingText(alike.report.overviews[0]?.finding)).toBe(
      "The math expert and the other-math expert are tied at 90.0%. Ask more items to tell them apart.",
    );
  });
});

it("prints long configurations below the table", () => {
  const many = GRID.replace("top: [0, 1] }", "top: [0, 1], bottom_transition: [0], top_transition: [0] }");
  const [overview] = reportOf(HEAD + many, strength).report.overviews;
  const lines = overviewLines(overview as NonNullable<typeof overview>);
  expect(Math.max(...lines.slice(2, 11).map(({ length }) => length))).toBeLessThan(70);
  expect(lines).toContain("graft, first of the grid: bottom 1, top 0, bottom transition 0, top transition 0");
});

it("reports for each language what its merges were chosen on", () => {
  const text = `
name: two
base: b
experts:
  math: { role: task, folders: [m1] }
  swahili: { role: language, language: sw, folders: [s1] }
  telugu: { role: language, language: te, folders: [t1] }
merges: [{ name: graft, recipe: { method: swap, task: math, language: language, top: 0 }, grid: { bottom: [1, 2] } }]
evaluate: { tasks: ["mgsm_{language}", mgsm_en] }`;
  const { overviews } = reportOf(text, ({ model }) => (typeof model === "object" && model.bottom === 2 ? 8 : 2)).report;
  expect(overviews.map(({ title, bars }) => [title, bars.map(({ label }) => label).slice(-4)])).toEqual([
    ["mgsm_sw", ["math", "swahili", "graft, first of the grid", "graft, chosen"]],
    ["mgsm_te", ["math", "telugu", "graft, first of the grid", "graft, chosen"]],
    [
      "mgsm_en",
      [
        "graft, Swahili, first of the grid",
        "graft, Swahili, chosen on mgsm_sw",
        "graft, Telugu, first of the grid",
        "graft, Telugu, chosen on mgsm_te",
      ],
    ],
  ]);
  expect(overviews[2]?.choice).toBe("Configurations were chosen on 8 items of mgsm_sw and 8 items of mgsm_te.");
});

it("a point of a figure, which may be an expert under another name, is not marked best and ties with none", () => {
  const { overviews } = reportOf(
    `${HEAD}
merges: [{ name: kept, figure: line, recipe: { method: revert, expert: math, base: base }, grid: { keep_share: [0, 1] }, default: { keep_share: 1 } }]
evaluate: { tasks: [own_sw.yaml] }
`,
    ({ model }) => (model === "id:m1" || typeof model === "object" ? 10 : 0),
  ).report;
  expect(findingText(overviews[0]?.finding)).toMatch(/It is significantly above all others except kept\./);
  expect(overviews[0]?.bars.filter(({ isBest }) => isBest).map(({ label }) => label)).toEqual(["math"]);
  expect(overviews[0] && leadsTable(overviews[0])?.title).toMatch(/^The lead of math, /);
  expect(overviews[0] && leadsTable(overviews[0])?.note).toMatch(/ p: how often .* Detectable: .* Resampled: what /);
});

describe("controls", () => {
  const plan = `${HEAD.replace("base: b", "base: b\nassume: { parameters: 1, layers: 4, bytes: 1kB }")}
merges: [{ name: graft, recipe: { method: swap, task: math, language: swahili, top: 0 }, grid: { bottom: [1, 2] } }]
evaluate: { tasks: [own_sw.yaml] }
search: { share: 0.5 }
controls: { kinds: [random, reverse, itself], draws: 2 }
`;
  const made = (graft: number, reverse: number) =>
    reportOf(plan, ({ model }) => {
      if (typeof model === "string") return 0;
      if (model.layers !== undefined) return 1;
      return model.task === "id:s1" ? reverse : model.task === model.language ? 3 : graft;
    }).report;

  it("are rows of their own, with their layers, one for all draws", () => {
    const bars = made(10, 1).overviews[0]?.bars.filter(({ kind }) => kind === "control") ?? [];
    expect(bars.map(({ label, count }) => [label, count])).toEqual([
      ["random layers, control of graft", 2],
      ["reverse swap, control of graft", 1],
      ["swap with itself, control of graft", 1],
    ]);
    expect(bars[0]?.detail).toMatch(/^layers language \d; layers language \d$/);
    expect(bars[1]?.detail).toBe("bottom 1");
  });

  it("are never marked best, and named where the best is not above them", () => {
    const overview = (graft: number, reverse: number) => {
      const [first] = made(graft, reverse).overviews;
      return [first?.bars.filter(({ isBest }) => isBest).map(({ label }) => label), findingText(first?.finding)];
    };
    const label = "graft, chosen";
    const lead = (score: string, except: string) =>
      expect.stringMatching(
        new RegExp(
          `^Graft scores ${score}%, .* It is significantly above all others${except}\\. No other merge was tried on these items\\.`,
        ),
      );
    expect(made(10, 1).overviews[0]?.choice).toBe(
      "Configurations were chosen on 10 other items of own_sw.yaml. Controls have the default configuration.",
    );
    expect(overview(10, 1)).toEqual([[label], lead("100.0", "")]);
    for (const reverse of [9, 10]) {
      // The swap with itself is significant alone, and not among as many rows.
      const except = "except “reverse swap, control of graft” and “swap with itself, control of graft”";
      expect(overview(9, reverse)).toEqual([[label], lead("90.0", ` ${except}`)]);
    }
  });

  it("are in no search and no comparison with experts, and are controls in scores.csv", () => {
    const report = made(10, 1);
    expect(report.searches.map(({ size }) => size)).toEqual([2]);
    expect(report.flips.filter(({ model }) => model.includes("control"))).toEqual([]);
    expect(report.scores.filter(({ kind }) => kind === "control")).toHaveLength(4);
    expect(report.recipes.filter(({ model }) => model.includes("control"))).toHaveLength(4);
  });
});
