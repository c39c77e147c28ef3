// Pages for raters: what they show, that nobody sees whose an answer is, and that a tally counts what was chosen.
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { generateTask, out, run, setUpEvaluations, vllm } from "../../test/support/evaluation.js";
import { ratingPage, tallyRatings, tallyVerdict } from "./rating.js";

setUpEvaluations();

interface Shown {
  readonly seed: number;
  readonly digest: string;
  readonly pairs: { readonly task: string; readonly id: string; readonly answers: readonly [string, string] }[];
  readonly equal: number;
}
const dataOf = (page: string) =>
  JSON.parse(/const \{ seed, digest, pairs, equal \} = (.*);\n/.exec(page)?.[1] ?? "") as Shown;

/** Results of one model, and of another whose answers to all items but the first say that they are its. */
async function twoResults(items = 40): Promise<[string, string]> {
  const [first, second] = [`${out}-one`, `${out}-other`] as const;
  const { backend } = await vllm();
  await run({ tasks: [generateTask(items)], backend, out: first });
  cpSync(first, second, { recursive: true });
  const file = join(second, "samples-lengths.jsonl");
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const changed = lines.map((line, i) => {
    const sample = JSON.parse(line) as { output: string };
    return JSON.stringify(i === 0 ? sample : { ...sample, output: `${sample.output} OTHER` });
  });
  writeFileSync(file, `${changed.join("\n")}\n`);
  return [first, second];
}

describe("ratings", () => {
  it("show both answers in random order, without names, and leave out equal ones", async () => {
    const results = await twoResults();
    const { page, pairs, equal } = await ratingPage(results, 1);
    expect([pairs, equal]).toEqual([39, 1]);
    for (const folder of results) expect(page).not.toContain(basename(folder));
    const shown = dataOf(page);
    const sides = shown.pairs.map(({ answers }) => answers.findIndex((text) => text.endsWith("OTHER")));
    expect(sides.filter((side) => side === 0).length).toBeGreaterThan(8);
    expect(sides.filter((side) => side === 1).length).toBeGreaterThan(8);
    expect(new Set(shown.pairs.map(({ id }) => id)).size).toBe(39);
    expect((await ratingPage(results, 1)).page).toBe(page);
    const other = dataOf((await ratingPage(results, 2)).page);
    expect(other.pairs.map(({ id }) => id)).not.toEqual(shown.pairs.map(({ id }) => id));
  });

  it("are tallied by what was chosen, with an interval, most raters deciding", async () => {
    const results = await twoResults();
    const { seed, digest, pairs } = dataOf((await ratingPage(results, 5)).page);
    /** A rater who takes the second model's answers to the first items, the first one's to the next ones, then neither. */
    const rater = (ofSecond: number, ofFirst: number) => ({
      ...{ seed, digest },
      choices: pairs.slice(0, 20).map(({ task, id, answers }, i) => {
        const second = answers[0].endsWith("OTHER") ? "a" : "b";
        const first = second === "a" ? "b" : "a";
        const choice = i < ofSecond ? second : i < ofSecond + ofFirst ? first : "equal";
        return { task, id, choice, note: i === 0 ? "clear" : "" };
      }),
    });
    const [tally] = await tallyRatings(results, { one: rater(7, 3) });
    expect(tally).toMatchObject({ task: "lengths", first: 3, second: 7, equal: 10 });
    // Wilson's formula for 7 of 10 in Python, and 2 (1 + 10 + 45 + 120) / 1024.
    expect(tally?.share?.low).toBeCloseTo(0.39677815, 6);
    expect(tally?.share?.high).toBeCloseTo(0.89220871, 6);
    expect(tally?.share?.pValue).toBeCloseTo(0.34375, 10);
    expect(tally?.notes).toEqual([{ id: pairs[0]?.id, note: "clear" }]);
    if (!tally) throw new Error("no tally");
    expect(tallyVerdict(tally, ["base", "swap"])).toBe(
      "swap is preferred in 7 pairs, base in 3, and neither in 10: 70.0% of those with a preference " +
        "(95% interval 39.7 to 89.2%, p = 0.344).",
    );
    // The third agrees with neither on items 7 to 9: two choose the first there.
    const [of3] = await tallyRatings(results, { one: rater(7, 3), two: rater(7, 3), three: rater(10, 0) });
    expect(of3).toMatchObject({ first: 3, second: 7, equal: 10 });
    // One for, one against.
    const [of2] = await tallyRatings(results, { one: rater(10, 0), two: rater(0, 10) });
    expect(of2).toMatchObject({ first: 0, second: 0, equal: 20 });
    expect(of2?.share).toBeUndefined();
  });

  it("are refused where all answers are equal", async () => {
    const [first] = await twoResults(3);
    await expect(ratingPage([first, first])).rejects.toThrow(/all 3 answers of .* are equal/);
  });

  it("are refused for other results, in another order, or in another form", async () => {
    const results = await twoResults(5);
    const { seed, digest } = dataOf((await ratingPage(results)).page);
    const saved = { "r.json": { seed, digest, choices: [] } };
    expect(await tallyRatings(results, saved)).toEqual([]);
    const [first, second] = results;
    await expect(tallyRatings([second, first], saved)).rejects.toThrow(/r\.json rates other answers .* same order/s);
    await expect(tallyRatings(results, { "r.json": { choices: 3 } })).rejects.toThrow(
      /r\.json is not what a rating page saved/,
    );
  });
});
