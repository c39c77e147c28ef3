// Splits, normal forms and decoders, part by part, against Hugging Face `tokenizers`.
import { describe, expect, it } from "vitest";
import { readFixture } from "../../test/support/tokenizer-fixtures.js";
import { readNormalizer } from "./normalizers.js";
import { readPreTokenizer } from "./pre-tokenizers.js";
import { replaceText, stripText } from "./text-stages.js";
import { planDecoder } from "./token-decoder.js";
import { JsonTokenizer } from "./tokenizer.js";
import type { TokenizerPart } from "./tokenizer-json.js";

interface Cases {
  odd: string[];
  decoders: [name: string, part: TokenizerPart | null, cases: [ids: number[], text: string][]][];
  texts: string[];
  splits: [part: TokenizerPart, pieces: string[][]][];
  normalTexts: string[];
  normal: [part: TokenizerPart, texts: string[]][];
}

const cases = readFixture("parts") as unknown as Cases;

describe("splits", () => {
  it.each(cases.splits)("%j", (part, pieces) => {
    const split = readPreTokenizer(part);
    const texts = cases.texts.map((text) => split({ text, isFirst: true }).map((piece) => piece.text));
    expect(texts).toEqual(pieces);
  });
});

interface Constructs {
  texts: string[];
  splits: [pattern: string, behavior: string, invert: boolean, pieces: string[][]][];
  refused: string[];
  vocab: string[];
  words: string[];
  tokenizers: [name: string, changes: { model: object }, ids: (number[] | null)[]][];
  precompiled: { table: string; cases: [text: string, normal: string][] };
  unicode: { texts: string[]; normal: [type: string, texts: string[]][]; punctuation: string[][] };
}

const constructs = readFixture("constructs") as unknown as Constructs;
const piecesOf = (part: TokenizerPart, text: string) =>
  readPreTokenizer(part)({ text, isFirst: true }).map((one) => one.text);

describe("regular expressions", () => {
  it.each(constructs.splits)("%s, %s, inverted %s", (pattern, behavior, invert, pieces) => {
    const part = { type: "Split", pattern: { Regex: pattern }, behavior, invert };
    expect(constructs.texts.map((text) => piecesOf(part, text))).toEqual(pieces);
  });

  it.each(constructs.refused)("%s is refused", (pattern) => {
    const part = { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated" };
    const refused = /^the tokenizer cannot be used: its expression .* has .*, which is not supported$/;
    expect(() => readPreTokenizer(part)).toThrow(refused);
  });
});

describe("tokenizers", () => {
  it.each(constructs.tokenizers)("with %s", (_, changes, ids) => {
    const vocab = Object.fromEntries(constructs.vocab.map((token, id) => [token, id]));
    const merges = "continuing_subword_prefix" in changes.model ? [] : MERGES;
    const model = { type: "BPE", unk_token: "<u>", vocab, merges, ...changes.model };
    const tokenizer = new JsonTokenizer({ ...changes, model });
    for (const [i, expected] of ids.entries()) {
      if (expected) expect(tokenizer.encode(constructs.words[i] ?? "", { specialTokens: true })).toEqual(expected);
    }
  });
});

const MERGES = ["a b", "▁ a", "a ab", "b  "].map((merge) => [
  merge.slice(0, merge.indexOf(" ")),
  merge.slice(merge.indexOf(" ") + 1),
]);

describe("characters that the reference does not know", () => {
  const { texts, normal, punctuation } = constructs.unicode;

  it.each(normal)("stay as they are: %s", (type, expected) => {
    expect(texts.map(readNormalizer({ type }))).toEqual(expected);
  });

  it("are no punctuation", () => {
    const part = { type: "Punctuation", behavior: "Isolated" };
    expect(texts.map((text) => piecesOf(part, text))).toEqual(punctuation);
  });
});

describe("the table of a SentencePiece model", () => {
  const { table, cases } = constructs.precompiled;
  const read = (precompiled_charsmap: string) => readNormalizer({ type: "Precompiled", precompiled_charsmap });

  it("replaces what it has, and nothing else", () => {
    for (const [text, normal] of cases) expect(read(table)(text)).toBe(normal);
    // 256 empty places.
    const empty = Buffer.alloc(4 + 1024 + 1);
    empty.writeUInt32LE(1024);
    expect(read(empty.toString("base64"))("ﬁ")).toBe("ﬁ");
  });

  it("is refused if it is damaged, or lengthens a text without bound", () => {
    for (const damaged of ["", "AAA=", Buffer.from([9, 0, 0, 0, 1]).toString("base64")]) {
      expect(() => read(damaged)).toThrow("its Precompiled table is damaged");
    }
    const long = Buffer.from(table, "base64");
    // The replacements follow the places; without their ends, they are one long text.
    const size = 4 + long.readUInt32LE();
    const endless = Buffer.concat([long.subarray(0, size), Buffer.alloc(200, "a")]).toString("base64");
    expect(() => read(endless)("ª")).toThrow("its Precompiled table replaces a text by more than 100 bytes");
  });
});

describe("normal forms", () => {
  it.each(cases.normal)("%j", (part, texts) => {
    expect(cases.normalTexts.map(readNormalizer(part))).toEqual(texts);
  });
});

describe("decoders", () => {
  it.each(cases.decoders)("%s", (_, part, lists) => {
    const open = planDecoder(part ?? undefined, false);
    for (const [ids, text] of lists) {
      const decoder = open();
      const pieces = ids.map((id) => decoder.push(cases.odd[id] ?? ""));
      expect(pieces.join("") + decoder.end()).toBe(text);
    }
  });

  it("returns text as soon as it is final", () => {
    const given = (part: TokenizerPart, tokens: string[], cleanUp = false) => {
      const decoder = planDecoder(part, cleanUp)();
      return [...tokens.map((token) => decoder.push(token)), decoder.end()];
    };
    // A blank before a full stop goes; one before a word stays.
    expect(given({ type: "Fuse" }, ["a", " ", "b ", ".", " n", "o"], true)).toEqual([
      "a",
      "",
      " b",
      ".",
      "",
      " no",
      "",
    ]);
    const bytes = ["<0xE0>", "<0xB8>", "<0x81>", "x", "<0xE0>"];
    expect(given({ type: "ByteFallback" }, bytes)).toEqual(["", "", "", "กx", "", "�"]);
    expect(given({ type: "ByteLevel" }, ["à¸", "ģ", "a", "à¸"])).toEqual(["", "ก", "a", "", "�"]);
    // A mark of byte order is text.
    expect(given({ type: "ByteFallback" }, ["<0xEF>", "<0xBB>", "<0xBF>"]).join("")).toBe("\ufeff");
  });
});

describe("stages of text", () => {
  it("replace and strip across pieces", () => {
    const whole = "  a .. b  . ' c'  ";
    for (let first = 0; first <= whole.length; first++) {
      for (let second = first; second <= whole.length; second++) {
        const pieces = [whole.slice(0, first), whole.slice(first, second), whole.slice(second)];
        const through = (stage: ReturnType<typeof replaceText>) =>
          pieces.map((piece) => stage.push(piece)).join("") + stage.end();
        expect(through(replaceText(" .", "."))).toBe(whole.replaceAll(" .", "."));
        expect(through(replaceText("..", "!"))).toBe(whole.replaceAll("..", "!"));
        expect(through(stripText(" ", 1, 1))).toBe(whole.slice(1, -1));
        expect(through(stripText(" ", 3, 9))).toBe(whole.trim());
      }
    }
  });
});
