// What became of the rows and examples of a set: every one of them is in exactly one of these counts.
import type { BadRow } from "./read/row.js";

/**
 * Counts of one set. Rows: `rows = badRows + filteredRows + emptyRows + mapped`. Examples, of which a mapped row may give
 * several: `examples = filtered + duplicates + contaminated + notSampled + refused + tooLong +
 * nothingToLearn + kept`.
 */
export interface SetCounts {
  readonly name: string;
  readonly files: readonly string[];
  /** Which columns are read as what, such as "conversations from messages". */
  readonly fields: string;
  /** How examples are written: "the model's chat template", "plain", or the text of a turn. */
  readonly template: string;
  /** Rows read. */
  readonly rows: number;
  /** Rows that could not be read or understood, and were skipped because that was asked for. */
  readonly badRows: number;
  /** The first rows that were bad, or whose examples were refused. */
  readonly badExamples: readonly BadRow[];
  /** Rows that a filter of a column removed, by the filter. */
  readonly filteredRows: Readonly<Record<string, number>>;
  /** Rows without a prompt or a response. */
  readonly emptyRows: number;
  /** Rows that gave examples. */
  readonly mapped: number;
  readonly examples: number;
  /** Examples that a filter of length removed, by the filter. */
  readonly filtered: Readonly<Record<string, number>>;
  /** Of the examples that the cap wanted: those that were taken before, in this set or another. */
  readonly duplicates: number;
  /** Of the examples that the cap wanted: those that share a passage with an evaluation file, by the file. */
  readonly contaminated: Readonly<Record<string, number>>;
  /** Examples that the cap left out; they are not looked at further. */
  readonly notSampled: number;
  /** Examples that the chat template or the tokenizer refused, and that were skipped because that was asked for. */
  readonly refused: number;
  /** Examples that were left out because they are longer than a sequence. */
  readonly tooLong: number;
  /** Examples with no token to learn: nothing but a prompt, or nothing else left after the cut. */
  readonly nothingToLearn: number;
  /** Examples to train on and held out. */
  readonly kept: number;
  /** Of the kept, those whose end was cut off, and the tokens that were. */
  readonly cut: number;
  readonly cutTokens: number;
  /** Of the kept, those that are held out. */
  readonly heldOut: number;
  /** Tokens of the kept, and those of them that are learned. */
  readonly tokens: number;
  readonly lossTokens: number;
}

/** Counts while they grow. */
export type GrowingCounts = { -readonly [K in keyof SetCounts]: SetCounts[K] } & {
  filteredRows: Record<string, number>;
  filtered: Record<string, number>;
  contaminated: Record<string, number>;
  badExamples: BadRow[];
};

/** Nothing counted yet; names of filters and files may be any, so these mappings inherit nothing. */
export function emptyCounts(name: string, files: readonly string[]): GrowingCounts {
  return {
    ...{
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
    },
    ...{
      filtered: Object.create(null),
      duplicates: 0,
      contaminated: Object.create(null),
      notSampled: 0,
      refused: 0,
      tooLong: 0,
      nothingToLearn: 0,
      kept: 0,
    },
    ...{ cut: 0, cutTokens: 0, heldOut: 0, tokens: 0, lossTokens: 0 },
  };
}

/** Adds one under a name. */
export function countUnder(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
