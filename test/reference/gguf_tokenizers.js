// @ts-nocheck: a helper of checks that are run by hand.
// Tokenizers for check_gguf.js and check_gguf_tokenizers.js.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** GPT-2's alphabet: the character of each byte. */
export function byteAlphabet() {
  const visible = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(visible(byte) ? byte : next++));
}

/** Writes a tokenizer with a token per byte, BOS (256), EOS (257) and merges up to `size` tokens. */
export function writeByteTokenizer(folder, size) {
  const alphabet = byteAlphabet();
  const merges = Array.from({ length: size - 258 }, (_, i) => [
    alphabet[97 + (i % 26)],
    alphabet[97 + Math.floor(i / 26)],
  ]);
  const vocabulary = [...alphabet, "<s>", "</s>", ...merges.map((pair) => pair.join(""))];
  const json = {
    version: "1.0",
    added_tokens: ["<s>", "</s>"].map((content, i) => ({ id: 256 + i, content, special: true, normalized: false })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: { type: "BPE", vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])), merges },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ bos_token: "<s>", eos_token: "</s>" }));
}
