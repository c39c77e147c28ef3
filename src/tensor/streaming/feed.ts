// Fetches the remote bytes of a program ahead of its threads, in the order of the pieces, into memory of fixed size.

import type { Hash } from "node:crypto";
import { largestOf } from "../../kit/arrays/index.js";
import { LayergraftError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { Piece } from "./pieces.js";
import type { InputFile, Program } from "./program.js";
import { type Batch, type ByteRange, planBatches, type RangeRequest, requestsOf, SLOT_BYTES } from "./remote-ranges.js";
import type { Window } from "./shared.js";

/** Requests at once. More gain little on one connection to a storage, and servers limit them. */
const REQUESTS = 8;
/** Batches in memory: while the threads read one, others are fetched. */
const MAX_SLOTS = 4;

export class Feed {
  readonly window: Window;
  readonly #program: Program;
  readonly #batches: readonly Batch[];
  readonly #slots: number;
  /** Bytes of a slot. */
  readonly #slot: number;
  readonly #batchOf = new Map<number, number>();
  /** By batch: pieces that are not done, and one until it is checked. */
  readonly #unfinished: number[];
  /** By piece: bytes that have not arrived. */
  readonly #missing = new Map<number, number>();
  readonly #ended = new AbortController();
  #failure: { readonly error: unknown } | undefined;
  #wakeUp: () => void = () => undefined;

  /**
   * @param done pieces done by an earlier run, which are not fetched
   * @param memory most bytes to use
   * @throws LayergraftError if `memory` is too small for the bytes of a piece
   */
  constructor(program: Program, pieces: readonly Piece[], done: Uint8Array, memory: number) {
    this.#program = program;
    this.#batches = planBatches(
      program,
      pieces,
      Math.min(SLOT_BYTES, memory / MAX_SLOTS),
      (index) => done[index] !== 0,
    );
    this.#slot = largestOf(
      this.#batches.map(({ bytes }) => bytes),
      0,
    );
    this.#slots = Math.min(this.#batches.length, MAX_SLOTS, this.#slot === 0 ? 1 : Math.floor(memory / this.#slot));
    if (this.#batches.length > 0 && this.#slots === 0) {
      const least = 2 * this.#slot;
      throw new LayergraftError(
        "memory",
        `the memory budget is too small to stream these tensors from the hub; give at least ${formatBytes(least)}`,
        { field: "memory", expected: `at least ${least} bytes` },
      );
    }
    // A batch also stays until it is checked.
    this.#unfinished = this.#batches.map((batch) => batch.pieces.length + 1);
    this.window = {
      bytes: new Uint8Array(new SharedArrayBuffer(this.#slots * this.#slot)),
      places: new Float64Array(new SharedArrayBuffer(pieces.length * 8)),
      ready: new Uint8Array(new SharedArrayBuffer(pieces.length)),
    };
    this.#batches.forEach((batch, number) => {
      for (const piece of batch.pieces) {
        this.#batchOf.set(piece, number);
        this.window.ready[piece] = 1;
      }
      for (const { piece, start, end, at } of batch.ranges) {
        // The ranges of a piece follow each other.
        if (!this.#missing.has(piece)) this.window.places[piece] = this.#slotOf(number) + at;
        this.#missing.set(piece, (this.#missing.get(piece) ?? 0) + end - start);
        this.window.ready[piece] = 0;
      }
    });
  }

  #slotOf(batch: number): number {
    return (batch % this.#slots) * this.#slot;
  }

  /**
   * Fetches everything, no further ahead than memory allows.
   * @param onReady called when a piece can be read
   * @throws what a request throws; other requests are stopped then
   */
  async run(onReady: () => void): Promise<void> {
    const { default: pLimit } = await import("p-limit"); // most programs read files only
    const limit = pLimit(REQUESTS);
    const check = new ContentCheck(this.#program.inputs);
    let checked = Promise.resolve();
    for (const [number, batch] of this.#batches.entries()) {
      // The slot is free when the batch that had it is done.
      while (!this.#ended.signal.aborted && (this.#unfinished[number - this.#slots] ?? 0) > 0) {
        await new Promise<void>((resolve) => {
          this.#wakeUp = resolve;
        });
      }
      const requests = requestsOf(batch).map((request) =>
        limit(() => this.#fetch(request, this.#slotOf(number), onReady)),
      );
      checked = Promise.all([checked, ...requests]).then(() => this.#check(number, check));
    }
    await checked;
    if (this.#failure) throw this.#failure.error;
  }

  /** Hashes what a batch fetched; batches are given in order. */
  #check(number: number, check: ContentCheck): void {
    if (this.#ended.signal.aborted) return;
    const slot = this.#slotOf(number);
    try {
      for (const range of this.#batches[number]?.ranges ?? []) {
        const from = slot + range.at;
        check.take(range, this.window.bytes.subarray(from, from + range.end - range.start));
      }
    } catch (error) {
      this.#failure = { error };
      this.end();
    }
    this.#release(number);
  }

  /** Called when a piece is done. */
  finish(piece: number): void {
    const batch = this.#batchOf.get(piece);
    if (batch !== undefined) this.#release(batch);
  }

  #release(batch: number): void {
    this.#unfinished[batch] = (this.#unfinished[batch] ?? 0) - 1;
    this.#wakeUp();
  }

  end(): void {
    this.#ended.abort();
    this.#wakeUp();
  }

  async #fetch({ file, start, end, parts }: RangeRequest, slot: number, onReady: () => void): Promise<void> {
    const { signal } = this.#ended;
    const remote = this.#program.inputs[file]?.remote;
    if (signal.aborted || !remote) return;
    try {
      let [at, next] = [start, 0];
      for await (const chunk of remote.stream(start, end, signal)) {
        const until = at + chunk.length;
        for (let part = parts[next]; part && part.start < until; part = parts[++next]) {
          const [from, to] = [Math.max(part.start, at), Math.min(part.end, until)];
          this.window.bytes.set(chunk.subarray(from - at, to - at), slot + part.at + from - part.start);
          this.#arrive(part.piece, to - from, onReady);
          if (part.end > until) break;
        }
        at = until;
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#failure = { error };
      this.end();
    }
  }

  #arrive(piece: number, bytes: number, onReady: () => void): void {
    const missing = (this.#missing.get(piece) ?? 0) - bytes;
    this.#missing.set(piece, missing);
    if (missing > 0) return;
    Atomics.store(this.window.ready, piece, 1);
    onReady();
  }
}

/** Checks the SHA-256 of remote files that a pass reads as a whole, from the first byte to the last. */
class ContentCheck {
  readonly #inputs: readonly InputFile[];
  /** By file: its hash up to a byte. Files that are not read in order have none. */
  readonly #hashes = new Map<number, { readonly hash: Hash; at: number }>();

  constructor(inputs: readonly InputFile[]) {
    this.#inputs = inputs;
    inputs.forEach(({ remote }, file) => {
      const begun = remote?.beginHash();
      if (begun) this.#hashes.set(file, begun);
    });
  }

  /**
   * Takes the bytes of a range. Ranges are given in the order in which a pass reads them.
   * @throws LayergraftError code "changed" if all of the file was taken and its hash is not the one listed
   */
  take({ file, start, end }: ByteRange, bytes: Uint8Array): void {
    const state = this.#hashes.get(file);
    if (!state || start < state.at) return;
    if (start > state.at) {
      this.#hashes.delete(file);
      return;
    }
    state.hash.update(bytes);
    state.at = end;
    const { path = "", bytes: size, remote } = this.#inputs[file] ?? {};
    if (end !== size) return;
    const actual = state.hash.digest("hex");
    this.#hashes.delete(file);
    if (actual === remote?.sha256) return;
    throw new LayergraftError(
      "changed",
      `${path} was received with the SHA-256 ${actual}, but the hub lists ${remote?.sha256}. Run again, or use another HF_ENDPOINT.`,
      { file: path, expected: remote?.sha256 ?? "", actual },
    );
  }
}
