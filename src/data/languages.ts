// The languages that ready declarations know, and what data sets call them. Not a list of all languages: any other can be
// used by writing a declaration out.
import { RecipeError } from "../core/errors.js";
import { closest } from "../core/format.js";

export interface Language {
  /** English name, as instructions say it. */
  readonly name: string;
  /** ISO 639-1, as xP3mt has it. */
  readonly short: string;
  /** ISO 639-3 and -2 codes that data sets use, the more specific first (Aya). */
  readonly codes: readonly string[];
  /** Code of FLORES, NLLB and Indic-Align. */
  readonly flores: string;
}

const ROWS: readonly (readonly [name: string, short: string, codes: string, flores: string])[] = [
  ["Arabic", "ar", "arb ara", "arb_Arab"],
  ["Assamese", "as", "asm", "asm_Beng"],
  ["Bengali", "bn", "ben", "ben_Beng"],
  ["Chinese", "zh", "zho", "zho_Hans"],
  ["English", "en", "eng", "eng_Latn"],
  ["French", "fr", "fra", "fra_Latn"],
  ["German", "de", "deu", "deu_Latn"],
  ["Gujarati", "gu", "guj", "guj_Gujr"],
  ["Hausa", "ha", "hau", "hau_Latn"],
  ["Hindi", "hi", "hin", "hin_Deva"],
  ["Igbo", "ig", "ibo", "ibo_Latn"],
  ["Indonesian", "id", "ind", "ind_Latn"],
  ["Japanese", "ja", "jpn", "jpn_Jpan"],
  ["Kannada", "kn", "kan", "kan_Knda"],
  ["Kinyarwanda", "rw", "kin", "kin_Latn"],
  ["Korean", "ko", "kor", "kor_Hang"],
  ["Malayalam", "ml", "mal", "mal_Mlym"],
  ["Marathi", "mr", "mar", "mar_Deva"],
  ["Nepali", "ne", "npi nep", "npi_Deva"],
  ["Odia", "or", "ory ori", "ory_Orya"],
  ["Portuguese", "pt", "por", "por_Latn"],
  ["Punjabi", "pa", "pan", "pan_Guru"],
  ["Russian", "ru", "rus", "rus_Cyrl"],
  ["Shona", "sn", "sna", "sna_Latn"],
  ["Somali", "so", "som", "som_Latn"],
  ["Spanish", "es", "spa", "spa_Latn"],
  ["Swahili", "sw", "swh swa", "swh_Latn"],
  ["Tamil", "ta", "tam", "tam_Taml"],
  ["Telugu", "te", "tel", "tel_Telu"],
  ["Thai", "th", "tha", "tha_Thai"],
  ["Turkish", "tr", "tur", "tur_Latn"],
  ["Urdu", "ur", "urd", "urd_Arab"],
  ["Vietnamese", "vi", "vie", "vie_Latn"],
  ["Xhosa", "xh", "xho", "xho_Latn"],
  ["Yoruba", "yo", "yor", "yor_Latn"],
  ["Zulu", "zu", "zul", "zul_Latn"],
];

export const LANGUAGES: readonly Language[] = ROWS.map(([name, short, codes, flores]) => ({
  ...{ name, short, flores },
  codes: codes.split(" "),
}));

/**
 * The language that a name or any code means, upper and lower case alike.
 * @throws {RecipeError} that says which are known
 */
export function findLanguage(text: string): Language {
  const wanted = text.trim().toLowerCase();
  const found = LANGUAGES.find(({ name, short, codes, flores }) =>
    [name, short, flores, ...codes].some((known) => known.toLowerCase() === wanted),
  );
  if (found) return found;
  const names = LANGUAGES.map(({ name }) => name);
  const meant = closest(
    wanted,
    names.map((name) => name.toLowerCase()),
  );
  throw new RecipeError(
    `ready declarations know no language ${JSON.stringify(text)}${meant === undefined ? "" : `; did you mean ${meant}?`} They know ${names.join(", ")}; for another, write source, map and filters yourself.`,
    [],
    { field: "language" },
  );
}
