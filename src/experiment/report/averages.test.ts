import { describe, expect, it } from "vitest";
import { FakeWorld, fakeFacts, ITEMS } from "../../../test/support/fake-world.js";
import { reportOf } from "../../../test/support/report-of.js";
import { scoreItems } from "../../evaluate/scoring/scores.js";
import { bootstrapInterval } from "../../evaluate/scoring/statistics.js";
import { findingText } from "../../figures/index.js";
import { parsePlan } from "../plan/plan-file.js";
import type { EvaluateStep } from "../steps/step.js";
import { Sheet } from "./score-sheet.js";

const plan = (averages: string, tasks = '"mgsm_{language}", mgsm_en') => `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1] }
  telugu: { role: language, language: te, folders: [t1] }
merges:
  - { name: layer swap, recipe: { method: swap, task: math, language: language } }
  - name: soup
    recipe: { method: soup, models: [math-1, language], base: base }
evaluate: { tasks: [${tasks}] }
averages: ${averages}
`;

/** The same with a search, which sees some of the items. */
const searched = (text: string) =>
  text.replace("base: base }\n", "base: base }\n    grid: { weights: [equal, magnitude] }\n");

const TENTHS: Readonly<Record<string, number>> = { mgsm_sw: 2, mgsm_te: 4, mgsm_en: 9 };
/** Merges get one of ten items more than experts, and the second math expert one less. */
function strength({ model, request }: EvaluateStep): number {
  const own = TENTHS[request.task] ?? 3;
  if (typeof model === "string") return model === "id:m2" ? own - 1 : own;
  return own + (model.task === "id:m2" ? 0 : 1);
}
const overviewOf = (text: string, name: string) =>
  reportOf(text, strength).report.overviews.find(({ task }) => task === name);

describe("averages", () => {
  it("are main tables of the mean over tasks, for the rows that are asked all of them", () => {
    const overview = overviewOf(plan('[{ name: both languages, tasks: ["mgsm_{language}"] }]'), "both languages");
    const bars = overview?.bars.map(({ label, mean, low, high, count }) => [
      label,
      ...[mean, low, high].map((one) => Number(one.toFixed(12))),
      count,
    ]);
    expect(bars?.slice(0, 2)).toEqual([
      ["base", 0.3, 0.3, 0.3, 1],
      ["math", 0.25, 0.2, 0.3, 2],
    ]);
    // Pairs of either language are asked its task: the mean of both rows, without a range.
    const [label, mean, low, high] = bars?.[2] ?? [];
    expect(label).toBe("layer swap");
    expect([low, high]).toEqual([mean, mean]);
    expect(mean).toBeCloseTo((0.25 + 0.45) / 2, 12);
    expect(bars?.map(([name]) => name)).not.toContain("swahili");
    expect(overview?.title).toBe("both languages");
    expect(overview?.protocol).toBe("each task counting alike");
    expect(overview?.items).toBe("20 items of mgsm_sw and mgsm_te");
  });

  it("have the interval of items that are resampled in all tasks together", () => {
    const tasks = ["mgsm_sw", "mgsm_en"];
    const text = plan(`[{ name: mean, tasks: [${tasks}] }]`, "mgsm_sw, mgsm_te, mgsm_en");
    const own = overviewOf(text, "mean")?.bars.find(({ label }) => label === "base");
    const values = Array.from({ length: ITEMS }, (_, i) => [(Number(i % 10 < 2) + Number(i % 10 < 9)) / 2]);
    const expected = bootstrapInterval([values], ([[sum = 0] = []]) => sum / ITEMS);
    expect(own?.mean).toBeCloseTo(0.55, 12);
    expect(own?.interval?.low).toBeCloseTo(expected.low, 12);
    expect(own?.interval?.high).toBeCloseTo(expected.high, 12);
    // Nothing is held out of mgsm_en.
    const overview = overviewOf(searched(text), "mean");
    expect(overview?.items).toBe("the 12 of 20 items that no search saw of mgsm_sw, and 20 items of mgsm_en");
    expect(overview?.choice).toBe("Configurations were chosen on 8 items of mgsm_sw.");
  });

  it("name the best row where it is significant", () => {
    const [overview] = reportOf(
      plan("[{ name: mean, tasks: [mgsm_sw, mgsm_en] }]", "mgsm_sw, mgsm_en"),
      ({ model, request }) =>
        typeof model === "object" && model.language === "id:s1" ? 10 : request.task === "mgsm_en" ? 2 : 1,
    ).report.overviews.filter(({ task }) => task === "mean");
    expect(overview?.bars.filter(({ isBest }) => isBest).map(({ label }) => label)).toEqual([
      // All are asked the same tasks, so each language keeps its rows, as in the paper's table 2.
      "layer swap, Swahili",
    ]);
    expect(overview?.rows.map(({ label }) => label)).toContain("layer swap, Telugu");
    expect(findingText(overview?.finding)).toMatch(
      /^“layer swap, Swahili” scores 100\.0%, .* It is significantly above all others\. (.*) score 15\.0%, too\. More items are not needed\.$/,
    );
  });

  it("are scores of each model that is asked all tasks, with the tasks' items", () => {
    const text = plan("[{ name: mean, tasks: [mgsm_sw, mgsm_en] }]", "mgsm_sw, mgsm_en");
    const { scores, overviews } = reportOf(text, strength, { isSilent: (_, item) => item === 3 }).report;
    const mean = scores.filter(({ task }) => task === "mean");
    expect(mean.map(({ model }) => model)).toEqual([...new Set(scores.map(({ model }) => model))]);
    // One item of twenty has no answer: it was right in English and wrong in Swahili.
    const base = mean.find(({ model }) => model === "base");
    expect(base?.cell.value).toBeCloseTo((4 / 19 + 17 / 19) / 2, 12);
    expect(base).toMatchObject({
      kind: "base",
      protocol: "each task counting alike",
      items: 40,
      of: 40,
      unanswered: 2,
    });
    const bar = overviews.find(({ task }) => task === "mean")?.bars.find(({ label }) => label === "base");
    expect(base?.cell.interval).toEqual(bar?.interval);
    // Telugu is asked of its experts' pairs only.
    const some = reportOf(plan("[{ name: mean, tasks: [mgsm_sw, mgsm_te] }]"), strength).report.scores;
    const asked = some.filter(({ task }) => task === "mean").map(({ model }) => model);
    expect(asked).toEqual(["base", "math-1", "math-2"]);
    // A search asks some models only a part of the items.
    const found = reportOf(searched(text), strength).report.scores;
    const partial = new Set(found.flatMap(({ model, items, of }) => (items < of ? [model] : [])));
    expect(partial.size).toBe(2);
    expect(found.filter(({ task, model }) => task === "mean" && partial.has(model))).toEqual([]);
  });

  it("are checked with the plan", () => {
    const problems = (averages: string) => () => parsePlan(plan(averages));
    expect(problems("[{ name: a, tasks: [mgsm_se, mgsm_en] }]")).toThrow(
      "averages[0].tasks[0]: mgsm_se is not one of the tasks under evaluate; did you mean mgsm_sw?",
    );
    expect(problems("[{ name: a, tasks: [mgsm_en] }]")).toThrow(
      "averages[0].tasks: a is of a single task; list at least two",
    );
    expect(problems("[{ name: mgsm_sw, tasks: [mgsm_sw, mgsm_en] }]")).toThrow(
      "averages[0].name: mgsm_sw is the name of a task or of another average; rename it",
    );
  });
});

describe("a score of a whole corpus", () => {
  it("has the interval of its items, over several models too", () => {
    const metric = {
      ...({ name: "bleu", title: "", of: "value", by: "corpus", scale: "points" } as const),
      score: ([sum = 0]: readonly number[]) => (100 * sum) / ITEMS,
    };
    const facts = {
      ...fakeFacts,
      task: (request: Parameters<typeof fakeFacts.task>[0]) => {
        return { ...fakeFacts.task(request), isMean: false, scale: "points", metric } as const;
      },
    };
    const world = new FakeWorld(
      "name: s\nbase: b\nexperts: { math: { role: task, folders: [m1, m2] } }\nevaluate: { tasks: [flores] }\n",
      { facts, worth: ({ model }, item) => Number(item % 10 < (model === "id:m1" ? 2 : 6)) },
    );
    const sheet = new Sheet(world.finish(), facts, world.results);
    const cell = sheet.cell(["math-1", "math-2"], "flores", "all");
    const values = Array.from({ length: ITEMS }, (_, i) => [(Number(i % 10 < 2) + Number(i % 10 < 6)) / 2]);
    const expected = bootstrapInterval([values], ([[sum = 0] = []]) => (100 * sum) / ITEMS);
    expect(cell.value).toBeCloseTo(40, 10);
    expect(cell.interval?.low).toBeCloseTo(expected.low, 10);
    expect(cell.interval?.high).toBeCloseTo(expected.high, 10);
  });

  it("of groups resamples within each", () => {
    const metric = { name: "m", title: "", of: "value", by: "group mean", scale: "share" } as const;
    const groups = Array.from({ length: ITEMS }, (_, i) => (i < 15 ? "large" : "small"));
    const facts = {
      ...fakeFacts,
      task: (request: Parameters<typeof fakeFacts.task>[0]) => {
        return { ...fakeFacts.task(request), isMean: false, metric, groups } as const;
      },
    };
    const world = new FakeWorld("name: s\nbase: b\nevaluate: { tasks: [mmlu] }\n", {
      facts,
      worth: (_, item) => item / ITEMS,
    });
    const sheet = new Sheet(world.finish(), facts, world.results);
    const items = groups.map((group, i) => ({ id: `item ${i}`, group, verdict: { value: i / ITEMS } }));
    const [score] = scoreItems([metric], items);
    const { interval } = sheet.cell(["base"], "mmlu", "all");
    expect(interval).toEqual({ low: score?.interval?.low, high: score?.interval?.high });
    const [ungrouped] = scoreItems([{ ...metric, by: "mean" }], items);
    expect(interval?.low).not.toBe(ungrouped?.interval?.low);
  });
});
