// Thresholds: what may be asked for, strictness of "above", and the automatic one against sorting.
import fc from "fast-check";
import { expect, test } from "vitest";
import { AUTO_SHARE, autoThreshold, countRows, parseThreshold } from "./thresholds.js";

test("the automatic threshold is the ranked row that sorting finds, NaN left out", () => {
  const lists = fc.array(fc.array(fc.float({ min: 0, noNaN: false, noDefaultInfinity: true }), { maxLength: 40 }), {
    maxLength: 5,
  });
  fc.assert(
    fc.property(lists, (values) => {
      const positive = values.map((list) => Float32Array.from(list, Math.abs));
      const sorted = Float32Array.from(
        positive.flatMap((list) => [...list]).filter((row) => !Number.isNaN(row)),
      ).sort();
      expect(autoThreshold(positive)).toBe(sorted[Math.ceil((1 - AUTO_SHARE) * sorted.length) - 1] ?? 0);
    }),
  );
});

test("above means above: a row at the threshold is not, and NaN counts nowhere", () => {
  const rows = Float32Array.of(1, 2, 2, 3, Number.NaN);
  expect(countRows(rows, [2, 0.5, 3])).toEqual({ finite: 4, above: [1, 4, 0] });
  expect(countRows(Float32Array.of(Number.NaN), [1])).toEqual({ finite: 0, above: [0] });
});

test("a threshold is auto, a preset, or a positive number", () => {
  expect(parseThreshold("auto")).toEqual({ name: "auto", value: "auto" });
  expect(parseThreshold("paper")).toEqual({ name: "paper", value: 1.9e-5 });
  expect(parseThreshold("1e-6")).toEqual({ name: "1e-6", value: 1e-6 });
  for (const text of ["", "0", "-1", "x", "Infinity", "toString"]) {
    expect(() => parseThreshold(text)).toThrow(/is neither a positive number nor one of auto, paper, paper-fine/);
  }
});
