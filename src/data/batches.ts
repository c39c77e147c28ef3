// Batches of token ids, padded or packed, in an order that the seed fixes. A position in it is a small JSON value, from
// which exactly the same batches follow.
import { digestOfJson, Random } from "../core/index.js";
import type { Encoded } from "./encode.js";
import { Mixture } from "./mixture.js";
import { pack } from "./packing.js";
import { DataError } from "./read/data-error.js";

/** Examples of one or several sets, encoded. */
export interface ExampleList {
  readonly sets: readonly { readonly name: string; readonly size: number; readonly weight?: number | undefined }[];
  /** Hash of all of them in their order. */
  readonly digest: string;
  /** Tokens of an example of a set. */
  readonly tokensOf: (set: number, index: number) => number;
  readonly get: (set: number, index: number) => Encoded;
}

export interface BatchOptions {
  readonly examples: ExampleList;
  /** Sequences of a batch. */
  readonly batch: number;
  /** Positions of a sequence at most. */
  readonly sequenceLength: number;
  /** Whether several examples share a sequence, each attending to itself only. Default false: one each, padded. */
  readonly packing?: boolean | undefined;
  /** Padded: whether examples of like length share a batch, so that less is padded. Default false. */
  readonly bucketing?: boolean | undefined;
  /** Padded sequences end with the longest of the batch, or all have the full length. Default `longest`. */
  readonly padTo?: "longest" | "sequence" | undefined;
  /** The id that fills what is not used. Default 0: what stands there is neither attended to nor learned. */
  readonly pad?: number | undefined;
  readonly seed: number;
  /** Mixture with weights: see MixtureOptions. */
  readonly repeat?: boolean | undefined;
  readonly shuffle?: boolean | undefined;
  /** Passes after which there are no more batches. Default: endless. */
  readonly passes?: number | undefined;
  /** Where to go on. */
  readonly from?: BatchPosition | undefined;
}

/** B rows of T positions, all arrays [B T] row-major. */
export interface Batch {
  /** B; less than asked for only in the last batch of the last pass. */
  readonly rows: number;
  /** T. */
  readonly time: number;
  readonly ids: Int32Array;
  /** Places within their example, from 0; 0 in padding. */
  readonly positions: Int32Array;
  /** Which example of its row a token belongs to, from 1; 0 in padding. */
  readonly segments: Int32Array;
  /** The id that comes next and is to be learned; -1 where nothing is. Never that of another example. */
  readonly labels: Int32Array;
  /** Examples in it. */
  readonly examples: number;
  /** Tokens, padding not counted. */
  readonly tokens: number;
  /** Labels that are not -1. */
  readonly lossTokens: number;
}

/** Where a stream of batches is. Plain JSON. */
export type BatchPosition = {
  /** Of the examples and of all settings that the order depends on. */
  readonly digest: string;
  /** Examples taken up before the current window, and those of them that wait for it. */
  readonly start: number;
  readonly waiting: readonly number[];
  /** Batches given out of the current window. */
  readonly batch: number;
};

/** Batches that are planned at once when lengths matter: enough to choose from, few enough to begin at once. */
const BATCHES_PER_WINDOW = 64;

/** Examples that are packed at once, at least. */
const LEAST_PACKED = 1024;

interface Window {
  /** Batches of rows of positions in the mixture. */
  readonly batches: readonly (readonly (readonly number[])[])[];
  readonly end: number;
  readonly waiting: readonly number[];
}

/** Gives batches one after another. Iterating takes from the same stream as `next`. */
export class BatchStream implements Iterable<Batch> {
  readonly mixture: Mixture;
  readonly #options: BatchOptions;
  readonly #total: number;
  readonly #digest: string;
  #start = 0;
  #waiting: readonly number[] = [];
  #batch = 0;
  #window: Window | undefined;

  /** @throws {DataError} if a set is empty, or `from` is a position in other data or under other settings */
  constructor(options: BatchOptions) {
    const { examples, seed, repeat, shuffle, passes, from } = options;
    this.#options = options;
    this.mixture = new Mixture({ sets: examples.sets, seed, repeat, shuffle });
    this.#total = passes === undefined ? Number.POSITIVE_INFINITY : passes * this.mixture.size;
    const { batch, sequenceLength, packing = false, bucketing = false } = options;
    const settings = {
      batch,
      sequenceLength,
      packing,
      bucketing,
      seed,
      repeat: repeat ?? false,
      shuffle: shuffle ?? true,
    };
    const sets = examples.sets.map(({ size, weight }) => [size, weight ?? null]);
    this.#digest = digestOfJson([examples.digest, sets, settings]).slice(0, 32);
    if (!from) return;
    if (from.digest !== this.#digest) {
      throw new DataError(
        "the run cannot go on: its data, their order or the size of its batches differ from when it was stopped",
      );
    }
    this.#start = from.start;
    this.#waiting = from.waiting;
    this.#batch = from.batch;
  }

  /** Where the stream is; the next batch of a stream made `from` here is that of this one. */
  get position(): BatchPosition {
    return { digest: this.#digest, start: this.#start, waiting: [...this.#waiting], batch: this.#batch };
  }

  /** The next batch, or undefined at the end of the last pass. */
  next(): Batch | undefined {
    for (;;) {
      this.#window ??= this.#plan(this.#start, this.#waiting, this.#total);
      const rows = this.#window.batches[this.#batch];
      if (rows) {
        this.#batch++;
        return this.#fill(rows);
      }
      if (this.#window.end >= this.#total && this.#window.waiting.length === 0) return undefined;
      this.#start = this.#window.end;
      this.#waiting = this.#window.waiting;
      this.#batch = 0;
      this.#window = undefined;
    }
  }

  *[Symbol.iterator](): Generator<Batch> {
    for (let batch = this.next(); batch; batch = this.next()) yield batch;
  }

  /** Sequences of the first pass, were it the only one: its examples, or as many as they are packed into. */
  sequencesPerPass(): number {
    if (!this.#options.packing) return this.mixture.size;
    let count = 0;
    let window: Window = { batches: [], end: 0, waiting: [] };
    while (window.end < this.mixture.size || window.waiting.length > 0) {
      window = this.#plan(window.end, window.waiting, this.mixture.size);
      count += window.batches.reduce((sum, rows) => sum + rows.length, 0);
    }
    return count;
  }

  /** Plans the batches of a window: of examples that wait, and of the next ones. */
  #plan(start: number, waiting: readonly number[], total: number): Window {
    const { batch, packing = false, bucketing = false, sequenceLength, seed, shuffle = true } = this.#options;
    const fresh = packing
      ? Math.max(LEAST_PACKED, batch * BATCHES_PER_WINDOW)
      : bucketing
        ? batch * BATCHES_PER_WINDOW
        : batch;
    // No window reaches beyond its pass, or an example would be seen twice before another is seen at all; but for what
    // fills the pass's last batch.
    const passEnd = this.mixture.size * (Math.floor(start / this.mixture.size) + 1);
    const end = Math.min(start + fresh, packing ? passEnd : batch * Math.ceil(passEnd / batch), total);
    const positions = Array.from({ length: end - start }, (_, i) => start + i);
    const random = Random.of(seed, `batches from ${start}`);
    if (packing) {
      const packed = (some: readonly number[]) => {
        const lengths = some.map((position) => this.#tokensAt(position));
        return pack(lengths, sequenceLength).map((items) => items.map((item) => some[item] ?? 0));
      };
      const next = packed(positions);
      // The longest come first out of packing; shuffled, batches are alike, and what waits is of any length.
      if (shuffle) random.shuffle(next);
      // What waits comes first: it belongs to the pass before.
      const rows = [...packed(waiting), ...next];
      const whole = end >= total ? rows.length : rows.length - (rows.length % batch);
      const left = rows
        .slice(whole)
        .flat()
        .sort((a, b) => a - b);
      return { batches: inGroups(rows.slice(0, whole), batch), end, waiting: left };
    }
    const byLength = new Map(positions.map((position) => [position, bucketing ? this.#tokensAt(position) : 0]));
    const rows = positions
      .toSorted((a, b) => (byLength.get(a) ?? 0) - (byLength.get(b) ?? 0) || a - b)
      .map((one) => [one]);
    const batches = inGroups(rows.slice(0, rows.length - (rows.length % batch)), batch);
    if (bucketing && shuffle) random.shuffle(batches);
    // What is left at the very end is one smaller batch, the last.
    return { batches: [...batches, ...inGroups(rows.slice(batches.length * batch), batch)], end, waiting: [] };
  }

  #tokensAt(position: number): number {
    const { set, index } = this.mixture.placeOf(this.mixture.at(position));
    return this.#options.examples.tokensOf(set, index);
  }

  #fill(rows: readonly (readonly number[])[]): Batch {
    const { sequenceLength, packing = false, padTo = "longest", pad = 0, examples } = this.#options;
    const texts = rows.map((row) =>
      row.map((position) => {
        const { set, index } = this.mixture.placeOf(this.mixture.at(position));
        return examples.get(set, index);
      }),
    );
    const longest = Math.max(...texts.map((row) => row.reduce((sum, { ids }) => sum + ids.length, 0)));
    if (longest > sequenceLength) throw new RangeError(`an example is longer than ${sequenceLength} tokens`);
    const time = packing || padTo === "sequence" ? sequenceLength : longest;
    const size = rows.length * time;
    const ids = new Int32Array(size).fill(pad);
    const labels = new Int32Array(size).fill(-1);
    const [positions, segments] = [new Int32Array(size), new Int32Array(size)];
    let tokens = 0;
    let lossTokens = 0;
    texts.forEach((row, r) => {
      let at = r * time;
      row.forEach((text, segment) => {
        ids.set(text.ids, at);
        for (let i = 0; i < text.ids.length; i++) {
          positions[at + i] = i;
          segments[at + i] = segment + 1;
          if (i > 0 && text.loss[i] === 1) {
            labels[at + i - 1] = text.ids[i] ?? 0;
            lossTokens++;
          }
        }
        at += text.ids.length;
        tokens += text.ids.length;
      });
    });
    const count = texts.reduce((sum, row) => sum + row.length, 0);
    return { rows: rows.length, time, ids, positions, segments, labels, examples: count, tokens, lossTokens };
  }
}

function inGroups<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
