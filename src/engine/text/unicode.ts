// Classes of characters as the regular expressions of Rust have them, where JavaScript's differ; and bytes of text.
// Not normalization: JavaScript has that.

/** The inside of a class that holds what `\w` holds in Rust (UTS 18, annex C); JavaScript's is ASCII only. */
export const WORD_CLASS = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d";

const AT_START = new RegExp(`^[${WORD_CLASS}]`, "u");
const AT_END = new RegExp(`[${WORD_CLASS}]$`, "u");

export function startsWithWord(text: string): boolean {
  return AT_START.test(text);
}

export function endsWithWord(text: string): boolean {
  // The last two units hold the last character; a search from the front of a long text would take its whole length.
  return AT_END.test(text.slice(-2));
}

/** Whether a UTF-16 unit is white space; all white space of Unicode is in the basic plane. */
export function isSpace(unit: string | undefined): boolean {
  return unit !== undefined && /\p{White_Space}/u.test(unit);
}

/** A pattern that matches these characters and nothing else. */
export function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/**
 * Byte by the character that byte-level tokenizers write it as: printable bytes as themselves, the others in order from
 * U+0100 on (GPT-2's encoder.py, bytes_to_unicode).
 */
export const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  const table = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) table.set(String.fromCharCode(isPrintable(byte) ? byte : next++), byte);
  return table;
})();
