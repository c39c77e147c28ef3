// Codes read in parts and in any order of rows, against one element at a time. Whole files: test/quantised.test.ts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { codeValues } from "../../kernels/index.js";
import { Evaluator } from "./evaluate-block.js";
import { InputFiles } from "./files.js";
import { type Evaluation, type Program, partOf } from "./program.js";

const folder = temporaryFolder();
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6];

it("values of codes are those of the formats", () => {
  expect([...codeValues("FP4")]).toEqual(E2M1);
  expect([...codeValues("INT8")].slice(126, 130)).toEqual([126, 127, -128, -127]);
  const eight = codeValues("FP8");
  // The largest, the smallest normal and the smallest number, and one (OCP 8-bit floating point, table 1).
  expect([0x7e, 0x08, 0x01, 0x38, 0xb8].map((code) => eight[code])).toEqual([448, 2 ** -6, 2 ** -9, 1, -1]);
  expect([0x7f, 0xff].map((code) => eight[code])).toEqual([Number.NaN, Number.NaN]);
});

it("any part of matrices of 4-bit codes, row by row or column by column", () => {
  const shapes = fc.record({
    matrices: fc.integer({ min: 1, max: 4 }),
    height: fc.integer({ min: 1, max: 3 }),
    columns: fc.integer({ min: 1, max: 9 }).map((half) => 2 * half),
    across: fc.boolean(),
    seed: fc.integer(),
  });
  let files = 0;
  fc.assert(
    fc.property(shapes, ({ matrices, height, columns, across, seed }) => {
      const rows = 32 * height;
      const path = join(folder, `${files++}`);
      const codes = matrices * rows * columns;
      const scales = (matrices * rows * columns) / 32;
      const bytes = Uint8Array.from({ length: codes / 2 }, (_, i) => Math.imul(i + 1, seed | 1) >>> 11);
      const powers = Uint8Array.from({ length: across ? scales : 1 }, (_, i) => 120 + ((i * 7 + seed) & 15));
      writeFileSync(path, Buffer.concat([bytes, powers]));
      const coded = {
        ...{ rows, columns, lines: across ? columns : 1, byColumn: across, zero: 0 },
        block: across ? ([32, 1] as const) : ([rows * matrices, columns] as const),
        scales: { file: 0, offset: codes / 2, dtype: "F8_E8M0" as const },
      };
      const tall = across ? coded : { ...coded, rows: rows * matrices };
      const term = { file: 0, offset: 0, dtype: "FP4" as const, weight: 1, coded: tall };
      const whole: Evaluation = { terms: [term], divisor: 1, elements: codes, columns };
      const wanted = (element: number) => {
        const [row, column] = [Math.floor(element / columns), element % columns];
        const [matrix, within] = [Math.floor(row / rows), row % rows];
        const place = across ? (matrix * columns + column) * rows + within : element;
        const scale = across ? (matrix * columns + column) * height + Math.floor(within / 32) : 0;
        const code = ((bytes[place >> 1] as number) >> (4 * (place & 1))) & 15;
        return Math.fround((E2M1[code] as number) * 2 ** ((powers[scale] as number) - 127));
      };
      for (let index = 0; index < matrices; index++) {
        const value = partOf(whole, index, matrices);
        const inputs = [{ path, bytes: bytes.length + powers.length }];
        const program: Program = { inputs, outputs: [], jobs: [{ kind: "delta", name: "w", value }] };
        const open = new InputFiles(inputs, { read: 0, written: 0 });
        const evaluator = new Evaluator(program, open);
        // The last rows first.
        for (const begin of [value.elements - columns, 0]) {
          const at = evaluator.sum(value, begin, value.elements);
          const found = [...evaluator.kernels.floats(at, value.elements - begin)];
          expect(found).toEqual(found.map((_, i) => wanted(index * value.elements + begin + i)));
        }
        open.close();
      }
    }),
    { numRuns: 40 },
  );
});
