// Tokenizers that exports do not write. read-back.test.ts has the others.
import { expect, it } from "vitest";
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
