// Tokens as text, one by one.

import { bytesOfPart } from "../text/index.js";
import type { ServedModel } from "./served-model.js";

/** A token's text, and how many characters of the answer's text begin in it. */
export interface TokenText {
  /** Of a token that is not whole characters the bytes, in OpenAI's notation: `bytes:\xe3`. */
  readonly text: string;
  readonly bytes: readonly number[];
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
    const found = this.#read(id);
    this.#known.set(id, found);
    return found;
  }

  #read(id: number): TokenText {
    const text = this.#after(id, false);
    if (text.includes("\ufffd")) {
      const bytes = bytesOfPart(this.#tokenizer.tokenOf(id) ?? text);
      if (!isText(bytes)) return { text: nameOf(bytes), bytes: [...bytes], length: bytes.filter(begins).length };
    }
    // Special tokens are not part of the answer's text.
    return { text, bytes: [...Buffer.from(text, "utf8")], length: [...this.#after(id, true)].length };
  }

  #after(id: number, skipSpecialTokens: boolean): string {
    const decode = (ids: readonly number[]) => this.#tokenizer.decode(ids, { skipSpecialTokens });
    return decode([...this.#before, id]).slice(decode(this.#before).length);
  }
}

/** Whether a byte of UTF-8 begins a character. */
const begins = (byte: number): boolean => (byte & 0xc0) !== 0x80;

function isText(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Bytes with the printable characters of ASCII as they are, but the backslash. */
function nameOf(bytes: Uint8Array): string {
  const shown = Array.from(bytes, (byte) => {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x5c;
    return isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  });
  return `bytes:${shown.join("")}`;
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
