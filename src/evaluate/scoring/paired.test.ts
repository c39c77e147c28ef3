// The randomisation test of corpus scores against sacreBLEU 2.6.0's, and exactly where few lines differ.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bleuFromStatistics, bleuStatistics } from "../metrics/bleu.js";
import { CHRF_PLUS_PLUS, chrfFromStatistics, chrfStatistics } from "../metrics/chrf.js";
import { compareItems, compareRuns } from "./scores.js";
import { swapTest } from "./statistics.js";

interface Case {
  readonly name: string;
  readonly references: readonly string[];
  readonly first: readonly string[];
  readonly second: readonly string[];
  readonly p: Readonly<Record<"bleu" | "chrf", { readonly sacrebleu: number; readonly exact?: number }>>;
}

const path = join(import.meta.dirname, "../../../test/fixtures/evaluation/paired.json");
const cases = (JSON.parse(readFileSync(path, "utf8")) as Case[]).flatMap(({ name, p, ...sides }) => [
  { name: `BLEU, ${name}`, ...sides, ...p.bleu, of: bleuStatistics(), score: bleuFromStatistics },
  {
    name: `chrF++, ${name}`,
    ...sides,
    ...p.chrf,
    of: chrfStatistics(CHRF_PLUS_PLUS),
    score: (sums: readonly number[]) => chrfFromStatistics(sums, CHRF_PLUS_PLUS),
  },
]);

describe("swapped outputs", () => {
  it.each(cases)("$name", ({ references, first, second, sacrebleu, exact, of, score }) => {
    const sums = (lines: readonly string[]) => lines.map((line, i) => of(line, references[i] ?? ""));
    const p = swapTest(sums(first), sums(second), (all) => score(all).score) as number;
    expect(swapTest(sums(second), sums(first), (all) => score(all).score)).toBeCloseTo(p, 12);
    if (exact !== undefined) return expect(p).toBe(exact);
    // Four standard errors of both samples.
    const error = Math.sqrt(sacrebleu * (1 - sacrebleu) * (1 / 16_384 + 1 / 20_000));
    expect(Math.abs(p - sacrebleu)).toBeLessThan(4 * error);
  });

  it.each(cases.filter(({ exact }) => exact !== undefined))(
    "$name, of two runs that agree, too",
    ({ references, first, second, of, score }) => {
      const run = (lines: readonly string[]) =>
        lines.map((line, i) => ({ id: String(i), verdict: { sums: of(line, references[i] ?? "") } }));
      const metric = {
        ...({ name: "sums", title: "", of: "sums", by: "corpus", scale: "points" } as const),
        score: (sums: readonly number[]) => score(sums).score,
      };
      const one = compareItems(metric, run(first), run(second), { seed: 0, resamples: 100 });
      const runs = compareRuns(metric, [run(first), run(first)], [run(second)]);
      expect(runs.pValue).toBeGreaterThanOrEqual(one.pValue ?? 1);
      expect(Number(runs.interval?.low) <= 0 && Number(runs.interval?.high) >= 0).toBe(Number(runs.pValue) >= 0.05);
    },
  );

  it("has no p where a score is not finite, and 1 where no output differs", () => {
    const ratio = ([a = 0, b = 0]: readonly number[]) => a / b;
    expect(swapTest([[1, 0]], [[1, 1]], ratio)).toBeUndefined();
    expect(swapTest([[1, 2]], [[1, 2]], ratio)).toBe(1);
  });
});
