// Which rows of each tensor are read, and how sure that makes.
import { createHash } from "node:crypto";
import { type ElementRange, type Evaluation, isDivisible, type Job } from "../../tensor/streaming/index.js";

export interface SampleSettings {
  /** Share of the rows of each matrix, above 0 and at most 1. */
  readonly share: number;
  readonly seed: number;
}

/**
 * Stretches of rows of a matrix: each is a request to the hub, and a change of some neighbouring rows may lie between them. With
 * four, an 8B model takes about 1,200 requests for each of its sources.
 */
const STRETCHES = 4;

/** From 0 to 1; nobody who does not know the seed can tell which rows are read. */
export function drawn(...what: readonly (string | number)[]): number {
  return createHash("sha256").update(what.join(" ")).digest().readUInt32LE() / 2 ** 32;
}

/** Rows [begin, end) of a tensor, in the order of the file: a stretch at random in each of equal parts. */
export function sampledRows(tensor: string, rows: number, { share, seed }: SampleSettings): ElementRange[] {
  const wanted = Math.min(rows, Math.ceil(share * rows));
  const stretches = Math.min(STRETCHES, wanted);
  return Array.from({ length: stretches }, (_, i) => {
    const part = (of: number, at: number) => Math.floor((of * at) / stretches);
    const [from, to] = [part(rows, i), part(rows, i + 1)];
    const length = part(wanted, i + 1) - part(wanted, i);
    const begin = from + Math.floor(drawn(seed, tensor, i) * (to - from - length + 1));
    return { begin, end: begin + length };
  });
}

/** A job of some of a tensor's rows; of all where it has one row, or none can be computed without the others. */
export function sampledJob<J extends Job>(job: J, evaluation: Evaluation, settings: SampleSettings): J {
  const { columns, elements } = evaluation;
  const rows = columns > 0 ? elements / columns : 0;
  if (settings.share >= 1 || rows <= 1 || !Number.isInteger(rows) || !isDivisible(job)) return job;
  const unit = job.kind === "compare-copy" ? job.bytes / rows : columns;
  if (!Number.isInteger(unit)) return job;
  const sampled = sampledRows(job.name, rows, settings).map(({ begin, end }) => ({
    begin: begin * unit,
    end: end * unit,
  }));
  return { ...job, sampled };
}

/** How sure a sample is. */
export interface Certainty {
  /** What was drawn: rows of matrices, or whole tensors where a method measures each as a whole. */
  readonly unit: "rows" | "tensors";
  readonly all: number;
  readonly sampled: number;
  /** The share of them that is taken to be changed, at places that do not depend on the sample. */
  readonly changed: number;
  /** Probability that the sample has none of these. */
  readonly missed: number;
  /** The same where only one matrix changed, in this share of its rows: of the matrix with the fewest rows in the sample. */
  readonly missedInOneMatrix?: number;
}

/** Probability that `sampled` of `all` have none of the `changed` ones: hypergeometric. */
export function missing(all: number, sampled: number, changed: number): number {
  if (sampled + changed > all) return 0;
  // Both numbers play the same part, and the product has as many factors as the smaller one.
  const [few, many] = [Math.min(sampled, changed), Math.max(sampled, changed)];
  let log = 0;
  for (let i = 0; i < few; i++) log += Math.log1p(-many / (all - i));
  return Math.exp(log);
}

export function certaintyOf(
  unit: Certainty["unit"],
  matrices: readonly { readonly all: number; readonly sampled: number }[],
  changed = 0.01,
): Certainty {
  const sum = (of: (one: (typeof matrices)[number]) => number) => matrices.reduce((total, one) => total + of(one), 0);
  const of = (all: number, sampled: number) => missing(all, sampled, Math.max(1, Math.ceil(changed * all)));
  const [all, sampled] = [sum((one) => one.all), sum((one) => one.sampled)];
  const alone = matrices.map((one) => of(one.all, one.sampled));
  return {
    unit,
    all,
    sampled,
    changed,
    missed: of(all, sampled),
    ...(unit === "rows" && alone.length > 0
      ? { missedInOneMatrix: alone.reduce((most, one) => Math.max(most, one), 0) }
      : {}),
  };
}
