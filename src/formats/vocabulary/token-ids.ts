// Moves the token ids in a configuration to another vocabulary, by the texts of the tokens.

import { type JsonObject, MismatchError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { isTower } from "../checkpoint/config.js";
import type { Alignment } from "./alignment.js";
import type { Labelled } from "./compatibility.js";
import { parseVocabulary, tokenizerBytes, type Vocabulary } from "./vocabulary.js";

/** Fields with an id, ids, or lists of ids. Older configurations of multimodal models write `_index`. */
const ID_FIELD = /_token_(id|ids|index)$|^(begin_)?suppress_tokens$|^(bad|force)_words_ids$/;

/** Fields without which a model still runs. */
const OPTIONAL =
  /^(bos|eos|pad|unk|sep|cls|mask|forced_bos|forced_eos)_token_id$|^(begin_)?suppress_tokens$|_words_ids$/;

export interface MovedIds {
  /** Fields that change; those of a text tower within an object of its name. */
  readonly fields: JsonObject;
  readonly notes: readonly string[];
}

/**
 * The fields of a configuration that name tokens, for the vocabulary of another checkpoint.
 * @param common the vocabulary that all rows were brought to; by default no row moves
 * @throws MismatchError if the vocabulary lacks a token that the model needs, such as that of an image
 */
export async function moveTokenIds(
  from: Labelled,
  to: Labelled,
  common?: Pick<Alignment, "rows" | "added">,
): Promise<MovedIds> {
  const [bytes, theirs] = [await tokenizerBytes(from.checkpoint), await tokenizerBytes(to.checkpoint)];
  if (!bytes || !theirs || bytes.equals(theirs)) return { fields: {}, notes: [] };
  const own = parseVocabulary(bytes, from.checkpoint.name);
  const other = parseVocabulary(theirs, to.checkpoint.name);
  if (!own || !other) return { fields: {}, notes: [] };
  const rows = new Map([...other.rows, ...(common?.added ?? []).map(({ content, id }) => [content, id] as const)]);
  const { json } = to.checkpoint.config;
  const instead = { ...textTowerOf(json), ...json };
  const { fields, lacking } = translateIds(from.checkpoint.config.json, own, rows, instead, common?.rows);
  const [token] = lacking.keys();
  if (token === undefined) return { fields, notes: [] };
  const named = [...lacking].map(([text, field]) => `${text} (${field})`);
  const needed = [...lacking.values()].find((field) => !OPTIONAL.test(field) && !(field in instead));
  if (common && needed !== undefined) {
    throw new MismatchError("This vocabulary lacks tokens that the model needs:", [
      `${needed} of ${from.label} names a token that ${to.label} lacks: ${formatSome(named)}. Set vocabulary to ${from.label} or union`,
    ]);
  }
  const outcome = common
    ? `a field without another token takes the value of ${to.label}, or becomes null`
    : `name ${from.label} as tokenizer_from to use them`;
  const note = `the vocabulary of ${to.label} lacks ${formatSome(named)}, which the configuration of ${from.label} names; ${outcome}`;
  return { fields, notes: [note] };
}

/**
 * @param rows rows by token in the new vocabulary
 * @param instead fields for those that have none of their tokens left
 * @param count rows of the new vocabulary; undefined if rows without a known token stay
 * @returns the fields that change, and the first field by token that the new vocabulary lacks
 */
export function translateIds(
  json: JsonObject,
  { rows: own }: Vocabulary,
  rows: ReadonlyMap<string, number>,
  instead: JsonObject,
  count: number | undefined,
): { readonly fields: JsonObject; readonly lacking: ReadonlyMap<string, string> } {
  const textAt = new Map([...own].map(([text, row]) => [row, text]));
  const taken = new Set(rows.values());
  const lacking = new Map<string, string>();
  const move = (value: unknown, field: string): unknown => {
    if (Array.isArray(value)) {
      const moved = value.map((one) => move(one, field)).filter((one) => one !== undefined);
      return moved.length > 0 || value.length === 0 ? moved : undefined;
    }
    if (typeof value !== "number" || value < 0) return value;
    const text = textAt.get(value);
    const row = text === undefined ? undefined : rows.get(text);
    if (row !== undefined) return row;
    const isPadding = text === undefined && !taken.has(value) && value < (count ?? Infinity);
    const name = text ?? `row ${value}`;
    if (!isPadding && !lacking.has(name)) lacking.set(name, field);
    return isPadding || count === undefined ? value : undefined;
  };
  const changed = (part: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(part).flatMap(([key, value]) => {
        if (isTower(key, value)) {
          const inner = changed(value);
          return Object.keys(inner).length > 0 ? [[key, inner]] : [];
        }
        if (!ID_FIELD.test(key)) return [];
        const moved = move(value, key);
        const made = moved === undefined ? (instead[key] ?? null) : moved;
        return JSON.stringify(made) === JSON.stringify(value) ? [] : [[key, made]];
      }),
    );
  return { fields: changed(json), lacking };
}

function textTowerOf(json: JsonObject): JsonObject {
  const tower = Object.entries(json).find(([key, value]) => isTower(key, value));
  return (tower?.[1] ?? {}) as JsonObject;
}
