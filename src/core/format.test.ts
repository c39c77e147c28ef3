// Quantities as text: one rounding for one value, however it was added up.
import { expect, it } from "vitest";
import { formatFixed, formatPercent, formatShare } from "./format.js";

it("prints means that differ in their last bits alike", () => {
  const below = 0.3125 - Number.EPSILON / 4;
  expect((100 * below).toFixed(1)).toBe("31.2");
  expect([0.3125, below, 0.3125 + Number.EPSILON / 4].map(formatShare)).toEqual(["31.3", "31.3", "31.3"]);
  expect(formatPercent(0.1234)).toBe("12.3%");
  expect(formatFixed(-0.25, 1)).toBe("-0.3");
  expect(formatFixed(123456.75, 1)).toBe("123456.8");
});
