// The value of an announced answer: a number, or the result of the equation that the number begins.
import { CURRENCY, type FoundNumber, type MgsmLanguage, numberAt } from "./numbers.js";

const SIGNS = "[^\\p{L}\\p{M}\\p{N}\\r\\n]";
/** Between phrase and number: colons, dashes, emphasis, currency, brackets, \boxed; no words, digits or line ends. */
const GAP = `${SIGNS}{0,16}?(?:(?:\\\\boxed\\{|\\\\text\\{|${CURRENCY})${SIGNS}{0,8}?)?`;
/** Where a number, its sign or the sign's currency begins. */
const BEGINS = `(?=-(?:${CURRENCY})?\\.?\\d|\\.?\\d)`;

const LEADING_SIGN = new RegExp(`^-(?:${CURRENCY})?`, "u");

const BLANK = "[^\\S\\r\\n]";
const EQUALS = "[=\\uff1d≈]";
/** From a phrase to its number: a gap, and one name with an equals sign, as in `x = 9`. */
export const INTRODUCES = `${GAP}(?:\\p{L}[\\p{L}\\p{M}\\p{N}_]{0,23}${BLANK}{0,3}${EQUALS}${GAP})?${BEGINS}`;
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
export function valueAt(text: string, at: number, language: MgsmLanguage): string | undefined {
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
