import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DType } from "../../kit/index.js";
import { BLOCK_ELEMENTS, blockElements, COPY_BLOCK_BYTES, countBytes, cutIntoPieces } from "./pieces.js";
import { type Evaluation, type Job, type LowRankTerm, requireFloat, type StoredTerm } from "./program.js";

const MIB = 2 ** 20;
const at = { file: 0, offset: 8, dtype: "BF16" } as const;

const copy = (bytes: number): Job => ({ kind: "copy", name: "copy", bytes, from: at, to: at });
const compareCopy = (bytes: number): Job => ({ kind: "compare-copy", name: "same", bytes, from: at, against: at });
const term = (dtype: StoredTerm["dtype"] = "BF16", lowRank?: LowRankTerm): StoredTerm => ({
  ...at,
  dtype,
  weight: 1,
  ...(lowRank ? { lowRank } : {}),
});
const lowRank = (rank: number, input: number, output: number): LowRankTerm => ({
  ...{ a: { ...at, dtype: "F32" }, b: { ...at, dtype: "F32" } },
  ...{ rank, input, output, scale: 1, transposed: false },
});
const values = (rows: number, columns: number, ...terms: StoredTerm[]): Evaluation => ({
  ...{ elements: rows * columns, columns, terms, divisor: 1 },
});
const write = (value: Evaluation, dtype: DType = "BF16"): Job => ({
  ...{ kind: "write", name: "write", value, to: { ...at, dtype } },
});

describe("cutIntoPieces", () => {
  it("cuts copies after 8 MiB and computations after 2 Mi elements", () => {
    expect(cutIntoPieces([copy(8 * MIB), copy(8 * MIB + 1), write(values(2 * MIB + 1, 1, term()))])).toEqual([
      { job: 0, begin: 0, end: 8 * MIB },
      { job: 1, begin: 0, end: 8 * MIB },
      { job: 1, begin: 8 * MIB, end: 8 * MIB + 1 },
      { job: 2, begin: 0, end: 2 * MIB },
      { job: 2, begin: 2 * MIB, end: 2 * MIB + 1 },
    ]);
  });

  it("has none for empty jobs", () => {
    expect(cutIntoPieces([])).toEqual([]);
    expect(cutIntoPieces([copy(0), copy(1), write(values(0, 8, term())), compareCopy(0)])).toEqual([
      { job: 1, begin: 0, end: 1 },
    ]);
  });

  it("cuts between rows where a low-rank product is added, even if a row is longer than a block", () => {
    const columns = 14_336;
    const job = write(values(1000, columns, term(), term("F32", lowRank(8, columns, 1000))));
    // 4 whole rows of 14,336 are a block, 36 such blocks a piece.
    expect(blockElements(job)).toBe(4 * columns);
    expect(cutIntoPieces([job]).map(({ begin }) => begin / columns)).toEqual([0, 144, 288, 432, 576, 720, 864]);
    const long = write(values(3, 3 * MIB, term("BF16", lowRank(1, 3 * MIB, 3))));
    expect(blockElements(long)).toBe(3 * MIB);
    expect(cutIntoPieces([long]).map(({ begin, end }) => [begin / MIB, end / MIB])).toEqual([
      [0, 3],
      [3, 6],
      [6, 9],
    ]);
  });

  it("respects the rows of both sides of a difference", () => {
    const [plain, product] = [values(70_000, 100, term()), values(70_000, 100, term("BF16", lowRank(2, 100, 70_000)))];
    for (const [value, minus] of [
      [plain, product],
      [product, plain],
    ] as const) {
      expect(blockElements({ kind: "delta", name: "d", value, minus })).toBe(65_500);
    }
    expect(blockElements({ kind: "delta", name: "d", value: plain, minus: plain })).toBe(BLOCK_ELEMENTS);
  });

  it("covers every byte and element once, in order, each piece a whole number of blocks but the last", () => {
    interface Case {
      readonly job: Job;
      readonly length: number;
      readonly largest: number;
      /** What the length of every piece but a job's last must be a multiple of. */
      readonly unit: number;
    }
    const copies = (make: (n: number) => Job) =>
      fc.integer({ min: 0, max: 40 * MIB }).map((n): Case => {
        return { job: make(n), length: n, largest: 8 * MIB, unit: COPY_BLOCK_BYTES };
      });
    const shape = fc.tuple(
      fc.integer({ min: 0, max: 300 }),
      fc.oneof(fc.integer({ min: 1, max: 50_000 }), fc.integer({ min: 60_000, max: 3 * MIB })),
    );
    const computed = (make: (value: Evaluation) => Job, product: boolean) =>
      shape.map(([rows, columns]): Case => {
        const value = values(rows, columns, term(), term("BF16", product ? lowRank(2, columns, rows) : undefined));
        const unit = product ? columns : BLOCK_ELEMENTS;
        return { job: make(value), length: rows * columns, largest: Math.max(2 * MIB, unit), unit };
      });
    const any = fc.oneof(
      copies(copy),
      copies(compareCopy),
      computed((value) => write(value), false),
      computed((value) => write(value), true),
      computed((value) => ({ kind: "compare", name: "c", value, against: at }), true),
      computed((value) => ({ kind: "delta", name: "d", value, minus: value }), true),
    );
    fc.assert(
      fc.property(fc.array(any, { maxLength: 6 }), (cases) => {
        const pieces = cutIntoPieces(cases.map(({ job }) => job));
        const lists = cases.map((_, index) => pieces.filter((piece) => piece.job === index));
        expect(lists.flat()).toEqual(pieces);
        cases.forEach(({ length, largest, unit }, index) => {
          let next = 0;
          const wrong = (lists[index] ?? []).filter(({ begin, end }) => {
            const follows = begin === next && end > begin;
            next = end;
            return !follows || end - begin > largest || (end < length && (end - begin) % unit !== 0);
          });
          expect(wrong).toEqual([]);
          expect(next).toBe(length);
        });
      }),
    );
  });
});

describe("countBytes", () => {
  it("counts what each kind of job reads and writes", () => {
    const blend = values(10, 10, term("BF16"), term("F32"), term("F64"));
    expect(countBytes([])).toEqual({ read: 0, written: 0 });
    expect(countBytes([copy(7)])).toEqual({ read: 7, written: 7 });
    expect(countBytes([compareCopy(7)])).toEqual({ read: 14, written: 0 });
    expect(countBytes([write(blend, "F32")])).toEqual({ read: 100 * (2 + 4 + 8), written: 400 });
    const compare: Job = { kind: "compare", name: "c", value: blend, against: at };
    expect(countBytes([compare])).toEqual({ read: 100 * (2 + 4 + 8) + 200, written: 0 });
    const delta: Job = { kind: "delta", name: "d", value: blend, minus: values(10, 10, term("F16")) };
    expect(countBytes([delta])).toEqual({ read: 100 * (2 + 4 + 8) + 200, written: 0 });
    expect(countBytes([copy(7), compareCopy(7), delta])).toEqual({ read: 7 + 14 + 1600, written: 7 });
  });

  it("counts the factors of a product once per job", () => {
    const value = values(30, 20, term("BF16", lowRank(3, 20, 30)));
    expect(countBytes([write(value)])).toEqual({ read: 600 * 2 + 3 * (20 + 30) * 4, written: 600 * 2 });
  });
});

describe("requireFloat", () => {
  it("accepts dtypes that support arithmetic", () => {
    expect(["F32", "F16", "BF16", "F64"].map((dtype) => requireFloat(dtype as StoredTerm["dtype"]))).toHaveLength(4);
    for (const dtype of ["I64", "BOOL", "F8_E4M3"] as const) {
      expect(() => requireFloat(dtype)).toThrow(`${dtype} does not support arithmetic`);
    }
  });
});
