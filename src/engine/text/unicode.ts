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
