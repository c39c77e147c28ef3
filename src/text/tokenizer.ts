// A tokenizer: text to ids and back, as Hugging Face `tokenizers` and `transformers` do for the same tokenizer.json.
import { AddedTokens } from "./added-tokens.js";
import { Encoder } from "./encoder.js";
import { type PieceDecoder, planDecoder } from "./token-decoder.js";
import { readJson, type TokenizerJson } from "./tokenizer-json.js";
import { namedTokens, type SpecialName, type TokenizerSettings } from "./tokenizer-settings.js";

export interface DecodeOptions {
  /** Whether to skip special tokens, such as BOS and the ends of turns. Default false. */
  readonly skipSpecialTokens?: boolean;
}

/**
 * Decodes ids one at a time. The joined pieces are what `decode` returns for all ids; no piece ends within a character.
 * Text that later ids may change is held back: incomplete characters, a space that a clean-up may remove, a run of byte
 * tokens.
 */
export interface IncrementalDecoder {
  /** Adds an id and returns the text that is now final, often none. Unknown ids add nothing. */
  push(id: number): string;
  /** Returns the text that was held back. The decoder can then be used for another text. */
  end(): string;
}

/** Text to token ids and back. */
export interface Tokenizer {
  /** Ids run from 0 to vocabularySize - 1 (added tokens included). */
  readonly vocabularySize: number;
  /** Ids of the special tokens, undefined where the tokenizer has none. */
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly pad: number | undefined;
  /** Id of the token that stands for text without tokens; absent where every text has tokens. */
  readonly unknown?: number | undefined;
  /**
   * The ids of a text. Special tokens in it are recognized.
   * @param options.specialTokens whether the tokenizer's post-processor adds tokens such as BOS; default false
   * @throws CheckpointError if the tokenizer has no token for a part of the text, and no unknown token, or if its merges are
   *   not pairs of its tokens
   */
  encode(text: string, options?: { specialTokens?: boolean }): number[];
  /** The text of ids; unknown ids are skipped. */
  decode(ids: readonly number[], options?: DecodeOptions): string;
  /** The id of a token as the vocabulary writes it, such as `Ġthe`. */
  idOf(token: string): number | undefined;
  /** The token as the vocabulary writes it, such as `Ġthe`. */
  tokenOf(id: number): string | undefined;
  /** Opens a decoder for streaming. */
  incremental(options?: DecodeOptions): IncrementalDecoder;
}

/** Ids from other files of a checkpoint, used where the settings name no token. */
export interface SpecialIds {
  readonly bos?: number | undefined;
  readonly eos?: number | undefined;
  readonly pad?: number | undefined;
}

/**
 * A tokenizer from the values of its files. Reproduces `tokenizers` 0.23 and `transformers` 5, without BPE-dropout,
 * truncation and padding.
 */
export class JsonTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly pad: number | undefined;
  readonly unknown: number | undefined;
  readonly #encoder: Encoder;
  readonly #added: AddedTokens;
  readonly #openDecoder: () => PieceDecoder;

  /**
   * @param value a tokenizer.json; only `model` is required
   * @param settings a tokenizer_config.json: names special tokens, which are added where the vocabulary lacks them
   * @throws CheckpointError if it is not valid, or of a kind that cannot be reproduced
   */
  constructor(value: TokenizerJson, settings: TokenizerSettings = {}, ids: SpecialIds = {}) {
    const json = readJson(value);
    const named = namedTokens(settings);
    this.#added = new AddedTokens(json, named, settings);
    this.#encoder = new Encoder(json, this.#added);
    this.unknown = this.#encoder.unknown;
    this.vocabularySize = 1 + Math.max(json.vocabulary.highestId, this.#added.highestId);
    // As in transformers: the clean-up is for word pieces, and would damage decoded byte pairs.
    const cleanUp =
      settings.clean_up_tokenization_spaces === true &&
      (json.model.type !== "BPE" ||
        settings.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output === true);
    this.#openDecoder = planDecoder(json.decoder, cleanUp);
    const idOf = (name: SpecialName, other: number | undefined) => {
      const content = named.get(name)?.content;
      if (content !== undefined) return this.idOf(content);
      return other !== undefined && this.tokenOf(other) !== undefined ? other : undefined;
    };
    this.bos = idOf("bos_token", ids.bos);
    this.eos = idOf("eos_token", ids.eos);
    this.pad = idOf("pad_token", ids.pad);
  }

  encode(text: string, options: { specialTokens?: boolean } = {}): number[] {
    const ids = this.#encoder.encode(text);
    if (options.specialTokens !== true) return ids;
    return [...this.#encoder.before, ...ids, ...this.#encoder.after];
  }

  decode(ids: readonly number[], options: DecodeOptions = {}): string {
    const decoder = this.incremental(options);
    let text = "";
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  idOf(token: string): number | undefined {
    return this.#added.byContent.get(token)?.id ?? this.#encoder.idOf(token);
  }

  tokenOf(id: number): string | undefined {
    return this.#added.byId.get(id)?.content ?? this.#encoder.tokenOf(id);
  }

  incremental(options: DecodeOptions = {}): IncrementalDecoder {
    const skip = options.skipSpecialTokens === true;
    let decoder = this.#openDecoder();
    return {
      push: (id) => {
        const added = this.#added.byId.get(id);
        if (added?.special && skip) return "";
        // A token that is matched in normalized text is decoded from its normalized form.
        const piece = added?.pattern ?? this.#encoder.tokenOf(id);
        return piece === undefined ? "" : decoder.push(piece);
      },
      end: () => {
        const rest = decoder.end();
        decoder = this.#openDecoder();
        return rest;
      },
    };
  }
}
