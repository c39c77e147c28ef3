// Encode jobs that write some rows of a value, in another order, or as -exp of themselves, against plain loops.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import type { EncodeJob } from "./program.js";
import { runProgram } from "./run-program.js";

const folder = temporaryFolder();
const extent = fc.integer({ min: 1, max: 5 });
const oneCase = fc.record({
  groups: extent,
  rows: extent,
  some: extent,
  cell: extent,
  every: extent,
  seed: fc.nat(999),
});

test("cells are written column by column, those of some columns, of some rows", async () => {
  const [from, to] = [join(folder, "from"), join(folder, "to")];
  const values = Float32Array.from({ length: 7 * 5 ** 4 }, (_, i) => Math.sin(i * i));
  writeFileSync(from, values);
  // Each run is flushed to the disk, so that few runs have many jobs.
  await fc.assert(
    fc.asyncProperty(fc.array(oneCase, { minLength: 50, maxLength: 50 }), async (cases) => {
      const wanted: number[] = [];
      const jobs = cases.map(({ groups, rows, some, cell, every, seed }): EncodeJob => {
        const [columns, first] = [some * every, seed % every];
        const unit = rows * columns * cell;
        const offset = wanted.length * 4;
        // The first group is left out, and the last.
        for (let group = 1; group <= groups; group++) {
          for (let column = first; column < columns; column += every) {
            for (let row = 0; row < rows; row++) {
              for (let i = 0; i < cell; i++) {
                const value = values[group * unit + (row * columns + column) * cell + i] as number;
                wanted.push(Math.fround(-Math.exp(value)));
              }
            }
          }
        }
        const terms = [{ file: 0, offset: 0, dtype: "F32" as const, weight: 1 }];
        return {
          kind: "encode",
          name: "t",
          value: { terms, divisor: 1, elements: (groups + 2) * unit, columns: columns * cell },
          to: { file: 0, offset },
          encoding: "F32",
          negativeExp: true,
          within: { begin: unit, end: (groups + 1) * unit },
          turn: { rows, columns, cell, every, first },
        };
      });
      writeFileSync(to, Buffer.alloc(wanted.length * 4 + 4));
      const inputs = [{ path: from, bytes: values.byteLength }];
      await runProgram({ inputs, outputs: [to], jobs }, { phase: "writing", threads: 1 });
      expect([...new Float32Array(Uint8Array.from(readFileSync(to)).buffer)]).toEqual([...wanted, 0]);
    }),
    { numRuns: 3 },
  );
});
