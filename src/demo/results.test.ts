// What the demo reports, from results that a function gives.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { reportOf } from "../../test/support/report-of.js";
import { EVALUATION, type RunEvent, Store } from "../experiment/index.js";
import { allRows, demoAnswer, evaluatedAnswers, isClear, mainRows, shownProblems } from "./results.js";
import { reportedSwaps } from "./swap.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-demo-results-"));
afterAll(() => rmSync(root, { recursive: true }));

const plan = (merges = "") => {
  const train = (name: string, steps: number) =>
    `train: { run: { steps: ${steps}, optimizer: { lr: 1.0e-3 } }, runs: [{ name: ${name}-1, seed: 0, data: ${name}.jsonl }] }`;
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
const TIES = "  - { name: TIES, recipe: { method: ties, models: [math, swahili], base: base, density: 0.4 } }\n";

/** Tenths of the 20 Swahili problems that models solve, by their entry. Everything else: 5. */
type Tenths = Readonly<Record<string, number>>;

const CLEAR: Tenths = {
  ...{ base: 0, math: 2, swahili: 1, soup: 2, "soup by magnitude": 3, TIES: 4 },
  ...{ "layer swap": 8, "reverse swap": 1 },
};

/** @param chosen how the configuration begins that solves most of the problems for choosing */
function resultsOf(tenths: Tenths, { chosen = "bottom 3", merges = "" } = {}) {
  return reportOf(plan(merges), ({ of, request }) => {
    if (request.task === "choosing_sw.yaml") return of.configuration.startsWith(chosen) ? 8 : 4;
    if (request.task === "problems_en.yaml") return 9;
    return tenths[of.name] ?? tenths[of.entry] ?? 5;
  });
}

describe("the main table", () => {
  it("has the better average, the best other merge, and the swap that was chosen, each with the swap's lead", () => {
    const result = resultsOf(CLEAR, { merges: TIES });
    expect(
      mainRows(result).map(({ name, about, bar, english, lead }) => [name, about, bar.mean, english, lead?.difference]),
    ).toEqual([
      ["base", "both experts start from it", 0, 0.9, 0.8],
      ["math expert", "learned mathematics, in English only", 0.2, 0.9, expect.closeTo(0.6, 12)],
      ["Swahili expert", "learned Swahili, no word problems", 0.1, 0.9, expect.closeTo(0.7, 12)],
      ["best average", "soup by magnitude: a mean of all weights", 0.3, 0.9, 0.5],
      ["best other merge", "TIES", 0.4, 0.9, 0.4],
      ["layer swap", "layers of both experts, not trained", 0.8, 0.9, undefined],
    ]);
    expect(reportedSwaps(result.status).map(({ configuration }) => configuration.label)).toEqual(["bottom 3, top 0"]);
    // 10 of 20 problems gained, none lost.
    const lead = mainRows(result)[3]?.lead;
    expect(lead?.interval?.low).toBeGreaterThan(0.1);
    expect(lead?.interval?.high).toBeLessThan(0.9);
  });

  it("has random layers, which the answer says the meaning of", () => {
    const controls =
      "controls: { kinds: [random], draws: 2 }\nassume: { layers: 8, parameters: 1.0e+6, bytes: 2.0e+6 }\n";
    const found = (tenths: Tenths) => {
      const result = reportOf(`${plan()}${controls}`, ({ of, request }) => {
        if (request.task === "choosing_sw.yaml") return of.configuration.startsWith("bottom 3") ? 8 : 4;
        return of.entry.startsWith("random layers") ? (tenths.random ?? 0) : (tenths[of.name] ?? tenths[of.entry] ?? 5);
      });
      return { row: mainRows(result).find(({ name }) => name === "random layers"), answer: demoAnswer(result), result };
    };
    const clear = found({ ...CLEAR, random: 2 });
    expect(clear.row).toMatchObject({ about: "mean of 2 draws, from 20.0 to 20.0", bar: { mean: 0.2, count: 2 } });
    expect(clear.answer).toMatch(
      / 20\.0% on average \(2 draws, from 20\.0 to 20\.0\), so it matters which layers are swapped\.$/,
    );
    expect(isClear(clear.result)).toBe(true);
    const useless = found({ ...CLEAR, random: 8 });
    expect(useless.answer).toMatch(/ 80\.0% on average .*, so any layers would do as well\.$/);
    expect(isClear(useless.result)).toBe(false);
  });

  it("has the default swap if it was chosen, or nothing was", () => {
    const result = resultsOf(CLEAR, { chosen: "bottom 2" });
    const labels = (of: typeof result.status) => reportedSwaps(of).map(({ configuration }) => configuration.label);
    expect(labels(result.status)).toEqual(["bottom 2, top 0"]);
    expect(mainRows(result).at(-1)?.bar).toMatchObject({ kind: "swap", mean: 0.8, detail: "bottom 2, top 0" });
    const { expansion } = resultsOf(CLEAR);
    expect(labels({ ...result.status, expansion: { ...expansion, searches: [] } })).toEqual(["bottom 2, top 0"]);
  });

  it("is part of the rows of all methods", () => {
    expect(allRows(resultsOf(CLEAR)).map(({ kind, mean, english }) => [kind, mean, english])).toEqual([
      ["base", 0, 0.9],
      ["expert", 0.2, 0.9],
      ["expert", 0.1, 0.9],
      ["swap", 0.8, 0.9],
      ["swap", 0.8, 0.9],
      ["average", 0.2, 0.9],
      ["average", 0.3, 0.9],
      ["swap", 0.1, 0.9],
    ]);
  });
});

describe("the headline", () => {
  const others = "The best average (soup by magnitude) solves 30.0% and the better expert (math expert) solves 20.0%.";
  const alternative = (points: string, score: string) =>
    `The layer swap solves 80.0% of the Swahili word problems, ${points} TIES, the best alternative (${score}%; 95% interval of the difference: `;

  it("names the lead over the best alternative, and the best average and expert", () => {
    const result = resultsOf(CLEAR, { merges: TIES });
    expect(demoAnswer(result)).toBe(`${alternative("40.0 points above", "40.0")}+10.4 to +58.7; p = 0.016). ${others}`);
    expect(isClear(result)).toBe(true);
    expect(demoAnswer(resultsOf(CLEAR))).toMatch(
      /, 50\.0 points above soup by magnitude, the best alternative \(30\.0%; .*\)\. The better expert \(math expert\) solves 20\.0%\.$/,
    );
  });

  it("says where a lead is not significant, and where the swap is behind or equal", () => {
    const close = resultsOf({ ...CLEAR, TIES: 7 }, { merges: TIES });
    expect(demoAnswer(close)).toContain(alternative("10.0 points above", "70.0"));
    expect(demoAnswer(close)).toMatch(
      /\)\. It is not significantly above “layer swap, default” and TIES\. The best average /,
    );
    const behind = resultsOf({ ...CLEAR, TIES: 9 }, { merges: TIES });
    expect(demoAnswer(behind)).toContain(alternative("10.0 points below", "90.0"));
    const equal = resultsOf({ ...CLEAR, TIES: 8 }, { merges: TIES });
    expect(demoAnswer(equal)).toContain(alternative("as much as", "80.0").replace(/95%.*/, ""));
    expect([close, behind, equal].map(isClear)).toEqual([false, false, false]);
  });

  it("is empty if the plan no longer has the swap", () => {
    const { report, experiment, status } = resultsOf(CLEAR);
    const expansion = { ...status.expansion, models: [] };
    expect(demoAnswer({ report, experiment, status: { ...status, expansion } })).toBe("");
  });
});

describe("what is shown while the demo runs", () => {
  const problems = Array.from({ length: 40 }, (_, i) => ({
    ...{ sw: `${i} ?`, en: `${i} in English ?`, answer: i, solution: `${i} + 0 = ${i}.` },
  }));
  mkdirSync(join(root, "data"));
  writeFileSync(join(root, "data", "problems.jsonl"), problems.map((row) => `${JSON.stringify(row)}\n`).join(""));

  it("is five problems that are always the same", async () => {
    const first = await shownProblems(root);
    expect(first.map(({ index, problem }) => problem.answer === index)).toEqual(Array(5).fill(true));
    expect(new Set(first.map(({ index }) => index)).size).toBe(5);
    expect(await shownProblems(root)).toEqual(first);
  });

  it("is the answers of each model that has been evaluated in Swahili, with marks", async () => {
    const shown = await shownProblems(root);
    const [a = 0, b = 0] = shown.map(({ index }) => index);
    const store = new Store(join(root, "experiment"));
    const folder = join(store.stepFolder("evaluate-1"), EVALUATION);
    mkdirSync(folder, { recursive: true });
    const answer = (i: number) => {
      if (i === a) return { output: ` ${i} + 0 = ${i}.`, verdict: { exact: 1 } };
      return i === b ? { output: `9 + 9 = ${i}.`, verdict: { exact: 1 } } : { output: "no", verdict: { exact: 0 } };
    };
    writeFileSync(
      join(folder, "samples-problems_sw.jsonl"),
      problems.map((_, i) => `${JSON.stringify({ id: `${i + 1}`, ...answer(i) })}\n`).join(""),
    );
    const event = (model: RunEvent["model"], task = "problems_sw.yaml"): RunEvent => ({
      ...{ event: "done", kind: "evaluate", key: "evaluate-1", seconds: 1, score: 0.26, label: "", task },
      ...(model ? { model } : {}),
    });
    const swap = { name: "layer swap, math-1 x swahili-1, bottom 2", entry: "layer swap", configuration: "bottom 2" };
    const found = (one: RunEvent) => evaluatedAnswers(one, store, shown);
    const wrong = { text: "no", mark: "wrong" };
    expect(found(event(swap))).toEqual({
      model: "layer swap, bottom 2",
      score: 0.26,
      answers: [
        { text: `${a} + 0 = ${a}.`, mark: "right" },
        { text: `9 + 9 = ${b}.`, mark: "wrong equation" },
        ...[wrong, wrong, wrong],
      ],
    });
    expect(found(event({ ...swap, isDefault: true }))?.model).toBe("layer swap, bottom 2 (default)");
    expect(found(event({ name: "math-1", entry: "math", configuration: "" }))?.model).toBe("math expert");
    expect(found(event(swap, "problems_en.yaml"))).toBeUndefined();
    expect(found(event(undefined))).toBeUndefined();
    expect(found({ ...event(swap), event: "started" })).toBeUndefined();
  });
});
