// Student's t against scipy 1.17.
import { describe, expect, it } from "vitest";
import { studentQuantile, studentTail } from "./student.js";

describe("Student's t", () => {
  it.each([
    // 2 * scipy.stats.t.sf(t, degrees)
    [2.5, 3.7, 0.07182202291182678],
    [0.3, 1, 0.8144528418445154],
    [8, 40.5, 7.237804020221878e-10],
    [0.001, 2, 0.9992928933955901],
    [0, 5, 1],
  ])("has the tail of scipy at %d with %d degrees of freedom", (t, degrees, expected) => {
    expect(studentTail(t, degrees) / expected).toBeCloseTo(1, 9);
    expect(studentTail(-t, degrees)).toBe(studentTail(t, degrees));
  });

  it.each([
    // scipy.stats.t.isf(outside / 2, degrees); the last one scipy.stats.norm.isf(0.025)
    [0.05, 3, 3.1824463052837086],
    [0.05, 249, 1.969536867640351],
    [0.05, 1, 12.706204736174705],
    [0.01, 2.6, 6.827186106128829],
    [0.05, Number.POSITIVE_INFINITY, 1.959963984540054],
  ])("has the quantile of scipy at %d with %d degrees of freedom", (outside, degrees, expected) => {
    expect(studentQuantile(outside, degrees) / expected).toBeCloseTo(1, 5);
  });
});
