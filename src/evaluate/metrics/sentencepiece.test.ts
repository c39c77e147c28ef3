// Pieces against sentencepiece's own, of a unigram model; files that are no models.
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
  models: { unigram: string[][] };
};
const folder = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a unigram model", () => {
  const bytes = readFileSync(new URL("unigram.model", FIXTURES));

  it("cuts lines as sentencepiece does", () => {
    const pieces = piecesOf(bytes);
    for (const [i, text] of expected.texts.entries()) {
      if (text.includes("<sep>")) continue; // the fixture's user-defined symbol, which the models of FLORES do not have
      expect(pieces(text), JSON.stringify(text)).toEqual(expected.models.unigram[i]);
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

it("refuses a byte-pair model, which spBLEU does not have", () => {
  expect(() => piecesOf(readFileSync(new URL("bpe.model", FIXTURES)))).toThrow(/it is not a unigram model/);
});

it("refuses what is no model", async () => {
  const file = join(folder, "tokenizer.json");
  writeFileSync(file, '{"model": {"type": "BPE"}}');
  await expect(loadPieces(file)).rejects.toThrow(/tokenizer\.json is not a SentencePiece model.*pass the \.model file/);
  if (existsSync("/dev/zero")) await expect(loadPieces("/dev/zero")).rejects.toThrow(/has more than 100 MB/);
  await expect(loadPieces(join(folder, "none.model"))).rejects.toThrow(/none\.model does not exist/);
});
