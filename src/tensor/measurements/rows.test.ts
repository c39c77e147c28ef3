// The threshold that keeps a share of the changes, against rows sorted one by one.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import type { AnalyzedPiece } from "../streaming/row-statistics.js";
import type { Binding } from "./measurement.js";
import { measureRowCut } from "./rows.js";

interface Rows {
  readonly width: number;
  /** Mean absolute change of each row. */
  readonly changes: readonly number[];
}

function cutOf(all: readonly Rows[], share: number): number {
  const elements = all.map(({ width, changes }) => width * changes.length);
  const binding: Binding = {
    evaluation: (value) => {
      const { width } = all[Number((value as { tensor: string }).tensor)] as Rows;
      const own = elements[Number((value as { tensor: string }).tensor)] as number;
      return { terms: [], divisor: 1, elements: own, columns: width };
    },
    tensor: () => ({}) as CheckpointTensor,
    numbers: () => [],
  };
  const tensors = all.map(({ width, changes }, i) => {
    const value = { source: "a", tensor: `${i}` };
    return { tensor: `${i}`, shape: [changes.length, width], value, base: value };
  });
  const steps = measureRowCut({ kind: "row-cut", id: "cut", label: "cut", axis: "output", share, tensors }, binding);
  steps.next([]);
  const totals = all.map(({ width, changes }): AnalyzedPiece => {
    const rows = Float64Array.from(changes, (change) => change * width);
    return { experts: [{ rows }], pairs: [] } as unknown as AnalyzedPiece;
  });
  return ((steps.next(totals).value as readonly number[])[0] as number) ?? Number.NaN;
}

test("is the change of the smallest row that stays", () => {
  const change = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(Number.NaN));
  const rows = fc.record({
    width: fc.constantFrom(1, 2, 5),
    changes: fc.array(change, { minLength: 1, maxLength: 8 }),
  });
  fc.assert(
    fc.property(
      fc.array(rows, { minLength: 1, maxLength: 6 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (all, share) => {
        const sorted = all
          .flatMap(({ width, changes }) =>
            changes.map((one) => ({ width, change: Number.isNaN(one) ? Infinity : one })),
          )
          .sort((a, b) => b.change - a.change);
        const wanted = Math.round(share * sorted.reduce((sum, { width }) => sum + width, 0));
        let [kept, cut] = [0, Number.POSITIVE_INFINITY];
        for (const row of sorted) {
          if (kept >= wanted) break;
          kept += row.width;
          cut = row.change;
        }
        expect(cutOf(all, share)).toBe(cut);
      },
    ),
  );
});
