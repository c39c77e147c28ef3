// The value of a tokenizer.json, checked for what a hostile file must not cause.
import { CheckpointError, isObject } from "../kit/index.js";
import { shorten } from "../kit/printing/index.js";
import { LaterMerges } from "./merge-table.js";
import { type TokenIds, TokenMap, TokenTable } from "./token-table.js";

export type TokenizerJson = Readonly<Record<string, unknown>>;

/** A part of it, such as a normalizer; `type` says which. */
export interface TokenizerPart {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A token that is matched before the model sees the text. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether it only matches between characters that do not belong to words. */
  readonly singleWord: boolean;
  /** Whether it includes the white space before it. */
  readonly lstrip: boolean;
  /** Whether it includes the white space after it. */
  readonly rstrip: boolean;
  /** Whether it is matched in the normalized text. */
  readonly normalized: boolean;
  /** Whether decoding may skip it. */
  readonly special: boolean;
}

export type ModelType = "BPE" | "Unigram" | "WordLevel";

export interface CheckedJson {
  readonly model: TokenizerPart & { readonly type: ModelType };
  /** Id by token, without added tokens. */
  readonly vocabulary: TokenIds;
  readonly added: readonly AddedToken[];
  readonly normalizer: TokenizerPart | undefined;
  readonly preTokenizer: TokenizerPart | undefined;
  readonly postProcessor: TokenizerPart | undefined;
  readonly decoder: TokenizerPart | undefined;
}

// Well above the largest vocabularies, about a quarter of a million tokens. Tables are as long as the highest id.
export const MAX_IDS = 10_000_000;

const MODEL_TYPES: readonly string[] = ["BPE", "Unigram", "WordLevel"] satisfies ModelType[];

/** An error about a tokenizer.json; the loader adds the file. */
export function problem(message: string, field: string): CheckpointError {
  return new CheckpointError(`the tokenizer cannot be used: ${message}`, { field });
}

/** A foreign value in an error, as JSON. */
export const quoted = (value: unknown): string => shorten(String(JSON.stringify(value)));

// Well above published tokenizers, whose parts have some hundred values and patterns of up to 2,000 characters.
const MAX_DEPTH = 100;
const MAX_VALUES = 10_000;
const MAX_TEXT = 10_000;
// Normalization tables in base64, and fields that are checked on their own.
const LARGE_FIELDS: readonly string[] = ["precompiled_charsmap", "vocab", "merges"];

/** Refuses a part that would take too long to read or to apply. */
function checkSize(value: unknown, field: string): void {
  let values = 0;
  const refuse = (what: string): never => {
    throw problem(`its ${field} ${what}. Use the tokenizer.json of the original model`, field);
  };
  const visit = (inner: unknown, depth: number): void => {
    if (depth > MAX_DEPTH) refuse(`nests deeper than ${MAX_DEPTH} levels`);
    if (++values > MAX_VALUES) refuse(`has more than ${MAX_VALUES} values`);
    if (typeof inner === "string" && inner.length > MAX_TEXT) {
      refuse(`has a text of ${inner.length} characters; at most ${MAX_TEXT} are supported`);
    }
    if (Array.isArray(inner)) for (const item of inner as unknown[]) visit(item, depth + 1);
    else if (isObject(inner)) {
      for (const [key, item] of Object.entries(inner)) if (!LARGE_FIELDS.includes(key)) visit(item, depth + 1);
    }
  };
  visit(value, 0);
}

export function readJson(json: TokenizerJson): CheckedJson {
  for (const field of ["model", "normalizer", "pre_tokenizer", "post_processor", "decoder"]) {
    checkSize(json[field], field);
  }
  const model = modelOf(json.model);
  return {
    model,
    vocabulary: vocabularyOf(model),
    added: addedOf(json.added_tokens),
    normalizer: partOf(json.normalizer, "normalizer"),
    preTokenizer: partOf(json.pre_tokenizer, "pre_tokenizer"),
    postProcessor: partOf(json.post_processor, "post_processor"),
    decoder: partOf(json.decoder, "decoder"),
  };
}

/** A part with its type; undefined where there is none. */
export function partOf(value: unknown, field: string): TokenizerPart | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value) || typeof value.type !== "string") throw problem(`${field} is not an object with a type`, field);
  return value as TokenizerPart;
}

export function partsOf(value: unknown, field: string): TokenizerPart[] {
  if (!Array.isArray(value)) throw problem(`${field} is not a list`, field);
  return value.map((item: unknown, index) => {
    const part = partOf(item, `${field}[${index}]`);
    if (part === undefined) throw problem(`${field}[${index}] is null`, field);
    return part;
  });
}

/** A string field, or its default. */
export function textField(part: Readonly<Record<string, unknown>>, name: string, missing?: string): string {
  const value = part[name] ?? missing;
  if (typeof value !== "string") throw problem(`${name} of ${String(part.type)} is not a string`, name);
  return value;
}

/** A string field of one character, or its default. */
export function characterField(part: TokenizerPart, name: string, missing?: string): string {
  const text = textField(part, name, missing);
  if ([...text].length !== 1) throw problem(`${name} of ${part.type} is not one character`, name);
  return text;
}

/** A switch of a part, or its default. @param owner whose it is, in errors */
export function flagField(
  part: Readonly<Record<string, unknown>>,
  name: string,
  missing = false,
  owner = String(part.type),
): boolean {
  const value = part[name] ?? missing;
  if (typeof value !== "boolean") throw problem(`${name} of ${shorten(owner)} is neither true nor false`, name);
  return value;
}

/** A count that a part gives, such as how many characters to strip. */
export function countField(part: TokenizerPart, name: string): number {
  const value = part[name];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw problem(`${name} of ${part.type} is not a whole number from 0`, name);
  }
  return value as number;
}

/** An id, checked. */
export function idField(value: unknown, token: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > MAX_IDS) {
    throw problem(`${quoted(token)} has the id ${quoted(value)}, not a whole number up to ${MAX_IDS}`, "vocab");
  }
  return value as number;
}

function modelOf(value: unknown): TokenizerPart & { type: ModelType } {
  if (!isObject(value)) throw problem("tokenizer.json has no model", "model");
  const type = value.type ?? guessType(value);
  if (typeof type !== "string" || !MODEL_TYPES.includes(type)) {
    throw problem(`its model is ${quoted(type)}; supported are ${MODEL_TYPES.join(", ")}`, "model.type");
  }
  return { ...value, type: type as ModelType };
}

/** Early versions do not name the type of their model. */
function guessType(model: Readonly<Record<string, unknown>>): ModelType {
  if (Array.isArray(model.merges) || model.merges instanceof LaterMerges) return "BPE";
  return Array.isArray(model.vocab) ? "Unigram" : "WordLevel";
}

function vocabularyOf(model: TokenizerPart): TokenIds {
  if (model.type === "BPE" && !(model.merges instanceof LaterMerges)) checkMerges(model.merges);
  if (model.vocab instanceof TokenTable) return model.vocab;
  const vocabulary = new TokenMap();
  if (model.type === "Unigram") {
    if (!Array.isArray(model.vocab)) throw problem("the vocabulary of a Unigram model must be a list", "model.vocab");
    for (const [id, entry] of (model.vocab as unknown[]).entries()) {
      if (!Array.isArray(entry) || typeof entry[0] !== "string" || typeof entry[1] !== "number") {
        throw problem(`entry ${id} of the vocabulary is not [token, score]`, "model.vocab");
      }
      vocabulary.set(entry[0], id);
    }
    return vocabulary;
  }
  if (!isObject(model.vocab)) throw problem("its vocabulary is not an object of ids by token", "model.vocab");
  for (const token of Object.keys(model.vocab)) vocabulary.set(token, idField(model.vocab[token], token));
  return vocabulary;
}

/** Merges as a tokenizer.json has them: "a b", or ["a", "b"]. */
export type Merges = readonly (string | readonly [string, string])[];

/** @throws CheckpointError if a value is something else, or has both */
export function checkMerges(merges: unknown): asserts merges is Merges {
  if (!Array.isArray(merges)) throw problem("its merges are not a list", "model.merges");
  const isPair = (merge: unknown) =>
    Array.isArray(merge) && merge.length === 2 && merge.every((token) => typeof token === "string");
  const paired = Array.isArray(merges[0]);
  const wrong = merges.findIndex((merge: unknown) => (paired ? !isPair(merge) : typeof merge !== "string"));
  if (wrong >= 0) throw problem(`merge ${wrong} is not a pair of tokens`, "model.merges");
}

function addedOf(value: unknown): AddedToken[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw problem("added_tokens is not a list", "added_tokens");
  return value.map((entry: unknown, index) => {
    if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") {
      throw problem(`added token ${index} has no content`, "added_tokens");
    }
    return { ...traitsOf(entry), content: entry.content, id: idField(entry.id, entry.content) };
  });
}

/** Traits of an added token; missing fields have the defaults of `tokenizers`. */
export function traitsOf(entry: Readonly<Record<string, unknown>>, isSpecial?: boolean) {
  const flag = (name: string, missing = false) => flagField(entry, name, missing, quoted(entry.content));
  const special = isSpecial ?? flag("special");
  return {
    singleWord: flag("single_word"),
    lstrip: flag("lstrip"),
    rstrip: flag("rstrip"),
    normalized: flag("normalized", !special),
    special,
  };
}
