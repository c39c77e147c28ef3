// How much of a text is in the language that was asked for: by the script of its letters, and by a language identifier.
import { francAll } from "franc";
import type { Language } from "../../kit/index.js";

export interface Fidelity {
  /** Share of the letters that belong to a script of the language, from 0 to 1. Undefined without letters. */
  readonly script: number | undefined;
  /**
   * Share of the letters in passages that are in the language, from 0 to 1. Undefined for languages that the identifier does
   * not know, and for fewer than 20 letters of a script that many languages have.
   */
  readonly language: number | undefined;
}

/** Scripts of Unicode by the codes of ISO 15924 in FLORES codes, where the language has several. */
const SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  Hans: ["Han"],
  Hant: ["Han"],
  Jpan: ["Han", "Hiragana", "Katakana"],
  Hang: ["Hangul", "Han"],
};

/**
 * What models write when they leave a language, by ISO 639-3. A passage is in the asked language unless one of these fits
 * it clearly better. Close relatives of the asked language are not told apart: naming them all costs more than it finds.
 */
const RIVALS = [
  ...["eng", "deu", "fra", "spa", "por", "ita", "ind", "tur", "vie", "swh", "hau", "yor"],
  ...["rus", "arb", "hin", "cmn", "jpn"],
];

/** franc tells these two by kana alone, and names only one of them. */
const BY_SCRIPT = ["cmn", "jpn"];

/** How far below the likeliest language the asked one may be, in franc's normalised likelihood. Chosen on FLORES. */
const TOLERANCE = 0.05;
/** Passages of fewer letters are joined: identifiers need about a sentence. */
const PASSAGE_LETTERS = 80;
/** Fewer letters say nothing, but where the script alone does. */
const LEAST_LETTERS = 20;
const SHARED_SCRIPTS = ["Latn", "Cyrl", "Arab", "Deva"];
/** No answer of a benchmark is longer; a server's may be. */
const MAX_CHARACTERS = 200_000;

const LETTERS = /\p{L}/gu;
const SENTENCES = /[^\n.!?。！？।॥؟።]+[\n.!?。！？।॥؟።]*/gu;
/** Code, formulas, tags and addresses are in no language. */
const FOREIGN =
  /```[\s\S]*?(?:```|$)|`[^`\n]*`|\$\$[\s\S]*?\$\$|\\\([\s\S]*?\\\)|\\\[[\s\S]*?\\\]|\\[A-Za-z]+|https?:\/\/\S+/g;

const countOf = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

export function fidelityOf(text: string, language: Language): Fidelity {
  const plain = text.slice(0, MAX_CHARACTERS).replace(FOREIGN, " ");
  const letters = countOf(plain, LETTERS);
  if (letters === 0) return { script: undefined, language: undefined };
  const own = lettersOf(language);
  const script = countOf(plain, own) / letters;
  if (letters < LEAST_LETTERS && SHARED_SCRIPTS.includes(language.code.slice(4)))
    return { script, language: undefined };
  let inLanguage = 0;
  for (const passage of passagesOf(plain)) {
    const [ownLetters, all] = [countOf(passage, own), countOf(passage, LETTERS)];
    if (2 * ownLetters < all) continue;
    const isIn = isInLanguage(passage, language);
    if (isIn === undefined) return { script, language: undefined };
    if (isIn) inLanguage += ownLetters;
  }
  return { script, language: inLanguage / letters };
}

const patterns = new Map<string, RegExp>();

/** Matches the letters of a language's scripts, globally. */
function lettersOf({ code }: Language): RegExp {
  const known = patterns.get(code);
  if (known) return known;
  const script = code.slice(4);
  const scripts = SCRIPTS[script] ?? [script];
  const pattern = new RegExp(`(?=\\p{L})[${scripts.map((one) => `\\p{scx=${one}}`).join("")}]`, "gu");
  patterns.set(code, pattern);
  return pattern;
}

/** Sentences, joined until each passage has enough letters; what is left joins the last. */
function passagesOf(text: string): string[] {
  const passages: string[] = [];
  let waiting = "";
  for (const [sentence] of text.matchAll(SENTENCES)) {
    waiting += sentence;
    if (countOf(waiting, LETTERS) < PASSAGE_LETTERS) continue;
    passages.push(waiting);
    waiting = "";
  }
  if (waiting !== "") passages.push((passages.pop() ?? "") + waiting);
  return passages;
}

/** Undefined where the identifier does not know the language. @param passage mostly in its script */
function isInLanguage(passage: string, { codes }: Language): boolean | undefined {
  const names = codes.map((code) => (code === "zho" ? "cmn" : code));
  const found = francAll(passage, { minLength: 1, only: [...names, ...RIVALS] });
  const own = found.find(([code]) => names.includes(code))?.[1];
  if (own === undefined) return names.some((name) => BY_SCRIPT.includes(name)) ? false : undefined;
  return own >= (found[0]?.[1] ?? 0) - TOLERANCE;
}
