// Tokens as text, one by one.

import type { ServedModel } from "./served-model.js";

/** A token's text, and how many characters of the answer's text it is. */
export interface TokenText {
  readonly text: string;
  readonly length: number;
}

/** Texts of a model's tokens, kept. */
export class TokenTexts {
  readonly #tokenizer: ServedModel["tokenizer"];
  readonly #known = new Map<number, TokenText>();
  // Many tokenizers drop a space before the first token, so each is decoded after others.
  readonly #before: readonly number[];

  constructor(tokenizer: ServedModel["tokenizer"]) {
    this.#tokenizer = tokenizer;
    this.#before = encodeAny(tokenizer, ["a", "0", "."]);
  }

  of(id: number): TokenText {
    const known = this.#known.get(id);
    if (known) return known;
    // Special tokens are not part of the answer's text.
    const found = { text: this.#after(id, false), length: [...this.#after(id, true)].length };
    this.#known.set(id, found);
    return found;
  }

  #after(id: number, skipSpecialTokens: boolean): string {
    const decode = (ids: readonly number[]) => this.#tokenizer.decode(ids, { skipSpecialTokens });
    return decode([...this.#before, id]).slice(decode(this.#before).length);
  }
}

/** Tokens of the first text that the tokenizer can encode. */
function encodeAny(tokenizer: ServedModel["tokenizer"], texts: readonly string[]): number[] {
  for (const text of texts) {
    try {
      const ids = tokenizer.encode(text);
      if (tokenizer.decode(ids, { skipSpecialTokens: true }) !== "") return ids;
    } catch {
      // It has no token for it.
    }
  }
  return [];
}
