// Corrections against statsmodels 0.15.
import { describe, expect, it } from "vitest";
import { holmAdjust } from "./holm.js";

describe("holmAdjust", () => {
  it("is multipletests of statsmodels, method holm", () => {
    const expected = [0.04, 0.09, 0.09, 0.025, 0.5];
    const found = holmAdjust([0.01, 0.04, 0.03, 0.005, 0.5]);
    for (const [i, p] of expected.entries()) expect(found[i]).toBeCloseTo(p, 12);
  });

  it("leaves out what has no p, and never exceeds 1", () => {
    expect(holmAdjust([0.01, undefined, 0.6, 0.9])).toEqual([0.03, undefined, 1, 1]);
    expect(holmAdjust([0.02])).toEqual([0.02]);
    expect(holmAdjust([])).toEqual([]);
  });
});
