// Batches of token ids, padded or packed, in an order that depends on the seed. A stream resumes at a position in JSON.
import { digestOfJson } from "../../kit/files/index.js";
import { Random } from "../../kit/index.js";
import type { Encoded } from "./encode.js";
import { Mixture, type MixtureOptions } from "./mixture.js";
import { DataError } from "./read/row.js";

/** Examples of one or several sets, encoded. */
export interface ExampleList {
  readonly sets: readonly {
    readonly name: string;
    readonly weight?: number | undefined;
    readonly examples: readonly Encoded[];
  }[];
  /** Hash of all of them in their order. */
  readonly digest: string;
}

export interface BatchOptions extends Omit<MixtureOptions, "sets"> {
  readonly examples: ExampleList;
  /** Sequences of a batch. */
  readonly batch: number;
  /** Positions of a sequence at most. */
  readonly sequenceLength: number;
  /** Several examples per sequence, each attending to itself only. Default false: one each, padded. */
  readonly packing?: boolean | undefined;
  /** Examples of similar length share a batch, for less padding. Default false. */
  readonly bucketing?: boolean | undefined;
  /** Id of padding, which is neither attended to nor learned. Default 0. */
  readonly pad?: number | undefined;
  /** Passes over the data. Default: endless. */
  readonly passes?: number | undefined;
  readonly from?: BatchPosition | undefined;
}

/** B rows of T positions, all arrays [B T] row-major. */
export interface Batch {
  /** B; smaller only in the last batch of the last pass. */
  readonly rows: number;
  /** T. */
  readonly time: number;
  readonly ids: Int32Array;
  /** Positions in their example, from 0; 0 in padding. */
  readonly positions: Int32Array;
  /** The example of its row that a token belongs to, from 1; 0 in padding. */
  readonly segments: Int32Array;
  /** The next id in the example, if it is learned; otherwise -1. */
  readonly labels: Int32Array;
  readonly examples: number;
  /** Tokens without padding. */
  readonly tokens: number;
}

/** A position in a stream of batches, in JSON. */
export type BatchPosition = {
  /** Of the examples and the settings of their order. */
  readonly digest: string;
  /** Examples before the current window, and those of them that are left for it. */
  readonly start: number;
  readonly waiting: readonly number[];
  /** Batches of the current window so far. */
  readonly batch: number;
};

/** Batches that are planned at once when lengths matter. */
const BATCHES_PER_WINDOW = 64;

/** Fewest examples that are packed at once. */
const MIN_PACKED = 1024;

interface Window {
  /** Batches of rows of positions in the mixture. */
  readonly batches: readonly (readonly (readonly number[])[])[];
  readonly end: number;
  readonly waiting: readonly number[];
}

/** Batches, one after another. Iterating advances the stream like `next`. */
export class BatchStream implements Iterable<Batch> {
  readonly mixture: Mixture;
  readonly #options: BatchOptions;
  readonly #total: number;
  readonly #digest: string;
  #start = 0;
  #waiting: readonly number[] = [];
  #batch = 0;
  #window: Window | undefined;

  /** @throws DataError if a set is empty, or `from` belongs to other data or settings */
  constructor(options: BatchOptions) {
    const { examples, seed, repeat, shuffle, passes, from } = options;
    this.#options = options;
    const sizes = examples.sets.map(({ examples, ...set }) => ({ ...set, size: examples.length }));
    this.mixture = new Mixture({ sets: sizes, seed, repeat, shuffle });
    this.#total = passes === undefined ? Number.POSITIVE_INFINITY : passes * this.mixture.size;
    const { batch, sequenceLength, packing = false, bucketing = false } = options;
    const settings = { batch, sequenceLength, packing, bucketing, seed };
    const sets = sizes.map(({ size, weight }) => [size, weight ?? null]);
    const order = { ...settings, repeat: repeat ?? false, shuffle: shuffle ?? true };
    this.#digest = digestOfJson([examples.digest, sets, order]).slice(0, 32);
    if (!from) return;
    if (from.digest !== this.#digest) {
      throw new DataError(
        "the run cannot resume, because its data, their order or the batch size have changed. Undo the change, or start a new run.",
      );
    }
    this.#start = from.start;
    this.#waiting = from.waiting;
    this.#batch = from.batch;
  }

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

  /** Sequences of a pass: its examples, or as many as they are packed into. */
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

  /** Plans the batches of a window, of examples left from the one before and of the next ones. */
  #plan(start: number, waiting: readonly number[], total: number): Window {
    const { batch, packing = false, bucketing = false, sequenceLength, seed, shuffle = true } = this.#options;
    const fresh = packing
      ? Math.max(MIN_PACKED, batch * BATCHES_PER_WINDOW)
      : bucketing
        ? batch * BATCHES_PER_WINDOW
        : batch;
    // A window ends with its pass, so that each example is seen once in it; padded batches are filled up from the next.
    const passEnd = this.mixture.size * (Math.floor(start / this.mixture.size) + 1);
    const end = Math.min(start + fresh, packing ? passEnd : batch * Math.ceil(passEnd / batch), total);
    const positions = Array.from({ length: end - start }, (_, i) => start + i);
    const random = Random.of(seed, `batches from ${start}`);
    if (packing) {
      const packed = (some: readonly number[]) => {
        const lengths = some.map((position) => this.exampleAt(position).encoded.ids.length);
        return pack(lengths, sequenceLength).map((items) => items.map((item) => some[item] ?? 0));
      };
      const next = packed(positions);
      // Packing starts with the longest.
      if (shuffle) random.shuffle(next);
      // Those left over may belong to the pass before.
      const rows = [...packed(waiting), ...next];
      const whole = end >= total ? rows.length : rows.length - (rows.length % batch);
      const left = rows
        .slice(whole)
        .flat()
        .sort((a, b) => a - b);
      return { batches: inGroups(rows.slice(0, whole), batch), end, waiting: left };
    }
    const byLength = new Map(
      positions.map((position) => [position, bucketing ? this.exampleAt(position).encoded.ids.length : 0]),
    );
    const rows = positions
      .toSorted((a, b) => (byLength.get(a) ?? 0) - (byLength.get(b) ?? 0) || a - b)
      .map((one) => [one]);
    const batches = inGroups(rows.slice(0, rows.length - (rows.length % batch)), batch);
    if (bucketing && shuffle) random.shuffle(batches);
    // The very last batch may be smaller.
    return { batches: [...batches, ...inGroups(rows.slice(batches.length * batch), batch)], end, waiting: [] };
  }

  /** The example at a position, which counts through all passes, and the name of its set. */
  exampleAt(position: number): { readonly set: string; readonly encoded: Encoded } {
    const { set, index } = this.mixture.placeOf(this.mixture.at(position));
    const { name, examples } = this.#options.examples.sets[set] as ExampleList["sets"][number];
    return { set: name, encoded: examples[index] as Encoded };
  }

  #fill(rows: readonly (readonly number[])[]): Batch {
    const { sequenceLength, packing = false, pad = 0 } = this.#options;
    const texts = rows.map((row) => row.map((position) => this.exampleAt(position).encoded));
    const longest = Math.max(...texts.map((row) => row.reduce((sum, { ids }) => sum + ids.length, 0)));
    if (longest > sequenceLength) throw new RangeError(`an example is longer than ${sequenceLength} tokens`);
    const time = packing ? sequenceLength : longest;
    const size = rows.length * time;
    const ids = new Int32Array(size).fill(pad);
    const labels = new Int32Array(size).fill(-1);
    const [positions, segments] = [new Int32Array(size), new Int32Array(size)];
    let tokens = 0;
    texts.forEach((row, r) => {
      let at = r * time;
      row.forEach((text, segment) => {
        ids.set(text.ids, at);
        for (let i = 0; i < text.ids.length; i++) {
          positions[at + i] = i;
          segments[at + i] = segment + 1;
          if (i > 0 && text.loss[i] === 1) labels[at + i - 1] = text.ids[i] ?? 0;
        }
        at += text.ids.length;
        tokens += text.ids.length;
      });
    });
    const count = texts.reduce((sum, row) => sum + row.length, 0);
    return { rows: rows.length, time, ids, positions, segments, labels, examples: count, tokens };
  }
}

function inGroups<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}

/**
 * Best-fit decreasing: puts the longest items first, each into the fullest bin with room (Johnson et al., SIAM Journal on
 * Computing 3, 1974: at most 11/9 of the optimum and a few).
 * @param lengths each at most `capacity`
 * @returns bins of item numbers, each in ascending order, in the order in which they were opened
 */
export function pack(lengths: readonly number[], capacity: number): number[][] {
  const longestFirst = lengths.map((_, i) => i).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || a - b);
  const bins: number[][] = [];
  /** Bins by their room, the last opened on top. */
  const byRoom: number[][] = Array.from({ length: capacity + 1 }, () => []);
  for (const item of longestFirst) {
    const length = lengths[item] ?? 0;
    if (length > capacity) throw new RangeError(`an item of length ${length} does not fit into ${capacity}`);
    let room = length;
    while (room <= capacity && byRoom[room]?.length === 0) room++;
    const bin = byRoom[room]?.pop() ?? bins.push([]) - 1;
    bins[bin]?.push(item);
    byRoom[Math.min(room, capacity) - length]?.push(bin);
  }
  return bins.map((items) => items.sort((a, b) => a - b));
}
