// The announced number (strict), and the last number (flexible). Neither falls back on the other.
import { RecipeError } from "../../kit/index.js";
import {
  ANSWER_PHRASES,
  CURRENCY,
  type FoundNumber,
  lastNumber,
  MGSM_LANGUAGES,
  type MgsmLanguage,
  numberAt,
  SCALES_BEFORE,
} from "./numbers.js";

const SIGNS = "[^\\p{L}\\p{M}\\p{N}\\r\\n]";
/** Between phrase and number: colons, dashes, emphasis, currency, brackets, \boxed; no words, digits or line ends. */
const GAP = `${SIGNS}{0,16}?(?:(?:\\\\boxed\\{|\\\\text\\{|${CURRENCY})${SIGNS}{0,8}?)?(?:${SCALES_BEFORE})?`;
/** Where a number, its sign or the sign's currency begins. */
const BEGINS = `(?=-(?:${CURRENCY})?\\.?\\d|\\.?\\d)`;

const LEADING_SIGN = new RegExp(`^-(?:${CURRENCY})?`, "u");

const BLANK = "[^\\S\\r\\n]";
const EQUALS = "[=\\uff1d≈]";
/** From a phrase to its number: a gap, and one name with an equals sign, as in `x = 9`. */
const INTRODUCES = `${GAP}(?:\\p{L}[\\p{L}\\p{M}\\p{N}_]{0,23}${BLANK}{0,3}${EQUALS}${GAP})?${BEGINS}`;
// A lone * between blanks or digits multiplies; beside a word or a number's end it is Markdown's emphasis. A colon between
// digits divides, so that 10:30 is an expression without a result.
const OPERATOR =
  `(?:[-+×·÷/^\\u2013\\uff0b\\uff0f]|(?<=${BLANK})[*x:](?=${BLANK})|(?<=\\d)[*x](?=[\\d(])|(?<=\\d)[:\\uff1a](?=\\d)|` +
  "\\\\(?:times|cdot|div)(?!\\p{L}))";
/** From one number of an equation to the next: brackets, a unit of one word, an operator or an equals sign. */
const JOINT = new RegExp(
  `[)}\\]%$]{0,3}(?<unit>${BLANK}?[\\p{L}\\p{M}\\p{Sc}]{1,24}\\.?)?[)}\\]]{0,3}${BLANK}{0,3}` +
    `(?:(?<equals>${EQUALS})${GAP}|${OPERATOR}${BLANK}{0,3}[({[$]{0,3}(?:${CURRENCY})?)${BEGINS}`,
  "uy",
);

/**
 * The value at a place where a number begins. Of an equation (`5 + 3 = 8`) it is the last side that is a number by
 * itself, so that `8 = 5 + 3` is 8, too; an expression without a result has none.
 */
function valueAt(text: string, at: number, language: MgsmLanguage): string | undefined {
  const first = signedNumberAt(text, at, language);
  let value: string | undefined;
  let [last, terms, hasEquals, isDash] = [first, 1, false, false];
  while (last) {
    JOINT.lastIndex = last.end;
    const joint = JOINT.exec(text);
    const next = joint && signedNumberAt(text, JOINT.lastIndex, language);
    // The side ends here, or with the chain.
    if (terms === 1 && (!next || joint?.groups?.equals)) value = last.value;
    if (!joint || !next) break;
    const { equals, unit } = joint.groups ?? {};
    // `8 apples - 3 more` is not a difference unless an equals sign follows.
    if (last === first && !equals) isDash = unit !== undefined;
    hasEquals ||= equals !== undefined;
    terms = equals ? 1 : terms + 1;
    last = next;
  }
  return !hasEquals && isDash ? first?.value : value;
}

/** The number at a place where a minus may be only a dash, as after a letter. */
function signedNumberAt(text: string, at: number, language: MgsmLanguage): FoundNumber | undefined {
  const sign = LEADING_SIGN.exec(text.slice(at, at + 12))?.[0] ?? "";
  return numberAt(text, at, language, true) ?? numberAt(text, at + sign.length, language, true);
}

const DIGIT = /\p{Nd}/u;
const OTHER_DIGITS = /(?![0-9])\p{Nd}/gu;
/** From ¼ to ⅞: fractions in one sign. */
const FRACTIONS = /[\u00bc-\u00be\u2150-\u215e]/gu;

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

const ASCII_SIGNS: readonly (readonly [RegExp, string])[] = [
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
  // TeX's \frac{1}{2} is 1/2, with a space before it, as in 3\frac{1}{2}.
  [/\\[dt]?frac\{(\d+)\}\{(\d+)\}/gu, " $1/$2"],
  [/(?<=\d)\u2044(?=\d)/gu, "/"],
  // TeX: \$ and \%, {,} and \, within numbers.
  [/\\([$%])/gu, "$1"],
  [/(?<=\d)\{,\}(?=\d)/gu, ","],
  [/(?<=\d)\\,(?=\d)/gu, "\u202f"],
];

/** Text with ASCII digits, points, commas and minus signs, in Unicode's composed form. */
export function toAsciiNumbers(text: string): string {
  const digits = text
    .normalize("NFC")
    .replace(OTHER_DIGITS, (digit) => String(digitValue(digit)))
    .replace(FRACTIONS, (sign) => ` ${sign.normalize("NFKD")}`);
  return ASCII_SIGNS.reduce((result, [sign, ascii]) => result.replace(sign, ascii), digits);
}

export interface MgsmAnswer {
  /**
   * The number directly after the language's answer phrase, the last one that is announced so; of an equation its
   * result. In plain decimal digits.
   */
  readonly strict: string | undefined;
  /** The last number of the text. */
  readonly flexible: string | undefined;
}

export interface MgsmAnswerOptions {
  /**
   * What is asked for: `reasoning`: steps that end in an announced answer (default); `number`: the answer alone, so
   * that the strict reading is the number that the text begins with.
   */
  readonly form?: "reasoning" | "number";
  /** Phrase that announces an answer, in place of the language's: words, and | between several. */
  readonly phrase?: string | undefined;
}

/** 2024-05-01, 1.5.2024 and 2024年5月1日. Dates with slashes are quotients, which are not numbers either. */
const DATE = /(?<![\d.,])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}\.\d{1,2}\.\d{4})(?!\d)|\d{4}年\d{1,2}月\d{1,2}日/gu;

const LEADING = new RegExp(`^\\s*${INTRODUCES}`, "gu");

function announcedBy(written: string): RegExp {
  const phrase = written.normalize("NFC").replaceAll(" ?", "\\s*").replaceAll(" ", "\\s+");
  return new RegExp(`(?<!\\p{L})(?:${phrase})(?![\\p{M}])${INTRODUCES}`, "giu");
}

/**
 * Reads the answer to an MGSM problem. Digits of every script, thousands separators of every language, signs, decimals,
 * currency and percent signs are understood; see numbers.ts. Numbers in words are not.
 * @param language code of MGSM: bn, de, en, es, fr, ja, ru, sw, te, th, zh
 * @throws RecipeError for another language
 */
export function readMgsmAnswer(text: string, language: string, options: MgsmAnswerOptions = {}): MgsmAnswer {
  if (!isMgsmLanguage(language)) {
    const message = `MGSM has no language ${language}; it has ${MGSM_LANGUAGES.join(", ")}`;
    throw RecipeError.at({ field: "language" }, message);
  }
  const plain = toAsciiNumbers(text).replace(DATE, "\0");
  const { form, phrase = ANSWER_PHRASES[language] } = options;
  let strict: string | undefined;
  for (const { 0: words, index } of plain.matchAll(form === "number" ? LEADING : announcedBy(phrase))) {
    strict = valueAt(plain, index + words.length, language) ?? strict;
  }
  return { strict, flexible: lastNumber(plain, language)?.value };
}

export function isMgsmLanguage(code: string): code is MgsmLanguage {
  return (MGSM_LANGUAGES as readonly string[]).includes(code);
}
