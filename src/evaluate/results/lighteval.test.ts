// Results and details that lighteval wrote (test/fixtures/lighteval). Expected p values are scipy's.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { compareResults } from "../compare-results.js";

const FIXTURES = join(import.meta.dirname, "../../../test/fixtures/lighteval");
const DATE = "2026-01-01T00-00-00.000000";
const TASKS = { "sums|2": "sums-2", "choices:small|0": "choices-small-0", "choices:large|0": "choices-large-0" };
const root = mkdtempSync(join(tmpdir(), "layergraft-lighteval-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Puts the files of a model where lighteval does, or where it uploads them to. */
function place(name: string, out: string, isHub = false): void {
  const results = isHub ? out : join(out, "results", "toy", name);
  const details = isHub ? join(out, DATE) : join(out, "details", "toy", name, DATE);
  mkdirSync(results, { recursive: true });
  mkdirSync(details, { recursive: true });
  cpSync(join(FIXTURES, name, "results.json"), join(results, `results_${DATE}.json`));
  for (const [task, file] of Object.entries(TASKS)) {
    cpSync(join(FIXTURES, name, `details_${file}.parquet`), join(details, `details_${task}_${DATE}.parquet`));
  }
}

describe.skipIf(process.platform === "win32")("lighteval, which names files after tasks such as `sums|2`", () => {
  const first = join(root, "first");
  place("first", first);
  let second = "";
  let count = 0;
  beforeEach(() => {
    second = join(root, `second-${count++}`);
    place("second", second);
  });
  const details = (task: string) => join(second, "details", "toy", "second", DATE, `details_${task}_${DATE}.parquet`);

  it("pairs documents, and averages over the items of all subtasks", async () => {
    const { methods, tasks, skipped } = await compareResults({ results: [first, second] });
    expect(skipped).toEqual([]);
    expect(methods.map(({ name, program }) => [name, program])).toEqual([
      ["toy/first (lighteval)", "lighteval"],
      ["toy/second (lighteval)", "lighteval"],
    ]);
    expect(tasks.map(({ task, title, protocol, shots }) => [task, title, protocol, shots])).toEqual([
      ["sums|2", "sums", "lighteval, version 1", 2],
      ["choices:small|0", "choices:small", "lighteval, version 1", 0],
      ["choices:large|0", "choices:large", "lighteval, version 1", 0],
      ["choices:_average|0", "choices", "lighteval", 0],
    ]);
    const found = tasks.flatMap(({ comparisons }) => comparisons);
    expect(found.map(({ metric, items, first, second }) => [metric, items, first, second])).toEqual([
      ["em", 20, 0.45, 0.75],
      // The median is not a mean over items.
      ["length", 20, 7.85, 8.85],
      ["acc", 12, 2 / 12, 0.75],
      ["acc", 8, 0.625, 0.75],
      // The mean of the two.
      ["acc", 20, expect.closeTo((2 / 12 + 0.625) / 2, 12), 0.75],
    ]);
    expect(found.map(({ gained, lost }) => [gained.length, lost.length])).toEqual([
      [9, 3],
      [0, 0],
      [7, 0],
      [2, 1],
      [9, 1],
    ]);
    expect(found[0]?.pValue).toBeCloseTo(0.14599609375, 12);
    expect(found[2]?.pValue).toBeCloseTo(0.015625, 12);
    expect(found[4]?.gained.filter((id) => id.startsWith("choices:small|0/"))).toHaveLength(7);
  });

  it("reads what lighteval uploads to the hub, and a results file", async () => {
    const hub = join(root, "hub");
    place("second", hub, true);
    const expected = (await compareResults({ results: [first, second] })).tasks;
    expect((await compareResults({ results: [first, hub] })).tasks).toEqual(expected);
    const file = join(second, "results", "toy", "second", `results_${DATE}.json`);
    expect((await compareResults({ results: [first, file] })).tasks).toEqual(expected);
  });

  it("refuses other documents", async () => {
    cpSync(join(FIXTURES, "second", "details_choices-large-0.parquet"), details("choices:small|0"));
    const { skipped, tasks } = await compareResults({ results: [first, second] });
    expect(tasks.map(({ task }) => task)).toEqual(["sums|2", "choices:large|0"]);
    expect(skipped.map(({ reason }) => reason)).toEqual([
      "8 of 8 documents differ, so the results are not of the same questions",
      "8 of 16 documents differ, so the results are not of the same questions",
    ]);
  });

  const document = (more: object = {}) => ({ id: "0", query: "q", choices: ["a"], gold_index: 0, ...more });
  const write = (rows: readonly object[]) => {
    const columns = Object.keys(rows[0] ?? {});
    const columnData = columns.map((name) => ({
      ...{ name, type: "JSON" as const, data: rows.map((row) => (row as Record<string, unknown>)[name]) },
    }));
    writeFileSync(details("sums|2"), Buffer.from(parquetWriteBuffer({ columnData })));
  };
  const reason = async () => {
    const { skipped } = await compareResults({ results: [first, second] });
    return skipped.find(({ task }) => task === "sums|2")?.reason;
  };

  it("refuses other examples, and other targets", async () => {
    write([{ doc: document({ instruction: "x" }), metric: { em: 0.75 } }]);
    expect(await reason()).toMatch(/^1 of 1 documents and 1 of 1 prompts differ/);
    const again = join(root, "again");
    place("second", again);
    cpSync(details("sums|2"), join(again, "details", "toy", "second", DATE, `details_sums|2_${DATE}.parquet`));
    write([{ doc: document({ gold_index: [1], instruction: "x" }), metric: { em: 0.75 } }]);
    const { skipped } = await compareResults({ results: [second, again] });
    expect(skipped[0]?.reason).toBe("1 of 1 targets differ, so the results are not of the same questions");
  });

  it("joins the rows of a document that was asked in two ways, and keeps documents of two splits apart", async () => {
    write([
      { doc: document(), metric: { em: 1 } },
      { doc: document(), metric: { length: 8.85 } },
      { doc: document({ query: "other" }), metric: { em: 0.5 } },
    ]);
    const { tasks } = await compareResults({ results: [second, second] });
    expect(tasks[0]?.comparisons.map(({ metric, items, first }) => [metric, items, first])).toEqual([
      ["em", 2, 0.75],
      ["length", 1, 8.85],
    ]);
    write([
      { doc: document(), metric: { em: 1 } },
      { doc: document(), metric: { em: 1 } },
    ]);
    await expect(compareResults({ results: [first, second] })).rejects.toThrow(/row 2 repeats document 0/);
  });

  it("says what is missing", async () => {
    write([{ example: "q", metrics: { em: 1 } }]);
    await expect(compareResults({ results: [first, second] })).rejects.toThrow(
      /row 1 is not a sample of lighteval 0\.11/,
    );
    rmSync(details("sums|2"));
    const { skipped } = await compareResults({ results: [first, second] });
    expect(skipped.map(({ reason }) => reason)).toEqual([
      expect.stringMatching(/^sums\|2 has no details in .*; run lighteval with --save-details$/),
      expect.stringContaining("missing from"),
    ]);
    const results = join(second, "results", "toy", "second");
    rmSync(join(second, "details"), { recursive: true });
    await expect(compareResults({ results: [first, second] })).rejects.toThrow(
      /has no details in .*second.2026.*; run lighteval with --save-details/,
    );
    renameSync(join(results, `results_${DATE}.json`), join(results, "results.json"));
    await expect(compareResults({ results: [first, second] })).rejects.toThrow(
      /was renamed; name it results_DATE\.json/,
    );
    const value = JSON.parse(readFileSync(join(results, "results.json"), "utf8")) as object;
    const hostile = {
      ...value,
      config_general: { model_name: "../".repeat(40) },
      results: { "../x": 1, __proto__: 2 },
    };
    writeFileSync(join(results, `results_${DATE}.json`), JSON.stringify(hostile));
    rmSync(join(results, "results.json"));
    await expect(compareResults({ results: [first, second] })).rejects.toThrow(/has no details in/);
  });
});
