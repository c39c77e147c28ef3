// Character classes of Rust's regular expressions where JavaScript's differ, and bytes of text.

/** The content of Rust's class `\w` (UTS 18, annex C); JavaScript's is ASCII only. */
export const WORD_CLASS = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d";

const AT_START = new RegExp(`^[${WORD_CLASS}]`, "u");
const AT_END = new RegExp(`[${WORD_CLASS}]$`, "u");

export function startsWithWord(text: string): boolean {
  return AT_START.test(text);
}

export function endsWithWord(text: string): boolean {
  // The last character has at most two units; a search from the start would scan the whole text.
  return AT_END.test(text.slice(-2));
}

/** Whether a UTF-16 unit is white space; all white space of Unicode is in the basic plane. */
export function isSpace(unit: string | undefined): boolean {
  return unit !== undefined && /\p{White_Space}/u.test(unit);
}

/** A pattern that matches exactly this text. */
export function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
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
