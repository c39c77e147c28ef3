// Combines reports of pieces per job, in the order of the pieces, for the same sums on any number of threads.
import { joinPieces } from "./job-kinds.js";
import { cutIntoPieces, type Piece } from "./pieces.js";
import type { Job, Payload } from "./program.js";

/**
 * Combines the payloads of each job's pieces in the order of the pieces, independent of arrival.
 *
 * A job's total is passed on and dropped when its last piece arrives.
 */
export class Collector<P extends Payload> {
  readonly #jobs: readonly Job[];
  readonly #onJob: (job: number, total: P) => void;
  readonly #pieces: readonly Piece[];
  readonly #waiting = new Map<number, P>();
  /** By job: the piece that comes next, the total of those before, and how many are left. */
  readonly #next: number[] = [];
  readonly #left: number[] = [];
  readonly #totals = new Map<number, P>();

  constructor(jobs: readonly Job[], onJob: (job: number, total: P) => void) {
    this.#jobs = jobs;
    this.#onJob = onJob;
    this.#pieces = cutIntoPieces(jobs);
    this.#pieces.forEach(({ job }, index) => {
      this.#next[job] ??= index;
      this.#left[job] = (this.#left[job] ?? 0) + 1;
    });
  }

  add(index: number, payload: P): void {
    const job = this.#pieces[index]?.job ?? 0;
    this.#waiting.set(index, payload);
    for (let next = this.#next[job] ?? 0; ; next++) {
      const ready = this.#waiting.get(next);
      if (!ready || this.#pieces[next]?.job !== job) break;
      this.#waiting.delete(next);
      const total = this.#totals.get(job);
      this.#totals.set(job, total ? joinPieces(total, ready, this.#jobs[job] as Job) : ready);
      this.#next[job] = next + 1;
      this.#left[job] = (this.#left[job] ?? 0) - 1;
    }
    const total = this.#totals.get(job);
    if (this.#left[job] !== 0 || !total) return;
    this.#totals.delete(job);
    this.#onJob(job, total);
  }
}
