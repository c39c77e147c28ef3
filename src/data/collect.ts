// Reads a set: rows to examples to tokens, through filters, into the store. Counts what is not kept.

import { createHash } from "node:crypto";
import { formatSome, LayergraftError } from "../core/index.js";
import type { ContaminationIndex } from "./contamination.js";
import { countUnder, emptyCounts, type GrowingCounts } from "./counts.js";
import type { SetPlan } from "./declaration.js";
import type { Encoder, EncodingResult } from "./encode.js";
import { type Example, keyOf } from "./example.js";
import { compileFilters, type Filters } from "./filter.js";
import { compileMapping, type Mapping, type MappingDeclaration } from "./mapping.js";
import { DataError } from "./read/data-error.js";
import { readRows } from "./read/index.js";
import { type BadRow, badRowError, type Row, type RowBatch } from "./read/row.js";
import { columnsOf, describeMapping, KNOWN_COLUMNS, mappingOf, missingColumns } from "./recognize.js";
import { Sample } from "./sample.js";
import type { ExampleStore } from "./store.js";

/** Shared by all sets. */
export interface CollectContext {
  /** The encoder for a mapping, with the name of its template. */
  readonly encoderFor: (map: MappingDeclaration) => { readonly encoder: Encoder; readonly template: string };
  readonly store: ExampleStore;
  /** Hashes of the examples so far, if duplicates are left out. */
  readonly seen: Set<string> | undefined;
  readonly contamination: ContaminationIndex | undefined;
  readonly seed: number;
  readonly onBadRow: "fail" | "skip";
  /** Called after each batch of rows. */
  readonly onProgress?: ((counts: Readonly<GrowingCounts>) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An example that was kept. */
export interface Kept {
  /** Its number in the store. */
  readonly index: number;
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
 * @throws {DataError} for a missing column, a bad row unless these are skipped, or a file that cannot be read
 */
export async function collectSet(
  plan: SetPlan,
  files: readonly string[],
  context: CollectContext,
): Promise<CollectedSet> {
  const collector = new SetCollector(plan, files, context);
  await collector.read();
  return collector.finish();
}

class SetCollector {
  readonly #plan: SetPlan;
  readonly #files: readonly string[];
  readonly #context: CollectContext;
  #mapping: Mapping | undefined;
  #encoder: Encoder | undefined;
  readonly #filters: Filters;
  readonly #counts: GrowingCounts;
  readonly #sample: Sample<Kept>;

  constructor(plan: SetPlan, files: readonly string[], context: CollectContext) {
    this.#plan = plan;
    this.#files = files;
    this.#context = context;
    this.#filters = compileFilters(plan.filter);
    this.#counts = emptyCounts(plan.name, files);
    this.#sample = new Sample(plan.cap ?? Number.POSITIVE_INFINITY);
  }

  async read(): Promise<void> {
    const { format, header, quotes, allow_short: allowShort, field, limit = Number.POSITIVE_INFINITY } = this.#plan;
    const { onBadRow, signal } = this.#context;
    const mapped = this.#plan.map === undefined ? KNOWN_COLUMNS : compileMapping(this.#plan.map).columns.flat();
    const columns = [...mapped, ...this.#filters.columns];
    const options = { format, header, quotes, allowShort, field, columns, onBadRow, signal };
    let file: string | undefined;
    for await (const batch of readRows(this.#files, { ...options, onBad: (row) => this.#unread(row) })) {
      if (!this.#mapping) this.#begin(batch);
      if (batch.file !== file) this.#checkColumns(batch);
      file = batch.file;
      for (const [i, row] of batch.rows.entries()) {
        if (this.#counts.rows >= limit) break;
        this.#counts.rows++;
        await this.#addRow(row, batch.file, batch.lines[i] ?? 0);
      }
      this.#counts.kept = this.#sample.size;
      this.#context.onProgress?.(this.#counts);
      if (this.#counts.rows >= limit) break;
    }
  }

  #begin(batch: RowBatch): void {
    const map = mappingOf(this.#plan.map, batch);
    const { encoder, template } = this.#context.encoderFor(map);
    this.#mapping = compileMapping(map);
    this.#encoder = encoder;
    Object.assign(this.#counts, { fields: describeMapping(map), template });
  }

  finish(): CollectedSet {
    const kept = this.#sample.values();
    const counts = this.#counts;
    counts.kept = kept.length;
    for (const { index, lossTokens, cutTokens } of kept) {
      counts.tokens += this.#context.store.tokensOf(index);
      counts.lossTokens += lossTokens;
      counts.cutTokens += cutTokens;
      if (cutTokens > 0) counts.cut++;
    }
    return { counts, kept };
  }

  async #addRow(row: Row, file: string, line: number): Promise<void> {
    const filter = this.#filters.ofRows.find(({ passes }) => !passes(row));
    if (filter) return countUnder(this.#counts.filteredRows, filter.name);
    const mapped = this.#mapping?.map(row) ?? "empty";
    if (mapped === "empty") {
      this.#counts.emptyRows++;
      return;
    }
    if ("problem" in mapped) return this.#bad({ file, line, reason: mapped.problem });
    this.#counts.mapped++;
    for (const example of mapped.examples) {
      this.#counts.examples++;
      await this.#addExample(example, mapped.key, { file, line });
    }
  }

  /** Expensive steps come last, so that a small sample of a large set is drawn fast. */
  async #addExample(example: Example, rowKey: string, at: { file: string; line: number }): Promise<void> {
    const { seen, contamination, seed, store } = this.#context;
    const counts = this.#counts;
    const filter = this.#filters.ofExamples.find(({ passes }) => !passes(example));
    if (filter) return countUnder(counts.filtered, filter.name);
    const isHashed = seen !== undefined || this.#plan.cap !== undefined;
    const digest = isHashed ? sha256(`${seed}\0${keyOf(example.messages)}`) : undefined;
    const key = digest === undefined ? 0 : fractionOf(digest);
    // Equal examples have equal keys, so the sample has the first or none of them.
    if (!this.#sample.accepts(key)) {
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
    const evaluated = contamination?.findIn(example);
    if (evaluated !== undefined) return countUnder(counts.contaminated, evaluated);
    const result = this.#encode(example, at);
    const { encoded } = result;
    if (!encoded) return;
    const index = await store.add(encoded);
    const lossTokens = encoded.loss.reduce((sum, learned) => sum + learned, 0);
    const content = createHash("sha256").update(new Uint8Array(encoded.ids.buffer)).update(encoded.loss);
    const kept = {
      ...{ index, lossTokens, split: fractionOf(sha256(rowKey)) },
      ...{ cutTokens: result.length - encoded.ids.length, digest: content.digest("base64") },
    };
    if (this.#sample.add(key, kept)) counts.notSampled++;
  }

  /** Encodes an example; counts it if nothing comes of it. */
  #encode(example: Example, { file, line }: { file: string; line: number }): EncodingResult {
    const none: EncodingResult = { encoded: undefined, length: 0, fate: "nothing to learn" };
    let result = none;
    try {
      result = this.#encoder?.encode(example) ?? none;
    } catch (error) {
      // Chat templates refuse some conversations, and tokenizers some texts.
      if (!(error instanceof LayergraftError)) throw error;
      const row = { file, line, reason: error.message };
      if (this.#context.onBadRow === "fail") throw badRowError(row);
      this.#counts.refused++;
      this.#note(row);
      return none;
    }
    const filter = this.#filters.ofTokens.find(({ passes }) => !passes(result.length));
    if (filter) {
      countUnder(this.#counts.filtered, filter.name);
      return none;
    }
    if (result.fate === "too long") this.#counts.tooLong++;
    if (result.fate === "nothing to learn") this.#counts.nothingToLearn++;
    return result;
  }

  /** A row that was read, but makes no example. */
  #bad(row: BadRow): void {
    if (this.#context.onBadRow === "fail") throw badRowError(row);
    this.#counts.badRows++;
    this.#note(row);
  }

  /** A row that could not be read, and is not counted yet. */
  #unread(row: BadRow): void {
    this.#counts.rows++;
    this.#counts.badRows++;
    this.#note(row);
  }

  #note(row: BadRow): void {
    if (this.#counts.badExamples.length < MAX_BAD_EXAMPLES) this.#counts.badExamples.push(row);
  }

  #checkColumns(batch: RowBatch): void {
    const { file } = batch;
    const present = columnsOf(batch);
    const wanted = [...(this.#mapping?.columns ?? []), ...this.#filters.columns.map((column) => [column])];
    const names = missingColumns(wanted, present);
    if (names.length === 0) return;
    throw new DataError(
      `${this.#plan.name}: ${file} has no column ${names.join(", nor ")}; it has ${formatSome([...present], 40)}`,
      { file, field: "map" },
    );
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** 48 bits of a hash as a number in [0, 1). */
function fractionOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
