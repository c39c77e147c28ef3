// What llama.cpp gets of the tokenizers of test/fixtures/tokenizers. That it makes the same tokens of them is checked by
// hand (test/reference/check_gguf_tokenizers.js).

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { loadSourceTokenizerParts } from "../../engine/index.js";
import { findPreTokenizer } from "../../formats/gguf/index.js";
import type { JsonObject } from "../../kit/index.js";
import type { TokenizerParts } from "../../text/index.js";
import { modelName, tokenizerMetadata } from "./tokenizer-metadata.js";

const FIXTURES = join(import.meta.dirname, "../../../test/fixtures/tokenizers");
const fixture = (name: string) => JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), "utf8")) as JsonObject;

function jsonOf(name: string): JsonObject {
  const json = fixture(name);
  return typeof json.model === "string" ? { ...json, model: fixture(json.model).model } : json;
}

async function partsOf(json: JsonObject, settings: JsonObject = {}): Promise<TokenizerParts> {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(settings));
  return loadSourceTokenizerParts({ textFolders: [folder], addedTokens: [] });
}

async function describeTokenizer(json: JsonObject, size = 400, settings: JsonObject = {}) {
  const { metadata, notes } = tokenizerMetadata(await partsOf(json, settings), size, "model");
  const get = (key: string) => metadata.get(`tokenizer.ggml.${key}`)?.value;
  const tokens = get("tokens") as string[];
  const types = get("token_type") as number[];
  const typeOf = (token: string) => types[tokens.indexOf(token)];
  return { get, tokens, types, typeOf, notes };
}

describe("end tokens", () => {
  it("beside that of a text are the ends of a turn and of a message", async () => {
    const parts = await partsOf(jsonOf("llama3"), { eos_token: "<|end_of_text|>" });
    const of = (ids: number[]) => {
      const { metadata, notes } = tokenizerMetadata(parts, 400, "model", ids);
      const ends = ["eos", "eot", "eom"].map((name) => metadata.get(`tokenizer.ggml.${name}_token_id`)?.value);
      return [...ends, notes];
    };
    expect(of([361])).toEqual([361, undefined, undefined, []]);
    expect(of([361, 362])).toEqual([361, 362, undefined, []]);
    expect(of([362, 361, 363, 9999, -1])).toEqual([361, 362, 363, []]);
    expect(of([361, 362, 363, 364])).toEqual([
      ...[361, 362, 363],
      ["llama.cpp ends answers at three tokens, this model at 4"],
    ]);
  });
});

describe("byte-level BPE", () => {
  it.each([
    ["llama3", "llama-bpe", true],
    ["qwen", "qwen2", false],
  ])("of %s is %s", async (name, pre, addsBos) => {
    const json = jsonOf(name);
    const { get, tokens, types, typeOf } = await describeTokenizer(json);
    expect([get("model"), get("pre"), get("add_bos_token")]).toEqual(["gpt2", pre, addsBos]);
    const { vocab, merges } = json.model as { vocab: Record<string, number>; merges: (string | string[])[] };
    for (const [token, id] of Object.entries(vocab)) expect(tokens[id]).toBe(token);
    expect(get("merges")).toEqual(merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))));
    const added = json.added_tokens as { id: number; content: string; special: boolean }[];
    for (const { id, content, special } of added) {
      expect(tokens[id]).toBe(content);
      expect(typeOf(content)).toBe(special || content.startsWith("<|") ? 3 : 4);
    }
    expect([tokens.length, tokens[399], types[399]]).toEqual([400, "[PAD399]", 5]);
    expect(get("scores")).toBeUndefined();
  });

  it("that does not take whole words from the vocabulary has another name", async () => {
    const json = jsonOf("llama3");
    const { get } = await describeTokenizer({
      ...json,
      model: { ...(json.model as JsonObject), ignore_merges: false },
    });
    expect(get("pre")).toBe("dbrx");
  });

  it("gets the ids of its special tokens, and those that are put around a text", async () => {
    const { get } = await describeTokenizer(jsonOf("llama3"), 400, { eos_token: "<|end_of_text|>" });
    expect(get("bos_token_id")).toBe(360);
    expect(get("add_eos_token")).toBe(false);
  });

  it.each([
    ["gpt2", /no known name for its pre-tokenizer .*Punctuation.*convert_hf_to_gguf.py/],
    ["words", /its tokenizer is a WordLevel/],
    ["unigram-bytes", /no Unigram tokenizer with byte tokens/],
    ["unigram", /does not normalize texts as its tokenizer does .*NFKC/],
  ])("of another kind is refused: %s", async (name, reason) => {
    await expect(describeTokenizer(jsonOf(name))).rejects.toThrow(reason);
  });

  it("leaves out an added token that has no row, as that of images in Gemma 3 without images", async () => {
    const json = jsonOf("qwen");
    const whole = await describeTokenizer(json);
    const [last] = [...(json.added_tokens as { id: number; content: string }[])].sort((a, b) => b.id - a.id);
    const { tokens, notes } = await describeTokenizer(json, last?.id);
    expect(tokens).toEqual(whole.tokens.slice(0, last?.id));
    expect(notes.join()).toContain(
      `1 token beyond the ${last?.id} rows of the embedding, which the export leaves out: ${last?.content}`,
    );
  });

  it("with more tokens than the embedding has rows is refused", async () => {
    await expect(describeTokenizer(jsonOf("qwen"), 100)).rejects.toThrow(/tokens beyond the 100 rows of the embedding/);
  });
});

describe("BPE of SentencePiece", () => {
  it.each([
    ["llama2", true, []],
    ["mistral", true, ["llama.cpp also puts a space before texts that begin with one, unlike this tokenizer"]],
    ["gemma", false, []],
  ])("of %s gets scores in the order of its merges", async (name, prefix, notes) => {
    const json = jsonOf(name);
    const found = await describeTokenizer(json);
    const { get, tokens, typeOf } = found;
    expect([get("model"), get("add_space_prefix"), found.notes]).toEqual(["llama", prefix, notes]);
    const scores = get("scores") as number[];
    const merged = (json.model as { merges: (string | string[])[] }).merges.map((merge) =>
      typeof merge === "string" ? merge.replace(" ", "") : merge.join(""),
    );
    const ranked = [...new Set(merged)].map((token) => scores[tokens.indexOf(token)] as number);
    expect(ranked).toEqual(ranked.toSorted((a, b) => b - a));
    expect(new Set(ranked).size).toBe(ranked.length);
    expect([typeOf("<0x0A>"), typeOf("<unk>")]).toEqual([6, 2]);
  });
});

describe("Unigram", () => {
  const METASPACE = { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true };
  const TABLE = { type: "Precompiled", precompiled_charsmap: Buffer.from([1, 2, 250]).toString("base64") };
  const STRIP = { type: "Strip", strip_left: false, strip_right: true };
  const SPACES = { type: "Replace", pattern: { Regex: " {2,}" }, content: "▁" };
  const inWords = { type: "Sequence", pretokenizers: [{ type: "WhitespaceSplit" }, METASPACE] };
  const sequence = (...normalizers: object[]) => ({ type: "Sequence", normalizers });
  const unigram = (normalizer: object, pre_tokenizer: object = METASPACE) => {
    const vocab = Object.entries({ "<s>": 0, "<unk>": 0, "▁a": -1.5, b: -2.25 });
    const added_tokens = vocab.slice(0, 2).map(([content], id) => ({ id, content, special: true }));
    return { normalizer, pre_tokenizer, added_tokens, model: { type: "Unigram", unk_id: 1, vocab } };
  };

  it("keeps scores, the table of its normalizer and its unknown token", async () => {
    const { get, types, notes } = await describeTokenizer(unigram(TABLE), 5);
    expect([get("model"), get("add_space_prefix"), get("remove_extra_whitespaces")]).toEqual(["t5", true, false]);
    expect(get("scores")).toEqual([-1000, 0, -1.5, -2.25, -1e4]);
    expect(get("precompiled_charsmap")).toEqual(Uint8Array.of(1, 2, 250));
    expect([types, get("unknown_token_id"), notes]).toEqual([[3, 2, 1, 1, 5], 1, []]);
  });

  it("removes white space in every form in which it is published, or says what differs", async () => {
    const removal = async (...parts: Parameters<typeof unigram>) => {
      const { get, notes } = await describeTokenizer(unigram(...parts), 4);
      return [get("remove_extra_whitespaces"), ...notes];
    };
    expect(await removal(sequence(TABLE, STRIP, SPACES))).toEqual([true]);
    expect(await removal(TABLE, inWords)).toEqual([true]);
    expect(await removal(sequence(TABLE, SPACES))).toEqual([
      true,
      "llama.cpp drops spaces at the end of a text, unlike this tokenizer",
    ]);
    expect(await removal(sequence(STRIP, SPACES))).toEqual([
      true,
      "llama.cpp keeps line breaks at the end of a text, unlike this tokenizer",
    ]);
    await expect(removal(sequence(TABLE, STRIP))).rejects.toThrow("does not normalize texts as its tokenizer does");
    await expect(removal(SPACES, inWords)).rejects.toThrow("does not split texts as its tokenizer does");
    await expect(removal(TABLE, { type: "WhitespaceSplit" })).rejects.toThrow("does not split texts");
  });
});

it("a pre-tokenizer is known by its splits, whatever their form", () => {
  const regex =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const bytes = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  const split = (behavior: string, invert: boolean, Regex = regex) =>
    findPreTokenizer(
      { type: "Sequence", pretokenizers: [{ type: "Split", pattern: { Regex }, behavior, invert }, bytes] },
      false,
    );
  expect(split("Isolated", false)).toBe("dbrx");
  expect(split("Removed", true)).toBe("dbrx");
  expect(split("Removed", false)).toBeUndefined();
  expect(split("Isolated", false, regex.replace("{1,3}", "{1,2}"))).toBeUndefined();
  const marks = "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|";
  const qwen35 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|${marks}\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
  expect(split("Isolated", false, qwen35)).toBe("qwen35");
  const seed = regex
    .replace("{1,3}", "{1}")
    .replace("\\p{N}]+[\\r\\n]*", "\\p{N}\r\n]+")
    .replace("[\\r\\n]+|", "[\r\n]+|");
  expect(split("Isolated", false, seed)).toBe("seed-coder");
  // As DeepSeek V3 has them: one after another, the last with line breaks themselves.
  const last =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  const deepseek = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", last].map((Regex) => {
    return { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false };
  });
  expect(findPreTokenizer({ type: "Sequence", pretokenizers: [...deepseek, bytes] }, false)).toBe("deepseek-v3");
  expect(findPreTokenizer({ type: "ByteLevel" }, false)).toBe("gpt-2");
  expect(findPreTokenizer({ type: "ByteLevel", add_prefix_space: true }, false)).toBeUndefined();
  expect(findPreTokenizer(undefined, false)).toBeUndefined();
});

it("names that llama.cpp treats as Phi-3's are for its tokenizer alone", async () => {
  const other = await partsOf(jsonOf("qwen"));
  expect(modelName("my-phi-3-merge", other)).toBe("my-phi 3-merge");
  const tokens = ["<unk>", "<s>", "</s>", "<|endoftext|>"].map((content, id) => ({ id, content, rstrip: true }));
  const json = jsonOf("llama2");
  const model = json.model as { vocab: Record<string, number> };
  const vocab = { ...model.vocab, "<|endoftext|>": 3 };
  const phi3 = await partsOf({ ...json, model: { ...model, vocab }, added_tokens: tokens });
  expect(modelName("soup of a, b", phi3)).toBe("soup of a, b (phi-3)");
  expect(modelName("Phi-3-mini", phi3)).toBe("Phi-3-mini");
});

it("Gemma 4's merges are written, and its marks of thoughts can be seen", async () => {
  const json = jsonOf("gemma");
  const added = (json.added_tokens as { id: number; content: string }[]).map((token) =>
    token.content === "<start_of_turn>" ? { ...token, content: "<|channel>" } : token,
  );
  const { metadata } = tokenizerMetadata(await partsOf({ ...json, added_tokens: added }), 400, "model", [], "gemma4");
  const get = (key: string) => metadata.get(`tokenizer.ggml.${key}`)?.value;
  expect([get("model"), get("pre"), get("add_space_prefix")]).toEqual(["gemma4", undefined, false]);
  const { merges, vocab } = json.model as { merges: string[][]; vocab: Record<string, number> };
  expect(get("merges")).toEqual(merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))));
  const types = get("token_type") as number[];
  const typeOf = (content: string) => types[added.find((token) => token.content === content)?.id ?? -1];
  expect([typeOf("<|channel>"), typeOf("<unk>"), types[vocab["<0x0A>"] ?? -1]]).toEqual([4, 3, 6]);
});
