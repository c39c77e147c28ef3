import { expect, it } from "vitest";
import { comparedChanges } from "./compared-changes.js";

const names = ["a", "b", "c", "d"];
/** An expert of each mean change, with one matrix of ten rows. */
const page = (...means: number[]) => ({
  steps: [1],
  marks: [{ name: "common", steps: means.map(() => 0) }],
  cells: means.map((mean) => [[{ rows: 10, above: [mean], mean }]]),
});
const said = (...means: number[]) => comparedChanges(page(...means), names.slice(0, means.length));

it("names each of a few experts, the two ends of many, and nothing of one", () => {
  expect(said(1)).toBe("");
  expect(said(1, 4, 2)).toBe(
    "b changed 4.0 times as much as a: the mean change of a row is 4.00e+0 in b, 2.00e+0 in c, 1.00e+0 in a. " +
      "Above a threshold of 1.00e+0 for all: 40.0% of the rows of b, 20.0% of the rows of c, 10.0% of the rows of a.",
  );
  expect(said(1, 4, 2, 3)).toBe(
    "b changed most, 4.0 times as much as a: the mean change of a row is 4.00e+0 in b, 1.00e+0 in a. " +
      "Above a threshold of 1.00e+0 for all: 40.0% of the rows of b, 10.0% of the rows of a.",
  );
  expect(said(0, 4)).toMatch(/^b changed most:/);
});
