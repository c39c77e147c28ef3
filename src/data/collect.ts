// Reads a set: rows to examples to tokens, through filters, into the store. Counts what is not kept.
import { createHash } from "node:crypto";
import { LayergraftError } from "../core/index.js";
import { valueAt } from "../settings/index.js";
import { countAt, countUnder, GrowingCounts } from "./counts.js";
import type { SetPlan } from "./declaration.js";
import type { Encoded, EncodingResult, encoderOf } from "./encode.js";
import { type Example, keyOf } from "./example.js";
import { compileFilters, type Filters } from "./filter.js";
import type { Mapping, MappingDeclaration } from "./mapping.js";
import { type BadRow, badRowError, type Row } from "./read/row.js";
import { describeMapping, mappedRows } from "./recognize-columns.js";
import { Sample } from "./sample.js";

type Encoder = ReturnType<typeof encoderOf>;
type Place = Omit<BadRow, "reason">;

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

/** Texts that Python and R write for a missing value. */
const MISSING: ReadonlySet<unknown> = new Set(["NA", "N/A", "<NA>", "null", "NULL", "None", "nan", "NaN"]);

/**
 * Reads a set.
 * @throws DataError for a missing column, a bad row unless these are skipped, or a file that cannot be read
 */
export async function collectSet(
  plan: SetPlan,
  files: readonly string[],
  context: CollectContext,
): Promise<CollectedSet> {
  const { onBadRow, signal } = context;
  const { limit = Number.POSITIVE_INFINITY } = plan;
  const counts = new GrowingCounts(plan.name, files);
  const onBad = (row: BadRow) => {
    counts.rows++;
    skip(counts, "badRows", row, onBadRow);
  };
  let collector: Collector | undefined;
  for await (const { batch, map, mapping } of mappedRows(plan, files, { onBadRow, onBad, signal })) {
    if (!collector) {
      const { encoder, template } = context.encoderFor(map);
      Object.assign(counts, { fields: describeMapping(map), template });
      collector = new Collector(plan, counts, context, mapping, encoder);
    }
    for (const [i, row] of batch.rows.entries()) {
      if (counts.rows >= limit) break;
      counts.rows++;
      collector.addRow(row, { file: batch.file, line: batch.lines[i] ?? 0 });
    }
    if (counts.rows >= limit) break;
  }
  const kept = collector?.kept() ?? [];
  counts.kept = kept.length;
  for (const { encoded, lossTokens, cutTokens } of kept) {
    counts.tokens += encoded.ids.length;
    counts.lossTokens += lossTokens;
    counts.cutTokens += cutTokens;
    if (cutTokens > 0) counts.cut++;
  }
  return { counts, kept };
}

function skip(counts: GrowingCounts, count: "badRows" | "refused", row: BadRow, onBadRow: "fail" | "skip"): void {
  if (onBadRow === "fail") throw badRowError(row);
  counts[count]++;
  if (counts.badExamples.length < MAX_BAD_EXAMPLES) counts.badExamples.push(row);
}

/** Examples of the rows so far. Expensive steps come last, so that a small sample of a large set is drawn fast. */
class Collector {
  readonly #counts: GrowingCounts;
  readonly #context: CollectContext;
  readonly #mapping: Mapping;
  readonly #columns: readonly string[];
  readonly #encoder: Encoder;
  readonly #filters: Filters;
  readonly #sample: Sample<Kept>;
  readonly #isHashed: boolean;

  constructor(plan: SetPlan, counts: GrowingCounts, context: CollectContext, mapping: Mapping, encoder: Encoder) {
    this.#counts = counts;
    this.#context = context;
    this.#mapping = mapping;
    this.#columns = mapping.columns.flat();
    this.#encoder = encoder;
    this.#filters = compileFilters(plan.filter);
    this.#sample = new Sample<Kept>(plan.cap ?? Number.POSITIVE_INFINITY);
    this.#isHashed = context.seen !== undefined || plan.cap !== undefined;
  }

  /** In the order in which they were added. */
  kept(): readonly Kept[] {
    return this.#sample.values();
  }

  addRow(row: Row, place: Place): void {
    const counts = this.#counts;
    const filter = this.#filters.ofRows.find(({ passes }) => !passes(row));
    if (filter) {
      countUnder(counts.filteredRows, filter.name);
      return;
    }
    const result = this.#mapping.map(row);
    if (result === "empty") {
      counts.emptyRows++;
      return;
    }
    if ("problem" in result) {
      skip(counts, "badRows", { ...place, reason: result.problem }, this.#context.onBadRow);
      return;
    }
    counts.mapped++;
    for (const column of this.#columns) {
      const value = valueAt(row, column);
      if (MISSING.has(value)) countAt(counts.missing, `${column}: ${value}`, place);
    }
    for (const example of result.examples) {
      counts.examples++;
      for (const { leftOut } of example.messages) if (leftOut !== undefined) countAt(counts.leftOut, leftOut, place);
      this.#addExample(example, result.key, place);
    }
  }

  #addExample(example: Example, rowKey: string, place: Place): void {
    const counts = this.#counts;
    const filter = this.#filters.ofExamples.find(({ passes }) => !passes(example));
    if (filter) {
      countUnder(counts.filtered, filter.name);
      return;
    }
    const digest = this.#isHashed ? sha256(`${this.#context.seed}\0${keyOf(example.messages)}`) : undefined;
    const key = digest === undefined ? 0 : fractionOf(digest);
    // Equal examples have equal keys, so the sample has the first or none of them.
    if (!this.#sample.accepts(key)) {
      counts.notSampled++;
      return;
    }
    if (digest && this.#isSeen(digest)) {
      counts.duplicates++;
      return;
    }
    const result = this.#encode(example, place);
    if (!result?.encoded) return;
    const { encoded, length } = result;
    const content = createHash("sha256").update(new Uint8Array(encoded.ids.buffer)).update(encoded.loss);
    const kept = {
      encoded,
      lossTokens: encoded.loss.reduce((sum, learned) => sum + learned, 0),
      split: fractionOf(sha256(rowKey)),
      cutTokens: length - encoded.ids.length,
      digest: content.digest("base64"),
    };
    if (this.#sample.add(key, kept)) counts.notSampled++;
  }

  #isSeen(digest: Buffer): boolean {
    const { seen } = this.#context;
    return seen !== undefined && seen.size === seen.add(digest.toString("latin1", 8, 16)).size;
  }

  /** @returns undefined if the example is counted as left out */
  #encode(example: Example, place: Place): EncodingResult | undefined {
    const counts = this.#counts;
    let result: EncodingResult;
    try {
      result = this.#encoder(example);
    } catch (error) {
      // Chat templates refuse some conversations, and tokenizers some texts.
      if (!(error instanceof LayergraftError)) throw error;
      skip(counts, "refused", { ...place, reason: error.message }, this.#context.onBadRow);
      return undefined;
    }
    const { length, fate } = result;
    const filter = this.#filters.ofTokens.find(({ passes }) => !passes(length));
    if (filter) {
      countUnder(counts.filtered, filter.name);
      return undefined;
    }
    if (fate === "too long") counts.tooLong++;
    if (fate === "nothing to learn") counts.nothingToLearn++;
    return result;
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** 48 bits of a hash as a number in [0, 1). */
function fractionOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
