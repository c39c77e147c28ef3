// Results of lm-eval (test/fixtures/lm-eval), and files that are not what they should be. Expected p values are scipy's (test/reference/check_lm_eval_files.py).
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { compareResults } from "../compare-results.js";
import { FORMAT } from "./result-types.js";

const FIXTURES = join(import.meta.dirname, "../../../test/fixtures/lm-eval");
const root = mkdtempSync(join(tmpdir(), "layergraft-foreign-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const [first, second] = [join(FIXTURES, "first"), join(FIXTURES, "second")];
const DATE = "2026-01-01T00-00-00.000000";

describe("lm-eval", () => {
  let copy = "";
  let count = 0;
  beforeEach(() => {
    copy = join(root, `copy-${count++}`);
    cpSync(second, copy, { recursive: true });
  });

  /** Changes the samples of a task in the copy. */
  function edit(task: string, change: (sample: Record<string, unknown>, line: number) => unknown): void {
    const file = join(copy, `samples_${task}_${DATE}.jsonl`);
    const rows = readFileSync(file, "utf8").trim().split("\n");
    const changed = rows.map((row, line) => JSON.stringify(change(JSON.parse(row), line)));
    writeFileSync(file, `${changed.join("\n")}\n`);
  }
  const flat = async (...results: (string | string[])[]) => {
    const { tasks } = await compareResults({ results });
    return tasks.flatMap(({ task, comparisons }) => comparisons.map((one) => ({ task, ...one })));
  };

  it("pairs documents by filter, and groups over their subtasks", async () => {
    const { methods, tasks, skipped } = await compareResults({ results: [first, second] });
    expect(skipped).toEqual([]);
    expect(methods.map(({ name, program }) => [name, program])).toEqual([
      ["first (lm-eval, sums)", "lm-eval"],
      ["second (lm-eval, sums)", "lm-eval"],
    ]);
    expect(tasks.map(({ task, protocol, shots }) => [task, protocol, shots])).toEqual([
      ["sums_words", "lm-eval, version 1", 2],
      ["sums_small", "lm-eval, version 1", 0],
      ["sums_large", "lm-eval, version 1", 0],
      ["sums", "lm-eval", undefined],
    ]);
    const found = await flat(first, second);
    expect(
      found.map(({ metric, first, second, gained, lost }) => [metric, first, second, gained.length, lost.length]),
    ).toEqual([
      ["exact_match,strict-match", 0.4, 0.65, 6, 1],
      ["exact_match,flexible-extract", 0.5, 0.8, 7, 1],
      ["acc,none", 0.5, 10 / 12, 5, 1],
      ["acc_norm,none", 0.5, 10 / 12, 5, 1],
      ["acc,none", 0.5, 0.875, 4, 1],
      ["acc_norm,none", 0.5, 0.875, 4, 1],
      ["acc,none", 0.5, 0.85, 9, 2],
    ]);
    for (const [i, p] of [0.125, 0.0703125, 0.21875, 0.21875, 0.375, 0.375, 0.0654296875].entries()) {
      expect(found[i]?.pValue).toBeCloseTo(p, 12);
    }
    expect(found.at(-1)?.gained.filter((id) => id.startsWith("sums_large/"))).toHaveLength(4);
  });

  it("counts items whose choices are tied, which lm-eval gives to the first", async () => {
    const before = await compareResults({ results: [first, copy] });
    expect(before.tasks.map(({ tied }) => tied)).toEqual([0, 0, 0, 0]);
    edit("sums_small", (sample, line) => {
      const answers = sample.filtered_resps as [string, string][];
      return line > 1 ? sample : { ...sample, filtered_resps: answers.map(([, greedy]) => ["-1.5", greedy]) };
    });
    const { tasks } = await compareResults({ results: [first, copy] });
    expect(tasks.map(({ task, tied }) => [task, tied])).toEqual([
      ["sums_words", 0],
      ["sums_small", 2],
      ["sums_large", 0],
      ["sums", 2],
    ]);
  });

  it("takes no NaN or infinite value for a score, and -inf for a log-likelihood", async () => {
    const file = join(copy, `samples_sums_small_${DATE}.jsonl`);
    const [head = "", ...rest] = readFileSync(file, "utf8").split("\n");
    const rewrite = (line: string) => writeFileSync(file, [line, ...rest].join("\n"));
    for (const value of ["NaN", "-Infinity", "1e999"]) {
      rewrite(head.replace(/"acc": [\d.]+/, `"acc": ${value}`));
      const found = (await flat(first, copy)).filter(({ task }) => task === "sums_small");
      expect(found.map(({ metric }) => metric)).toEqual(["acc_norm,none"]);
    }
    rewrite(head.replace(/("filtered_resps": ).*?\]\]/, '$1[["-inf", "False"], ["-2.5", "False"], ["-2.5", "True"]]'));
    const { tasks } = await compareResults({ results: [first, copy] });
    expect(tasks.find(({ task }) => task === "sums_small")?.tied).toBe(1);
  });

  it("corrects for the number of results, and says what the items can show", async () => {
    const [two] = await flat(first, second);
    const three = await flat(first, second, first);
    expect(two).toMatchObject({
      pValue: expect.closeTo(0.125, 12),
      pAdjusted: expect.closeTo(0.125, 12),
      discordance: 7 / 20,
    });
    // 20 items with 35% flips, by the formula: 37 points are more than the flips.
    expect(two?.detectable).toBeUndefined();
    expect(three.slice(0, 2)).toMatchObject([
      { method: 1, pValue: expect.closeTo(0.125, 12), pAdjusted: expect.closeTo(0.25, 12) },
      { method: 2, pValue: 1, pAdjusted: 1, difference: 0 },
    ]);
    const { tasks } = await compareResults({ results: [first, second], discordance: 0.5 });
    expect(tasks[0]?.comparisons[0]?.detectable).toBeCloseTo(0.465, 2);
  });

  it("resamples the runs of a method with several", async () => {
    const [one] = await flat([first, second], [second, first, second]);
    expect(one).toMatchObject({
      first: expect.closeTo(0.525, 12),
      second: expect.closeTo(17 / 30, 12),
      items: 20,
      gained: [],
    });
    expect(one?.interval?.low).toBeLessThan(-0.2);
    expect(one?.pValue).toBeGreaterThan(0.5);
  });

  it("refuses other documents and prompts, with their number", async () => {
    edit("sums_words", (sample, line) => (line % 20 < 3 ? { ...sample, prompt_hash: "0" } : sample));
    edit("sums_small", (sample, line) => (line === 0 ? { ...sample, doc_hash: "0", target_hash: "1" } : sample));
    const { skipped, tasks } = await compareResults({ results: [first, copy] });
    expect(tasks.map(({ task }) => task)).toEqual(["sums_large"]);
    expect(skipped).toEqual([
      { task: "sums_words", reason: "3 of 20 prompts differ, so the results are not of the same questions" },
      {
        task: "sums_small",
        reason: "1 of 12 documents and 1 of 12 targets differ, so the results are not of the same questions",
      },
      {
        task: "sums",
        reason: "1 of 20 documents and 1 of 20 targets differ, so the results are not of the same questions",
      },
    ]);
  });

  it("compares what both have where one was cut short", async () => {
    const file = join(copy, `samples_sums_small_${DATE}.jsonl`);
    writeFileSync(file, readFileSync(file, "utf8").split("\n").slice(2).join("\n"));
    // Its samples no longer have the mean that the results report.
    const { tasks, skipped } = await compareResults({ results: [first, copy] });
    expect(tasks.map(({ task }) => task)).toEqual(["sums_words", "sums_large"]);
    expect(skipped[0]).toEqual({
      task: "sums_small",
      reason: "has no metric that is a mean over items in all results",
    });
  });

  it.each([
    [
      "a line that is not a sample",
      (line: string) => `{"x": 1}\n${line}`,
      /line 1 is not a sample of lm-eval: doc_id is missing/,
    ],
    ["a line that is not JSON", (line: string) => `{\n${line}`, /line 1/],
    ["two runs in one file", (line: string) => `${line}${line}`, /repeats doc_id 0 of the filter strict-match/],
    [
      "two documents with one id",
      (line: string) => line.replace('"doc_id": 1,', '"doc_id": 0,'),
      /line 2 has another document or prompt than the line before of doc_id 0/,
    ],
  ])("refuses %s", async (_, change, message) => {
    const file = join(copy, `samples_sums_words_${DATE}.jsonl`);
    writeFileSync(file, change(readFileSync(file, "utf8")));
    await expect(compareResults({ results: [first, copy] })).rejects.toThrow(message);
  });

  it("asks for samples, for one run, and for the same program", async () => {
    const names = readdirSync(copy);
    cpSync(join(copy, `results_${DATE}.json`), join(copy, "results_2026-02-02T00-00-00.000000.json"));
    await expect(compareResults({ results: [first, copy] })).rejects.toThrow(
      /has 2 results, such as .*; pass one of them/,
    );
    rmSync(join(copy, "results_2026-02-02T00-00-00.000000.json"));
    for (const name of names) if (name.startsWith("samples_")) rmSync(join(copy, name));
    await expect(compareResults({ results: [first, copy] })).rejects.toThrow(/run lm_eval with --log_samples/);
    const own = join(root, "results.json");
    const backend = { backend: "engine", server: null, model: "own", digest: null, bos: "tokenizer" };
    const settings = { limit: null, seed: 0, resamples: 10 };
    writeFileSync(
      own,
      JSON.stringify({ format: FORMAT, layergraft: "0", source: "own", backend, sandbox: null, settings, tasks: [] }),
    );
    await expect(compareResults({ results: [first, own] })).rejects.toThrow(
      /of lm-eval and layergraft, which ask and score/,
    );
    await expect(compareResults({ results: [first] })).rejects.toThrow(/at least two results/);
  });

  it("finds the folder of the model in the folder of the output", async () => {
    const out = join(root, "output");
    cpSync(second, join(out, "org__model"), { recursive: true });
    expect(await flat(first, out)).toEqual(await flat(first, second));
    cpSync(second, join(out, "org__other"), { recursive: true });
    await expect(compareResults({ results: [first, out] })).rejects.toThrow(/has 2 results/);
  });

  it("survives groups that contain themselves, and names like those of objects", async () => {
    const file = join(copy, `results_${DATE}.json`);
    const value = JSON.parse(readFileSync(file, "utf8")) as Record<string, Record<string, unknown>>;
    value.group_subtasks = { sums: ["sums", "__proto__", 3], sums_words: [] };
    value.results = { ...value.results, constructor: { "acc,none": 1 }, toString: 5 };
    writeFileSync(file, JSON.stringify(value));
    const { tasks } = await compareResults({ results: [first, copy] });
    expect(tasks.map(({ task }) => task)).toEqual(["sums_words", "sums_small", "sums_large"]);
  });
});
