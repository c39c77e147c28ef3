// The words of the miniature's world, in English and in Swahili. No sentences here (sentences.ts).

/** A language of the world. */
export type Language = "en" | "sw";

/** A word or phrase in both languages. */
export interface Term {
  readonly en: string;
  readonly sw: string;
}

export interface Noun extends Term {
  /** "How many" agrees with the noun's class in Swahili. */
  readonly howMany: string;
}

export interface Verb extends Term {
  /** What the act does to how many one has. */
  readonly sign: 1 | -1 | 0;
  /** Whether it occurs in Swahili and code-mixed mathematics; the others are met in other Swahili text only. */
  readonly known: boolean;
}

/** Common on the Swahili coast; the same in both languages, and one token each. */
export const NAMES = [
  ...["asha", "juma", "neema", "baraka", "amina", "daudi"],
  ...["zawadi", "musa", "rehema", "hamisi", "salma", "omari"],
] as const;

const noun = (en: string, sw: string, howMany: string): Noun => ({ en, sw, howMany });

export const NOUNS: readonly Noun[] = [
  noun("mangoes", "maembe", "mangapi"),
  noun("oranges", "machungwa", "mangapi"),
  noun("eggs", "mayai", "mangapi"),
  noun("pineapples", "mananasi", "mangapi"),
  noun("boxes", "masanduku", "mangapi"),
  noun("books", "vitabu", "vingapi"),
  noun("chairs", "viti", "vingapi"),
  noun("cups", "vikombe", "vingapi"),
  noun("shoes", "viatu", "vingapi"),
  noun("spoons", "vijiko", "vingapi"),
  noun("bananas", "ndizi", "ngapi"),
  noun("pens", "kalamu", "ngapi"),
  noun("tomatoes", "nyanya", "ngapi"),
  noun("rings", "pete", "ngapi"),
  noun("chickens", "kuku", "wangapi"),
  noun("goats", "mbuzi", "wangapi"),
  noun("cows", "ng'ombe", "wangapi"),
  noun("bags", "mifuko", "mingapi"),
  noun("mats", "mikeka", "mingapi"),
  noun("loaves", "mikate", "mingapi"),
];

/** Verbs of each sign that Swahili mathematics uses: the first of their list. */
const KNOWN = { "1": 5, "-1": 5, "0": 3 } as const;

const verbs = (sign: 1 | -1 | 0, words: readonly (readonly [en: string, sw: string])[]): Verb[] =>
  words.map(([en, sw], i) => ({ en, sw, sign, known: i < KNOWN[sign] }));

export const VERBS: readonly Verb[] = [
  ...verbs(1, [
    ["bought", "alinunua"],
    ["found", "alikuta"],
    ["received", "alipokea"],
    ["won", "alishinda"],
    ["collected", "alikusanya"],
    ["picked", "aliokota"],
    ["borrowed", "alikopa"],
    ["got", "alipata"],
    ["took", "alichukua"],
    ["made", "alitengeneza"],
  ]),
  ...verbs(-1, [
    ["sold", "aliuza"],
    ["lost", "alipoteza"],
    ["gave", "alitoa"],
    ["threw", "alitupa"],
    ["sent", "alituma"],
    ["returned", "alirudisha"],
    ["burned", "alichoma"],
    ["shared", "aligawa"],
    ["ruined", "aliharibu"],
    ["left", "aliacha"],
  ]),
  ...verbs(0, [
    ["saw", "aliona"],
    ["counted", "alihesabu"],
    ["washed", "aliosha"],
    ["carried", "alibeba"],
    ["liked", "alipenda"],
    ["hid", "alificha"],
  ]),
];

export const PLACES: readonly Term[] = [
  { en: "at the market", sw: "sokoni" },
  { en: "at the school", sw: "shuleni" },
  { en: "at the house", sw: "nyumbani" },
  { en: "at the farm", sw: "shambani" },
  { en: "at the shop", sw: "dukani" },
  { en: "at the church", sw: "kanisani" },
  { en: "at the office", sw: "ofisini" },
  { en: "at the beach", sw: "pwani" },
];

export const TIMES: readonly Term[] = [
  { en: "today", sw: "leo" },
  { en: "yesterday", sw: "jana" },
  { en: "in the morning", sw: "asubuhi" },
  { en: "in the afternoon", sw: "mchana" },
  { en: "in the evening", sw: "jioni" },
  { en: "at night", sw: "usiku" },
];

/** Largest number of the world; each is one token. */
export const LARGEST_NUMBER = 40;

const UNITS: readonly Term[] = [
  ["zero", "sifuri"],
  ["one", "moja"],
  ["two", "mbili"],
  ["three", "tatu"],
  ["four", "nne"],
  ["five", "tano"],
  ["six", "sita"],
  ["seven", "saba"],
  ["eight", "nane"],
  ["nine", "tisa"],
].map(([en = "", sw = ""]) => ({ en, sw }));
const TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(" ");
const TENS: readonly Term[] = [
  { en: "ten", sw: "kumi" },
  { en: "twenty", sw: "ishirini" },
  { en: "thirty", sw: "thelathini" },
  { en: "forty", sw: "arobaini" },
];

/** A number in words: `twenty one`, `ishirini na moja`. @param number from 0 to LARGEST_NUMBER */
export function numberWords(number: number, language: Language): string {
  const unit = UNITS[number % 10]?.[language] ?? "";
  if (number < 10) return unit;
  if (number < 20 && language === "en") return TEENS[number - 10] ?? "";
  const tens = TENS[Math.floor(number / 10) - 1]?.[language] ?? "";
  if (number % 10 === 0) return tens;
  return language === "en" ? `${tens} ${unit}` : `${tens} na ${unit}`;
}

/** What is asked for, written after a text: the mark of a task. In front of the text, nothing transfers. */
export const MARKS = [
  "[solve]",
  "[answer]",
  "[english]",
  "[swahili]",
  "[repeat]",
  "[digits]",
  "[words]",
  "[maneno]",
  "[sums]",
  "[story]",
  "[hadithi]",
] as const;

export type Mark = (typeof MARKS)[number];
