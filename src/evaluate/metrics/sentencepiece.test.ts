// Pieces against sentencepiece's own, of a unigram and of a byte-pair model; files that are no models.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { LayergraftError } from "../../core/errors.js";
import { loadPieces, piecesOf } from "./sentencepiece.js";

const FIXTURES = new URL("../../../test/fixtures/evaluation/sentencepiece/", import.meta.url);
const expected = JSON.parse(readFileSync(new URL("pieces.json", FIXTURES), "utf8")) as {
  texts: string[];
  models: Record<"unigram" | "bpe", string[][]>;
};
const folder = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["unigram", "bpe"] as const)("a %s model", (kind) => {
  const bytes = readFileSync(new URL(`${kind}.model`, FIXTURES));

  it("cuts lines as sentencepiece does", () => {
    const pieces = piecesOf(bytes);
    for (const [i, text] of expected.texts.entries()) {
      expect(pieces(text), JSON.stringify(text)).toEqual(expected.models[kind][i]);
    }
  });

  it("keeps every character that is not white space", () => {
    const pieces = piecesOf(bytes);
    const ascii = fc.string({ unit: "grapheme-ascii", maxLength: 40 });
    fc.assert(
      fc.property(ascii, (text) => {
        expect(pieces(text).join("").replaceAll("\u2581", "")).toBe(text.replaceAll(" ", ""));
      }),
      { numRuns: 200, seed: 2 },
    );
  });

  it("refuses a file that ends early, wherever that is, or reads what is whole in it", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: bytes.length - 1 }), (length) => {
        try {
          piecesOf(bytes.subarray(0, length))("a b");
        } catch (error) {
          expect(error).toBeInstanceOf(LayergraftError);
          expect((error as Error).message).toMatch(/not a SentencePiece model that can be read/);
        }
      }),
      { numRuns: 100, seed: 3 },
    );
    expect(() => piecesOf(bytes.subarray(0, 1000))).toThrow(/holds no vocabulary|end early/);
  });
});

it("refuses what is no model", async () => {
  const file = join(folder, "tokenizer.json");
  writeFileSync(file, '{"model": {"type": "BPE"}}');
  await expect(loadPieces(file)).rejects.toThrow(/tokenizer\.json is not a SentencePiece model.*pass the \.model file/);
  if (existsSync("/dev/zero")) await expect(loadPieces("/dev/zero")).rejects.toThrow(/has more than 100 MB/);
  await expect(loadPieces(join(folder, "none.model"))).rejects.toThrow(/none\.model does not exist/);
});
