// Tokenizers that exports do not write. read-back.test.ts has the others.
import { expect, it } from "vitest";
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
