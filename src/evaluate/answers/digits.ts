// Digits and signs of all scripts as ASCII. Letters are unchanged.

const DIGIT = /\p{Nd}/u;
const OTHER_DIGITS = /(?![0-9])\p{Nd}/gu;

/**
 * The value of a decimal digit of any script. Unicode keeps the ten digits of a script in a row, from zero up, and a
 * run of several scripts (mathematical digits) is a multiple of ten.
 */
function digitValue(digit: string): number {
  const code = digit.codePointAt(0) ?? 0;
  let start = code;
  while (DIGIT.test(String.fromCodePoint(start - 1))) start--;
  return (code - start) % 10;
}

const SIGNS: readonly (readonly [RegExp, string])[] = [
  // Direction marks around signs in right-to-left text, and the word joiner.
  [/[\u200e\u200f\u061c\u2066-\u2069\u2060]/gu, ""],
  // Full-width and small comma, Arabic thousands separator.
  [/[\uff0c\ufe50\u066c]/gu, ","],
  // Full-width and small full stop, Arabic decimal separator.
  [/[\uff0e\ufe52\u066b]/gu, "."],
  // Minus sign, full-width and small hyphen-minus, superscript minus. Dashes separate words, so they stay.
  [/[\u2212\uff0d\ufe63\u207b]/gu, "-"],
  // Apostrophes between groups of digits.
  [/(?<=\d)[\u2019\u02bc\uff07](?=\d{3})/gu, "'"],
  // TeX: \$ and \%, {,} and \, within numbers.
  [/\\([$%])/gu, "$1"],
  [/(?<=\d)\{,\}(?=\d)/gu, ","],
  [/(?<=\d)\\,(?=\d)/gu, "\u202f"],
];

/** Text with ASCII digits, points, commas and minus signs, in Unicode's composed form. */
export function toAsciiNumbers(text: string): string {
  const digits = text.normalize("NFC").replace(OTHER_DIGITS, (digit) => String(digitValue(digit)));
  return SIGNS.reduce((result, [sign, ascii]) => result.replace(sign, ascii), digits);
}
