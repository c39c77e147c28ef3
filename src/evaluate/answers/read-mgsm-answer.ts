// The announced number (strict), and the last number (flexible). Neither falls back on the other.
import { RecipeError } from "../../core/index.js";
import { toAsciiNumbers } from "./digits.js";
import { INTRODUCES, valueAt } from "./equation.js";
import { ANSWER_PHRASES, lastNumber, MGSM_LANGUAGES, type MgsmLanguage } from "./numbers.js";

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

const phrasePatterns = new Map<string, RegExp>();

function phrasePattern(written: string): RegExp {
  let pattern = phrasePatterns.get(written);
  if (!pattern) {
    const phrase = written.normalize("NFC").replaceAll(" ?", "\\s*").replaceAll(" ", "\\s+");
    pattern = new RegExp(`(?<!\\p{L})(?:${phrase})(?![\\p{M}])${INTRODUCES}`, "giu");
    phrasePatterns.set(written, pattern);
  }
  return pattern;
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
  const strict =
    options.form === "number" ? leadingNumber(plain, language) : announcedNumber(plain, language, options.phrase);
  return { strict, flexible: lastNumber(plain, language)?.value };
}

export function isMgsmLanguage(code: string): code is MgsmLanguage {
  return (MGSM_LANGUAGES as readonly string[]).includes(code);
}

function announcedNumber(text: string, language: MgsmLanguage, phrase = ANSWER_PHRASES[language]): string | undefined {
  let value: string | undefined;
  for (const match of text.matchAll(phrasePattern(phrase))) {
    value = valueAt(text, match.index + match[0].length, language) ?? value;
  }
  return value;
}

function leadingNumber(text: string, language: MgsmLanguage): string | undefined {
  const match = new RegExp(`^\\s*${INTRODUCES}`, "u").exec(text);
  return match ? valueAt(text, match[0].length, language) : undefined;
}
