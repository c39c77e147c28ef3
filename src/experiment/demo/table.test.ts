// The miniature's table from answers that are given: scores, leads counted problem by problem, what is said of them; and
// that its folder gives nothing away that is somebody else's.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Analysis } from "../../analysis/index.js";
import { demoAnswer, demoTable } from "./report.js";
import { type DemoResult, type PairResult, runDemo } from "./run.js";
import type { Answered } from "./scoring.js";
import { askedProblems, demoRows, gainsAndLosses } from "./table.js";

/** Answers to problems 0 to n - 1; right where the text has an x. */
const answers = (marks: string, language = "sw"): Answered[] =>
  [...marks].map((mark, i) => ({ problem: `${language} ${i}`, answer: mark, gold: i, isRight: mark === "x" }));

const result = (name: string, marks: string, more: Partial<PairResult> = {}): PairResult => ({
  ...{ name, kind: "model", math: 1, language: 1 },
  swahili: answers(marks),
  english: answers("x".repeat(marks.length), "en"),
  development: answers(marks.slice(0, 4)),
  ...more,
});

const demo = (results: readonly PairResult[], pairs = 1): DemoResult => ({
  ...{ seed: 0, pairs, results, parameters: 1, seconds: {}, analysis: undefined as unknown as Analysis },
});

const swap = (name: string, marks: string, more: Partial<PairResult> = {}) =>
  result(name, marks, { kind: "layer swap", family: "swap", ...more });

describe("the table", () => {
  const results = [
    result("base", "x...............x..x"),
    result("soup", "xxxxxxxxxx.........x"),
    swap("swap 2+0", "xxxxxxxxxxxxxxxx...."),
    swap("swap 1+0", "xxxxxxxxxxxxxxxxx..."),
    result("joint training", "xxxxxxxxxxxxxxxxxxxx", { kind: "control" }),
  ];

  it("has scores, and the named swap's lead by the differences of single problems", () => {
    const rows = demoRows(demo(results));
    expect(rows.map(({ name, swahili }) => [name, swahili.mean])).toEqual([
      ["base", 15],
      ["soup", 55],
      ["swap 2+0", 80],
      ["swap 1+0", 85],
      ["swap, chosen on development", 80],
      ["swap, best on the test", 85],
      ["joint training", 100],
    ]);
    // 15 gained and 2 lost of 20: mean 13 / 20, sample deviation sqrt((17 - 20 (13/20)^2) / 19).
    const { lead } = rows[0] ?? {};
    expect(lead?.points).toBeCloseTo(65, 9);
    expect(lead?.error).toBeCloseTo(100 * Math.sqrt((17 - 20 * 0.65 ** 2) / 19 / 20), 9);
    expect(rows.map(({ lead: one }) => one?.isClear)).toEqual([true, true, undefined, false, false, false, true]);
    expect(rows[4]?.note).toBe("swap 2+0, chosen on 4 other problems");
  });

  it("says what is clear and what is not", () => {
    expect(demoAnswer(demo(results))).toBe(
      "Swapping in the two bottom layers of the language expert solves 80.0% of the Swahili problems. " +
        "That is more than base, soup. It is less than joint training.",
    );
    expect(demoTable(demo(results))[1]).toMatch(/^base +15\.0 +8\.2 +\+65\.0 ± 15\.0 +100\.0/);
  });

  it("averages each problem over the pairs", () => {
    const second = { math: 1, language: 2 };
    const both = [
      result("base", "x..."),
      result("base", "xx..", second),
      swap("swap 2+0", "xxx."),
      swap("swap 2+0", "xx..", second),
    ];
    const [base, named] = demoRows(demo(both, 2));
    expect(named?.swahili).toEqual({ least: 50, mean: 62.5, most: 75 });
    // Differences 0, 50, 50, 0 in a hundred.
    expect(base?.lead?.points).toBe(25);
    expect(base?.lead?.error).toBeCloseTo(Math.sqrt((4 * 25 ** 2) / 3 / 4), 9);
  });

  it("shows what a merge gained and lost", () => {
    const asked = askedProblems(demo(results), ["swap 2+0", "base"]);
    const { gained, lost } = gainsAndLosses(asked);
    expect(gained.map(({ gold }) => gold)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    expect(lost).toEqual(
      [16, 19].map((gold) => expect.objectContaining({ gold, swahili: `sw ${gold}`, english: `en ${gold}` })),
    );
  });
});

describe("its folder", () => {
  const root = mkdtempSync(join(tmpdir(), "layergraft-demo-"));
  afterAll(() => rmSync(root, { recursive: true }));
  const stopped = AbortSignal.abort();

  it("is not taken from another program that keeps a demo.json", async () => {
    const out = join(root, "site");
    mkdirSync(out);
    writeFileSync(join(out, "demo.json"), '{"site": "mine"}');
    writeFileSync(join(out, "precious"), "");
    await expect(runDemo({ out, force: true, signal: stopped })).rejects.toThrow(/is not empty and holds no demo/);
    expect(readdirSync(out).sort()).toEqual(["demo.json", "precious"]);
  });

  it("keeps what is not a demo's when an earlier demo is replaced", async () => {
    const out = join(root, "earlier");
    mkdirSync(join(out, "base"), { recursive: true });
    writeFileSync(join(out, "demo.json"), '{"seed": 1, "pairs": 1, "quick": true}');
    writeFileSync(join(out, "notes.txt"), "");
    await expect(runDemo({ out, signal: stopped })).rejects.toThrow(/holds a demo already/);
    await expect(runDemo({ out, quick: true, force: true, signal: stopped })).rejects.toThrow(/stopped/);
    expect(readdirSync(out)).toContain("notes.txt");
  });
});
