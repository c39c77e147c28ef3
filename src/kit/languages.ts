// Languages by all of their codes: FLORES and Belebele use swh_Latn, MGSM sw, Aya swa, people any of them or Swahili.
// Names appear in prompts, so they are fixed here: those of Intl change with its version.
import { RecipeError } from "./errors.js";
import TABLE from "./languages.json" with { type: "json" };
import { didYouMean } from "./printing/spelling.js";

export interface Language {
  /** Code of FLORES-200: ISO 639-3 and script, `swh_Latn`. */
  readonly code: string;
  /** ISO 639-1, where there is one that people use: `sw`. */
  readonly short: string | undefined;
  /** English name, as used in prompts. */
  readonly name: string;
  /** ISO 639-3 code, then the macrolanguage's where data sets use it: `swh`, `swa`. */
  readonly codes: readonly string[];
}

interface LanguageEntry {
  readonly code: string;
  readonly name: string;
  readonly short?: string;
  /** Its code in data sets that use the macrolanguage's. Source: ISO 639-3 macrolanguage mappings. */
  readonly macrolanguage?: string;
}

// The default script of a language comes first.
// Codes: the list of FLORES-200 (Costa-jussa et al. 2022, arXiv 2207.04672) and the romanised ones of Belebele.
export const LANGUAGES: readonly Language[] = (TABLE as readonly LanguageEntry[]).map(
  ({ code, name, short, macrolanguage }) => {
    const iso = code.slice(0, 3);
    return { code, name, short, codes: macrolanguage === undefined ? [iso] : [iso, macrolanguage] };
  },
);

/** The language that a code or name means, ignoring case: sw, swh, swa, swh_Latn, Swahili. */
export function findLanguage(code: string): Language | undefined {
  const asked = code.trim().toLowerCase().replaceAll("-", "_");
  const fits = (language: Language) =>
    [language.short, language.name, ...language.codes].some((form) => form?.toLowerCase() === asked);
  return LANGUAGES.find(({ code }) => code.toLowerCase() === asked) ?? LANGUAGES.find(fits);
}

/**
 * The language of a code or name.
 * @param where.task the task that uses it, for the message
 * @param where.field the field that has it
 * @throws RecipeError for an unknown one, with the closest code or name
 */
export function requireLanguage(code: string, where: { readonly task?: string; readonly field: string }): Language {
  const found = findLanguage(code);
  if (found) return found;
  const known = LANGUAGES.flatMap((language) => [language.name, language.code, language.short ?? [], language.codes]);
  throw RecipeError.at(
    { field: where.field, actual: code },
    `${where.task === undefined ? "" : `${where.task}: `}unknown language ${JSON.stringify(code)}; write a code such as swh_Latn, swh or sw, or the English name` +
      didYouMean(code, known.flat()),
  );
}
