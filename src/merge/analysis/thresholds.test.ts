// Thresholds: accepted values, and strictness of "above".
import { expect, test } from "vitest";
import { autoThreshold, countRows, parseThreshold } from "./thresholds.js";

test("the automatic threshold is exceeded by an eighth of the rows, NaN left out", () => {
  const [low, high] = [Float32Array.of(3, 1, Number.NaN, 2), Float32Array.of(8, 6, 7, 5, 4)];
  expect(autoThreshold([low, high])).toBe(7);
  expect(autoThreshold([Float32Array.of(Number.NaN), new Float32Array()])).toBe(0);
});

test("above means above: a row at the threshold is not, and NaN counts nowhere", () => {
  const rows = Float32Array.of(1, 2, 2, 3, Number.NaN);
  expect(countRows(rows, [2, 0.5, 3])).toEqual({ finite: 4, above: [1, 4, 0] });
  expect(countRows(Float32Array.of(Number.NaN), [1])).toEqual({ finite: 0, above: [0] });
});

test("a threshold is auto, a preset, or a positive number", () => {
  expect(parseThreshold("auto")).toEqual({ name: "auto", value: "auto" });
  expect(parseThreshold("common")).toEqual({ name: "common", value: "common" });
  expect(parseThreshold("paper")).toEqual({ name: "paper", value: 1.9e-5 });
  expect(parseThreshold("1e-6")).toEqual({ name: "1e-6", value: 1e-6 });
  expect(parseThreshold("math=1.9e-5")).toEqual({ name: "math=1.9e-5", value: { math: 1.9e-5 } });
  expect(parseThreshold("a=b=paper-fine")).toEqual({ name: "a=b=paper-fine", value: { "a=b": 1e-5 } });
  for (const text of ["", "0", "-1", "x", "Infinity", "toString", "math=", "math=auto"]) {
    expect(() => parseThreshold(text)).toThrow(
      /is neither a positive number nor one of auto, common, paper, paper-fine/,
    );
  }
});
