// The eleven languages of MGSM, and how its exemplars announce an answer in each of them.

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
