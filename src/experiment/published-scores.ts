// The numbers that the paper prints (Bandarkar et al., arXiv 2410.01335, tables 1, 2, 5 and 6; Llama 3.1 8B), as printed:
// percentages in tables 1, 2 and 6, shares and BLEU in table 5.
import type { Role } from "./plan/plan-values.js";

/** The models of a column in the paper's tables. */
export interface SettingModels {
  /** The paper's name. */
  readonly label: string;
  /** Experts of this role; language experts of the row's language. */
  readonly role?: Role;
  /** Merges of this column: by a merge's field `column`, otherwise by its method. */
  readonly merge?: string;
  /** Which configuration of a searched merge. */
  readonly configuration?: "default" | "best";
}

/** The columns of the paper's tables. */
export const SETTINGS = {
  base: { label: "base" },
  language: { label: "language expert", role: "language" },
  math: { label: "math expert", role: "task" },
  joint: { label: "joint SFT", role: "joint" },
  soup: { label: "soup, best configuration", merge: "soup", configuration: "best" },
  ties: { label: "TIES, best configuration", merge: "ties", configuration: "best" },
  default: { label: "layer swap, default configuration", merge: "swap", configuration: "default" },
  best: { label: "layer swap, best configuration", merge: "swap", configuration: "best" },
  languageSoups: { label: "swap, language soup x math soup", merge: "language", configuration: "default" },
  multilingualSoup: { label: "swap, multilingual soup x math soup", merge: "multilingual", configuration: "default" },
} as const satisfies Readonly<Record<string, SettingModels>>;

export type Setting = keyof typeof SETTINGS;
export type Statistic = "min" | "mean" | "max";

/** Languages of the paper, by the codes in task names. */
export const PAPER_LANGUAGES = { sw: "Swahili", te: "Telugu", bn: "Bengali", ja: "Japanese" } as const;
export type PaperLanguage = keyof typeof PAPER_LANGUAGES;

interface LayoutRow {
  readonly statistic: Statistic;
  /** Whether the row is of the task in English. */
  readonly isEnglish?: boolean;
  /** Whether there is a row for each of the plan's averages. `{average}` is its name. */
  readonly isAverage?: boolean;
  /** `{language}` is its name. */
  readonly label: string;
  /** By language, the printed numbers of the columns: MGSM, 8-shot, exact match in percent. */
  readonly printed: Readonly<Partial<Record<string, readonly number[]>>>;
}

/** A table of scores on one benchmark. The paper's has three experts of a kind and nine pairs. */
export interface Layout {
  readonly number: 1 | 2 | 6;
  /** Whether each language has a table of its own. */
  readonly isPerLanguage: boolean;
  /** `{benchmark}` and `{language}` are filled in. */
  readonly title: string;
  readonly note: string;
  readonly columns: readonly Setting[];
  /** Titles of columns. Default: labels of the settings, with their configurations. */
  readonly titles?: readonly string[];
  /** Rows of each language. */
  readonly rows: readonly LayoutRow[];
}

export const LAYOUTS: readonly Layout[] = [
  {
    number: 1,
    isPerLanguage: false,
    title: "Table 1. {benchmark}",
    note: "Mean and maximum over experts or pairs.",
    columns: ["base", "language", "math", "soup", "default", "best"],
    rows: [
      {
        statistic: "mean",
        label: "{language} mean",
        printed: {
          sw: [24.8, 24.7, 29.5, 29.3, 32.4, 32.8],
          te: [12.0, 20.0, 20.1, 20.9, 22.7, 23.0],
          bn: [29.2, 33.5, 38.3, 36.8, 37.1, 38.7],
          ja: [33.6, 35.9, 42.7, 38.7, 38.5, 40.1],
        },
      },
      {
        statistic: "max",
        label: "{language} max",
        printed: {
          sw: [24.8, 25.6, 32.8, 32.0, 36.4, 37.2],
          te: [12.0, 22.4, 24.0, 26.4, 27.6, 27.6],
          bn: [29.2, 35.2, 44.4, 38.4, 40.4, 45.2],
          ja: [33.6, 36.8, 44.8, 40.0, 40.8, 43.2],
        },
      },
    ],
  },
  {
    number: 2,
    isPerLanguage: true,
    title: "Table 2. {language} in detail",
    note: "{benchmark}. Minimum, mean and maximum over experts or pairs.",
    columns: ["base", "language", "math", "joint", "soup", "ties", "default", "best"],
    rows: [
      {
        statistic: "min",
        label: "{language} min",
        printed: { sw: [24.8, 23.6, 27.2, 31.6, 25.6, 25.2, 29.6, 29.2] },
      },
      {
        statistic: "mean",
        label: "{language} mean",
        printed: { sw: [24.8, 24.7, 29.5, 32.1, 29.3, 29.5, 32.4, 32.8] },
      },
      {
        statistic: "max",
        label: "{language} max",
        printed: { sw: [24.8, 25.6, 32.8, 32.8, 32.0, 32.4, 36.4, 37.2] },
      },
      {
        statistic: "mean",
        isEnglish: true,
        label: "English mean",
        printed: { sw: [56.0, 55.7, 66.2, 64.3, 62.0, 60.1, 64.7, 64.4] },
      },
      {
        statistic: "mean",
        isAverage: true,
        label: "{average} mean",
        printed: { sw: [37.7, 37.5, 45.4, 46.0, 43.0, 41.8, 44.1, 44.4] },
      },
    ],
  },
  {
    number: 6,
    isPerLanguage: false,
    title: "Table 6. With souping first",
    note: "{benchmark}.",
    columns: ["soup", "default", "languageSoups", "multilingualSoup"],
    titles: [
      "soup, pairwise",
      "swap, pairwise, default configuration",
      SETTINGS.languageSoups.label,
      SETTINGS.multilingualSoup.label,
    ],
    rows: [
      {
        statistic: "mean",
        label: "{language}",
        printed: {
          sw: [29.3, 32.4, 32.8, 29.6],
          te: [20.9, 22.7, 22.0, 21.2],
          bn: [36.8, 37.1, 40.4, 36.0],
          ja: [38.7, 38.5, 39.2, 41.6],
        },
      },
    ],
  },
];

/** One line of table 5: a benchmark in a language, mean of the three experts. */
export interface BenchmarkRow {
  readonly benchmark: "MGSM" | "Belebele" | "FLORES" | "MBPP" | "MMLU";
  readonly shots: number;
  /** A language code; for FLORES a direction such as `en-sw`. */
  readonly of: string;
  readonly base: number;
  readonly math: number;
  /** The expert of that language; in English rows, each language's expert. */
  readonly own: number | Readonly<Record<PaperLanguage, number>> | null;
}

const ORDER = ["ja", "bn", "sw", "te"] as const;

/** Rows of one benchmark in the paper's four languages, in its order. */
function overLanguages(
  benchmark: BenchmarkRow["benchmark"],
  shots: number,
  figures: Readonly<Record<"base" | "math" | "own", readonly number[]>>,
): BenchmarkRow[] {
  return ORDER.map((of, i) => ({
    ...{ benchmark, shots, of },
    ...{ base: figures.base[i] ?? 0, math: figures.math[i] ?? 0, own: figures.own[i] ?? 0 },
  }));
}

const flores = (of: string, base: number, math: number, own: number): BenchmarkRow => ({
  ...{ benchmark: "FLORES", shots: 0, of, base, math, own },
});

/** Table 5: shares, and BLEU for FLORES. */
export const TABLE_5: readonly BenchmarkRow[] = [
  {
    ...{ benchmark: "MGSM", shots: 8, of: "en", base: 0.56, math: 0.663 },
    own: { ja: 0.561, bn: 0.563, sw: 0.557, te: 0.561 },
  },
  ...overLanguages("MGSM", 8, {
    base: [0.336, 0.292, 0.248, 0.12],
    math: [0.427, 0.383, 0.295, 0.201],
    own: [0.359, 0.335, 0.247, 0.2],
  }),
  { benchmark: "Belebele", shots: 5, of: "en", base: 0.871, math: 0.877, own: null },
  ...overLanguages("Belebele", 5, {
    base: [0.76, 0.649, 0.553, 0.546],
    math: [0.754, 0.654, 0.557, 0.557],
    own: [0.766, 0.683, 0.584, 0.602],
  }),
  flores("en-ja", 20.6, 20.5, 20.5),
  flores("ja-en", 28.5, 28.5, 28.9),
  flores("en-bn", 18.8, 18.8, 17.9),
  flores("bn-en", 30.5, 29.7, 29.0),
  flores("en-sw", 12.5, 12.9, 13.0),
  flores("sw-en", 31.5, 31.5, 30.2),
  flores("en-te", 15.7, 15.2, 16.5),
  flores("te-en", 29.2, 29.0, 27.6),
  ...overLanguages("MBPP", 0, {
    base: [0.464, 0.438, 0.402, 0.41],
    math: [0.47, 0.436, 0.407, 0.412],
    own: [0.462, 0.462, 0.407, 0.437],
  }),
  ...overLanguages("MMLU", 5, {
    base: [0.52, 0.422, 0.419, 0.415],
    math: [0.518, 0.42, 0.42, 0.412],
    own: [0.518, 0.436, 0.425, 0.427],
  }),
];

/** Notes for readers of these tables. */
export const PUBLISHED_NOTES = [
  "The paper chose its best configuration on the test items; its default configuration was not chosen so.",
  "Its 10-language mean of MGSM is printed for the base as 0.311 in one place and 37.7 in another; 37.7 is the consistent one.",
  "Its prompts are not printed; other protocols give other absolute numbers.",
] as const;
