// A tokenizer for tests: one token a character, but for some longer ones, of which the longest that fits is taken.
import type { Tokenizer } from "../../src/text/index.js";

export const BOS = 0;
export const EOS = 1;
export const PAD = 2;

/** Ids of characters begin here, past those of special and long tokens. */
const CHARACTERS = 100;

/** @param long texts of several characters that are one token, at most 97 */
export function toyTokenizer(long: readonly string[] = [], special = true): Tokenizer {
  const tokens = ["<bos>", "<eos>", "<pad>", ...long];
  const encode = (text: string) => {
    const ids: number[] = [];
    for (let at = 0; at < text.length; ) {
      const fitting = tokens.filter((token) => text.startsWith(token, at)).sort((a, b) => b.length - a.length)[0];
      const token = fitting ?? String.fromCodePoint(text.codePointAt(at) ?? 0);
      ids.push(fitting === undefined ? CHARACTERS + (token.codePointAt(0) ?? 0) : tokens.indexOf(fitting));
      at += token.length;
    }
    return ids;
  };
  const tokenOf = (id: number) => (id < CHARACTERS ? tokens[id] : String.fromCodePoint(id - CHARACTERS));
  return {
    vocabularySize: CHARACTERS + 0x110000,
    ...(special ? { bos: BOS, eos: EOS, pad: PAD } : { bos: undefined, eos: undefined, pad: undefined }),
    encode,
    incremental: () => ({ push: (id) => tokenOf(id) ?? "", end: () => "" }),
    decode: (ids) => ids.map((id) => tokenOf(id) ?? "").join(""),
    idOf: (token) => encode(token)[0],
    tokenOf,
  };
}
