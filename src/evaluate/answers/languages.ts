// The eleven languages of MGSM, and how an answer is announced in each of them.
// Prompts are tasks/mgsm.ts's; the sentences here are those of the data set's exemplars and their usual variants.

export const MGSM_LANGUAGES = ["bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh"] as const;
export type MgsmLanguage = (typeof MGSM_LANGUAGES)[number];

/**
 * What stands before the number, as regular expressions without case; a space in them is any run of white space. A
 * colon, a dash, emphasis or a currency may come between the phrase and the number. "Answer:" alone is no such phrase:
 * it heads the steps too.
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

/** What may stand before a number besides a sign of currency, or with one: EUR 5, US$ 5, dola 5. */
const CURRENCY_WORDS = "(?:US|EUR|USD|CHF|GBP|INR|BDT|THB|RUB|JPY|CNY|RMB|KES|TZS|KSh|TSh|Rs\\.?|dola|shilingi)";

/** A currency before a number, as a regular expression; the space after it is part of it. */
export const CURRENCY = `(?:${CURRENCY_WORDS}|${CURRENCY_WORDS}?\\p{Sc})\\s?`;
