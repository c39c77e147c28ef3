// Jobs that measure values.
import type { Kernels } from "../../kernels/index.js";
import { Random } from "../../kit/index.js";
import type { Evaluator } from "./evaluate-block.js";
import type { NumberKind, PayloadKind } from "./job-kinds.js";
import { lowRank as approximate, type LowRankFactors } from "./low-rank.js";
import { countBytes, eachBlock, RESULTS_PER_PIECE } from "./pieces.js";
import {
  type AnalyzeJob,
  type CountJob,
  countersOf,
  type DeltaJob,
  evaluationsOf,
  type GramJob,
  type Job,
  type Joint,
  type JointJob,
  type KeyRanges,
  type LowRankJob,
  type MaximaJob,
  type Program,
  SAMPLE_RUN,
  type TiesJob,
} from "./program.js";
import { addCounts, addDelta, addUp, concatenate } from "./results.js";
import { type AnalyzedPiece, Analyzer, joinAnalyzed } from "./row-statistics.js";

export const delta: NumberKind<DeltaJob> = {
  begin:
    ({ evaluator }) =>
    (job, begin, end) => {
      const total = new Float64Array(RESULTS_PER_PIECE);
      eachBlock(job, begin, end, (from, to) => {
        addDelta(total, evaluator.delta(job.value, job.minus, from, to));
      });
      return [...total];
    },
};

export const ties: NumberKind<TiesJob> = {
  begin: ({ evaluator }) => {
    const { kernels } = evaluator;
    const counts = kernels.allocate(8);
    return (job, begin, end) => {
      const { magnitude, nth } = job;
      const [key = 0] = new Uint32Array(Float32Array.of(magnitude).buffer);
      let at = -1;
      kernels.counters(counts, 2).fill(0);
      eachBlock(job, begin, end, (from, to) => {
        const values = evaluator.sum(job.value, from, to);
        const before = kernels.counters(counts, 2)[1] as number;
        kernels.wasm.countKeys(values, to - from, key, 0, 1, counts);
        if (nth === undefined || nth < before || nth >= (kernels.counters(counts, 2)[1] as number)) return;
        const sizes = kernels.floats(values, to - from).map(Math.abs);
        at = sizes.indexOf(magnitude);
        for (let i = before; i < nth; i++) at = sizes.indexOf(magnitude, at + 1);
        at += from;
      });
      return [kernels.counters(counts, 2)[1] as number, at];
    };
  },
};

/** Counters that are taken at once. */
const TAKEN = 2 ** 14;

/** Takes the values of blocks, one after the other, and reports of all of them. */
interface Count {
  readonly take: (values: number, n: number) => void;
  readonly report: () => Float64Array | Uint32Array;
}

const countersIn = (ranges: readonly KeyRanges[]) => ranges.reduce((sum, range) => sum + countersOf(range), 0);

/** By place in joint jobs, the most counters that one needs there. */
function countersByPlace(jobs: readonly Job[]): number[] {
  const most: number[] = [];
  for (const job of jobs) {
    for (const [place, one] of (job.kind === "joint" ? job.jobs : []).entries()) {
      most[place] = Math.max(most[place] ?? 0, one.kind === "count" ? countersIn(one.ranges) : 0);
    }
  }
  return most;
}

/** Bytes of the counters of a thread. */
export const counterBytes = ({ jobs }: Program) =>
  countersByPlace(jobs).reduce((sum, counters) => sum + 4 * counters, 0);

function countSigns(kernels: Kernels): () => Count {
  const sums = kernels.allocate(16);
  return () => {
    kernels.doubles(sums, 2).fill(0);
    return {
      take: (values, n) => kernels.wasm.countSigns(values, n, sums),
      report: () => kernels.doubles(sums, 2).slice(),
    };
  };
}

function sumUp(evaluator: Evaluator): Count {
  const total = new Float64Array(RESULTS_PER_PIECE);
  return {
    take: (values, n) => addDelta(total, evaluator.statistics(values, n)),
    report: () => total,
  };
}

function countKeys(kernels: Kernels, counters: number): (job: CountJob) => Count {
  const [pairs, counts] = [kernels.allocate(TAKEN * 8), kernels.allocate(counters * 4)];
  return ({ ranges }) => {
    const needed = countersIn(ranges);
    return {
      take(values, n) {
        let at = counts;
        for (const range of ranges) {
          kernels.wasm.countKeys(values, n, range.from, range.shift, range.bins, at);
          at += countersOf(range) * 4;
        }
      },
      report() {
        const taken: number[] = [];
        for (let from = 0; from < needed; from += TAKEN) {
          const count = kernels.wasm.takeCounts(counts + from * 4, Math.min(TAKEN, needed - from), pairs);
          const found = kernels.counters(pairs, count * 2);
          for (let i = 0; i < found.length; i += 2) taken.push(from + (found[i] as number), found[i + 1] as number);
        }
        return Uint32Array.from(taken);
      },
    };
  };
}

export const joint: PayloadKind<JointJob, Joint> = {
  join: (total, piece, { jobs }) => ({
    reports: total.reports.map((one, i) => {
      const own = piece.reports[i] as Float64Array | Uint32Array;
      if (own instanceof Uint32Array) return addCounts(one, own);
      return (jobs[i]?.kind === "delta" ? addDelta : addUp)(one as Float64Array, own);
    }),
  }),
  begin: ({ evaluator, program }) => {
    const { kernels } = evaluator;
    const keys = countersByPlace(program.jobs).map((counters) => countKeys(kernels, counters));
    const signs = keys.map(() => countSigns(kernels));
    return (job, begin, end) => {
      const counts = job.jobs.map((one, place) => {
        if (one.kind === "delta") return sumUp(evaluator);
        return (one.kind === "signs" ? signs[place]?.() : keys[place]?.(one)) as Count;
      });
      const values = evaluationsOf(job);
      const take = (from: number, to: number) => {
        const addresses = evaluator.sums(values, from, to);
        for (const [i, count] of counts.entries()) count.take(addresses[i] as number, to - from);
      };
      if (job.every === undefined) eachBlock(job, begin, end, take);
      else eachRun(job.every, begin, end, take);
      return { reports: counts.map((count) => count.report()) };
    };
  },
};

/** Calls `each` for the runs of a sample that are in [begin, end). */
function eachRun(every: number, begin: number, end: number, each: (from: number, to: number) => void): void {
  for (let turn = Math.floor(begin / every); turn * every < end; turn++) {
    // Not always at the same place of a row, but at the start of stored blocks.
    const within = turn * every + ((Math.imul(turn, 0x9e3779b1) >>> 0) % (every - SAMPLE_RUN));
    const from = within - (within % SAMPLE_RUN);
    if (from >= begin && from + SAMPLE_RUN <= end) each(from, from + SAMPLE_RUN);
  }
}

export const gram: PayloadKind<GramJob, Float64Array> = {
  join: (total, piece, { axis }) => (axis === "rows" ? concatenate([total, piece], Float64Array) : addUp(total, piece)),
  begin: ({ evaluator }) => {
    const { kernels } = evaluator;
    const sums = kernels.allocate(16);

    const whole = (job: GramJob, begin: number, end: number) => {
      const count = job.values.length;
      const products = new Float64Array((count * (count + 1)) / 2);
      eachBlock(job, begin, end, (from, to) => {
        const values = evaluator.sums(job.values, from, to);
        let at = 0;
        for (let i = 0; i < count; i++) {
          for (let j = i; j < count; j++, at++) {
            if (job.diagonal && i !== j) continue;
            kernels.doubles(sums, 1).fill(0);
            kernels.wasm.addProducts(values[i] ?? 0, values[j] ?? 0, to - from, sums);
            products[at] = (products[at] ?? 0) + (kernels.doubles(sums, 1)[0] ?? 0);
          }
        }
      });
      return products;
    };

    /** Products within each row or column, [lines, pairs]. */
    const byLine = (job: GramJob, axis: "rows" | "columns", begin: number, end: number) => {
      const columns = job.values[0]?.columns ?? 1;
      const pairs = job.values.flatMap((_, i) => job.values.slice(i).map((_, k) => [i, i + k] as const));
      const lines = axis === "columns" ? columns : (end - begin) / columns;
      return kernels.borrow(() => {
        const sums = pairs.map(() => kernels.allocate(8 * lines));
        eachBlock(job, begin, end, (from, to) => {
          const values = evaluator.sums(job.values, from, to);
          const rows = (to - from) / columns;
          for (const [pair, [i, k]] of pairs.entries()) {
            const [a, b, sum] = [values[i] as number, values[k] as number, sums[pair] as number];
            if (axis === "columns") kernels.wasm.addColumnProducts(a, b, rows, columns, sum);
            else kernels.wasm.rowProducts(a, b, rows, columns, sum + (8 * (from - begin)) / columns);
          }
        });
        const found = sums.map((address) => kernels.doubles(address, lines));
        return Float64Array.from({ length: lines * pairs.length }, (_, at) => {
          return found[at % pairs.length]?.[Math.floor(at / pairs.length)] as number;
        });
      });
    };

    return (job, begin, end) => (job.axis ? byLine(job, job.axis, begin, end) : whole(job, begin, end));
  },
};

export const maxima: PayloadKind<MaximaJob, Float64Array> = {
  join: (total, piece) => concatenate([total, piece], Float64Array),
  begin:
    ({ evaluator }) =>
    (job, begin, end) => {
      const { columns } = job.value;
      const across = Math.ceil(columns / job.width);
      const largest = new Float64Array(((end - begin) / columns) * across);
      eachBlock(job, begin, end, (from, to) => {
        const values = evaluator.kernels.floats(evaluator.sum(job.value, from, to), to - from);
        let place = ((from - begin) / columns) * across;
        for (let row = 0; row < values.length; row += columns) {
          for (let at = row; at < row + columns; place++) {
            let most = 0;
            for (const stop = Math.min(row + columns, at + job.width); at < stop; at++) {
              const size = Math.abs(values[at] as number);
              // NaN is larger than no number, so it stays.
              if (size > most || Number.isNaN(size)) most = size;
            }
            largest[place] = most;
          }
        }
      });
      return largest;
    },
};

export const analyze: PayloadKind<AnalyzeJob, AnalyzedPiece> = {
  join: joinAnalyzed,
  begin: ({ evaluator }) => {
    const analyzer = new Analyzer(evaluator);
    return (job, begin, end) => analyzer.analyze(job, begin, end);
  },
};

export const lowRank: PayloadKind<LowRankJob, LowRankFactors> = {
  // Its only piece is the whole matrix.
  join: (total) => total,
  begin:
    ({ evaluator, traffic, publish, check }) =>
    (job) => {
      const { value, squares, rank, energy, seed, name } = job;
      const { columns, elements } = value;
      // The number of passes is not known before. Progress counts bytes up to the largest number, and the rest at the end.
      let uncounted = countBytes([job]).read;
      const count = (bytes: number) => {
        traffic.read = Math.min(uncounted, bytes);
        uncounted -= traffic.read;
        publish();
      };
      const read = (from: number, to: number, each: (from: number, to: number, address: number) => void) => {
        check();
        eachBlock(job, from * columns, to * columns, (begin, end) => {
          each(begin / columns, end / columns, evaluator.sum(value, begin, end));
        });
        count(traffic.read);
      };
      const matrix = { rows: elements / columns, columns, squares, read };
      const random = Random.of(seed, `extract ${name}`);
      const factors = approximate(evaluator.kernels, matrix, { rank, energy, random });
      count(uncounted);
      return factors;
    },
};
