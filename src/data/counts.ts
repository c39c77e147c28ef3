import type { BadRow } from "./read/row.js";

/**
 * Every row and example is in exactly one count: `rows = badRows + filteredRows + emptyRows + mapped`, and `examples =
 * filtered + duplicates + contaminated + notSampled + refused + tooLong + nothingToLearn + kept`.
 */
export interface SetCounts {
  readonly name: string;
  readonly files: readonly string[];
  /** The columns that are read, such as "conversations from messages". */
  readonly fields: string;
  /** The template: "the model's chat template", "plain", or the text of a turn. */
  readonly template: string;
  readonly rows: number;
  /** Skipped rows (on_bad_row: skip). */
  readonly badRows: number;
  /** The first bad rows, and rows whose examples were refused. */
  readonly badExamples: readonly BadRow[];
  /** Rows that a filter of a column removed, by the filter. */
  readonly filteredRows: Readonly<Record<string, number>>;
  /** Rows without a prompt or a response. */
  readonly emptyRows: number;
  /** Rows with examples. */
  readonly mapped: number;
  readonly examples: number;
  /** Examples that a filter of length removed, by the filter. */
  readonly filtered: Readonly<Record<string, number>>;
  /** Examples that occurred before, in this set or another. */
  readonly duplicates: number;
  /** Examples that share a passage with an evaluation file, by the file. */
  readonly contaminated: Readonly<Record<string, number>>;
  /** Examples over the cap, which are not checked further. */
  readonly notSampled: number;
  /** Examples that the chat template or the tokenizer refused (on_bad_row: skip). */
  readonly refused: number;
  /** Examples longer than a sequence (too_long: drop). */
  readonly tooLong: number;
  /** Examples without a token to learn, such as a prompt that fills the sequence. */
  readonly nothingToLearn: number;
  /** Examples to train on or hold out. */
  readonly kept: number;
  /** Kept examples whose end is cut off, and their cut tokens. */
  readonly cut: number;
  readonly cutTokens: number;
  /** Kept examples that are held out. */
  readonly heldOut: number;
  /** Tokens of the kept examples, and those that are learned. */
  readonly tokens: number;
  readonly lossTokens: number;
}

export type GrowingCounts = { -readonly [K in keyof SetCounts]: SetCounts[K] } & {
  filteredRows: Record<string, number>;
  filtered: Record<string, number>;
  contaminated: Record<string, number>;
  badExamples: BadRow[];
};

/** Mappings inherit nothing, as filters and files may have any name. */
export function emptyCounts(name: string, files: readonly string[]): GrowingCounts {
  return {
    name,
    files,
    fields: "",
    template: "",
    rows: 0,
    badRows: 0,
    badExamples: [],
    filteredRows: Object.create(null),
    emptyRows: 0,
    mapped: 0,
    examples: 0,
    filtered: Object.create(null),
    duplicates: 0,
    contaminated: Object.create(null),
    notSampled: 0,
    refused: 0,
    tooLong: 0,
    nothingToLearn: 0,
    kept: 0,
    cut: 0,
    cutTokens: 0,
    heldOut: 0,
    tokens: 0,
    lossTokens: 0,
  };
}

export function countUnder(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
