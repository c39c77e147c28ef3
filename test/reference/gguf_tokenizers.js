// @ts-nocheck: a helper of checks that are run by hand.
// Tokenizers for check_gguf.js and check_gguf_tokenizers.js.
import { readFileSync, writeFileSync } from "node:fs";
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

const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

/** The tokenizer of a GGUF file: its keys below "tokenizer.ggml." */
export function readVocabulary(path) {
  const file = readFileSync(path);
  let at = 8;
  const number = (size, read) => {
    at += size;
    return read.call(file, at - size);
  };
  const u32 = () => number(4, file.readUInt32LE);
  const u64 = () => Number(number(8, file.readBigUInt64LE));
  const string = () => {
    const size = u64();
    at += size;
    return file.toString("utf8", at - size, at);
  };
  const scalars = {
    0: () => number(1, file.readUInt8),
    4: u32,
    5: () => number(4, file.readInt32LE),
    6: () => number(4, file.readFloatLE),
    7: () => number(1, file.readUInt8) === 1,
    8: string,
    10: u64,
  };
  const value = (type) => {
    if (type !== 9) return scalars[type]();
    const of = u32();
    return Array.from({ length: u64() }, () => value(of));
  };
  u64();
  const keys = Array.from({ length: u64() }, () => [string(), value(u32())]);
  const prefix = "tokenizer.ggml.";
  return Object.fromEntries(
    keys.filter(([key]) => key.startsWith(prefix)).map(([key, of]) => [key.slice(prefix.length), of]),
  );
}

/** A tokenizer.json of a vocabulary, with the parts of the model's own. */
export function tokenizerJson(
  { model, tokens, token_type: types, merges, scores },
  { ignore_merges = false, ...parts },
) {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const isAdded = (id) => types[id] === CONTROL || types[id] === USER_DEFINED;
  const added = tokens.flatMap((content, id) =>
    isAdded(id) ? [{ id, content, special: types[id] === CONTROL, normalized: false }] : [],
  );
  const isByteLevel = model === "gpt2";
  return {
    version: "1.0",
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: null,
    ...parts,
    decoder: isByteLevel ? { type: "ByteLevel" } : { type: "ByteFallback" },
    model: {
      type: "BPE",
      ignore_merges,
      byte_fallback: !isByteLevel,
      unk_token: isByteLevel ? null : "<unk>",
      fuse_unk: !isByteLevel,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: merges?.map((merge) => merge.split(" ")) ?? mergesOf(tokens, types, scores, ids),
    },
  };
}

/** The merges of a SentencePiece model, as transformers extracts them: all pairs of tokens by the score of their result. */
function mergesOf(tokens, types, scores, ids) {
  const order = tokens.map((_, id) => id).sort((a, b) => scores[b] - scores[a]);
  return order.flatMap((id) => {
    if (types[id] === CONTROL || types[id] === BYTE) return [];
    const characters = [...tokens[id]];
    return characters.slice(1).flatMap((_, i) => {
      const pair = [characters.slice(0, i + 1).join(""), characters.slice(i + 1).join("")];
      return pair.every((part) => ids.has(part)) ? [pair] : [];
    });
  });
}
