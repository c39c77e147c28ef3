// Pure parts of the studio's page: names of experts, figures of cells, and numbers for people.
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Analysis, expert } from "../protocol/index.js";
import { readableOn } from "./explorer/colour.js";
import { histogram, jaccard, totalJaccard } from "./explorer/figures.js";
import { decimalText, percentText } from "./format.js";
import { nameFor, nameProblem, pathsIn } from "./names.js";
import { sortRows } from "./try/sort-rows.js";

it("numbers are readable on any colour", () => {
  const channel = fc.integer({ min: 0, max: 255 });
  fc.assert(
    fc.property(channel, channel, channel, (...colour) => {
      const linear = colour.map((value) => (value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
      const light = linear.reduce((sum, value, i) => sum + value * ([0.2126, 0.7152, 0.0722][i] ?? 0), 0);
      const contrast = readableOn(...colour) === "#000" ? (light + 0.05) / 0.05 : 1.05 / (light + 0.05);
      expect(contrast).toBeGreaterThanOrEqual(4.5);
    }),
  );
});

describe("names of experts", () => {
  it("any source gets a name that the protocol takes and no other expert has", () => {
    const names = fc.array(fc.string(), { maxLength: 5 });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string({ unit: fc.constantFrom("a", "é", "数", "😀", "7", " ", ".", "+", "/", "-", ":") }),
          fc.array(fc.string({ maxLength: 9 }), { maxLength: 4 }).map((parts) => parts.join("/")),
        ),
        names,
        (source, sources) => {
          const taken: string[] = [];
          for (const one of [...sources, source, source]) taken.push(nameFor(one, taken));
          expect(new Set(taken).size).toBe(taken.length);
          for (const name of taken) expect(expert.shape.name.safeParse(name).success).toBe(true);
        },
      ),
    );
  });

  it.each([
    ["/models/qwen-math", [], "qwen-math"],
    ["org/Llama-3.1-8B", [], "Llama-3-1-8B"],
    ["/base+/adapters/swahili/", ["swahili"], "swahili-2"],
    ["C:\\models\\base", [], "base-2"],
    ["///", [], "expert"],
  ])("%s beside %j is called %s", (source, taken, name) => {
    expect(nameFor(source, taken)).toBe(name);
  });

  it.each([
    ["", "Enter a name."],
    ["base", "base is a reserved name."],
    ["math", "Another expert is called math."],
    ["math.b", "math.b and math differ only after a dot."],
    ["a/b", "Use letters, digits, spaces, - and _."],
    ["sums", undefined],
  ])("%j: %s", (name, problem) => {
    expect(nameProblem(name, ["math"])).toBe(problem);
  });
});

describe("figures", () => {
  const rows = fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 20 })), { minLength: 1 });
  const steps = Array.from({ length: 21 }, (_, i) => i);

  it("overlap is the size of the intersection over that of the union", () => {
    fc.assert(
      fc.property(rows, fc.nat(20), fc.nat(20), (pairs, step, other) => {
        const own = [step, other];
        const above = (i: 0 | 1) => steps.map((t) => pairs.filter((pair) => pair[i] > t).length);
        const both = steps.map((t) => pairs.filter(([a, b]) => a > t && b > t).length);
        const bothAtMarks = [pairs.filter(([a, b]) => a > step && b > other).length];
        const cell = (i: 0 | 1) => ({ rows: pairs.length, above: above(i), mean: 0, maximum: 0, relative: 0, zero: 0 });
        const data = {
          cells: [[[cell(0)]], [[cell(1)]]],
          totals: [cell(0), cell(1)],
          layers: 1,
          columns: ["q"],
          marks: [{ name: "auto", steps: [step, other] }],
          pairs: [
            { experts: [0, 1], cosine: 0, conflict: 0, cells: [[{ both, bothAtMarks, cosine: 0, conflict: 0 }]] },
          ],
        } as unknown as Analysis;
        const [x, y] = [0, 1].map(
          (i) => new Set(pairs.flatMap((pair, at) => ((pair[i] ?? 0) > (own[i] ?? 0) ? [at] : []))),
        );
        const union = new Set([...(x ?? []), ...(y ?? [])]);
        const shared = [...(x ?? [])].filter((at) => y?.has(at)).length;
        const expected = union.size === 0 ? null : shared / union.size;
        expect(jaccard(data, [0, 1], { layer: 0, column: 0 }, own)).toBe(expected);
        expect(jaccard(data, [1, 0], { layer: 0, column: 0 }, own)).toBe(expected);
        expect(totalJaccard(data, [0, 1], own)).toBe(expected);
      }),
    );
  });

  it("a histogram counts every row up to the last step once", () => {
    fc.assert(
      fc.property(rows, fc.integer({ min: 1, max: 30 }), (pairs, bins) => {
        const above = steps.map((t) => pairs.filter(([a]) => a > t).length);
        const counts = histogram(above, pairs.length, bins);
        expect(counts.every((count) => count >= 0)).toBe(true);
        expect(counts.length).toBeLessThanOrEqual(bins);
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(pairs.length - (above.at(-1) ?? 0));
      }),
    );
    expect(histogram([5, 4, 4, 1, 0, 0], 6, 3)).toEqual([2, 3, 1]);
  });
});

it.each([
  [percentText(0), "0%"],
  [percentText(0.0004), "<0.1%"],
  [percentText(0.034), "3.4%"],
  [percentText(0.42), "42.0%"],
  [percentText(1), "100%"],
  [percentText(null), "none"],
  [decimalText(-0.004), "0.00"],
  [decimalText(-0.25), "−0.25"],
])("%s is written %s", (text, expected) => {
  expect(text).toBe(expected);
});

it("the page has less than 300 kB, and its first view less than 110 kB, as gzip", () => {
  const index = createRequire(import.meta.url).resolve("#studio-page");
  const sizeOf = (file: string) => gzipSync(readFileSync(join(dirname(index), file))).length;
  const files = readdirSync(dirname(index), { recursive: true, encoding: "utf8" }).filter((file) =>
    /\.\w+$/.test(file),
  );
  const all = files.reduce((sum, file) => sum + sizeOf(file), 0);
  const first = [...readFileSync(index, "utf8").matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)];
  expect(first.length).toBeGreaterThan(1);
  expect(all).toBeLessThan(300_000);
  expect(first.reduce((sum, [, file = ""]) => sum + sizeOf(file), 0)).toBeLessThan(110_000);
});

it("finds the paths in what was pasted, as file managers copy them", () => {
  expect(pathsIn("/models/base")).toEqual(["/models/base"]);
  expect(pathsIn("/models/a b/base\n/models/math\n")).toEqual(["/models/a b/base", "/models/math"]);
  // Windows adds quotes, and lines end in two characters.
  expect(pathsIn('"D:\\my models\\base"\r\n"D:\\my models\\math"')).toEqual([
    "D:\\my models\\base",
    "D:\\my models\\math",
  ]);
  // An input that has one line makes spaces of line breaks.
  expect(pathsIn("/models/base ~/math '/models/swahili'")).toEqual(["/models/base", "~/math", "/models/swahili"]);
  expect(pathsIn("org/model\norg/other")).toEqual(["org/model", "org/other"]);
  expect(pathsIn(" \n ")).toEqual([]);
});

it("sorts results with those without a score last, and those that are alike as the project lists them", () => {
  const row = (name: string, place: number, value: number | null) => ({
    ...{ name, place, score: { value }, isEarlier: false, ended: 0 },
  });
  const rows = [row("none", 0, null), row("low", 3, 0), row("tied", 2, 0.5), row("first", 1, 0.5)];
  const names = (isTurned: boolean) => sortRows(rows, "Score", isTurned).map(({ name }) => name);
  expect(names(false)).toEqual(["first", "tied", "low", "none"]);
  expect(names(true)).toEqual(["low", "first", "tied", "none"]);
});
