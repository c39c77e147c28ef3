// Reads a checkpoint's tokens and their embedding rows from its tokenizer files.

import { join } from "node:path";
import { isFile, readBounded } from "../../kit/files/index.js";
import { CheckpointError } from "../../kit/index.js";
import type { Checkpoint } from "../checkpoint/checkpoint.js";

/** A token that was added to a tokenizer, as tokenizer.json describes it. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly [field: string]: unknown;
}

export interface Vocabulary {
  /** Row by token. */
  readonly rows: ReadonlyMap<string, number>;
  readonly added: ReadonlyMap<string, AddedToken>;
}

// The largest vocabularies (250,000 tokens) take 35 MB.
const MAX_BYTES = 300_000_000;
const MAX_ROWS = 10_000_000;

/** Folders that may have the tokenizer, in order: PEFT saves the one used in training beside the adapter. */
export function textFoldersOf({ texts, adapter }: Checkpoint): string[] {
  return adapter ? [adapter.path, texts] : [texts];
}

/** The bytes of a checkpoint's tokenizer.json; undefined where it has none. */
export async function tokenizerBytes(checkpoint: Checkpoint): Promise<Buffer | undefined> {
  for (const home of textFoldersOf(checkpoint)) {
    const file = join(home, "tokenizer.json");
    const tooLarge = () => new CheckpointError(`${file} is too large to be a tokenizer`, { file });
    if (await isFile(file)) return readBounded(file, MAX_BYTES, tooLarge);
  }
  return undefined;
}

/** The vocabulary of a tokenizer.json; undefined where it lists no tokens. */
export function parseVocabulary(bytes: Buffer, name: string): Vocabulary | undefined {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new CheckpointError(`tokenizer.json of ${name} is not JSON`, {}, error);
  }
  const { model, added_tokens: addedTokens } = (json ?? {}) as { model?: { vocab?: unknown }; added_tokens?: unknown };
  const rows = new Map<string, number>();
  const add = (token: unknown, row: unknown) => {
    if (typeof token !== "string") return;
    if (!Number.isSafeInteger(row) || (row as number) < 0 || (row as number) > MAX_ROWS) {
      throw new CheckpointError(`tokenizer.json of ${name} gives ${JSON.stringify(token)} the row ${String(row)}`, {});
    }
    rows.set(token, row as number);
  };
  // Byte pairs and word pieces map tokens to rows; unigram models list [token, score].
  const vocab = model?.vocab ?? {};
  if (Array.isArray(vocab))
    for (const [row, entry] of vocab.entries()) add(Array.isArray(entry) ? entry[0] : entry, row);
  else for (const [token, row] of Object.entries(vocab)) add(token, row);
  const added = new Map<string, AddedToken>();
  for (const entry of Array.isArray(addedTokens) ? (addedTokens as AddedToken[]) : []) {
    if (typeof entry !== "object" || entry === null || typeof entry.content !== "string") continue;
    add(entry.content, entry.id);
    added.set(entry.content, entry);
  }
  return rows.size > 0 ? { rows, added } : undefined;
}

/** Tokens of two vocabularies that share a row, though they are different. */
export function conflicts(a: Vocabulary, b: Vocabulary): string[] {
  const tokens = new Map([...a.rows].map(([token, row]) => [row, token]));
  return [...b.rows].flatMap(([token, row]) => {
    const other = tokens.get(row);
    return other === undefined || other === token ? [] : [`${JSON.stringify(other)} against ${JSON.stringify(token)}`];
  });
}

/** Tokens of a vocabulary that another lacks. */
export function missing(from: Vocabulary, inOther: Vocabulary): string[] {
  return [...from.rows.keys()].filter((token) => !inOther.rows.has(token));
}

/**
 * Bytes by the characters that byte-level tokenizers write for them: printable bytes as themselves, the others in order
 * from U+0100 (GPT-2's encoder.py, bytes_to_unicode).
 */
export const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  const table = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) table.set(String.fromCharCode(isPrintable(byte) ? byte : next++), byte);
  return table;
})();
