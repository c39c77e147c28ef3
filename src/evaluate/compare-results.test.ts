// Two evaluations side by side: what flipped, what is refused as not comparable, files that are not what they should be.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  generateTask,
  itemsOf,
  out,
  PROTOCOL,
  read,
  root,
  run,
  setUpEvaluations,
  vllm,
} from "../../test/support/evaluation.js";
import { compareResults } from "./compare-results.js";
import { readResults, readVerdicts } from "./results/read-results.js";
import type { GenerateItem, Task } from "./tasks/open-tasks.js";

setUpEvaluations();

describe("comparison", () => {
  async function results(folder: string, more: Partial<Task> = {}, count = 9): Promise<string> {
    const { backend } = await vllm();
    await run({ tasks: [generateTask(count, more)], backend, out: folder });
    return folder;
  }

  it("is of the same items, with those that flipped", async () => {
    const first = await results(`${out}-1`);
    // A second model whose answers are one character longer where the item is an odd one.
    const second = await results(`${out}-2`, {
      score: async (item, { length }) => {
        const longer = Number(length) + (Number(item.id.slice(1)) % 2);
        return { even: longer % 2 === 0 ? 1 : 0, length: [longer] };
      },
    });
    const { tasks, skipped } = await compareResults({ results: [first, second], resamples: 100 });
    const [before, after] = [await readVerdicts(first, "lengths"), await readVerdicts(second, "lengths")];
    const flips = (from: number): string[] =>
      before.flatMap(({ id, verdict }, i) =>
        verdict?.even === from && after[i]?.verdict?.even === 1 - from ? [id] : [],
      );
    expect(flips(0).length + flips(1).length).toBe(4);
    const [even, ...others] = tasks[0]?.comparisons ?? [];
    expect(even).toMatchObject({ items: 9, gained: flips(0), lost: flips(1), leftOut: 0 });
    expect(even?.difference).toBeCloseTo((flips(0).length - flips(1).length) / 9, 12);
    expect(others).toEqual([]); // a corpus score that is none of ours
    expect(skipped).toEqual([]);
  });

  it("of fewer items is of those that both have", async () => {
    const [first, second] = [await results(`${out}-1`), await results(`${out}-2`, {}, 5)];
    const { tasks } = await compareResults({ results: [join(first, "results.json"), second] });
    expect(tasks[0]?.comparisons[0]).toMatchObject({ items: 5, leftOut: 4, difference: 0, pValue: 1 });
  });

  it("is refused where something else was asked", async () => {
    const first = await results(`${out}-1`);
    const other = await results(`${out}-2`, { protocol: { ...PROTOCOL, version: 3 } });
    await expect(compareResults({ results: [first, other] })).rejects.toThrow(/test\/plain@2 and test\/plain@3/);
    const [item] = await itemsOf(generateTask(1));
    const changed = { ...(item as GenerateItem), gold: "odd" };
    const asked = await results(`${out}-3`, { load: async () => ({ items: [changed], notes: [] }) });
    await expect(compareResults({ results: [first, asked] })).rejects.toThrow(
      /1 of 1 questions differ, so the results are not of the same/,
    );
    await expect(compareResults({ results: [first, await results(`${out}-4`, { name: "x" })] })).rejects.toThrow(
      /lengths: missing from .*-4\n.*x: missing from .*-1/s,
    );
  });

  it("is refused where answers were read or scored in other ways", async () => {
    const first = await results(`${out}-1`);
    const read = await results(`${out}-2`, { judging: { read: "number" } });
    await expect(compareResults({ results: [first, read] })).rejects.toThrow(
      /lengths: answers were read or scored in different ways/,
    );
    const metrics = (tokenize: string) =>
      generateTask(1).metrics.map((one) => ({ ...one, signature: `tok:${tokenize}` }));
    const [intl, char] = [
      await results(`${out}-3`, { metrics: metrics("intl").slice(0, 1) }),
      await results(`${out}-4`, { metrics: metrics("char").slice(0, 1) }),
    ];
    await expect(compareResults({ results: [intl, char] })).rejects.toThrow(/the scores are tok:intl and tok:char/);
  });

  it("says which files are not what they should be", async () => {
    await expect(readResults(root)).rejects.toThrow(/has no results of an evaluation/);
    const first = await results(`${out}-1`);
    rmSync(join(first, "samples-lengths.jsonl"));
    await expect(compareResults({ results: [first, first] })).rejects.toThrow(/has no samples-lengths\.jsonl/);
    writeFileSync(
      join(first, "samples-lengths.jsonl"),
      '{"id": "g0", "gold": "", "prompt": {}, "verdict": {"even": "yes"}}\n',
    );
    await expect(compareResults({ results: [first, first] })).rejects.toThrow(/line 1 is not a sample: verdict/);
    const later = JSON.parse(read("results.json", first)) as object;
    writeFileSync(join(first, "results.json"), JSON.stringify({ ...later, format: 99 }));
    await expect(readResults(first)).rejects.toThrow(/newer version/);
    writeFileSync(join(first, "results.json"), JSON.stringify({ ...later, tasks: [{}], source: 3 }));
    await expect(readResults(first)).rejects.toThrow(/source: .*\n.*tasks\[0\]\.task: is missing/s);
  });
});
