// Reads a set: rows to examples to tokens, through filters, into the store. Counts what is not kept.
import { createHash } from "node:crypto";
import { LayergraftError } from "../../kit/index.js";
import { valueAt } from "../../kit/settings/index.js";
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
/** How examples of a mapping are written. */
interface Writing {
  readonly encoder: Encoder;
  /** The examples that the template needs for one. */
  readonly split: (example: Example) => readonly Example[];
}

type Place = Omit<BadRow, "reason">;

/** Shared by all sets. */
export interface CollectContext {
  /** The encoder for a mapping, with the name of its template. */
  readonly encoderFor: (map: MappingDeclaration) => Writing & { readonly template: string };
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
  readonly isEndless: boolean;
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

/** A set as it is read. */
interface Reading extends CollectContext {
  readonly counts: GrowingCounts;
  readonly filters: Filters;
  readonly sample: Sample<Kept>;
  readonly isHashed: boolean;
  /** Tokens of the examples that were left out for their length. */
  readonly lengths: number[];
}

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
  const { cap, limit = Number.POSITIVE_INFINITY } = plan;
  const counts = new GrowingCounts(plan.name, files);
  const sample = new Sample<Kept>(cap ?? Number.POSITIVE_INFINITY);
  const isHashed = context.seen !== undefined || cap !== undefined;
  const reading: Reading = { ...context, counts, filters: compileFilters(plan.filter), sample, isHashed, lengths: [] };
  const onBad = (row: BadRow) => {
    counts.rows++;
    skip(reading, "badRows", row);
  };
  let writing: Writing | undefined;
  for await (const { batch, map, mapping } of mappedRows(plan, files, { onBadRow, onBad, signal })) {
    if (!writing) {
      const chosen = context.encoderFor(map);
      writing = chosen;
      Object.assign(counts, { fields: describeMapping(map), template: chosen.template });
    }
    for (const [i, row] of batch.rows.entries()) {
      if (counts.rows >= limit) break;
      counts.rows++;
      addRow(reading, row, { ...writing, mapping, place: { file: batch.file, line: batch.lines[i] ?? 0 } });
    }
    if (counts.rows >= limit) break;
  }
  const kept = sample.values();
  counts.kept = kept.length;
  const { lengths } = reading;
  for (const { encoded, lossTokens, cutTokens, isEndless } of kept) {
    lengths.push(encoded.ids.length + cutTokens);
    if (isEndless) counts.endless++;
    counts.tokens += encoded.ids.length;
    counts.lossTokens += lossTokens;
    counts.cutTokens += cutTokens;
    if (cutTokens > 0) counts.cut++;
  }
  lengths.sort((a, b) => a - b);
  counts.nineTenths = lengths[Math.ceil(lengths.length * 0.9) - 1] ?? 0;
  counts.longest = lengths.at(-1) ?? 0;
  return { counts, kept };
}

function skip({ counts, onBadRow }: Reading, count: "badRows" | "refused", row: BadRow): void {
  if (onBadRow === "fail") throw badRowError(row);
  counts[count]++;
  if (counts.badExamples.length < MAX_BAD_EXAMPLES) counts.badExamples.push(row);
}

function addRow(
  reading: Reading,
  row: Row,
  { mapping, encoder, split, place }: Writing & { readonly mapping: Mapping; readonly place: Place },
): void {
  const { counts, filters } = reading;
  const filter = filters.ofRows.find(({ passes }) => !passes(row));
  const result = filter ? undefined : mapping.map(row);
  if (filter) countUnder(counts.filteredRows, filter.name);
  if (result === "empty") {
    counts.emptyRows++;
    counts.firstEmpty ??= place;
  }
  if (result === undefined || result === "empty") return;
  if ("problem" in result) {
    skip(reading, "badRows", { ...place, reason: result.problem });
    return;
  }
  counts.mapped++;
  for (const column of mapping.columns.flat()) {
    const value = valueAt(row, column);
    if (MISSING.has(value)) countAt(counts.missing, `${column}: ${value}`, place);
  }
  for (const { leftOut } of result.examples.flatMap(({ messages }) => messages)) {
    if (leftOut !== undefined) countAt(counts.leftOut, leftOut, place);
  }
  for (const example of result.examples.flatMap(split)) {
    counts.examples++;
    const found = encodeExample(reading, example, encoder, place);
    if (!found) continue;
    const kept = { ...found.kept, split: fractionOf(sha256(result.key)) };
    if (reading.sample.add(found.key, kept)) counts.notSampled++;
  }
}

/**
 * Expensive steps come last, so that a small sample of a large set is drawn fast.
 * @returns undefined if the example is counted as left out
 */
function encodeExample(reading: Reading, example: Example, encode: Encoder, place: Place) {
  const { counts, filters, seen } = reading;
  const filter = filters.ofExamples.find(({ passes }) => !passes(example));
  if (filter) return countUnder(counts.filtered, filter.name);
  const digest = reading.isHashed ? sha256(`${reading.seed}\0${keyOf(example.messages)}`) : undefined;
  const key = digest === undefined ? 0 : fractionOf(digest);
  // Equal examples have equal keys, so the sample has the first or none of them.
  if (!reading.sample.accepts(key)) {
    counts.notSampled++;
    return undefined;
  }
  if (digest && seen && seen.size === seen.add(digest.toString("latin1", 8, 16)).size) {
    counts.duplicates++;
    return undefined;
  }
  let result: EncodingResult;
  try {
    result = encode(example);
  } catch (error) {
    // Chat templates refuse some conversations, and tokenizers some texts.
    if (!(error instanceof LayergraftError)) throw error;
    return skip(reading, "refused", { ...place, reason: error.message });
  }
  const { encoded, length, fate, hasEnd } = result;
  const ofTokens = filters.ofTokens.find(({ passes }) => !passes(length));
  if (ofTokens) return countUnder(counts.filtered, ofTokens.name);
  if (fate === "too long") counts.tooLong++;
  if (fate === "prompt too long") counts.promptTooLong++;
  if (fate === "prompt too long" || fate === "nothing to learn") counts.nothingToLearn++;
  if (!encoded) {
    if (fate !== "nothing to learn") reading.lengths.push(length);
    return undefined;
  }
  const content = createHash("sha256").update(new Uint8Array(encoded.ids.buffer)).update(encoded.loss);
  const lossTokens = encoded.loss.reduce((sum, learned) => sum + learned, 0);
  const kept = {
    encoded,
    lossTokens,
    cutTokens: length - encoded.ids.length,
    digest: content.digest("base64"),
    isEndless: !hasEnd,
  };
  return { key, kept };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** 48 bits of a hash as a number in [0, 1). */
function fractionOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
