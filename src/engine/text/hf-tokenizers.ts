// Normalizers, pre-tokenizers and models of @huggingface/tokenizers, made from parts of a tokenizer.json. Its own types do
// not resolve under NodeNext.

import { Tokenizer } from "@huggingface/tokenizers";
import { CheckpointError, shorten } from "../../core/index.js";
import type { Part } from "./tokenizer-json.js";

export interface Normalizer {
  normalize(text: string): string;
}

export interface PreTokenizer {
  /** @param options.section_index 0 at the start of the text, where Metaspace may add its sign */
  pre_tokenize_text(text: string, options: { section_index: number }): string[];
}

export interface Model {
  /** The pieces of words; unknown ones are returned as they are (Unigram) or as the unknown token. */
  encode(words: string[]): string[];
}

const NO_MODEL: Part = { type: "WordPiece", vocab: {}, unk_token: "" };

/**
 * Makes parts.
 * @throws CheckpointError if the package does not support a part or cannot read its pattern
 */
export function makeParts(parts: { model?: Part; normalizer?: Part | undefined; preTokenizer?: Part | undefined }) {
  try {
    const made = new Tokenizer(
      {
        model: parts.model ?? NO_MODEL,
        normalizer: parts.normalizer ?? null,
        pre_tokenizer: parts.preTokenizer ?? null,
        post_processor: null,
        decoder: null,
        added_tokens: [],
      },
      {},
    );
    return {
      model: made.model as Model,
      normalizer: made.normalizer as Normalizer | null,
      preTokenizer: made.pre_tokenizer as PreTokenizer | null,
    };
  } catch (error) {
    throw new CheckpointError(`the tokenizer cannot be used: ${shorten((error as Error).message)}`, {}, error);
  }
}
