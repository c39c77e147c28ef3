// Splits, normal forms and decoders, part by part, against Hugging Face `tokenizers`.
import { describe, expect, it } from "vitest";
import { readFixture } from "./fixtures.test-util.js";
import { readNormalizer } from "./normalizers.js";
import { readPreTokenizer } from "./pre-tokenizers.js";
import { replaceText, stripText } from "./text-stages.js";
import { planDecoder } from "./token-decoder.js";
import { JsonTokenizer } from "./tokenizer.js";
import type { Part } from "./tokenizer-json.js";

interface Cases {
  odd: string[];
  decoders: [name: string, part: Part | null, cases: [ids: number[], text: string][]][];
  texts: string[];
  splits: [part: Part, pieces: string[][]][];
  normalTexts: string[];
  normal: [part: Part, texts: string[]][];
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
  unicode: { texts: string[]; normal: [type: string, texts: string[]][]; punctuation: string[][] };
}

const constructs = readFixture("constructs") as unknown as Constructs;
const piecesOf = (part: Part, text: string) => readPreTokenizer(part)({ text, isFirst: true }).map((one) => one.text);

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
    const given = (part: Part, tokens: string[], cleanUp = false) => {
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
