// Reads a set: rows to examples to tokens, through filters, into the store. Counts what is not kept.
import { createHash } from "node:crypto";
import { LayergraftError } from "../core/index.js";
import type { SetPlan } from "./declaration.js";
import type { Encoded, EncodingResult, encoderOf } from "./encode.js";
import { type Example, keyOf } from "./example.js";
import { compileFilters } from "./filter.js";
import type { Mapping, MappingDeclaration } from "./mapping.js";
import { type BadRow, badRowError, type Row } from "./read/row.js";
import { describeMapping, mappedRows } from "./recognize-columns.js";
import { Sample } from "./sample.js";

type Encoder = ReturnType<typeof encoderOf>;

/** Shared by all sets. */
export interface CollectContext {
  /** The encoder for a mapping, with the name of its template. */
  readonly encoderFor: (map: MappingDeclaration) => { readonly encoder: Encoder; readonly template: string };
  /** Hashes of the examples so far, if duplicates are left out. */
  readonly seen: Set<string> | undefined;
  readonly seed: number;
  readonly onBadRow: "fail" | "skip";
  readonly signal?: AbortSignal | undefined;
}

export interface Kept {
  readonly encoded: Encoded;
  /** A hash of its row's texts in [0, 1), which decides whether it is held out. */
  readonly split: number;
  readonly lossTokens: number;
  /** Tokens that are cut off. */
  readonly cutTokens: number;
  /** Hash of ids and mask. */
  readonly digest: string;
}

export interface CollectedSet {
  readonly counts: GrowingCounts;
  /** In the order of the files. */
  readonly kept: readonly Kept[];
}

/** Skipped rows that are named. */
const MAX_BAD_EXAMPLES = 5;

/**
 * Reads a set.
 * @throws DataError for a missing column, a bad row unless these are skipped, or a file that cannot be read
 */
export async function collectSet(
  plan: SetPlan,
  files: readonly string[],
  context: CollectContext,
): Promise<CollectedSet> {
  const { seen, seed, onBadRow, signal } = context;
  const filters = compileFilters(plan.filter);
  const counts = new GrowingCounts(plan.name, files);
  const sample = new Sample<Kept>(plan.cap ?? Number.POSITIVE_INFINITY);
  const isHashed = seen !== undefined || plan.cap !== undefined;
  const skip = (count: "badRows" | "refused", row: BadRow) => {
    if (onBadRow === "fail") throw badRowError(row);
    counts[count]++;
    if (counts.badExamples.length < MAX_BAD_EXAMPLES) counts.badExamples.push(row);
  };

  /** Encodes an example. @returns undefined if it is counted as left out */
  const encode = (example: Example, encoder: Encoder, place: Omit<BadRow, "reason">) => {
    let result: EncodingResult;
    try {
      result = encoder(example);
    } catch (error) {
      // Chat templates refuse some conversations, and tokenizers some texts.
      if (!(error instanceof LayergraftError)) throw error;
      return skip("refused", { ...place, reason: error.message });
    }
    const { encoded, length, fate } = result;
    const filter = filters.ofTokens.find(({ passes }) => !passes(length));
    if (filter) return countUnder(counts.filtered, filter.name);
    if (fate === "too long") counts.tooLong++;
    if (fate === "nothing to learn") counts.nothingToLearn++;
    return encoded && { encoded, cutTokens: length - encoded.ids.length };
  };

  /** Expensive steps come last, so that a small sample of a large set is drawn fast. */
  const addExample = (example: Example, rowKey: string, encoder: Encoder, place: Omit<BadRow, "reason">) => {
    const filter = filters.ofExamples.find(({ passes }) => !passes(example));
    if (filter) return countUnder(counts.filtered, filter.name);
    const digest = isHashed ? sha256(`${seed}\0${keyOf(example.messages)}`) : undefined;
    const key = digest === undefined ? 0 : fractionOf(digest);
    // Equal examples have equal keys, so the sample has the first or none of them.
    if (!sample.accepts(key)) {
      counts.notSampled++;
      return;
    }
    if (digest && seen) {
      const hash = digest.toString("latin1", 8, 16);
      if (seen.has(hash)) {
        counts.duplicates++;
        return;
      }
      seen.add(hash);
    }
    const result = encode(example, encoder, place);
    if (!result) return;
    const { encoded, cutTokens } = result;
    const lossTokens = encoded.loss.reduce((sum, learned) => sum + learned, 0);
    const content = createHash("sha256").update(new Uint8Array(encoded.ids.buffer)).update(encoded.loss);
    const split = fractionOf(sha256(rowKey));
    if (sample.add(key, { encoded, lossTokens, split, cutTokens, digest: content.digest("base64") }))
      counts.notSampled++;
  };

  const addRow = (row: Row, mapping: Mapping, encoder: Encoder, place: Omit<BadRow, "reason">) => {
    const filter = filters.ofRows.find(({ passes }) => !passes(row));
    if (filter) return countUnder(counts.filteredRows, filter.name);
    const result = mapping.map(row);
    if (result === "empty") {
      counts.emptyRows++;
      return;
    }
    if ("problem" in result) return skip("badRows", { ...place, reason: result.problem });
    counts.mapped++;
    for (const example of result.examples) {
      counts.examples++;
      addExample(example, result.key, encoder, place);
    }
  };

  const { limit = Number.POSITIVE_INFINITY } = plan;
  const onBad = (row: BadRow) => {
    counts.rows++;
    skip("badRows", row);
  };
  let encoder: Encoder | undefined;
  for await (const { batch, map, mapping } of mappedRows(plan, files, { onBadRow, onBad, signal })) {
    if (!encoder) {
      const chosen = context.encoderFor(map);
      encoder = chosen.encoder;
      Object.assign(counts, { fields: describeMapping(map), template: chosen.template });
    }
    for (const [i, row] of batch.rows.entries()) {
      if (counts.rows >= limit) break;
      counts.rows++;
      addRow(row, mapping, encoder, { file: batch.file, line: batch.lines[i] ?? 0 });
    }
    if (counts.rows >= limit) break;
  }

  const kept = sample.values();
  counts.kept = kept.length;
  for (const { encoded, lossTokens, cutTokens } of kept) {
    counts.tokens += encoded.ids.length;
    counts.lossTokens += lossTokens;
    counts.cutTokens += cutTokens;
    if (cutTokens > 0) counts.cut++;
  }
  return { counts, kept };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** 48 bits of a hash as a number in [0, 1). */
function fractionOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6) / 2 ** 48;
}

/** Mappings inherit nothing, as filters and files may have any name. */
const noCounts = (): Record<string, number> => Object.create(null);

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
  readonly filteredRows = noCounts();
  /** Rows without a prompt or a response. */
  emptyRows = 0;
  /** Rows with examples. */
  mapped = 0;
  examples = 0;
  /** Examples that a filter of length removed, by the filter. */
  readonly filtered = noCounts();
  /** Examples that occurred before, in this set or another. */
  duplicates = 0;
  /** Examples over the cap, which are not checked further. */
  notSampled = 0;
  /** Examples that the chat template or the tokenizer refused (on_bad_row: skip). */
  refused = 0;
  /** Examples longer than a sequence (too_long: drop). */
  tooLong = 0;
  /** Examples without a token to learn, such as a prompt that fills the sequence. */
  nothingToLearn = 0;
  /** Examples to train on or hold out. */
  kept = 0;
  /** Kept examples whose end is cut off, and their cut tokens. */
  cut = 0;
  cutTokens = 0;
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
