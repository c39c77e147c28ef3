// Tokens in one form for all kinds of tokenizers, and as the text that they stand for.
import { join } from "node:path";
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { BYTE_OF, type Vocabulary } from "../../formats/vocabulary/index.js";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { isObject } from "../../kit/index.js";

/** Special tokens that have a part in every text; config.json has their rows as `bos_token_id` and so on. */
export const ROLES = ["bos_token", "eos_token", "unk_token", "pad_token"];

/** Rows by token: `bytes`, `added` or `role`, and the token's bytes as characters, its text, or its role. */
export async function tokensOf(checkpoint: Checkpoint, vocabulary: Vocabulary): Promise<Map<string, number>> {
  const tokens = new Map<string, number>();
  for (const [token, at] of vocabulary.rows) tokens.set(keyOf(token, vocabulary), at);
  const file = join(checkpoint.texts, "tokenizer_config.json");
  const settings = (await exists(file)) ? await readJsonObject(file) : {};
  for (const role of ROLES) {
    const named = settings[role];
    const content = isObject(named) ? named.content : named;
    const at = typeof content === "string" ? vocabulary.rows.get(content) : undefined;
    if (at !== undefined) tokens.set(`role ${role}`, at);
  }
  return tokens;
}

function keyOf(token: string, { rows, added }: Vocabulary): string {
  if (added.has(token)) return `added ${token}`;
  const isByteLevel = rows.has("Ġ") || rows.has("Ġthe");
  return `bytes ${isByteLevel ? byteLevel(token) : sentencePiece(token)}`;
}

/** The text of a token; undefined for bytes that are not text. */
export function textOf(token: string, vocabulary: Vocabulary): string | undefined {
  const key = keyOf(token, vocabulary);
  if (!key.startsWith("bytes ")) return token;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(key.slice(6), "latin1"));
  } catch {
    return undefined;
  }
}

const byteLevel = (token: string) => Buffer.from([...token].map((one) => BYTE_OF.get(one) ?? 0)).toString("latin1");

function sentencePiece(token: string): string {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token)?.[1];
  return byte
    ? String.fromCharCode(Number.parseInt(byte, 16))
    : Buffer.from(token.replaceAll("▁", " ")).toString("latin1");
}
