import { describe, expect, it } from "vitest";
import { comparedChanges, whereChanged } from "./compared-changes.js";

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

describe("where experts changed", () => {
  /** Changed rows by layer, one matrix a layer. */
  const data = (...experts: number[][]) => ({
    steps: [0, 1],
    marks: [{ name: "auto", steps: experts.map(() => 1) }],
    cells: experts.map((layers) => layers.map((above) => [{ rows: 100, above: [100, above], mean: 0.1 }])),
  });
  const ranges = (layers: readonly number[]) => layers.join(" ");

  it("is the fewest layers with four fifths of the changed rows", () => {
    // 40 + 30 + 20 of 100 rows; then all but 4 of 100.
    expect(whereChanged(data([40, 10, 30, 20], [0, 96, 4, 0]), ["swahili", "math"], ranges)).toBe(
      "swahili changed layers 0 2 3 (90% of its changed rows), math layer 1 (96%). " +
        // 10 of layer 1 and 4 of layer 2.
        "14% of their changes are in the same layers, so a swap can keep what both changed.",
    );
  });

  it("says where a swap loses what one changed", () => {
    expect(whereChanged(data([50, 50], [50, 50]), ["a", "b"], ranges)).toMatch(
      /100% of their changes are in the same layers, so a swap loses much of what one changed/,
    );
    expect(whereChanged(data([90, 0], [0, 70]), ["a", "b"], ranges)).toContain("None of their changes are");
    expect(whereChanged(data([70, 30], [30, 70]), ["a", "b"], ranges)).toContain("60% of their changes");
    expect(whereChanged(data([90, 30], [0, 70]), ["a", "b"], ranges)).toMatch(/25% .* keeps most of what both changed/);
  });

  it("leaves out experts that changed nothing, and compares no more than two", () => {
    expect(whereChanged(data([0, 0]), ["a"], ranges)).toBe("");
    expect(whereChanged(data([0, 0], [1, 0]), ["a", "b"], ranges)).toBe(
      "b changed layer 0 (100% of its changed rows).",
    );
    const five = whereChanged(data([1, 0], [1, 0], [0, 1], [0, 1], [1, 0]), ["a", "b", "c", "d", "e"], ranges);
    expect(five).toBe(
      "a changed layer 0 (100% of its changed rows), b layer 0 (100%), c layer 1 (100%), d layer 1 (100%), and 1 more.",
    );
  });
});
