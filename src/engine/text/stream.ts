// Text as it is generated: ids one at a time, text that stays.
// Not the decoding itself, which is the tokenizer's.
import type { DecodeOptions, IncrementalDecoder, Tokenizer } from "./tokenizer.js";

/**
 * Turns ids that arrive one at a time into text.
 *
 * What `push` and `end` gave, joined, is what the tokenizer decodes all ids to; no piece ends within a character, and no
 * later id changes what was given. What may still change is held back: the bytes of a character that is not complete, a
 * blank that a clean-up may remove, a run of byte tokens until another token ends it.
 */
export class TextStream {
  readonly #decoder: IncrementalDecoder;

  /** @param options as for `decode` */
  constructor(tokenizer: Tokenizer, options: DecodeOptions = {}) {
    this.#decoder = tokenizer.incremental?.(options) ?? collect(tokenizer, options);
  }

  /** Adds an id; gives the text that is now certain, often none. */
  push(id: number): string {
    return this.#decoder.push(id);
  }

  /** Gives what was held back. The stream can then be used for another text. */
  end(): string {
    return this.#decoder.end();
  }
}

/** Of a tokenizer that decodes whole texts only, nothing is certain before the end. */
function collect(tokenizer: Tokenizer, options: DecodeOptions): IncrementalDecoder {
  let ids: number[] = [];
  return {
    push: (id) => {
      ids.push(id);
      return "";
    },
    end: () => {
      const text = tokenizer.decode(ids, options);
      ids = [];
      return text;
    },
  };
}
