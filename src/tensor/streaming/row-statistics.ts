// Computes the sums of one piece of an analysis: differences of experts from the base, per row, in total and in pairs.
import type { Evaluator } from "./evaluate-block.js";
import { eachBlock } from "./pieces.js";
import type { AnalyzeJob } from "./program.js";
import { concatenate } from "./results.js";

/** Sums over one piece for one expert. */
export interface ExpertSums {
  squares: number;
  /** Sum of the base's squares. */
  own: number;
  /** Elements that equal the base's exactly. */
  equal: number;
  /** Largest absolute difference. */
  largest: number;
  /** Elements whose difference is infinite or NaN; other sums leave them out, and their row is NaN. */
  nonFinite: number;
  /** Index of the first of them in the tensor, or -1. */
  firstNonFinite: number;
  /** Sums of absolute differences per row; rows of the piece only, where rows are stored rows. */
  rows: Float64Array;
  /** Sum of squares by block. */
  blocks: readonly number[];
}

export interface PairSums {
  /** Sum of the products of their differences. */
  dot: number;
  /** Elements whose differences have opposite signs. */
  opposed: number;
}

export interface AnalyzedPiece {
  readonly experts: readonly ExpertSums[];
  /** Pairs in the order (0,1), (0,2), ..., (1,2), ... */
  readonly pairs: readonly PairSums[];
}

/** Pairs of `count` things, in order. */
export function pairsOf(count: number): [number, number][] {
  const pairs: [number, number][] = [];
  for (let i = 0; i < count; i++) for (let j = i + 1; j < count; j++) pairs.push([i, j]);
  return pairs;
}

/** Computes the sums of elements [begin, end) of a job; for a matrix these are whole rows. */
export class Analyzer {
  readonly #evaluator: Evaluator;
  #sums: { address: number; length: number } = { address: 0, length: 0 };
  #totals = 0;

  constructor(evaluator: Evaluator) {
    this.#evaluator = evaluator;
  }

  analyze(job: AnalyzeJob, begin: number, end: number): AnalyzedPiece {
    const { kernels } = this.#evaluator;
    const { columns } = job.base;
    const rows = job.axis === "columns" ? columns : job.axis === "rows" ? (end - begin) / columns : 1;
    const pairs = pairsOf(job.experts.length);
    const [sums, totals] = this.#scratch(job.experts.length * rows, job.experts.length * 4 + pairs.length * 2);
    const totalsOf = (index: number) => totals + index * 32;
    const pairAt = (index: number) => totalsOf(job.experts.length) + index * 16;

    /** Sums of squares after each block. */
    const after: number[][] = job.experts.map(() => []);
    eachBlock(job, begin, end, (from, to) => {
      const n = to - from;
      const [base = 0, ...experts] = this.#evaluator.sums([job.base, ...job.experts], from, to);
      experts.forEach((expert, index) => {
        const at = sums + index * rows * 8;
        if (job.axis === "columns") {
          kernels.wasm.columnStatistics(expert, base, n / columns, columns, at, totalsOf(index));
        } else if (job.axis === "rows") {
          const first = (from - begin) / columns;
          kernels.wasm.rowStatistics(expert, base, n / columns, columns, at + first * 8, totalsOf(index));
        } else {
          kernels.wasm.rowStatistics(expert, base, 1, n, at, totalsOf(index));
        }
        after[index]?.push(kernels.doubles(totalsOf(index), 1)[0] as number);
      });
      pairs.forEach(([i, j], index) => {
        kernels.wasm.pairStatistics(experts[i] ?? 0, experts[j] ?? 0, base, n, pairAt(index));
      });
    });

    const result: AnalyzedPiece = {
      experts: job.experts.map((_, index) => {
        const [squares = 0, own = 0, equal = 0, largest = 0] = kernels.doubles(totalsOf(index), 4);
        const rowSums = kernels.doubles(sums + index * rows * 8, rows).slice();
        const blocks = (after[index] ?? []).map((sum, i, all) => sum - (all[i - 1] ?? 0));
        return { squares, own, equal, largest, nonFinite: 0, firstNonFinite: -1, rows: rowSums, blocks };
      }),
      pairs: pairs.map((_, index) => {
        const [dot = 0, opposed = 0] = kernels.doubles(pairAt(index), 2);
        return { dot, opposed };
      }),
    };
    const finite = result.experts.every(({ squares, own }) => Number.isFinite(squares + own));
    return finite ? result : this.#analyzeCarefully(job, begin, end, rows);
  }

  /**
   * The same sums, element by element, without non-finite elements. Used if a sum shows that the piece has such an
   * element, or one whose square exceeds float32.
   */
  #analyzeCarefully(job: AnalyzeJob, begin: number, end: number, rows: number): AnalyzedPiece {
    const { columns } = job.base;
    const blocks: number[][] = job.experts.map(() => []);
    const experts: ExpertSums[] = blocks.map((blocks) => ({
      blocks,
      squares: 0,
      own: 0,
      equal: 0,
      largest: 0,
      nonFinite: 0,
      firstNonFinite: -1,
      rows: new Float64Array(rows),
    }));
    const indices = pairsOf(job.experts.length);
    const pairs: PairSums[] = indices.map(() => ({ dot: 0, opposed: 0 }));
    eachBlock(job, begin, end, (from, to) => {
      const n = to - from;
      const sums = this.#evaluator.sums([job.base, ...job.experts], from, to);
      const values = sums.map((sum) => this.#evaluator.kernels.floats(sum, n).slice());
      const [base = new Float32Array(n), ...others] = values;
      const deltas = others.map((expert) => expert.map((value, i) => value - (base[i] ?? 0)));
      deltas.forEach((delta, index) => {
        const sums = experts[index] as ExpertSums;
        const before = sums.squares;
        delta.forEach((signed, i) => {
          const row =
            job.axis === "columns"
              ? (from + i) % columns
              : job.axis === "rows"
                ? Math.floor((from + i - begin) / columns)
                : 0;
          addElement(sums, row, Math.abs(signed), base[i] ?? 0, from + i);
        });
        blocks[index]?.push(sums.squares - before);
      });
      indices.forEach(([i, j], index) => {
        const sums = pairs[index] as PairSums;
        deltas[i]?.forEach((x, at) => {
          const product = x * (deltas[j]?.[at] ?? 0);
          if (!Number.isFinite(product)) return;
          sums.dot += product;
          if (product < 0) sums.opposed++;
        });
      });
    });
    return { experts, pairs };
  }

  /** Zeroed float64 buffers for row sums and totals. */
  #scratch(sums: number, totals: number): [number, number] {
    const { kernels } = this.#evaluator;
    if (this.#sums.length < sums) this.#sums = { address: kernels.allocate(sums * 8), length: sums };
    if (this.#totals === 0) this.#totals = kernels.allocate(totals * 8); // the same for all jobs of a program
    kernels.doubles(this.#sums.address, sums).fill(0);
    kernels.doubles(this.#totals, totals).fill(0);
    return [this.#sums.address, this.#totals];
  }
}

function addElement(sums: ExpertSums, row: number, difference: number, base: number, index: number): void {
  if (!Number.isFinite(difference)) {
    if (sums.firstNonFinite < 0) sums.firstNonFinite = index;
    sums.nonFinite++;
    sums.rows[row] = Number.NaN; // a mean without it would hide it
    return;
  }
  sums.rows[row] = (sums.rows[row] ?? 0) + difference;
  sums.squares += difference * difference;
  sums.own += base * base;
  if (difference === 0) sums.equal++;
  sums.largest = Math.max(sums.largest, difference);
}

/** Adds the sums of two ranges of a tensor. */
export function joinAnalyzed(total: AnalyzedPiece, piece: AnalyzedPiece, { axis }: AnalyzeJob): AnalyzedPiece {
  return {
    experts: total.experts.map((x, i) => {
      const y = piece.experts[i] ?? x;
      return {
        squares: x.squares + y.squares,
        own: x.own + y.own,
        equal: x.equal + y.equal,
        largest: Math.max(x.largest, y.largest),
        nonFinite: x.nonFinite + y.nonFinite,
        firstNonFinite: x.firstNonFinite >= 0 ? x.firstNonFinite : y.firstNonFinite,
        blocks: [...x.blocks, ...y.blocks],
        rows:
          axis === "rows"
            ? concatenate([x.rows, y.rows], Float64Array)
            : x.rows.map((sum, row) => sum + (y.rows[row] ?? 0)),
      };
    }),
    pairs: total.pairs.map((x, i) => {
      const y = piece.pairs[i] ?? { dot: 0, opposed: 0 };
      return { dot: x.dot + y.dot, opposed: x.opposed + y.opposed };
    }),
  };
}
