import { expect, it } from "vitest";
import { averageOf } from "./merge-stages.js";

it("averages shares and points alike, and counts what has no score as 0", () => {
  const scores = [
    { task: "a", value: 0.5, scale: "share" },
    { task: "b", value: 40, scale: "points" },
    { task: "c", value: Number.NaN, scale: "share" },
  ] as const;
  expect(averageOf(scores, ["a", "b"])).toBeCloseTo(0.45, 12);
  expect(averageOf(scores, ["a", "b", "c", "d"])).toBeCloseTo(0.225, 12);
  expect(averageOf(scores, [])).toBe(0);
});
