// Leads of the highest row: over experts where rows have several, over items alone where not, corrected for all rows.
import { describe, expect, it } from "vitest";
import { markdownOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { findingText } from "../../figures/index.js";
import type { EvaluateStep } from "../steps/step.js";
import { experimentPage } from "./page.js";

const PLAN = `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2, m3] }
  swahili: { role: language, language: sw, folders: [s1, s2] }
merges:
  - { name: swap, recipe: { method: swap, task: math, language: swahili, bottom: 2, top: 0 } }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
evaluate: { tasks: [own_sw.yaml] }
`;

/** Merges are as good as their math expert and one item in ten more; soups lack four of them. */
function strength({ model }: EvaluateStep): number {
  const math = (text: string) => Number(/id:m(\d)/.exec(text)?.[1] ?? 0);
  if (typeof model === "string") return model === "id:b" ? 1 : 2 + math(model);
  return (model.method === "soup" ? 1 : 3 + 2) + math(JSON.stringify(model));
}

describe("leads", () => {
  const { report } = reportOf(PLAN, strength);
  const [overview] = report.overviews;
  const leadOver = (label: string) => overview?.finding?.leads.find(({ over }) => over === label);

  it("pair a merge with the experts that it is made of", () => {
    expect(overview?.finding?.leads.map(({ over, resampled }) => [over, resampled.factors])).toEqual([
      ["math", { math: 3, swahili: 2 }],
      ["soup", { math: 3, swahili: 2 }],
      ["swahili", { math: 3, swahili: 2 }],
      ["base", { math: 3, swahili: 2 }],
    ]);
    // Three items in ten above the own math expert, whichever it is: only items vary.
    const math = leadOver("math");
    expect(math?.difference).toBeCloseTo(0.3, 12);
    const base = leadOver("base");
    expect(base?.difference).toBeCloseTo(0.6, 12);
    const width = (lead: typeof base) => (lead?.interval?.high ?? 0) - (lead?.interval?.low ?? 0);
    // Math experts differ by ten points: one deviation over the root of three is 5.8 points, of 2 degrees of freedom.
    expect(width(math)).toBeGreaterThan(0);
    expect(base?.interval?.low).toBeLessThan(0.6 - 2 * 0.058);
    expect(leadOver("soup")?.difference).toBeCloseTo(0.4, 12);
    for (const { detectable = 0 } of overview?.finding?.leads ?? []) expect(detectable).toBeLessThanOrEqual(1);
  });

  it("say so in the verdict, the tables, the page and Markdown", () => {
    // The interval of the table, which is over experts, too.
    const { low = 0, high = 0 } = leadOver("math")?.interval ?? {};
    const span = [low, high].map((value) => `+${(100 * value).toFixed(1)}`).join(" to ");
    expect(findingText(overview?.finding)).toBe(
      `The swap scores 70.0%, 30.0 points above the math expert, the best alternative (40.0%; 95% interval of the difference: ${span}; p = 0.004). It is significantly above all others. More items are not needed.`,
    );
    const table = tablesIn(report).find(({ id }) => id === "lead-main-own_sw");
    expect(table).toMatchObject({ title: "The lead of swap, own_sw.yaml" });
    expect(table?.rows[0]?.at(-1)).toMatch(/^3 math x 2 swahili x \d+ items$/);
    expect(markdownOf(report)).toContain("## The lead of swap, own\\_sw.yaml");
    // Differences and both ends of their intervals have signs.
    expect(markdownOf(report)).toMatch(/\| base \| \+60\.0 \| [+-][\d.]+ \| \+[\d.]+ \|/);
    const titles = experimentPage(report).sections[0]?.figures.map((figure) => figure.title);
    expect(titles).toEqual(["own_sw.yaml", "The lead of swap, own_sw.yaml"]);
  });

  it("are over items alone where rows are one model", () => {
    const one = reportOf(PLAN.replace("[m1, m2, m3]", "[m1]").replace("[s1, s2]", "[s1]"), strength).report;
    const leads = one.overviews[0]?.finding?.leads ?? [];
    expect(leads.map(({ resampled }) => resampled.factors)).toEqual([{}, {}, {}, {}]);
    const [base] = leads;
    // Items that only the swap gets right, by McNemar's exact test, times four rows at most.
    const gained = Math.round((base?.difference ?? 0) * (base?.resampled.items ?? 0));
    expect(base?.pValue).toBeLessThanOrEqual(4 * 2 * 0.5 ** gained * (1 + 1e-9));
    expect(base?.pValue).toBeGreaterThan(0);
  });

  it("are absent where the highest rows are tied", () => {
    const tied = reportOf(PLAN, () => 3).report;
    expect(tied.overviews[0]?.finding?.leads).toEqual([]);
    expect(tablesIn(tied).some(({ id }) => id.startsWith("lead-"))).toBe(false);
  });
});

describe("a swap against its controls", () => {
  const controlled = PLAN.replace("evaluate:", "controls: [into-base, itself]\nevaluate:");
  /** The soup ties with the swap; the swap into the base lacks three of ten items, the swap with itself one. */
  const worth = ({ model }: EvaluateStep): number => {
    if (typeof model === "string" || model.method === "soup") return 6;
    const { task, language } = model as unknown as Record<string, string>;
    return task === language ? 5 : task === "id:b" ? 3 : 6;
  };

  it("has differences, intervals and p with Holm's correction, though the swap is tied", () => {
    const { report } = reportOf(controlled, worth);
    const [overview] = report.overviews;
    expect(overview?.finding?.leads).toEqual([]);
    const [only, ...more] = overview?.controls ?? [];
    expect([only?.of, more]).toEqual(["swap", []]);
    const leads = only?.leads ?? [];
    expect(leads.map(({ over, difference }) => [over, Number(difference.toFixed(9))])).toEqual([
      ["swap into the base, control of swap", 0.3],
      ["swap with itself, control of swap", 0.1],
    ]);
    for (const { interval, difference } of leads) {
      expect(interval?.low).toBeLessThan(difference);
      expect(interval?.high).toBeGreaterThan(difference);
    }
    const table = tablesIn(report).find(({ id }) => id === "controls-main-own_sw");
    expect(table).toMatchObject({ title: "swap against its controls, own_sw.yaml" });
    expect(markdownOf(report)).toContain("## swap against its controls, own\\_sw.yaml");
    const titles = experimentPage(report).sections[0]?.figures.map((figure) => figure.title);
    expect(titles).toEqual(["own_sw.yaml", "swap against its controls, own_sw.yaml"]);
  });

  it("is corrected for the controls of one swap", () => {
    const one = PLAN.replace("[m1, m2, m3]", "[m1]").replace("[s1, s2]", "[s1]");
    const pOf = (kinds: string) => {
      const { report } = reportOf(one.replace("evaluate:", `controls: ${kinds}\nevaluate:`), worth);
      return report.overviews[0]?.controls[0]?.leads.map(({ pValue }) => pValue) ?? [];
    };
    const [[base = 0] = [], [itself = 0] = []] = [pOf("[into-base]"), pOf("[itself]")];
    // Holm: the smaller p times two, and the larger one not below it.
    expect(pOf("[into-base, itself]")).toEqual([Math.min(1, 2 * base), Math.min(1, Math.max(2 * base, itself))]);
    expect(base).toBeLessThan(itself);
  });
});
