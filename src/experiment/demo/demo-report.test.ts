// What the demo reports: its rows, its sentence and its page, from results that a function gives.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Analysis } from "../../merge/index.js";
import { drawnPage } from "../../report/drawn-page.test-util.js";
import { reportOf } from "../report/report-of.test-util.js";
import type { RunEvent } from "../run/run-experiment.js";
import { Store } from "../run/store.js";
import { type DemoStory, describeLeaning, storyPage } from "./demo-page.js";
import {
  type AskedProblem,
  demoAnswer,
  demoRows,
  leads,
  mainRows,
  otherMerge,
  samplesFile,
  solvedBy,
} from "./demo-report.js";
import { reportedSwaps } from "./reported-swap.js";
import { evaluatedAnswer, shownProblem } from "./shown-answers.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-demo-report-"));
afterAll(() => rmSync(root, { recursive: true }));

const plan = (pairs: number, merges = "") => {
  const runs = (name: string) =>
    Array.from({ length: pairs }, (_, i) => `{ name: ${name}-${i + 1}, seed: ${i}, data: ${name}.jsonl }`).join(", ");
  const train = (name: string, steps: number) =>
    `train: { run: { steps: ${steps}, optimizer: { lr: 1.0e-3 } }, runs: [${runs(name)}] }`;
  return `
name: miniature
base: base
experts:
  math: { role: task, ${train("math", 100)} }
  swahili: { role: language, language: sw, ${train("swahili", 1300)} }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: swahili }
    configurations: [{ bottom: 3, top: 0 }]
    default: { bottom: 2, top: 0 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: soup by magnitude, recipe: { method: soup, models: [math, swahili], base: base, weights: magnitude } }
  - { name: reverse swap, recipe: { method: swap, task: swahili, language: math, bottom: 2, top: 0 } }
${merges}evaluate: { tasks: [problems_sw.yaml, problems_en.yaml, { task: choosing_sw.yaml, of: [merges] }] }
search: { by: choosing_sw.yaml, choose_on: test }
`;
};

/** Tenths of the 20 Swahili problems that models solve, by how their names begin. Everything else: 5. */
type Tenths = Readonly<Record<string, number>>;

const CLEAR: Tenths = {
  ...{ base: 0, math: 2, swahili: 1, soup: 2, "soup by magnitude": 3 },
  ...{ "layer swap": 8, "reverse swap": 1 },
};

/** @param chosen how the label of the configuration begins that solves most of the problems for choosing */
function resultsOf(tenths: Tenths, chosen = "bottom 3", pairs = 1, merges = "") {
  return reportOf(plan(pairs, merges), ({ label }) => {
    const [, model = "", task = ""] = /^evaluate (.*) on (\w+)\.yaml/.exec(label) ?? [];
    if (task === "choosing_sw") return model.includes(chosen) ? 8 : 4;
    if (task === "problems_en") return 9;
    const [name] = Object.keys(tenths)
      .filter((one) => model.startsWith(one))
      .toSorted((a, b) => b.length - a.length);
    return name === undefined ? 5 : (tenths[name] ?? 5);
  });
}

describe("the main table", () => {
  it("has five rows: the better average, and the swap that was chosen", () => {
    const result = resultsOf(CLEAR);
    expect(mainRows(result).map(({ name, bar, english }) => [name, bar.label, bar.mean, english])).toEqual([
      ["base", "base", 0, 0.9],
      ["math expert", "math", 0.2, 0.9],
      ["Swahili expert", "swahili", 0.1, 0.9],
      ["best average", "soup by magnitude", 0.3, 0.9],
      ["layer swap", "layer swap, chosen on choosing_sw.yaml", 0.8, 0.9],
    ]);
    expect(reportedSwaps(result.status).map(({ configuration }) => configuration.label)).toEqual(["bottom 3, top 0"]);
  });

  it("has the default swap if it was chosen, or nothing was", () => {
    const result = resultsOf(CLEAR, "bottom 2");
    const labels = (of: typeof result.status) => reportedSwaps(of).map(({ configuration }) => configuration.label);
    expect(labels(result.status)).toEqual(["bottom 2, top 0"]);
    expect(mainRows(result)[4]?.bar).toMatchObject({ kind: "swap", mean: 0.8, detail: "bottom 2, top 0" });
    const { expansion } = resultsOf(CLEAR);
    expect(labels({ ...result.status, expansion: { ...expansion, searches: [] } })).toEqual(["bottom 2, top 0"]);
  });

  it("is part of the rows of all methods", () => {
    expect(demoRows(resultsOf(CLEAR).report).map(({ label, mean, english }) => [label, mean, english])).toEqual([
      ["base", 0, 0.9],
      ["math", 0.2, 0.9],
      ["swahili", 0.1, 0.9],
      ["layer swap, default", 0.8, 0.9],
      ["layer swap, chosen on choosing_sw.yaml", 0.8, 0.9],
      ["soup", 0.2, 0.9],
      ["soup by magnitude", 0.3, 0.9],
      ["reverse swap", 0.1, 0.9],
    ]);
  });
});

describe("the best other merge", () => {
  const withTies = (ties: number) => {
    const addition = "  - { name: TIES, recipe: { method: ties, models: [math, swahili], base: base } }\n";
    return resultsOf({ ...CLEAR, TIES: ties }, "bottom 3", 1, addition);
  };

  it("is named with the difference, whichever side it is on", () => {
    expect(otherMerge(withTies(6))).toBe(
      "Of the other merges, TIES does best: 60.0%, 20.0 points fewer than the swap (standard error 9.2).",
    );
    expect(otherMerge(withTies(9))).toBe(
      "Of the other merges, TIES does best: 90.0%, 10.0 points more than the swap (standard error 6.9).",
    );
    expect(otherMerge(resultsOf(CLEAR))).toBe("");
  });
});

describe("the sentence", () => {
  const start = "A model made of layers from a math expert and a Swahili expert, without further training,";

  it("reports a lead that is clear", () => {
    expect(demoAnswer(resultsOf(CLEAR))).toBe(
      `${start} solves 80.0% of the Swahili word problems (base 0.0%, best expert 20.0%, best average 30.0%): ` +
        "50.0 points more than the best average, which is beyond chance (standard error 11.5, p = 0.002).",
    );
  });

  it("reports a lead that is too close to tell", () => {
    expect(demoAnswer(resultsOf({ ...CLEAR, math: 7 }))).toContain(
      ": 10.0 points more than the best expert, which is too close to tell (standard error 6.9, p = 0.500).",
    );
    expect(demoAnswer(resultsOf({ ...CLEAR, "layer swap": 3 }))).toContain(
      ": as many as the best average, which is too close to tell (standard error 0.0, p = 1.000).",
    );
  });

  it("reports a swap that is behind, also behind the base", () => {
    expect(demoAnswer(resultsOf({ ...CLEAR, math: 7, "layer swap": 1 }))).toContain(
      ": 60.0 points fewer than the best expert, which is beyond chance (standard error 11.2, p < 0.001).",
    );
    expect(demoAnswer(resultsOf({ ...CLEAR, base: 9 }))).toContain(": 10.0 points fewer than the base, which is");
  });

  it("has means over pairs of experts", () => {
    const result = resultsOf({ ...CLEAR, "layer swap, math-1": 6 }, "bottom 3", 2);
    expect(demoAnswer(result)).toContain(
      `${start} averaged over 4 pairs, solves 70.0% of the Swahili word problems (base 0.0%, best expert 20.0%, best average 30.0%): ` +
        "40.0 points more than the best average, which is beyond chance",
    );
    expect(mainRows(result)[4]?.bar).toMatchObject({ count: 4, low: 0.6, high: 0.8 });
  });

  it("is empty if the plan no longer has the swap", () => {
    const { report, experiment, status } = resultsOf(CLEAR);
    const expansion = { ...status.expansion, models: [] };
    expect(demoAnswer({ report, experiment, status: { ...status, expansion } })).toBe("");
  });
});

it("the swap's leads have the error of paired problems", () => {
  const all = leads(resultsOf(CLEAR));
  expect(all.map(({ against, difference, isMain }) => [against, difference, isMain])).toEqual([
    ["base", 0.8, true],
    ["math expert", 0.6, true],
    ["Swahili expert", 0.7, true],
    ["best average", 0.5, true],
    ["layer swap, default", 0, false],
    ["soup", 0.6, false],
    ["reverse swap", 0.7, false],
  ]);
  const [, math] = all;
  // 12 of 20 problems gained, none lost.
  expect(math?.standardError).toBeCloseTo(Math.sqrt((12 * 0.4 ** 2 + 8 * 0.6 ** 2) / 19 / 20), 12);
  expect(math?.pValue).toBeCloseTo(2 / 2 ** 12, 12);
  expect(math?.interval?.low).toBeGreaterThan(0.2);
  expect(math?.interval?.high).toBeLessThan(0.9);
});

describe("where the experts changed", () => {
  /** Two experts with these shares of changed rows by layer, in the only column. */
  const analysis = (math: readonly number[], language: readonly number[]) =>
    ({
      layers: math.length,
      experts: ["math expert", "Swahili expert"],
      thresholds: [{ name: "auto", values: [1e-3, 2e-3] }],
      parts: math.map((share, layer) => ({
        ...{ layer, part: "q_proj" },
        experts: [{ shares: [share] }, { shares: [language[layer]] }],
      })),
    }) as unknown as Analysis;
  const up = [0.1, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
  const down = up.toReversed();
  const even = up.map(() => 0.4);

  it.each([
    [
      "as in the paper",
      up,
      [0.9, 0.7, ...even.slice(2)],
      /^The changes lean as in the paper: mathematics in the middle/,
    ],
    ["mathematics alone", up, even, /^Mathematics leans to the middle .*; language does not lean to the bottom\./],
    [
      "language alone",
      even,
      [0.9, 0.7, ...even.slice(2)],
      /^Language leans to the bottom, .*; mathematics does not lean/,
    ],
    ["the other way round", down, up, /^The changes do not lean as in the paper/],
  ])("leans %s", (_, math, language, verdict) => {
    expect(describeLeaning(analysis(math, language))).toMatch(verdict);
  });

  it("has the numbers behind it", () => {
    expect(describeLeaning(analysis(up, even))).toMatch(
      /The math expert changed 20\.0% of the rows in the bottom 2 layers, and 50\.0% above\. The Swahili expert changed 40\.0% .* and 40\.0% above\.$/,
    );
  });

  describe("on the page", () => {
    const problem = (swahili: string, right: readonly string[]): AskedProblem => ({
      ...{ swahili, english: `${swahili} in English .`, gold: 7 },
      answers: ["base", "math expert", "Swahili expert", "layer swap"].map((name) => ({
        ...{
          name,
          isRight: right.includes(name),
          text: right.includes(name) ? "the answer is 7 ." : "it is <b>9</b> .",
        },
      })),
    });
    const result = resultsOf(CLEAR);
    const story: DemoStory = {
      ...{ report: result.report, plan: result.experiment.plan, seed: 4, pairs: 1, quick: false, baseSteps: 2400 },
      ...{ answer: demoAnswer(result), other: "", rows: mainRows(result), leads: leads(result) },
      problems: [
        problem("mbili", ["layer swap"]),
        problem("tatu", ["math expert"]),
        problem("nne", ["layer swap", "math expert"]),
        problem("moja <script>alert(1)</script>", []),
      ],
      layers: [
        { layer: 0, origins: [["language"]] },
        { layer: 1, origins: [["task", "language"]] },
        { layer: 2, origins: [["task"]] },
        { layer: null, origins: [["task", "language"]] },
      ],
      analysis: analysis(up, even),
    };

    it("the story is in order", async () => {
      const page = await drawnPage(storyPage(story));
      const titles = [...page.matchAll(/<h2[^>]*>([^<]*)</g)].map(([, title]) => title);
      expect(titles).toEqual([
        ...["The question", "What each expert gets wrong", "The swap", "The result", "Where the experts changed"],
        ...["All methods and controls", "How it was made", "Start with your own models"],
      ]);
      expect(page).toContain(`<p>${demoAnswer(result)}</p>`);
      expect(page).toContain(
        "Both experts miss 2 of the 4 problems, and the layer swap solves 1 of these. Here are the first that it solves:",
      );
      expect(page).toContain(
        "The swap solves 1 problem that the math expert misses, and misses 1 that the math expert solves.",
      );
      expect(page).toContain(
        "<code>npx layergraft swap --task math-expert --language swahili-expert --out merged</code>",
      );
    });

    it("data are text, never markup", async () => {
      const page = await drawnPage(storyPage(story));
      expect(page).toContain("moja &lt;script&gt;alert(1)&lt;/script&gt;");
      expect(page).toContain('<h3 lang="sw">mbili</h3>');
      expect(page).toContain("it is &lt;b&gt;9&lt;/b&gt; .");
      expect(page).not.toMatch(/<script|<b>/);
    });

    it("layers have the names of their sources, the output at the top", async () => {
      const page = await drawnPage(storyPage(story));
      const rows = [...page.matchAll(/<tr><th scope="row">(layer \d|embeddings[^<]*)<\/th>(.*?)<\/tr>/g)];
      expect(
        rows.map(([, label, cells = ""]) => [
          label,
          ...cells
            .replace(/<[^>]*>/g, " ")
            .trim()
            .split(/\s+/),
        ]),
      ).toEqual([
        ["layer 2", "math", "math", "Swahili"],
        ["layer 1", "math", "average", "Swahili"],
        ["layer 0", "math", "Swahili", "Swahili"],
        ["embeddings, output", "math", "average", "Swahili"],
      ]);
      expect(page).toContain('<td class="source language">Swahili</td>');
      expect(page).toContain("The swap has layer 0 of the Swahili expert and layer 2 of the math expert.");
    });

    it("differences have their intervals", async () => {
      const page = await drawnPage(storyPage(story));
      expect(page).toContain('<th scope="row">best average<small>beyond chance, p = 0.002</small></th>');
      expect(page).toMatch(/\+50\.0<small>\+\d\d\.\d to \+\d\d\.\d<\/small>/);
      expect(page).toContain("Of the choices of layers in the plan, this one was best on 20 other problems.");
      expect(page).toContain('<th scope="row">layer swap, chosen<small>');
    });

    it("a quick demo and one of several pairs say so", async () => {
      const page = await drawnPage(storyPage({ ...story, quick: true, pairs: 3 }));
      expect(page).toContain("This was a quick demo.");
      expect(page).toContain("Scores are means over 9 pairs of experts.");
    });

    it("sections without results are left out", async () => {
      const { overviews: _, ...report } = result.report;
      const bare = {
        ...story,
        report: { ...report, overviews: [] },
        rows: [],
        leads: [],
        problems: [],
        layers: undefined,
      };
      const titles = [...(await drawnPage(storyPage(bare))).matchAll(/<h2[^>]*>([^<]*)</g)].map(([, title]) => title);
      expect(titles).toEqual(["Where the experts changed", "How it was made", "Start with your own models"]);
    });
  });
});

it("problems are found by who solves them", () => {
  const problem = (gold: number, swap: boolean, math: boolean): AskedProblem => ({
    ...{ swahili: "", english: "", gold },
    answers: [
      { name: "math expert", text: "", isRight: math },
      { name: "layer swap", text: "", isRight: swap },
    ],
  });
  const problems = [problem(1, true, false), problem(2, false, true), problem(3, true, true), problem(4, false, false)];
  const golds = (right: string[], wrong: string[]) => solvedBy(problems, { right, wrong }).map(({ gold }) => gold);
  expect(golds(["layer swap"], ["math expert"])).toEqual([1]);
  expect(golds(["math expert"], ["layer swap"])).toEqual([2]);
  expect(golds([], ["math expert", "layer swap"])).toEqual([4]);
  expect(golds(["nobody"], [])).toEqual([]);
});

describe("what is shown while the demo runs", () => {
  it("is the first problem", async () => {
    mkdirSync(join(root, "data"));
    const rows = [
      { sw: "moja ?", en: "one ?", answer: 1 },
      { sw: "mbili ?", en: "two ?", answer: 2 },
    ];
    writeFileSync(join(root, "data", "problems.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    expect(await shownProblem(root)).toEqual({
      swahili: "moja ?",
      english: "one ?",
      gold: 1,
      prompt: "moja ? [solve] :",
    });
  });

  it("is the answer of each model that has been evaluated in Swahili", () => {
    const store = new Store(join(root, "experiment"));
    const done = (label: string): RunEvent => ({
      ...{ event: "done", kind: "evaluate", key: "evaluate-1", seconds: 1, score: 0.26 },
      label: `evaluate ${label}`,
    });
    const samples = samplesFile(store.stepFolder("evaluate-1"));
    mkdirSync(dirname(samples), { recursive: true });
    writeFileSync(samples, `${JSON.stringify({ output: " the answer is 7 .", verdict: { exact: 1 } })}\n{}\n`);
    const shown = (label: string, pairs = 1) => evaluatedAnswer(done(label), store, pairs);
    expect(shown("layer swap, math-1 x swahili-1, bottom 2, top 0 on problems_sw.yaml")).toEqual({
      ...{ model: "layer swap, bottom 2, top 0", text: "the answer is 7 .", isRight: true, score: 0.26 },
    });
    const models = ["math-1", "swahili-1", "both-1", "base", "swap into the base, swahili-1"].map(
      (name) => shown(`${name} on problems_sw.yaml`)?.model,
    );
    expect(models).toEqual(["math expert", "Swahili expert", "both", "base", "swap into the base"]);
    expect(shown("soup, math-1 x swahili-2 on problems_sw.yaml", 2)?.model).toBe("soup, math-1 x swahili-2");
    expect(shown("math-1 on problems_en.yaml")).toBeUndefined();
    expect(evaluatedAnswer({ ...done("x on problems_sw.yaml"), event: "started" }, store, 1)).toBeUndefined();
  });
});
