import { describe, expect, it } from "vitest";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { markdownOf, numbersOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { csvLines } from "../../figures/render.js";
import { parsePlan } from "../plan/plan-file.js";
import type { EvaluateStep } from "../steps/step.js";
import { experimentPage } from "./page.js";
import { DIFFERENCES } from "./tables.js";

const plan = (merge: string, more = "") => `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2] }
merges:
  - { name: kept, figure: line, recipe: { method: revert, expert: math, base: base }, ${merge} }
evaluate: { tasks: [quiz, other] }
${more}`;

const GRID = "grid: { keep_share: [1, 0.05, 0.5], from: [smallest, top] }, default: { keep_share: 1, from: smallest }";

/** Right answers of ten: the share that is kept, nothing from the top below one half; the second expert one more. */
function strength({ model }: EvaluateStep): number {
  if (typeof model === "string") return model === "id:b" ? 0 : 9;
  const kept = Number(model.keep_share);
  const own = model.from === "top" && kept < 0.5 ? 0 : Math.round(8 * kept);
  return own + (model.expert === "id:m2" ? 1 : 0);
}

describe("a merge with figure: line", () => {
  const { report } = reportOf(plan(GRID), strength);
  const [figure] = report.lines;

  it("has all configurations evaluated on everything, without a search", () => {
    const world = new FakeWorld(plan(GRID));
    const { searches, steps } = world.finish();
    expect(searches).toEqual([]);
    const merges = steps.filter((step) => step.kind === "evaluate" && typeof step.model === "object");
    expect(merges).toHaveLength(2 * 2 * 6); // tasks, experts, configurations
    expect(merges.every((step) => step.kind === "evaluate" && step.items === null)).toBe(true);
  });

  it("keeps the keys that the steps of the same merge without it have", () => {
    const keys = (text: string) => new FakeWorld(text).expand().steps.map(({ key }) => key);
    const one = plan("grid: { keep_share: [0.25, 1] }", "search: { choose_on: test }");
    expect(keys(one)).toEqual(expect.arrayContaining(keys(one.replace("figure: line, ", "")).slice(0, 4)));
  });

  it("is a line for each combination of the other fields, with intervals", () => {
    expect(report.lines.map(({ title }) => title)).toEqual(["kept: quiz by keep share", "kept: other by keep share"]);
    expect(figure?.lines.map(({ label }) => label)).toEqual(["from smallest", "from top"]);
    const [smallest, top] = figure?.lines ?? [];
    // Means of both experts: 8 and 9, 4 and 5, 0 and 1 of ten.
    expect(smallest?.points.map(({ x, mean }) => [x, Number(mean.toFixed(12))])).toEqual([
      [0.05, 0.05],
      [0.5, 0.45],
      [1, 0.85],
    ]);
    expect(smallest?.points.map(({ low, high }) => [low, high])).toEqual([
      [0, 0.1],
      [0.4, 0.5],
      [0.8, 0.9],
    ]);
    for (const { mean, interval } of [...(smallest?.points ?? []), ...(top?.points ?? [])]) {
      expect(interval?.low).toBeLessThanOrEqual(mean);
      expect(interval?.high).toBeGreaterThanOrEqual(mean);
    }
    expect(figure?.references).toEqual([
      { label: "base", mean: 0 },
      { label: "math", mean: 0.9 },
    ]);
  });

  it("compares each point with the default's value of the field", () => {
    const [smallest] = figure?.lines ?? [];
    const half = smallest?.points[1];
    expect(half?.difference).toBeCloseTo(-0.4, 12);
    expect(half?.between?.low).toBeLessThan(-0.4);
    // Of twenty items, ten differ, all one way; sizes are 1 or 1/2, so patterns are drawn. Holm: at least the raw p.
    expect(half?.pValue).toBeLessThan(0.05);
    expect(smallest?.points[2]?.pValue).toBeUndefined();
    expect(figure?.verdict).toBe(
      "Significantly lower than at keep share 1 (tests on the same items, at 5%, with Holm's correction): from smallest at 0.05 and 0.5; from top at 0.05 and 0.5.",
    );
    const same = reportOf(plan("grid: { keep_share: [0.5, 1] }, default: { keep_share: 1 }"), () => 5).report;
    expect(same.lines[0]?.verdict).toMatch(/^No point differs significantly from keep share 1 \(/);
    expect(same.lines[0]?.lines[0]?.points[0]).toMatchObject({ difference: 0, pValue: 1 });
    // The page says once how differences are tested, and when there is no interval.
    expect(markdownOf(same).split(DIFFERENCES)).toHaveLength(2);
  });

  it("has one row in the main table, one recipe for each expert, and its points in a table", () => {
    expect(report.overviews[0]?.bars.filter(({ label }) => label === "kept")).toHaveLength(1);
    expect(report.recipes).toHaveLength(2);
    const table = tablesIn(report).find(({ id }) => id === "line-kept-quiz");
    expect(table?.rows).toHaveLength(6);
    expect(numbersOf(table?.rows[1])[0]).toEqual({ value: 0.5, scale: "setting" });
    expect(csvLines(table ?? { columns: [], rows: [] })[2]).toMatch(/^from smallest,0\.5,0\.45,/);
    expect(markdownOf(report)).toContain("| from smallest | 0.5 | 45.0 |");
  });

  it("is drawn with focusable points and a list", async () => {
    const page = await drawnPage(experimentPage(report));
    expect(page).toContain('aria-label="from smallest, keep share 0.5: 45.0 (95%: ');
    // Two tasks, two lines, two layouts; each of three points has its interval.
    expect(page.match(/class="whisker" d="(M[^M]+M[^M]+M[^M]+){3}"/g)).toHaveLength(8);
    expect(page.match(/class="point" tabindex="0"/g)).toHaveLength(8);
    expect(page.match(/<li>from /g)).toHaveLength(12);
    expect(page).not.toContain("NaN");
    // Two points of one place, one interval of which would hide the other.
    const places = [...page.matchAll(/class="hit" cx="([\d.]+)"/g)].slice(0, 6).map(([, x]) => Number(x));
    expect(places.map((x, i) => (i < 3 ? Math.round((places[i + 3] ?? 0) - x) : 7)).every((by) => by === 7)).toBe(true);
    expect(page).toMatch(/keep share are drawn side by side\.</);
    const { report: single } = reportOf(plan("grid: { keep_share: [0.5, 1] }, default: { keep_share: 1 }"), strength);
    const drawn = await drawnPage(experimentPage(single));
    expect(drawn.match(/class="band"/g)).toHaveLength(4);
    expect(drawn).not.toContain("whisker");
  });
});

it("a line shows what is known so far", async () => {
  const { report } = reportOf(plan(GRID), strength, { isFinished: false });
  expect(report.lines).toEqual([]);
});

it.each([
  ["grid: { keep_share: [0.5] }", "exactly one field"],
  ["grid: { keep_share: [0.5, 1], rows_below: [1, 2] }", "exactly one field"],
  ["configurations: [{ keep_share: 0.5 }], grid: { keep_share: [0.5, 1] }", "move the values of configurations"],
])("refuses %s", (merge, message) => {
  expect(() => parsePlan(plan(merge))).toThrow(message);
});

describe("a plan with rounds", () => {
  const train =
    "train: { run: { data: { source: x.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1 }, samples: 8 } }";
  const text = `
name: rounds
base: b
experts:
  math: { role: task, ${train} }
  swahili: { role: language, language: sw, folders: [s1] }
merges: [{ name: swap, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 0 } }]
evaluate: { tasks: ["mgsm_{language}", { task: mgsm_en, of: [base, experts] }] }
rounds: 3
`;
  /** The swap is right in 3, 6 and 9 of ten, the expert in 2 in each round. */
  const { report } = reportOf(text, ({ label }) => {
    const round = Number(/round.(\d)/.exec(label)?.[1] ?? 1);
    return label.startsWith("evaluate swap") ? 3 * round : 2;
  });

  it("has a figure for each task, with a line for each merge and each family that trains again", () => {
    expect(report.lines.map(({ title }) => title)).toEqual(["mgsm_sw by round", "mgsm_en by round"]);
    const [first, second] = report.lines;
    expect(first?.lines.map(({ label, points }) => [label, points.map(({ x, mean }) => [x, mean])])).toEqual([
      ["swap", [1, 2, 3].map((x) => [x, (3 * x) / 10])],
      ["math", [1, 2, 3].map((x) => [x, 0.2])],
    ]);
    expect(first?.reference).toBe(1);
    expect(first?.verdict).toMatch(/^Significantly higher than at round 1 .*: swap at 3\.$/);
    expect(second?.lines.map(({ label }) => label)).toEqual(["math"]);
  });
});
