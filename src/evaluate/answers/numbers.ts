export const MGSM_LANGUAGES = ["bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh"] as const;
export type MgsmLanguage = (typeof MGSM_LANGUAGES)[number];

/**
 * The words before the number, as case-insensitive regular expressions; a space in them matches any white space. A
 * colon, a dash, emphasis or a currency may follow. "Answer:" alone does not count, as it also heads the steps.
 */
export const ANSWER_PHRASES: Readonly<Record<MgsmLanguage, string>> = {
  bn: "উত্তর (?:হলো|হল|হচ্ছে)",
  // The first of the German exemplars says "ist", the others "lautet".
  de: "die antwort (?:lautet|ist|beträgt)",
  en: "the (?:final )?answer is",
  es: "la respuesta (?:final )?es",
  fr: "la réponse (?:finale )?est",
  ja: "答え ?は",
  ru: "ответ(?: равен| составляет|:? это)?",
  sw: "jibu ni",
  // Not the heading of the steps, which ends in the same word.
  te: "(?<!దశలవారీగా )సమాధానం",
  th: "คำตอบ ?คือ",
  zh: "答案 ?(?:是|为|為|(?=[:：]))",
};

/** Currencies in words, alone or before a sign: EUR 5, US$ 5, dola 5. */
const CURRENCY_WORDS = "(?:US|EUR|USD|CHF|GBP|INR|BDT|THB|RUB|JPY|CNY|RMB|KES|TZS|KSh|TSh|Rs\\.?|dola|shilingi)";

/** A currency before a number, as a regular expression; the space after it is part of it. */
export const CURRENCY = `(?:${CURRENCY_WORDS}|${CURRENCY_WORDS}?\\p{Sc})\\s?`;
export interface FoundNumber {
  /** In canonical form: `2125`, `-3`, `0.5`. */
  readonly value: string;
  readonly start: number;
  readonly end: number;
}

/** Languages in which a comma before digits is a decimal point, unless the digits are a group of three. */
const COMMA_DECIMALS: readonly MgsmLanguage[] = ["de", "es", "fr", "ru"];
/** Languages in which a single point before three digits separates thousands. */
const POINT_GROUPS: readonly MgsmLanguage[] = ["de", "es", "ru"];
/** Languages that count in myriads: 2万5千, 1億. */
const MYRIADS: readonly MgsmLanguage[] = ["ja", "zh"];

/**
 * Words of powers of ten that follow a number, by language; in Swahili they come before it (elfu 2). Case does not count. In
 * English also a k right after the digits, which is no name in an equation.
 */
const SCALES: Readonly<Partial<Record<MgsmLanguage, Readonly<Record<number, string>>>>> = {
  bn: { 3: "হাজার", 5: "লক্ষ|লাখ", 6: "মিলিয়ন", 7: "কোটি" },
  de: { 3: "tausend", 6: "millionen|million|mio\\.?", 9: "milliarden|milliarde|mrd\\.?" },
  en: { 3: "thousand", 6: "million", 9: "billion" },
  es: { 9: "mil millones", 3: "mil", 6: "millones|millón" },
  fr: { 3: "mille", 6: "millions|million", 9: "milliards|milliard" },
  ru: { 3: "тысяч[аиу]?|тыс\\.?", 6: "миллион(?:ов|а)?|млн\\.?", 9: "миллиард(?:ов|а)?|млрд\\.?" },
  sw: { 3: "elfu", 5: "laki", 6: "milioni", 9: "bilioni" },
  te: { 3: "వేలు|వేల", 5: "లక్షలు|లక్షల|లక్ష", 6: "మిలియన్లు|మిలియన్ల|మిలియన్", 7: "కోట్లు|కోట్ల|కోటి" },
  th: { 3: "พัน(?!ธ)", 4: "หมื่น", 5: "แสน", 6: "ล้าน" },
};
const SHORT_THOUSAND = /k(?![\p{L}\d])(?!\s*[-+*/^=])/iuy;

/** The words that scale a number in Swahili, with the space after them, as a regular expression. */
export const SCALES_BEFORE = `(?:${Object.values(SCALES.sw ?? {}).join("|")})\\s`;

// Plain, no-break, narrow no-break, thin and figure space separate thousands in any language (ISO 80000-1, 7.3.1).
const SPACES = " \\u00a0\\u202f\\u2009\\u2007";

/** Languages that put no space between a word and a number. */
const UNSPACED: readonly MgsmLanguage[] = ["ja", "th", "zh"];

/**
 * The pattern of a number. A sign counts only where no letter, digit or bracket stands right before it, nor a digit or
 * bracket and a space: `9-5` and `8 -3` are differences, `COVID-19` is a name. Groups have one separator throughout.
 */
function buildPattern(language: MgsmLanguage): string {
  const letters = UNSPACED.includes(language) ? "A-Za-z" : "\\p{L}\\p{M}";
  const sign = `(?:(?<![${letters}\\d)\\]%])(?<![\\d)\\]%]\\s{1,2})(?<sign>-)(?:${CURRENCY})?)?`;
  const end = "(?!\\d)";
  const groups = [
    // One separator, any number of groups of three; a point only where one group is enough to tell.
    `[1-9]\\d{0,2}(?<separator>[,'${SPACES}]${POINT_GROUPS.includes(language) ? "|\\." : ""})\\d{3}(?:\\k<separator>\\d{3})*${end}`,
    // A point between two groups or more, or before a decimal comma, is never a decimal point.
    `[1-9]\\d{0,2}(?:\\.\\d{3}){2,}${end}`,
    `[1-9]\\d{0,2}(?:\\.\\d{3})+(?=,\\d)`,
    // Indian grouping: 1,14,200.
    `[1-9]\\d?(?:,\\d{2})+,\\d{3}${end}`,
    "\\d+",
  ];
  const comma = COMMA_DECIMALS.includes(language) ? "[.,]" : "\\.";
  // After groups the other of the two is decimal in any language; the check is in `read`.
  const decimals = `(?:${comma}\\d+|,\\d+(?<=[.${SPACES}]\\d{3},\\d+))?`;
  return `${sign}(?:(?<whole>${groups.join("|")})(?<decimals>${decimals})|(?<![\\d.,)\\p{L}\\p{M}])(?<bare>[.]\\d+))`;
}

const patterns = new Map<MgsmLanguage, RegExp>();

function patternOf(language: MgsmLanguage): RegExp {
  let pattern = patterns.get(language);
  if (!pattern) {
    pattern = new RegExp(buildPattern(language), "uy");
    patterns.set(language, pattern);
  }
  return pattern;
}

/**
 * The number that begins at a place of a text, whose digits are ASCII; undefined where none does. A quotient of two
 * numbers (1/2) is not one, nor is a ratio or a time (10:30), nor a mixed number whose decimals do not end (3 1/3).
 * @param inExpression whether the number may be a term of a quotient, for callers that read the operators themselves
 */
export function numberAt(
  text: string,
  at: number,
  language: MgsmLanguage,
  inExpression = false,
): FoundNumber | undefined {
  const first = plainAt(text, at, language, inExpression);
  if (!first) return undefined;
  return MYRIADS.includes(language) ? withMyriads(text, first, language) : scaled(text, first, language);
}

const scales = new Map<MgsmLanguage, readonly (readonly [power: number, pattern: RegExp])[]>();

/** A number with the word that scales it, if one stands there. Sums of several (2 thousand 500) are not read as one. */
function scaled(text: string, first: FoundNumber, language: MgsmLanguage): FoundNumber {
  let known = scales.get(language);
  if (!known) {
    const end = UNSPACED.includes(language) ? "" : "(?![\\p{L}\\p{M}\\p{N}])";
    known = Object.entries(SCALES[language] ?? {})
      // The longer of two words first: mil millones.
      .sort(([, one], [, other]) => other.length - one.length)
      .map(([power, words]) => [Number(power), new RegExp(`[${SPACES}-]?(?:${words})${end}`, "iuy")]);
    scales.set(language, known);
  }
  const times = (power: number, end: number): FoundNumber => {
    const [digits = "", fraction = ""] = first.value.replace("-", "").split(".");
    const sign = first.value.startsWith("-") ? "-" : "";
    return { value: canonical(`${sign}${timesPowerOfTen(digits, fraction, power)}`), start: first.start, end };
  };
  if (language === "sw") {
    const before = BEFORE.exec(text.slice(Math.max(0, first.start - 12), first.start))?.[1]?.toLowerCase();
    const [power] = Object.entries(SCALES.sw ?? {}).find(([, word]) => word === before) ?? [];
    return power === undefined ? first : times(Number(power), first.end);
  }
  for (const [power, pattern] of known) {
    pattern.lastIndex = first.end;
    if (pattern.test(text)) return times(power, pattern.lastIndex);
  }
  SHORT_THOUSAND.lastIndex = first.end;
  return language === "en" && SHORT_THOUSAND.test(text) ? times(3, SHORT_THOUSAND.lastIndex) : first;
}

const BEFORE = new RegExp(`(?<![\\p{L}\\p{M}])(${SCALES_BEFORE.replace("\\s", ")\\s")}$`, "iu");

/** What makes a whole number a mixed one: 3 1/2. A larger numerator, or more after it, is no part of it: 3 7/2, 1 1/2/2024. */
const MIXED = new RegExp(`[${SPACES}]{1,2}(\\d{1,3})/([1-9]\\d{0,3})(?![\\d/]|[.,]\\d)`, "uy");

/** The decimals of a proper fraction; undefined where they do not end. */
function decimalsOf(numerator: bigint, denominator: bigint): string | undefined {
  // 2 to the power of 13 is above every denominator, so 13 digits are enough for those that end.
  const scaled = numerator * 10n ** 13n;
  if (scaled % denominator !== 0n) return undefined;
  return String(scaled / denominator).padStart(13, "0");
}

/** 1e3, 1.5E-3: how programs write powers of ten. */
const EXPONENT = /[eE]([+-]?\d{1,3})(?![\p{L}\d])/uy;

function plainAt(text: string, at: number, language: MgsmLanguage, inExpression = false): FoundNumber | undefined {
  const pattern = patternOf(language);
  pattern.lastIndex = at;
  const match = pattern.exec(text);
  if (!match) return undefined;
  const { sign, whole = "", separator, bare } = match.groups ?? {};
  let decimals = match.groups?.decimals ?? "";
  let end = at + match[0].length;
  // 1,234,5 is not a number: the separator of groups cannot also begin the decimals.
  if (separator !== undefined && decimals.startsWith(separator)) {
    end -= decimals.length;
    decimals = "";
  }
  const isQuotient = /^[/:]\d/.test(text.slice(end, end + 2)) || /\d[/:]$/.test(text.slice(Math.max(0, at - 2), at));
  if (isQuotient && !inExpression) return undefined;
  EXPONENT.lastIndex = end;
  const exponent = EXPONENT.exec(text);
  if (exponent) end = EXPONENT.lastIndex;
  const digits = whole.replace(/\D/gu, "") || "0";
  let fraction = (bare ?? decimals).replace(/\D/gu, "");
  MIXED.lastIndex = end;
  const [, numerator = 0, denominator = 0] = (fraction === "" && !exponent && MIXED.exec(text)) || [];
  if (Number(numerator) < Number(denominator)) {
    const part = decimalsOf(BigInt(numerator), BigInt(denominator));
    if (part === undefined) return undefined;
    [fraction, end] = [part, MIXED.lastIndex];
  }
  const value = timesPowerOfTen(digits, fraction, Number(exponent?.[1] ?? 0));
  return { value: canonical(`${sign ?? ""}${value}`), start: at, end };
}

/** The last number of a text. Within a number only its beginning is looked at, so that no part of one is taken. */
export function lastNumber(text: string, language: MgsmLanguage): FoundNumber | undefined {
  let last: FoundNumber | undefined;
  let at = 0;
  for (const { index } of text.matchAll(/(?<!\d)\d|[.-]/g)) {
    if (index < at) continue;
    const found = numberAt(text, index, language);
    if (!found) continue;
    last = found;
    at = found.end;
  }
  return last;
}

/** Units within a section of four digits, and those that end one. */
const SMALL_UNITS: Readonly<Record<string, number>> = { 千: 3, 百: 2 };
const LARGE_UNITS: Readonly<Record<string, number>> = { 億: 8, 亿: 8, 万: 4, 萬: 4 };
/** After a number these begin a measure: 千克 is a kilogram, 百分 a percentage. */
const MEASURES = /^ ?(?:千[克米瓦卡焦赫帕伏字]|百分)/u;

/**
 * 2万5千 = 25000, 3千万 = 30000000: digits with units, each smaller than the one before, and digits without one at the
 * end. Only a first part with one unit may have decimals (2.5万).
 */
function withMyriads(text: string, first: FoundNumber, language: MgsmLanguage): FoundNumber {
  const unitAt = (at: number, units: Readonly<Record<string, number>>) => {
    const place = text[at] === " " ? at + 1 : at;
    const power = MEASURES.test(text.slice(at, at + 3)) ? undefined : units[text[place] ?? ""];
    return power === undefined ? undefined : { power, end: place + 1 };
  };
  const [digits = "", fraction = ""] = first.value.replace("-", "").split(".");
  const sign = first.value.startsWith("-") ? "-" : "";
  if (fraction !== "") {
    const unit = unitAt(first.end, LARGE_UNITS) ?? unitAt(first.end, SMALL_UNITS);
    if (!unit) return first;
    return { ...first, value: canonical(`${sign}${timesPowerOfTen(digits, fraction, unit.power)}`), end: unit.end };
  }

  let [total, section, end] = [0n, 0n, first.start];
  let [large, small] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let part: FoundNumber | undefined = first; part && /^-?\d+$/.test(part.value); ) {
    const tens = unitAt(part.end, SMALL_UNITS);
    if (tens && tens.power >= small) break;
    section += BigInt(part.value.replace("-", "")) * 10n ** BigInt(tens?.power ?? 0);
    small = tens?.power ?? 0;
    end = tens?.end ?? part.end;
    const myriads = unitAt(end, LARGE_UNITS);
    if (myriads && myriads.power < large) {
      total += section * 10n ** BigInt(myriads.power);
      [section, large, small, end] = [0n, myriads.power, Number.POSITIVE_INFINITY, myriads.end];
    } else if (small === 0) break;
    part = /\d/.test(text[end] ?? "") ? plainAt(text, end, language) : undefined;
  }
  return { value: canonical(`${sign}${total + section}`), start: first.start, end };
}

/** The decimal `digits.fraction` with its point moved to the right, or to the left for a negative power. */
function timesPowerOfTen(digits: string, fraction: string, power: number): string {
  const all = "0".repeat(Math.max(0, -power)) + digits + fraction.padEnd(Math.max(0, power), "0");
  const point = digits.length + Math.max(0, -power) + power;
  return `${all.slice(0, point)}.${all.slice(point)}`;
}

/** `-007.50` as `-7.5`, `-0` as `0`. */
function canonical(decimal: string): string {
  const isNegative = decimal.startsWith("-");
  const [digits = "", fraction = ""] = decimal.replace("-", "").split(".");
  const whole = digits.replace(/^0+(?=\d)/, "");
  const rest = fraction.replace(/0+$/, "");
  const value = rest === "" ? whole : `${whole}.${rest}`;
  return isNegative && value !== "0" ? `-${value}` : value;
}

/** The canonical form of a plain decimal such as a gold answer (`2,125`, `11.0`); undefined where it is none. */
export function parseDecimal(text: string): string | undefined {
  const plain = text.trim().replace(/(?<=\d),(?=\d{3})/g, "");
  return /^-?\d+(\.\d+)?$/.test(plain) ? canonical(plain) : undefined;
}

/** Whether two numbers, each a plain decimal, are equal: `11.0` equals `11`, and not `110`. */
export function sameNumber(a: string | undefined, b: string | undefined): boolean {
  const [x, y] = [a, b].map((text) => (text === undefined ? undefined : parseDecimal(text)));
  return x !== undefined && x === y;
}
