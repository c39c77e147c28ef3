// Text to ids: added tokens, normalizer, pre-tokenizer, model.
import { CheckpointError, isObject, own } from "../kit/index.js";
import type { AddedTokens } from "./added-tokens.js";
import { bytePairs } from "./byte-pairs.js";
import { makeNormalizer, makeSplitter } from "./guarded-expressions.js";
import type { TokenIds } from "./token-table.js";
import {
  type CheckedJson,
  flagField,
  idField,
  partsOf,
  problem,
  quoted,
  type TokenizerPart,
  textField,
} from "./tokenizer-json.js";
import { unigramPieces } from "./unigram.js";

export class Encoder {
  /** Ids that the post-processor puts before and after a text. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly unknown: number | undefined;
  readonly #added: AddedTokens;
  readonly #vocabulary: TokenIds;
  readonly #normalize: (texts: readonly string[]) => string[];
  readonly #split: (text: string, isFirst: boolean) => string[];
  readonly #idsOf: (word: string) => readonly number[];

  /** @throws CheckpointError if a part is not valid or not supported */
  constructor(json: CheckedJson, added: AddedTokens) {
    this.#added = added;
    this.#vocabulary = json.vocabulary;
    this.#normalize = makeNormalizer(json.normalizer);
    this.#split = makeSplitter(json.preTokenizer);
    this.unknown = unknownOf(json);
    this.#idsOf = idsByModel(json, this.unknown);
    added.normalizeWith(this.#normalize);
    [this.before, this.after] = surroundings(json, (token) => added.byContent.get(token)?.id ?? this.idOf(token));
  }

  idOf(token: string): number | undefined {
    return this.#vocabulary.get(token);
  }

  tokenOf(id: number): string | undefined {
    return this.#vocabulary.tokenOf(id);
  }

  /** Whether the normalizer removes the first character of a text. */
  #removes(text: string): boolean {
    return this.#normalize([String.fromCodePoint(text.codePointAt(0) ?? 0)])[0] === "";
  }

  /** Ids of a text, without those of the post-processor. */
  encode(text: string): number[] {
    const ids: number[] = [];
    let isFirst = true;
    for (const section of this.#added.split(text)) {
      let parts = [section];
      if (section.id === undefined) {
        const [normal = ""] = this.#normalize([section.text]);
        parts = this.#added.splitNormalized(normal);
        // What follows text that a normalizer removed is not the first.
        if (isFirst) isFirst = !this.#removes(section.text);
      }
      for (const part of parts) {
        if (part.id !== undefined) ids.push(part.id);
        else for (const word of this.#split(part.text, isFirst)) for (const id of this.#idsOf(word)) ids.push(id);
        isFirst = false;
      }
    }
    return ids;
  }
}

/** How the model turns a word (a piece of split text) into ids. */
function idsByModel(json: CheckedJson, unknown: number | undefined): (word: string) => readonly number[] {
  const { model: settings, vocabulary } = json;
  const orUnknown = (id: number | undefined, word: string): number => {
    if (id !== undefined) return id;
    if (unknown !== undefined) return unknown;
    throw new CheckpointError(`the tokenizer has no token for ${quoted(word)} and no unknown token`);
  };
  const bytesOf = flagField(settings, "byte_fallback") ? byteIds(vocabulary) : () => undefined;
  switch (settings.type) {
    case "BPE":
      return bytePairs(settings, vocabulary, bytesOf);
    case "Unigram": {
      const piecesOf = unigramPieces(settings.vocab as [string, number][]);
      // Adjacent unknown pieces are one unknown token, or the bytes of all of them.
      return (word) =>
        joinUnknown(piecesOf(word), vocabulary).flatMap((piece) => {
          const id = vocabulary.get(piece);
          return (id === undefined ? bytesOf(piece) : undefined) ?? orUnknown(id, word);
        });
    }
    case "WordLevel":
      return (word) => [orUnknown(vocabulary.get(word), word)];
  }
}

function unknownOf({ model, vocabulary }: CheckedJson): number | undefined {
  if (model.type !== "Unigram") {
    return model.unk_token === undefined || model.unk_token === null
      ? undefined
      : vocabulary.get(textField(model, "unk_token"));
  }
  if (model.unk_id === undefined || model.unk_id === null) return undefined;
  const id = idField(model.unk_id, "the unknown token");
  if (id >= vocabulary.size) throw problem(`its unknown token, ${id}, is not in its vocabulary`, "model.unk_id");
  return id;
}

function joinUnknown(pieces: string[], vocabulary: TokenIds): string[] {
  const joined: string[] = [];
  let open = false;
  for (const piece of pieces) {
    const isUnknown = !vocabulary.has(piece);
    if (isUnknown && open) joined.push(`${joined.pop()}${piece}`);
    else joined.push(piece);
    open = isUnknown;
  }
  return joined;
}

/** The ids of a text's bytes, if the vocabulary has all of them (models/unigram/model.rs). */
function byteIds(vocabulary: TokenIds): (text: string) => number[] | undefined {
  const ids = Array.from({ length: 256 }, (_, byte) =>
    vocabulary.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );
  return (text) => {
    const found = [...new TextEncoder().encode(text)].map((byte) => ids[byte]);
    return found.every((id) => id !== undefined) ? found : undefined;
  };
}

/** Ids that a post-processor puts before and after a single text. */
export function surroundings(json: CheckedJson, idOf: (token: string) => number | undefined): [number[], number[]] {
  const [before, after]: [number[], number[]] = [[], []];
  const add = (part: TokenizerPart) => {
    // The second of two that add tokens gives them to those of the first, too.
    if (before.length + after.length > 0 && !/^(ByteLevel|Sequence)$/.test(part.type)) {
      throw problem("two post-processors that add tokens are not supported", "post_processor");
    }
    switch (part.type) {
      case "ByteLevel":
        return;
      case "Sequence":
        for (const each of partsOf(part.processors, "processors")) add(each);
        return;
      case "BertProcessing":
      case "RobertaProcessing":
        before.push(pairId(part.cls));
        after.push(pairId(part.sep));
        return;
      case "TemplateProcessing": {
        const [first, last] = template(part, idOf);
        before.push(...first);
        after.push(...last);
        return;
      }
      default:
        throw problem(`its post-processor ${part.type} is not supported`, "post_processor");
    }
  };
  if (json.postProcessor) add(json.postProcessor);
  checkCount(before.length + after.length);
  return [before, after];
}

// Published ones add one or two.
const MAX_ADDED = 1000;

function checkCount(added: number): void {
  if (added > MAX_ADDED) {
    throw problem(`its post-processor adds more than ${MAX_ADDED} tokens to a text`, "post_processor");
  }
}

/** The id of a pair [token, id]. */
function pairId(pair: unknown): number {
  if (!Array.isArray(pair)) throw problem("a post-processor's special token is not [token, id]", "post_processor");
  return idField(pair[1], pair[0]);
}

function template(part: TokenizerPart, idOf: (token: string) => number | undefined): [number[], number[]] {
  if (!Array.isArray(part.single)) throw problem("the template of a post-processor is not a list", "post_processor");
  const sides: [number[], number[]] = [[], []];
  let side = 0;
  for (const item of part.single as unknown[]) {
    const special = isObject(item) ? item.SpecialToken : undefined;
    if (isObject(special)) sides[side === 0 ? 0 : 1].push(...specialIds(part, String(special.id), idOf));
    else if (isObject(item) && isObject(item.Sequence)) side++;
    else
      throw problem(
        "the template of a post-processor has a part that is neither a token nor the text",
        "post_processor",
      );
    checkCount(sides[0].length + sides[1].length);
  }
  if (side !== 1) throw problem("the template of a post-processor must contain the text once", "post_processor");
  return sides;
}

function specialIds(part: TokenizerPart, token: string, idOf: (token: string) => number | undefined): number[] {
  const listed = isObject(part.special_tokens) ? own(part.special_tokens, token) : undefined;
  if (isObject(listed) && Array.isArray(listed.ids)) return listed.ids.map((id: unknown) => idField(id, token));
  const id = idOf(token);
  if (id === undefined) throw problem(`a post-processor adds ${token}, which is not a token`, "post_processor");
  return [id];
}
