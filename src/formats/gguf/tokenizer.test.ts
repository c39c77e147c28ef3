// Tokenizers that exports do not write. read-back.test.ts has the others.
import { describe, expect, it } from "vitest";
import { readPreTokenizer } from "../../text/pre-tokenizers.js";
import type { TokenizerPart } from "../../text/tokenizer-json.js";
import { BYTE_OF } from "../vocabulary/index.js";
import type { GgufHeader, GgufValue } from "./header.js";
import { ggufTokenizer } from "./tokenizer.js";

it("Gemma 4's has merges of its own, as all of its scores are equal", () => {
  const tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "▁", "a", "b", "c", "ab", "bc", "<0x0A>"];
  const entries = {
    model: "gemma4",
    tokens,
    scores: tokens.map(() => -1000),
    token_type: [3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 6],
    merges: ["b c", "a b"],
    bos_token_id: 2,
    add_bos_token: true,
    add_space_prefix: false,
  };
  const metadata = new Map(Object.entries(entries).map(([key, value]) => [`tokenizer.ggml.${key}`, value]));
  const made = ggufTokenizer({ metadata, tensors: [], lists: new Map(), bytes: 0, digest: "" }, "model.gguf");
  expect(made).toMatchObject({
    tokenizer: {
      normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
      model: { type: "BPE", byte_fallback: true, merges: ["b c", "a b"] },
      post_processor: { single: [{ SpecialToken: { id: "<bos>" } }, { Sequence: { id: "A" } }] },
    },
    settings: { bos_token: "<bos>", add_bos_token: true },
  });
});

it.each([
  ["gemma4", ["a b", "b c"]],
  // The higher score first, whatever a file says of merges besides.
  [
    "llama",
    [
      ["b", "c"],
      ["a", "b"],
    ],
  ],
])("a tokenizer of SentencePiece, %s, has the merges that llama.cpp does", (model, merges) => {
  const keys: Record<string, GgufValue> = {
    model,
    tokens: ["a", "b", "c", "ab", "bc"],
    scores: [-9, -9, -9, -2, -1],
    merges: ["a b", "b c"],
    add_space_prefix: false,
  };
  const metadata = new Map(Object.entries(keys).map(([key, value]) => [`tokenizer.ggml.${key}`, value]));
  const read = ggufTokenizer({ metadata } as unknown as GgufHeader, "model.gguf");
  expect(read).toMatchObject({ tokenizer: { model: { merges, byte_fallback: true } } });
});

function read(entries: Readonly<Record<string, GgufValue>>) {
  const metadata = new Map(Object.entries(entries).map(([key, value]) => [`tokenizer.ggml.${key}`, value]));
  return ggufTokenizer({ metadata } as unknown as GgufHeader, "model.gguf");
}

const TOKENS = { tokens: ["a", "b", "ab", "<s>", "</s>"], token_type: [1, 1, 1, 3, 3], merges: ["a b"] };
const IDS = { bos_token_id: 3, eos_token_id: 4 };
const named = (pre: string) => read({ model: "gpt2", ...TOKENS, ...IDS, pre });

/** The regular expressions of src/llama-vocab.cpp in llama.cpp, followed by hand. */
const CUT: Readonly<Record<string, string>> = {
  gpt2: "王x| I|'|LL| pay| | 12345|.\"|\n | now",
  digits: "王x| I|'|LL| pay|  |1|2|3|4|5|.\"|\n | now",
  llama3: "王x| I|'LL| pay| | |123|45|.\"\n| | now",
  qwen2: "王x| I|'LL| pay| | |1|2|3|4|5|.\"\n| | now",
  deepseek3: "王|x| I|'LL| pay|  |123|45|.\"\n| | now",
  coder: "王|x| I|'|LL| pay|  |1|2|3|4|5|.\"|\n| | now",
  minicpm5: "王x| I|'LL| pay|  |123|45|.\"\n| | now",
  viking: "王x| I'LL| pay| | |1|2|3|4|5|.|\"|\n | now",
};

describe("a name of llama.cpp", () => {
  it.each([
    ...["exaone4", "granite-docling", "trillion", "a.x-4.0", "mellum", "gpt-2"].map((name) => [name, "gpt2", false]),
    ...["starcoder", "exaone"].map((name) => [name, "digits", false]),
    ...["llama-bpe", "falcon-h1", "midm-2.0", "glm4"].map((name) => [name, "llama3", true]),
    ...["chatglm-bpe", "dbrx"].map((name) => [name, "llama3", false]),
    ...["qwen2", "qwen35", "megrez"].map((name) => [name, "qwen2", false]),
    ...["deepseek-v3", "hunyuan-dense"].map((name) => [name, "deepseek3", false]),
    ["deepseek-coder", "coder", false],
    ["minicpm5", "minicpm5", true],
    ["viking", "viking", false],
  ] as [string, string, boolean][])(
    "%s cuts as %s, and takes words that are tokens whole: %s",
    (name, cut, isWhole) => {
      const made = named(name);
      if ("problem" in made) throw new Error(made.problem);
      const part = made.tokenizer.pre_tokenizer as TokenizerPart;
      const pieces = readPreTokenizer(part)({ text: "王x I'LL pay  12345.\"\n  now", isFirst: true });
      const words = pieces.map(({ text }) => Buffer.from(Array.from(text, (one) => BYTE_OF.get(one) ?? 0)).toString());
      expect(words.join("|")).toBe(CUT[cut]);
      expect(made.tokenizer.model).toMatchObject({ ignore_merges: isWhole });
    },
  );

  it.each(["qwen2", "qwen35"])("%s composes characters, as its models do", (name) => {
    expect(named(name)).toMatchObject({ tokenizer: { normalizer: { type: "NFC" } } });
  });

  it("that is unknown or missing leaves the file without a tokenizer", () => {
    expect(named("kimi-k2")).toEqual({ problem: "layergraft does not know how kimi-k2 cuts texts into words" });
    expect(read({ model: "gpt2", ...TOKENS })).toEqual({
      problem: "it does not say how texts are cut into words (tokenizer.ggml.pre)",
    });
  });
});

it.each<[string, Readonly<Record<string, GgufValue>>, boolean, boolean]>([
  ["gpt2", { pre: "llama-bpe" }, true, false],
  ["gpt2", { pre: "falcon-h1" }, true, false],
  ["gpt2", { pre: "tekken" }, true, false],
  ["gpt2", { pre: "llama-bpe", add_bos_token: false }, false, false],
  ["gpt2", { pre: "glm4" }, false, false],
  ["gpt2", { pre: "qwen2", add_bos_token: true, add_eos_token: true }, true, true],
  ["llama", {}, true, false],
  // llama.cpp overrides what early files of Gemma 4 say.
  ["gemma4", { add_bos_token: false }, true, false],
  ["t5", {}, false, true],
  ["t5", { add_eos_token: false }, false, false],
])("%s with %j begins texts with BOS: %s, and ends them with EOS: %s", (model, entries, addsBos, addsEos) => {
  const made = read({ model, ...TOKENS, scores: TOKENS.tokens.map(() => 0), ...IDS, ...entries });
  expect(made).toMatchObject({ settings: { add_bos_token: addsBos, add_eos_token: addsEos } });
});

it.each([
  ["none", undefined, "it has no merges"],
  ["numbers", [1, 2], "it has no merges"],
  ["one without a space", ["a b", "ab"], 'its merge 2 of 2, "ab", does not join'],
  ["parts that are no tokens", ["a x"], 'its merge 1 of 1, "a x", does not join'],
  ["a whole that is no token", ["b a"], 'its merge 1 of 1, "b a", does not join'],
])("a byte-level tokenizer whose merges are wrong is not read: %s", (_, merges, problem) => {
  const made = read({ model: "gpt2", pre: "gpt-2", tokens: ["a", "b", "ab"], ...(merges ? { merges } : {}) });
  expect(made).toEqual({ problem: expect.stringContaining(problem) });
});

it("lists of types and scores that are not numbers, or not one for each token, are refused", () => {
  const plain = { model: "gpt2", pre: "gpt-2", tokens: ["a", "b", "ab"], merges: ["a b"] };
  expect(read(plain)).not.toHaveProperty("problem");
  for (const lists of [{ token_type: ["1", "1", "1"] }, { token_type: [1] }, { scores: ["x"] }]) {
    expect(() => read({ ...plain, ...lists } as Record<string, GgufValue>)).toThrow("has 3 tokens, and another number");
  }
});
