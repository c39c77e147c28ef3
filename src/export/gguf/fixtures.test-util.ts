// Tiny models with tokenizers, for tests of exports.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes a byte-level tokenizer with a token per letter, for the fixtures' embeddings of 20 rows. */
export function writeTinyTokenizer(folder: string, size = 20): void {
  const vocab = Object.fromEntries(Array.from({ length: size }, (_, id) => [String.fromCharCode(97 + id), id]));
  const pre_tokenizer = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const model = { type: "BPE", vocab, merges: [] };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ pre_tokenizer, model }));
}
