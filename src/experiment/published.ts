// The numbers that the paper prints, for comparison beside one's own (Bandarkar et al., arXiv 2410.01335, tables 1, 2,
// 5 and 6; Llama 3.1 8B). As printed: percentages in tables 1, 2 and 6, shares and BLEU in table 5.

/** What the paper calls the columns of tables 1 and 2. */
export const SETTINGS = {
  base: "base",
  language: "language expert",
  math: "math expert",
  joint: "joint SFT",
  soup: "soup, best configuration",
  ties: "TIES, best configuration",
  default: "layer swap, default configuration",
  best: "layer swap, best configuration",
} as const;

export type Setting = keyof typeof SETTINGS;
export type Statistic = "min" | "mean" | "max";

const TABLE_1_COLUMNS: readonly Setting[] = ["base", "language", "math", "soup", "default", "best"];
const TABLE_2_COLUMNS: readonly Setting[] = ["base", "language", "math", "joint", "soup", "ties", "default", "best"];

/** Languages of the paper, by the codes that tasks use. */
export const PAPER_LANGUAGES = { sw: "Swahili", te: "Telugu", bn: "Bengali", ja: "Japanese" } as const;
export type PaperLanguage = keyof typeof PAPER_LANGUAGES;

interface PublishedRow {
  readonly language: PaperLanguage;
  readonly statistic: Statistic;
  /** MGSM 8-shot exact match, in percent, by column. */
  readonly values: readonly number[];
}

/** Table 1: MGSM 8-shot exact match; experts are the top three, merges nine pairs. */
export const TABLE_1: { readonly columns: readonly Setting[]; readonly rows: readonly PublishedRow[] } = {
  columns: TABLE_1_COLUMNS,
  rows: [
    { language: "sw", statistic: "mean", values: [24.8, 24.7, 29.5, 29.3, 32.4, 32.8] },
    { language: "sw", statistic: "max", values: [24.8, 25.6, 32.8, 32.0, 36.4, 37.2] },
    { language: "te", statistic: "mean", values: [12.0, 20.0, 20.1, 20.9, 22.7, 23.0] },
    { language: "te", statistic: "max", values: [12.0, 22.4, 24.0, 26.4, 27.6, 27.6] },
    { language: "bn", statistic: "mean", values: [29.2, 33.5, 38.3, 36.8, 37.1, 38.7] },
    { language: "bn", statistic: "max", values: [29.2, 35.2, 44.4, 38.4, 40.4, 45.2] },
    { language: "ja", statistic: "mean", values: [33.6, 35.9, 42.7, 38.7, 38.5, 40.1] },
    { language: "ja", statistic: "max", values: [33.6, 36.8, 44.8, 40.0, 40.8, 43.2] },
  ],
};

/** Table 2: Swahili in detail; its last rows are English and the mean of all languages of MGSM. */
export const TABLE_2: {
  readonly columns: readonly Setting[];
  readonly rows: readonly {
    readonly task: "sw" | "en" | "all";
    readonly statistic: Statistic;
    readonly values: readonly number[];
  }[];
} = {
  columns: TABLE_2_COLUMNS,
  rows: [
    { task: "sw", statistic: "min", values: [24.8, 23.6, 27.2, 31.6, 25.6, 25.2, 29.6, 29.2] },
    { task: "sw", statistic: "mean", values: [24.8, 24.7, 29.5, 32.1, 29.3, 29.5, 32.4, 32.8] },
    { task: "sw", statistic: "max", values: [24.8, 25.6, 32.8, 32.8, 32.0, 32.4, 36.4, 37.2] },
    { task: "en", statistic: "mean", values: [56.0, 55.7, 66.2, 64.3, 62.0, 60.1, 64.7, 64.4] },
    { task: "all", statistic: "mean", values: [37.7, 37.5, 45.4, 46.0, 43.0, 41.8, 44.1, 44.4] },
  ],
};

/** One line of table 5: a benchmark in a language, mean of the three experts. */
export interface BenchmarkRow {
  readonly benchmark: "MGSM" | "Belebele" | "FLORES" | "MBPP" | "MMLU";
  readonly shots: number;
  /** A language code, or for FLORES a direction such as `en-sw`. */
  readonly of: string;
  readonly base: number;
  readonly math: number;
  /** The expert of that language; of English, each language's expert. */
  readonly own: number | Readonly<Record<PaperLanguage, number>> | null;
}

const ORDER = ["ja", "bn", "sw", "te"] as const;

/** Rows of one benchmark over the four languages of the paper, in the order in which it prints them. */
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

/** Table 6: experts averaged first. MGSM 8-shot exact match, in percent. */
export const TABLE_6 = {
  columns: {
    soup: "soup, pairwise",
    default: "swap, pairwise, default configuration",
    language: "swap, language soup x math soup",
    multilingual: "swap, multilingual soup x math soup",
  },
  rows: [
    { language: "sw", values: [29.3, 32.4, 32.8, 29.6] },
    { language: "te", values: [20.9, 22.7, 22.0, 21.2] },
    { language: "bn", values: [36.8, 37.1, 40.4, 36.0] },
    { language: "ja", values: [38.7, 38.5, 39.2, 41.6] },
  ],
} as const;

/** What a reader of these tables should know. */
export const PUBLISHED_NOTES = [
  "The paper chose its best configuration on the test items; its default configuration was not chosen so.",
  "Its 10-language mean of MGSM is printed for the base as 0.311 in one place and 37.7 in another; 37.7 is the consistent one.",
  "Its prompts are not printed; other protocols give other absolute numbers.",
] as const;
