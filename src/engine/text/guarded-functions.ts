// Functions of the guarded process that run regular expressions of tokenizers.

import { makeParts } from "./hf-tokenizers.js";

/** Caches a few results; a run uses one or two. */
function memoize<T>(make: (key: string) => T): (key: string) => T {
  const kept = new Map<string, T>();
  return (key) => {
    const value = kept.get(key) ?? make(key);
    if (!kept.has(key) && kept.size >= 8) kept.clear();
    kept.set(key, value);
    return value;
  };
}

const partsOf = memoize((json) => makeParts(JSON.parse(json) as Parameters<typeof makeParts>[0]));

/** @param normalizer JSON of the part */
export function normalize(normalizer: string, texts: readonly string[]): string[] {
  const made = partsOf(`{"normalizer":${normalizer}}`).normalizer;
  return texts.map((text) => made?.normalize(text) ?? text);
}

/** @param preTokenizer JSON of the part */
export function split(preTokenizer: string, text: string, isFirst: boolean): string[] {
  const options = { section_index: isFirst ? 0 : 1 };
  return partsOf(`{"preTokenizer":${preTokenizer}}`).preTokenizer?.pre_tokenize_text(text, options) ?? [text];
}
