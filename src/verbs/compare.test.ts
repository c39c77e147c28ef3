// The verbs of results: what compare finds is what the comparison finds, and rate writes a page and tallies what was chosen on it.
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, it } from "vitest";
import { generateTask, out, run, setUpEvaluations, vllm } from "../../test/support/evaluation.js";
import { compareResults } from "../evaluate/index.js";
import { compare } from "./compare.js";
import { rateVerb } from "./rate.js";
import { callVerb } from "./verb.js";

setUpEvaluations();

/** Results, and others whose first item has another answer and another verdict. */
async function twoResults(): Promise<[string, string]> {
  const [first, second] = [`${out}-one`, `${out}-other`] as const;
  const { backend } = await vllm();
  await run({ tasks: [generateTask(9)], backend, out: first });
  cpSync(first, second, { recursive: true });
  const file = join(second, "samples-lengths.jsonl");
  const [line = "", ...rest] = readFileSync(file, "utf8").trimEnd().split("\n");
  const sample = JSON.parse(line) as { output: string; verdict: { even: number } };
  const verdict = { ...sample.verdict, even: 1 - sample.verdict.even };
  const changed = JSON.stringify({ ...sample, output: `${sample.output} other`, verdict });
  writeFileSync(file, `${[changed, ...rest].join("\n")}\n`);
  return [first, second];
}

it("compare takes folders that start from a folder, and runs that commas join", async () => {
  const [first, second] = await twoResults();
  const folder = dirname(first);
  const [one, other] = [basename(first), basename(second)];
  const { notes, warnings, ...found } = await compare({ results: [one, other], resamples: 50 }, { folder });
  const wanted = await compareResults({ results: [first, second], resamples: 50 });
  expect(found).toEqual(wanted);
  const [even] = found.tasks[0]?.comparisons ?? [];
  expect((even?.gained.length ?? 0) + (even?.lost.length ?? 0)).toBe(1);
  expect({ notes, warnings }).toEqual({ notes: expect.any(Array), warnings: [] });
  const joined = await compare({ results: [one, `${one},${other}`] }, { folder });
  expect(joined.methods.map(({ runs }) => runs)).toEqual([[first], [first, second]]);
  await expect(compare({ results: [one] }, { folder })).rejects.toMatchObject({
    problems: ["results: must list two or more"],
  });
});

it("rate writes a page, and tallies choices that are a value", async () => {
  const [first, second] = await twoResults();
  const folder = dirname(first);
  const results = [first, second].map((path) => basename(path));
  const { page } = await callVerb(rateVerb, { results, page: "rate.html", seed: 3 }, { folder });
  expect(page).toEqual({ file: "rate.html", pairs: 1, equal: 8 });
  const again = callVerb(rateVerb, { results, page: "rate.html" }, { folder });
  await expect(again).rejects.toMatchObject({ where: { option: "force" } });
  const text = readFileSync(join(folder, "rate.html"), "utf8");
  const data = JSON.parse(/const \{ seed, digest, pairs, equal \} = (.*);\n/.exec(text)?.[1] ?? "");
  const [{ task, id, answers }] = data.pairs;
  const choices = [{ task, id, choice: answers[0].endsWith("other") ? "a" : "b", note: "" }];
  const saved = { seed: data.seed, digest: data.digest, choices };
  const { tallies } = await callVerb(rateVerb, { results, ratings: [saved], names: ["A", "B"] }, { folder });
  expect(tallies).toMatchObject([{ task: "lengths", first: 0, second: 1, equal: 0 }]);
  expect(tallies?.[0]?.sentence).toMatch(/^lengths: B is preferred/);
  const wrong = callVerb(rateVerb, { results, ratings: [{}] }, { folder });
  await expect(wrong).rejects.toThrow("The file is not what a rating page saved");
});
