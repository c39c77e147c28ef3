// Character classes of Rust's crates where JavaScript's differ.

/** The content of Rust's class `\w` (UTS 18, annex C); JavaScript's is ASCII only. */
const WORD_CLASS = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d";

/** What the Whitespace pre-tokenizer keeps. */
export const WORDS = new RegExp(`[${WORD_CLASS}]+|[^${WORD_CLASS}\\p{White_Space}]+`, "gu");

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

/**
 * Marks, punctuation and characters with decompositions that the tables of `tokenizers`, of Unicode 8 and 9, do not have: it
 * leaves them as they are. Found by giving it every character; a range includes what no table tells apart.
 */
const UNKNOWN =
  "\\u061d\\u07fd\\u0897-\\u08d3\\u09fd-\\u09fe\\u0a76\\u0afa-\\u0aff\\u0b55\\u0c04-\\u0c3c\\u0c77\\u0c84\\u0cf3-\\u0d00\\u0d3b-" +
  "\\u0d3c\\u0d81\\u0eba\\u0ece\\u1715\\u180f\\u1abf-\\u1aeb\\u1b4e-\\u1b4f\\u1b7d-\\u1b7f\\u1cf7\\u1df6-\\u1dfa\\u2e43-\\u2e5d\\u32ff" +
  "\\ua7f1-\\ua7f4\\ua82c\\ua8ff\\uab69\\u{105c9}-\\u{107ba}\\u{10d24}-\\u{10f89}\\u{11070}-\\u{11074}\\u{110c2}\\u{11145}-" +
  "\\u{11146}\\u{111ce}-\\u{111cf}\\u{11241}\\u{1133b}\\u{11383}-\\u{113e2}\\u{1144b}-\\u{1145e}\\u{11660}-\\u{1166c}\\u{116b9}" +
  "\\u{1182c}-\\u{11be1}\\u{11c41}-\\u{11c71}\\u{11d31}-\\u{11fff}\\u{12ff1}-\\u{1612f}\\u{16d68}-\\u{16f4f}\\u{16f7f}-\\u{16f87}" +
  "\\u{16fe2}-\\u{16ff1}\\u{1ccd6}-\\u{1cf46}\\u{1e030}-\\u{1e6f5}\\u{1e95e}-\\u{1e95f}\\u{1f16c}\\u{1fbf0}-\\u{1fbf9}";

const UNKNOWN_CHARACTERS = new RegExp(`([${UNKNOWN}]+)`, "u");

/** Changes what stands between characters that `tokenizers` does not know. */
export function changeKnown(text: string, change: (part: string) => string): string {
  if (!UNKNOWN_CHARACTERS.test(text)) return change(text);
  const parts = text.split(UNKNOWN_CHARACTERS);
  return parts.map((part, i) => (i % 2 === 0 ? change(part) : part)).join("");
}

/** Punctuation in `tokenizers`: that of ASCII, and Unicode's class P. */
export const PUNCTUATION = new RegExp(`[[\\p{P}!-\\/:-@\\[-\`\\{-~]--[${UNKNOWN}]]`, "gv");
