import { expect, it } from "vitest";
import { placeOn, scoreAxis } from "./scores.js";

const score = (mean: number, low: number, high: number) => ({ mean, low: mean, high: mean, interval: { low, high } });

it("has an axis around scores and their intervals, in about four round steps", () => {
  const axis = scoreAxis([score(0.62, 0.55, 0.68), score(0.71, 0.64, 0.77)], "share");
  expect(axis).toEqual({ low: 0.5, high: 0.8, ticks: [0.5, 0.6, 0.7, 0.8] });
  expect([0.5, 0.65, 0.8].map((value) => placeOn(axis, value))).toEqual([0, expect.closeTo(0.5, 12), 1]);
});

it("begins an axis at zero where that is near", () => {
  expect(scoreAxis([score(0.2, 0.1, 0.45)], "share").ticks).toEqual([0, 0.1, 0.2, 0.3, 0.4, 0.5]);
});

it("has an axis of points, of one score, and of none", () => {
  expect(scoreAxis([{ mean: 31 }], "points")).toMatchObject({ low: 31, high: 31.5 });
  expect(scoreAxis([{ mean: 0.5 }], "share")).toMatchObject({ low: 0.5, high: 0.51 });
  expect(scoreAxis([], "share")).toMatchObject({ low: 0, high: 1 });
  expect(scoreAxis([], "points")).toMatchObject({ low: 0, high: 100 });
});
