// What became of the rows, examples and replies of a set.
import type { BadRow } from "./read/row.js";

/** Mappings inherit nothing, as filters and files may have any name. */
const noCounts = <T>(): Record<string, T> => Object.create(null);

/** How often something occurs, and where first. */
export interface Occurrence {
  count: number;
  readonly file: string;
  readonly line: number;
}

/**
 * Every row and example is in exactly one count: `rows = badRows + filteredRows + emptyRows + mapped`, and `examples =
 * filtered + duplicates + notSampled + refused + tooLong + nothingToLearn + kept`.
 */
export class GrowingCounts {
  readonly name: string;
  readonly files: readonly string[];
  /** The columns that are read, such as "conversations from messages". */
  fields = "";
  /** The template: "the model's chat template", "plain", or the text of a turn. */
  template = "";
  rows = 0;
  /** Skipped rows (on_bad_row: skip). */
  badRows = 0;
  /** The first bad rows, and rows whose examples were refused. */
  readonly badExamples: BadRow[] = [];
  /** Rows that a filter of a column removed, by the filter. */
  readonly filteredRows = noCounts<number>();
  /** Rows without a prompt or a response, also where it is null or NaN. */
  emptyRows = 0;
  firstEmpty: Omit<BadRow, "reason"> | undefined;
  /** Rows with examples. */
  mapped = 0;
  examples = 0;
  /** Replies that are read but not learned, by the reason. */
  readonly leftOut = noCounts<Occurrence>();
  /** Cells such as `input: nan`, which are read as text and may mean a missing value. */
  readonly missing = noCounts<Occurrence>();
  /** Examples that a filter of length removed, by the filter. */
  readonly filtered = noCounts<number>();
  /** Examples that occurred before, in this set or another. */
  duplicates = 0;
  /** Examples over the cap, which are not checked further. */
  notSampled = 0;
  /** Examples that the chat template or the tokenizer refused (on_bad_row: skip). */
  refused = 0;
  /** Examples longer than a sequence (too_long: drop). */
  tooLong = 0;
  /** Examples without a token to learn. */
  nothingToLearn = 0;
  /** Those of them whose prompt fills the sequence. */
  promptTooLong = 0;
  /** Examples to train on or hold out. */
  kept = 0;
  /** Kept examples whose end is cut off, and their cut tokens. */
  cut = 0;
  cutTokens = 0;
  /** Tokens that keep nine of ten examples whole, and those of the longest. */
  nineTenths = 0;
  longest = 0;
  /** Kept examples that are whole and end in no end token of the model, where these are known. */
  endless = 0;
  /** Kept examples that are held out. */
  heldOut = 0;
  /** Tokens of the kept examples, and those that are learned. */
  tokens = 0;
  lossTokens = 0;

  constructor(name: string, files: readonly string[]) {
    this.name = name;
    this.files = files;
  }
}

export type SetCounts = Readonly<GrowingCounts>;

export function countUnder(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

export function countAt(
  counts: Record<string, Occurrence>,
  name: string,
  { file, line }: Omit<BadRow, "reason">,
): void {
  counts[name] ??= { count: 0, file, line };
  counts[name].count++;
}
