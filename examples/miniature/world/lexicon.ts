// The words of the miniature's world, in English and in Swahili. No sentences here (sentences.ts).

/** A language of the world. */
export type Language = "en" | "sw";

/** A word or phrase in both languages; an empty one is not said. */
export interface Term {
  readonly en: string;
  readonly sw: string;
}

export interface Verb extends Term {
  /** What the act does to how many one has. */
  readonly sign: 1 | -1;
}

/** Common on the Swahili coast; the same in both languages, and one token each. */
export const NAMES = [
  ...["Asha", "Juma", "Neema", "Baraka", "Amina", "Daudi"],
  ...["Zawadi", "Musa", "Rehema", "Hamisi", "Salma", "Omari"],
] as const;

const terms = (words: Readonly<Record<string, string>>): Term[] =>
  Object.entries(words).map(([en, sw]) => ({ en: en.replaceAll("_", " "), sw }));

/** Of the noun class N: they have one form in the plural, and number words and "how many" do not change with them. */
export const NOUNS: readonly Term[] = terms({
  ...{ bananas: "ndizi", pens: "kalamu", tomatoes: "nyanya", rings: "pete" },
  ...{ hats: "kofia", plates: "sahani", lamps: "taa", keys: "funguo" },
  ...{ letters: "barua", pictures: "picha", bottles: "chupa", papers: "karatasi" },
  ...{ bicycles: "baiskeli", tables: "meza", clocks: "saa", coins: "sarafu" },
});

const verbs = (sign: 1 | -1, words: Readonly<Record<string, string>>): Verb[] =>
  terms(words).map((term) => ({ ...term, sign }));

export const VERBS: readonly Verb[] = [
  ...verbs(1, {
    ...{ bought: "alinunua", found: "alikuta", received: "alipokea", won: "alishinda", collected: "alikusanya" },
    ...{ picked: "aliokota", borrowed: "alikopa", got: "alipata", took: "alichukua", made: "alitengeneza" },
  }),
  ...verbs(-1, {
    ...{ sold: "aliuza", lost: "alipoteza", gave: "alitoa", threw: "alitupa", sent: "alituma" },
    ...{ returned: "alirudisha", burned: "alichoma", shared: "aligawa", ruined: "aliharibu", left: "aliacha" },
  }),
];

export const PLACES: readonly Term[] = terms({
  ...{ at_the_market: "sokoni", at_the_school: "shuleni", at_the_house: "nyumbani", at_the_farm: "shambani" },
  ...{ at_the_shop: "dukani", at_the_church: "kanisani", at_the_office: "ofisini", at_the_beach: "pwani" },
});

/** The small words of sentences. */
export const SMALL = {
  had: { en: "had", sw: "alikuwa na" },
  howMany: { en: "how many", sw: "ngapi" },
  does: { en: "does", sw: "" },
  have: { en: "have", sw: "ana" },
  now: { en: "now", sw: "sasa" },
  feels: { en: "feels", sw: "ana" },
  happy: { en: "happy", sw: "furaha" },
  sad: { en: "sad", sw: "huzuni" },
} as const satisfies Readonly<Record<string, Term>>;

/** Largest number of the world; in digits, each is one token. */
export const LARGEST_NUMBER = 24;

const UNITS = ["sifuri", "moja", "mbili", "tatu", "nne", "tano", "sita", "saba", "nane", "tisa"] as const;
const TENS = ["", "kumi", "ishirini"] as const;

/** A number in Swahili words: `kumi na tatu`. @param number from 0 to LARGEST_NUMBER */
export function swahiliNumber(number: number): string {
  const [tens, unit] = [TENS[Math.floor(number / 10)] ?? "", UNITS[number % 10] ?? ""];
  if (number < 10) return unit;
  return number % 10 === 0 ? tens : `${tens} na ${unit}`;
}

/** Units whose Swahili words the base never meets: tatu, tano, saba, tisa. */
const NEW_UNITS: readonly number[] = [3, 5, 7, 9];

/** Whether a number's Swahili words hold one that only the language expert learns. */
export function isNewInSwahili(number: number): boolean {
  return NEW_UNITS.includes(number % 10);
}

/** What is asked for, written after a text: the mark of a task. In front of the text, nothing transfers. */
export const MARKS = [
  ...(["Solve", "Answer", "English", "Swahili", "Digits", "Words"] as const),
  ...(["More", "Who", "Number", "Sums", "Story", "Hadithi"] as const),
] as const;

export type Mark = (typeof MARKS)[number];
