// Ready declarations of the training data of the paper (arXiv 2410.01335, table 3).
import { isObject, type Language, own } from "../../kit/index.js";
import type { SetDeclaration } from "./declaration.js";
import { mappingSchema } from "./mapping.js";
import TABLE from "./ready-sets.json" with { type: "json" };

interface ReadySet {
  /** Whether a language must be given, may be given (otherwise all are read), or does not apply. */
  readonly language: "required" | "optional" | "none";
  /** For people. */
  readonly note?: string;
  /** What it fills in, with `{code}` and other words for the language; more of it if one is given, and for some languages. */
  readonly fields: object;
  readonly withLanguage?: object;
  readonly byLanguage?: Readonly<Record<string, object>>;
}

export type ReadyName = keyof typeof TABLE;

export const READY_NAMES = Object.keys(TABLE) as [ReadyName, ...ReadyName[]];

export function readySet(name: ReadyName): ReadySet {
  return TABLE[name] as ReadySet;
}

/** The fields that a ready declaration fills in. */
export function readyFields(name: ReadyName, language: Language | undefined): SetDeclaration {
  const { fields, withLanguage, byLanguage = {} } = readySet(name);
  const all = language ? { ...fields, ...withLanguage, ...own(byLanguage, language.code) } : fields;
  const { map, ...rest } = (language ? filled(all, language) : all) as SetDeclaration;
  return { ...rest, map: mappingSchema.parse(map) };
}

function filled(value: unknown, language: Language): unknown {
  if (Array.isArray(value)) return value.map((inner) => filled(inner, language));
  if (isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, language)]));
  }
  if (typeof value !== "string") return value;
  const { code, codes, short = code, name } = language;
  if (value === "{codes}") return [...codes];
  const [first = "", second = ""] = ["eng_Latn", code].sort();
  const words: Readonly<Record<string, string>> = { code, short, name, lower: name.toLowerCase(), first, second };
  return value.replace(/\{(\w+)\}/g, (written: string, word: string) => own(words, word) ?? written);
}
