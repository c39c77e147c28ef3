// Functions of the guarded process that run regular expressions of tokenizers. Parts are JSON.
import { readNormalizer, readReplace } from "./normalizers.js";
import { readPreTokenizer } from "./pre-tokenizers.js";
import type { TokenizerPart } from "./tokenizer-json.js";

/** Caches a few results; a run uses one or two. */
function memoize<T>(read: (part: TokenizerPart) => T): (json: string) => T {
  const kept = new Map<string, T>();
  return (json) => {
    const value = kept.get(json) ?? read(JSON.parse(json) as TokenizerPart);
    if (!kept.has(json) && kept.size >= 8) kept.clear();
    kept.set(json, value);
    return value;
  };
}

const normalizerOf = memoize(readNormalizer);
const replacerOf = memoize(readReplace);
const splitterOf = memoize(readPreTokenizer);

export function normalize(part: string, texts: readonly string[]): string[] {
  return texts.map(normalizerOf(part));
}

export function replace(part: string, texts: readonly string[]): string[] {
  return texts.map(replacerOf(part));
}

export function split(part: string, text: string, isFirst: boolean): string[] {
  return splitterOf(part)({ text, isFirst }).map((piece) => piece.text);
}
