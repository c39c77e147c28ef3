// The length of rows in a pass where sets have weights, and so repeat.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { toyTokenizer } from "../../test/support/toy-tokenizer.js";
import { measureData } from "./measure-data.js";
import { checkRun } from "./run/run-file.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-data-"));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, rows: number, characters: number) =>
  writeFileSync(join(folder, name), `${JSON.stringify({ text: "a".repeat(characters) })}\n`.repeat(rows));
write("short.jsonl", 100, 10);
write("long.jsonl", 10, 50);

const measure = (data: object) =>
  measureData(checkRun({ base: "b", out: "o", data: { ...data, eos: false }, sequence_length: 64, packing: true }), {
    tokenizer: toyTokenizer([], false),
    sequenceLength: 64,
    folder,
  });

it("has the mean of a pass: of all rows, and with weights of as many as each set gives", async () => {
  const sets = [{ source: "short.jsonl" }, { source: "long.jsonl" }];
  expect(await measure({ sets })).toMatchObject({ rows: 110, tokensPerRow: (100 * 10 + 10 * 50) / 110 });
  const [short, long] = sets;
  const weighted = {
    sets: [
      { ...short, weight: 1 },
      { ...long, weight: 1 },
    ],
    repeat: true,
  };
  // 100 rows of each: six short ones fill a sequence, or a long one and a short one.
  expect(await measure(weighted)).toMatchObject({ rows: 200, tokensPerRow: 30 });
});
