// Tokenizers against Hugging Face `tokenizers` and `transformers`: see test/fixtures/tokenizers/make_tokenizers.py.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EXPECTED, fixture, NAMES, readFixture, TEXTS, tokenizerJson } from "../../test/support/tokenizer-fixtures.js";
import { CheckpointError } from "../kit/errors.js";
import { JsonTokenizer } from "./tokenizer.js";
import type { TokenizerJson } from "./tokenizer-json.js";
import type { TokenizerSettings } from "./tokenizer-settings.js";

describe.each(NAMES)("the %s tokenizer", (name) => {
  const tokenizer = fixture(name);
  const { around, ids, decoded, noise, size } = EXPECTED[name] as (typeof EXPECTED)[string];

  it("encodes as the reference", () => {
    for (const [i, text] of TEXTS.entries()) expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids[i]);
  });

  it("adds the special tokens of its post-processor when asked", () => {
    for (const [i, text] of TEXTS.entries()) {
      expect(tokenizer.encode(text, { specialTokens: true })).toEqual([...around[0], ...(ids[i] ?? []), ...around[1]]);
    }
  });

  it("decodes as the reference", () => {
    for (const [i, text] of TEXTS.entries()) expect(tokenizer.decode(ids[i] ?? [])).toBe(decoded[i] ?? text);
    for (const [some, whole, bare] of noise) {
      expect(tokenizer.decode(some)).toBe(whole);
      expect(tokenizer.decode(some, { skipSpecialTokens: true })).toBe(bare);
    }
  });

  it("maps ids to tokens and back", () => {
    expect(tokenizer.vocabularySize).toBe(size);
    for (let id = 0; id < size; id++) {
      const token = tokenizer.tokenOf(id);
      expect(token).toBeTypeOf("string");
      expect(tokenizer.idOf(token ?? "")).toBe(id);
    }
    expect(tokenizer.tokenOf(size)).toBeUndefined();
    expect(tokenizer.idOf("no such token")).toBeUndefined();
  });
});

describe("byte-level tokenizers", () => {
  const text = fc.string({ unit: "binary", maxLength: 40 });
  const scripts = fc.array(fc.constantFrom(...TEXTS), { maxLength: 6 }).map((texts) => texts.join(""));

  it.each(["llama3", "qwen"])("decode to the encoded text: %s", (name) => {
    const tokenizer = fixture(name);
    fc.assert(
      fc.property(fc.oneof(text, scripts), (some) => {
        const normal = name === "qwen" ? normalBetweenTokens(some) : some;
        expect(tokenizer.decode(tokenizer.encode(some))).toBe(normal);
      }),
      { numRuns: 200 },
    );
  });
});

/** NFC of what stands between added tokens, which are found first. */
function normalBetweenTokens(text: string): string {
  const tokens = /(<\|endoftext\|>|<\|im_start\|>|<\|im_end\|>|<\/?tool_call>)/;
  const parts = text.split(tokens);
  return parts.map((part) => (tokens.test(part) ? part : part.normalize("NFC"))).join("");
}

interface SettingsCase {
  of: string;
  settings: TokenizerSettings;
  text: string;
  size: number;
  special: (number | null)[];
  decoded: [ids: number[], whole: string, bare: string][];
}

describe("settings of tokenizer_config.json", () => {
  const cases = readFixture("parts").settings as SettingsCase[];

  it.each(cases)(
    "are taken as transformers takes them: $settings",
    ({ of, settings, text, size, special, decoded }) => {
      const tokenizer = new JsonTokenizer(tokenizerJson(of), settings);
      expect(tokenizer.encode(text)).toEqual(decoded[0]?.[0]);
      for (const [ids, whole, bare] of decoded) {
        expect(tokenizer.decode(ids)).toBe(whole);
        expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe(bare);
      }
      expect(tokenizer.vocabularySize).toBe(size);
      expect([tokenizer.bos, tokenizer.eos, tokenizer.pad]).toEqual(special.map((id) => id ?? undefined));
    },
  );
});

describe("a tokenizer made in memory", () => {
  const vocab = { "[PAD]": 0, "[BOS]": 1, "[EOS]": 2, "[UNK]": 3, two: 4, "+": 5, four: 6 };
  const words = {
    model: { type: "WordLevel", vocab, unk_token: "[UNK]" },
    pre_tokenizer: { type: "WhitespaceSplit" },
  };
  const names = { bos_token: "[BOS]", eos_token: { content: "[EOS]" }, pad_token: "[PAD]" };

  it("needs only a model", () => {
    const tokenizer = new JsonTokenizer(words, names);
    expect(tokenizer.encode("two + two[EOS] five")).toEqual([4, 5, 4, 2, 3]);
    expect(tokenizer.decode([1, 4, 5, 4, 2])).toBe("[BOS] two + two [EOS]");
    expect(tokenizer.decode([1, 4, 5, 4, 2], { skipSpecialTokens: true })).toBe("two + two");
    expect([tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.vocabularySize]).toEqual([1, 2, 0, 7]);
    expect(new JsonTokenizer(words).bos).toBeUndefined();
    expect(tokenizer.decode([])).toBe("");
  });

  it("refuses a text without tokens for it", () => {
    const tokenizer = new JsonTokenizer({ ...words, model: { type: "WordLevel", vocab: { two: 4 } } });
    expect(tokenizer.encode("two")).toEqual([4]);
    expect(() => tokenizer.encode("two five")).toThrow('has no token for "five" and no unknown token');
  });

  it("reads early versions, which do not name their model", () => {
    const { type: _, ...bare } = words.model;
    expect(new JsonTokenizer({ ...words, model: bare }).encode("four")).toEqual([6]);
    const bpe = tokenizerJson("llama3");
    const { type: __, ...model } = bpe.model as Record<string, unknown>;
    const merges = (model.merges as [string, string][]).map((pair) => pair.join(" "));
    const [text, ids] = [TEXTS[11] ?? "", EXPECTED.llama3?.ids[11]];
    expect(new JsonTokenizer({ ...bpe, model: { ...model, merges } }).encode(text)).toEqual(ids);
    const { type: ___, ...unigram } = tokenizerJson("unigram").model as Record<string, unknown>;
    expect(new JsonTokenizer({ ...tokenizerJson("unigram"), model: unigram }).encode(text)).toEqual(
      EXPECTED.unigram?.ids[11],
    );
  });

  it.each<[string, TokenizerJson, RegExp]>([
    ["no model", {}, /no model/],
    ["an unknown model", { model: { type: "Neural", vocab: {} } }, /its model is "Neural"; supported are BPE, Unigram/],
    ["no vocabulary", { model: { type: "BPE", merges: [] } }, /vocabulary is not an object/],
    ["ids that are none", { model: { type: "WordLevel", vocab: { a: -1 } } }, /"a" has the id -1/],
    ["ids without bound", { model: { type: "WordLevel", vocab: { a: 4e9 } } }, /has the id 4000000000/],
    ["merges that are none", { model: { type: "BPE", vocab: { a: 0 }, merges: [["a"]] } }, /merge 0 is not a pair/],
    ["mixed merges", { model: { type: "BPE", vocab: { a: 0 }, merges: [["a", "a"], "a a"] } }, /merge 1 is not/],
    ["a list that is none", { model: { type: "Unigram", vocab: { a: 0 } } }, /must be a list/],
    ["scores that are none", { model: { type: "Unigram", vocab: [["a", "b"]] } }, /entry 0 .* not \[token, score\]/],
    ["an unknown token that is none", { model: { type: "Unigram", unk_id: 4, vocab: [["a", 0]] } }, /unknown token, 4/],
    ["added tokens without content", { ...words, added_tokens: [{ id: 3 }] }, /added token 0 has no content/],
    ["added tokens without id", { ...words, added_tokens: [{ content: "x" }] }, /"x" has the id undefined/],
    ["a part without type", { ...words, decoder: { suffix: "" } }, /decoder is not an object with a type/],
    ["an unknown normalizer", { ...words, normalizer: { type: "Nmt" } }, /its normalizer Nmt is not supported/],
    [
      "an unknown split",
      { ...words, pre_tokenizer: { type: "UnicodeScripts" } },
      /pre-tokenizer UnicodeScripts is not/,
    ],
    ["an unknown decoder", { ...words, decoder: { type: "CTC" } }, /its decoder CTC is not supported/],
    ["an unknown post-processor", { ...words, post_processor: { type: "X" } }, /post-processor X is not supported/],
    [
      "a split by no pattern",
      { ...words, pre_tokenizer: { type: "Split", pattern: {}, behavior: "Removed" } },
      /neither/,
    ],
    [
      "a pattern that is none",
      { ...words, pre_tokenizer: { type: "Split", pattern: { Regex: "(" }, behavior: "Removed" } },
      /its expression \( has a parenthesis that does not close/,
    ],
    [
      "a template that adds no token",
      {
        ...words,
        post_processor: { type: "TemplateProcessing", single: [{ SpecialToken: { id: "<s>" } }, { Sequence: {} }] },
      },
      /adds <s>, which is not a token/,
    ],
    [
      "a template without the text",
      { ...words, post_processor: { type: "TemplateProcessing", single: [] } },
      /text once/,
    ],
    [
      "a decoder that splits again",
      { ...words, decoder: { type: "Sequence", decoders: [{ type: "Fuse" }, { type: "ByteLevel" }] } },
      /decoder ByteLevel after the tokens are joined/,
    ],
    [
      "merges at random",
      { model: { type: "BPE", vocab: { a: 0 }, merges: [], dropout: 0.1 } },
      /drops merges at random \(dropout 0\.1\)\. Set dropout to null/,
    ],
    [
      "merges of other tokens",
      { model: { type: "BPE", vocab: { a: 0 }, merges: ["a b"] } },
      /merge 0, "a b", has tokens that are not in its vocabulary/,
    ],
    [
      "added tokens with another id than their place",
      { ...words, added_tokens: [{ id: 9, content: "<x>" }] },
      /"<x>" has the id 9, but its place in the vocabulary is 7/,
    ],
    [
      "a first piece that has a character before it",
      {
        ...words,
        pre_tokenizer: {
          type: "Sequence",
          pretokenizers: [
            { type: "ByteLevel", add_prefix_space: true },
            { type: "Metaspace", prepend_scheme: "first" },
          ],
        },
      },
      /a Metaspace of the first piece after a part that puts a character before it is not supported/,
    ],
    [
      "two post-processors that add tokens",
      {
        ...words,
        post_processor: {
          type: "Sequence",
          processors: [
            { type: "RobertaProcessing", cls: ["[BOS]", 1], sep: ["[EOS]", 2] },
            { type: "BertProcessing", cls: ["[BOS]", 1], sep: ["[EOS]", 2] },
          ],
        },
      },
      /two post-processors that add tokens are not supported/,
    ],
  ])("refuses %s", (_, json, message) => {
    expect(() => new JsonTokenizer(json)).toThrow(CheckpointError);
    expect(() => new JsonTokenizer(json)).toThrow(message);
  });

  const model = { type: "BPE", vocab: { a: 0, "▁": 1 }, merges: [] };
  const bpe = (fields: object) => ({ model: { ...model, ...fields } });
  const split = (type: string, fields: object) => ({ ...bpe({}), pre_tokenizer: { type, ...fields } });
  const normalizer = (type: string, fields: object) => ({ ...bpe({}), normalizer: { type, ...fields } });
  const token = { id: 2, content: "<x>", special: true };

  // `tokenizers` 0.23 refuses each of these.
  it.each<[TokenizerJson, RegExp]>([
    [bpe({ dropout: "x" }), /dropout "x"/],
    [bpe({ dropout: true }), /dropout true/],
    [bpe({ dropout: -1 }), /dropout -1/],
    [bpe({ byte_fallback: "yes" }), /byte_fallback of BPE is neither true nor false/],
    [bpe({ fuse_unk: 1 }), /fuse_unk of BPE/],
    [bpe({ ignore_merges: "true" }), /ignore_merges of BPE/],
    [split("Split", { pattern: { String: "a" }, behavior: "Isolated", invert: "x" }), /invert of Split/],
    [split("Digits", { individual_digits: 1 }), /individual_digits of Digits/],
    [split("ByteLevel", { add_prefix_space: "x" }), /add_prefix_space of ByteLevel/],
    [split("ByteLevel", { use_regex: 0 }), /use_regex of ByteLevel/],
    [split("CharDelimiterSplit", { delimiter: "ab" }), /delimiter of CharDelimiterSplit is not one character/],
    [split("Metaspace", { add_prefix_space: "x" }), /add_prefix_space of Metaspace/],
    [split("Metaspace", { split: "no" }), /split of Metaspace/],
    [split("Metaspace", { replacement: "__" }), /replacement of Metaspace is not one character/],
    [
      split("Metaspace", { prepend_scheme: "sometimes" }),
      /prepend_scheme of Metaspace is "sometimes".* always, first, n/,
    ],
    [{ ...bpe({}), decoder: { type: "Metaspace", replacement: "__" } }, /replacement of Metaspace/],
    [normalizer("Strip", { strip_left: "x", strip_right: true }), /strip_left of Strip/],
    [normalizer("BertNormalizer", { clean_text: 1 }), /clean_text of BertNormalizer/],
    [normalizer("BertNormalizer", { strip_accents: "no" }), /strip_accents of BertNormalizer/],
    [{ ...bpe({}), added_tokens: [{ ...token, special: "yes" }] }, /special of "<x>" is neither true nor false/],
    [{ ...bpe({}), added_tokens: [{ ...token, lstrip: 1 }] }, /lstrip of "<x>"/],
    [
      { ...bpe({}), post_processor: { type: "TemplateProcessing", single: [{ Foo: { id: "A" } }] } },
      /has a part that is neither a token nor the text/,
    ],
  ])("refuses a field of another type: %j", (json, message) => {
    expect(() => new JsonTokenizer(json)).toThrow(CheckpointError);
    expect(() => new JsonTokenizer(json)).toThrow(message);
  });
});
