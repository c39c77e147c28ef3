// Results of other programs: files that lm-eval wrote (test/fixtures/lm-eval), logs in the layout of Inspect's, and files that
// are not what they should be. Expected p values are scipy's (test/reference/check_lm_eval_files.py).
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { compareResults } from "../compare-results.js";

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
    const log = join(root, "log.json");
    writeFileSync(log, JSON.stringify(inspectLog([["1", "C"]])));
    await expect(compareResults({ results: [first, log] })).rejects.toThrow(
      /of lm-eval and Inspect, which ask and score/,
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

/** A log of Inspect: ids of samples and their grades. */
function inspectLog(grades: readonly (readonly [string, unknown])[], more: Record<string, unknown> = {}) {
  const seen = new Map<string, number>();
  return {
    version: 2,
    status: "success",
    eval: { task: "popularity", task_version: 0, model: "mockllm/model", dataset: { name: "popularity" } },
    results: { scores: [{ name: "match", metrics: { accuracy: { value: 0.5 } } }] },
    samples: grades.map(([id, value]) => {
      seen.set(id, (seen.get(id) ?? 0) + 1);
      return {
        id,
        epoch: seen.get(id),
        input: `question ${id}`,
        target: "Yes",
        scores: { match: { value, answer: "Yes" } },
      };
    }),
    ...more,
  };
}

describe("Inspect", () => {
  const write = (name: string, value: unknown): string => {
    mkdirSync(root, { recursive: true });
    writeFileSync(join(root, name), JSON.stringify(value));
    return join(root, name);
  };

  it("compares grades by sample, and means over epochs", async () => {
    const one = write(
      "one.json",
      inspectLog([
        ["1", "C"],
        ["2", "I"],
        ["3", "I"],
        ["4", "C"],
      ]),
    );
    const other = write(
      "other.json",
      inspectLog([
        ["4", true],
        ["3", 1],
        ["2", "C"],
        ["1", "C"],
      ]),
    );
    const { methods, tasks } = await compareResults({ results: [one, other] });
    expect(methods[0]).toMatchObject({ name: `mockllm/model (Inspect), ${one}`, program: "Inspect" });
    expect(tasks[0]).toMatchObject({ task: "popularity", protocol: "Inspect, version 0", shots: undefined });
    expect(tasks[0]?.comparisons[0]).toMatchObject({
      first: 0.5,
      second: 1,
      gained: ["2", "3"],
      lost: [],
      pValue: 0.5,
    });
    const epochs = write(
      "epochs.json",
      inspectLog([
        ["1", "C"],
        ["1", "I"],
        ["2", "P"],
        ["3", "N"],
        ["4", "C"],
      ]),
    );
    const [task] = (await compareResults({ results: [one, epochs] })).tasks;
    // 1/2, 1/2, 0 and 1; no item is right or wrong alone, so no flips.
    expect(task?.comparisons[0]).toMatchObject({ second: 0.5, difference: 0, gained: [], discordance: undefined });
  });

  it("reads several scores of a sample", async () => {
    const grades: [string, unknown][] = [
      ["1", { accuracy: 1, steps: 12 }],
      ["2", { accuracy: 0, steps: 7, note: "x" }],
    ];
    const log = write("several.json", inspectLog(grades));
    const { tasks } = await compareResults({ results: [log, log] });
    expect(tasks[0]?.comparisons.map(({ metric, scale, first }) => [metric, scale, first])).toEqual([
      ["match/accuracy", "share", 0.5],
      ["match/steps", "points", 9.5],
    ]);
  });

  it("refuses other questions, and logs without an end or samples", async () => {
    const one = write(
      "a.json",
      inspectLog([
        ["1", "C"],
        ["2", "I"],
      ]),
    );
    const log = inspectLog([
      ["1", "C"],
      ["2", "I"],
    ]);
    const changed = write("b.json", {
      ...log,
      samples: log.samples.map((sample, i) => (i === 0 ? { ...sample, input: "x" } : sample)),
    });
    await expect(compareResults({ results: [one, changed] })).rejects.toThrow(/popularity: 1 of 2 questions differ/);
    for (const [more, message] of [
      [{ status: "error" }, /status error; finish it with inspect eval-retry/],
      [{ samples: [] }, /has no samples/],
      [{ samples: [null] }, /sample 1 has no id/],
    ] as const) {
      const broken = write("c.json", inspectLog([["1", "C"]], more));
      await expect(compareResults({ results: [one, broken] })).rejects.toThrow(message);
    }
  });
});
