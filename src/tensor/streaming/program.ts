// A streaming pass as plain data: where bytes are, how they are combined, and where results go.

import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import type { CodedForm } from "../../formats/quantised/index.js";
import type { RemoteFile } from "../../formats/safetensors/index.js";
import { bytesPerValue, type Encoding, type KernelDType, type StoredType, type Turn } from "../../kernels/index.js";
import { type DType, type FloatDType, isDType, isFloatDType } from "../../kit/index.js";
import type { LowRankFactors } from "./low-rank.js";
import { textOfCode } from "./own-code.js";
import type { Pursuit } from "./pursuit.js";
import type { AnalyzedPiece } from "./row-statistics.js";
import type { KnownTerms, Operation } from "./value-operation.js";

/** Values in one of the program's input files. */
export interface Stored {
  /** Index into `Program.inputs`. */
  readonly file: number;
  /** First byte in the file. */
  readonly offset: number;
  readonly dtype: StoredType;
}

/** A low-rank product added to stored values: W + scale * (B A), transposed first where `transposed`. */
export interface LowRankTerm
  extends Pick<
    NonNullable<CheckpointTensor["lowRank"]>,
    "rank" | "scale" | "transposed" | "rounded" | "experts" | "rows"
  > {
  /** Products that are added to other rows. */
  readonly others?: readonly LowRankTerm[];
  /** [rank, in]; of experts, one below the other */
  readonly a: Stored;
  /** [out, rank]; of experts, [out, rank, experts] */
  readonly b: Stored;
  /** Lengths that the sum's rows are scaled to, [out] (DoRA). */
  readonly lengths?: Stored;
  /** Length of a row of `a` and number of rows of `b`. */
  readonly input: number;
  readonly output: number;
}

/** Scales of codes, and what else turns them into values. */
export interface CodedTerm extends CodedForm {
  readonly scales: Stored;
  readonly second?: Stored;
  readonly zeros?: Stored;
  readonly groups?: Stored;
  /** Row that the values begin with; default 0. */
  readonly first?: number;
}

/** A stored tensor's values, times a weight. */
export interface StoredTerm extends Stored {
  readonly weight: number;
  /** What makes values of the stored ones. */
  readonly undo?: NonNullable<CheckpointTensor["undo"]>;
  /** What codes need to become values. */
  readonly coded?: CodedTerm;
  readonly lowRank?: LowRankTerm;
  /** Rows taken one by one from stored tensors, of this dtype where they have no other. */
  readonly gathered?: GatheredTerm;
}

export interface GatheredTerm {
  /** Where row 0 of each stored tensor is. */
  readonly parts: readonly { readonly file: number; readonly offset: number; readonly type?: StoredType }[];
  /** By row: index of the part, and row number in it. Rows whose part there is not are zero. */
  readonly part: Uint8Array;
  readonly row: Int32Array;
  readonly pursuit?: Pursuit | undefined;
}

/** The result of an operation, times a weight. */
export interface OperationTerm {
  readonly weight: number;
  readonly operation: BoundOperation;
}

export type Term = StoredTerm | OperationTerm;

/** sum(weight * term) / divisor, in float32. */
export interface Combination {
  readonly terms: readonly Term[];
  readonly divisor: number;
}

/** Field types of operations in a program. */
export interface BoundTerms extends KnownTerms {
  readonly value: Combination;
}

export type BoundOperation = Operation<BoundTerms>;

/** A tensor's values before rounding. */
export interface Evaluation extends Combination {
  readonly elements: number;
  /** Elements in a stored row; a whole number of rows is computed at once where rows matter. */
  readonly columns: number;
  /** Index, in the whole tensor, of the first element; 0 unless this is a part of a tensor. */
  readonly first?: number;
}

/** The `index`-th of `count` equal parts of an evaluation, cut along its leading axes. */
export function partOf(evaluation: Evaluation, index: number, count: number): Evaluation {
  if (count === 1) return evaluation;
  const elements = evaluation.elements / count;
  const cut = ({ terms, divisor }: Combination): Combination => ({
    divisor,
    terms: terms.map((term) => {
      if (isStored(term)) {
        const { lowRank, coded, gathered } = term;
        const adapted = lowRank ? { lowRank: matrixOf(lowRank, index, elements / evaluation.columns) } : {};
        if (coded) {
          const first = (coded.first ?? 0) + (index * elements) / coded.columns;
          return { ...term, coded: { ...coded, first }, ...adapted };
        }
        if (gathered) {
          const rows = elements / evaluation.columns;
          const own = [index * rows, (index + 1) * rows] as const;
          const [part, row] = [gathered.part.subarray(...own), gathered.row.subarray(...own)];
          return { ...term, gathered: { ...gathered, part, row }, ...adapted };
        }
        const offset = term.offset + index * elements * bytesPerValue(term.dtype);
        return { ...term, offset, ...adapted };
      }
      const { operation, weight } = term;
      return { weight, operation: mapValues(operation, cut) };
    }),
  });
  return { ...evaluation, ...cut(evaluation), elements, first: index * elements };
}

/** The product from one of several matrices on, of so many rows. */
function matrixOf(lowRank: LowRankTerm, index: number, rows: number): LowRankTerm {
  const { a, rank, input, experts } = lowRank;
  if (lowRank.rows) {
    const shifted = (one: LowRankTerm): LowRankTerm =>
      one.rows ? { ...one, rows: { ...one.rows, from: one.rows.from - index * rows } } : one;
    return { ...shifted(lowRank), ...(lowRank.others ? { others: lowRank.others.map(shifted) } : {}) };
  }
  if (!experts) return lowRank;
  const offset = a.offset + index * rank * input * bytesPerValue(a.dtype);
  return { ...lowRank, a: { ...a, offset }, experts: { ...experts, first: experts.first + index } };
}

/** The products that a term adds, each to some of its rows or to all. */
export const productsOf = (lowRank: LowRankTerm): readonly LowRankTerm[] => [lowRank, ...(lowRank.others ?? [])];

/** The same operation over other values. */
function mapValues(operation: BoundOperation, value: (value: Combination) => Combination): BoundOperation {
  return { ...operation, of: operation.of.map(value) };
}

export function isStored(term: Term): term is StoredTerm {
  return "file" in term;
}

/** Every stored term of a combination, including those inside operations. */
export const storedTerms = remembered(({ terms }: Combination): readonly StoredTerm[] =>
  terms.flatMap((term) => (isStored(term) ? [term] : term.operation.of.flatMap(storedTerms))),
);

/** Every operation of a combination, the inner ones too. */
export const operationsOf = remembered(({ terms }: Combination): readonly BoundOperation[] =>
  terms.flatMap((term) => (isStored(term) ? [] : [term.operation, ...term.operation.of.flatMap(operationsOf)])),
);

/** A function that computes its result once for each object: layout, sizes and ranges ask for the same again and again. */
export function remembered<T extends object, R>(compute: (of: T) => R): (of: T) => R {
  const known = new WeakMap<T, R>();
  return (of) => {
    const found = known.get(of) ?? compute(of);
    known.set(of, found);
    return found;
  };
}

interface Named {
  readonly name: string;
  /**
   * Only these elements (bytes of a copy) are read, in whole rows, ascending: a sample. What is computed of them is written without
   * gaps. Default: all.
   */
  readonly sampled?: readonly ElementRange[];
}

interface OfValue extends Named {
  readonly value: Evaluation;
}

/** Bytes moved as they are. Result per piece: [infinite and NaN values]. */
export interface CopyJob extends Named {
  readonly kind: "copy";
  readonly bytes: number;
  readonly from: Stored;
  readonly to: Target;
}

/**
 * Values computed and written. Result per piece: [infinite and NaN values, how many of them although the stored elements in
 * their place are finite].
 */
export interface WriteJob extends OfValue {
  readonly kind: "write";
  readonly to: Target;
  /** Element type that values are rounded to before they are written as float32, which holds them. Default: that of `to`. */
  readonly rounded?: KernelDType;
  /** Values of the base, to measure what of the change survives rounding to a 16-bit type; float32 values, too. */
  readonly base?: Evaluation | undefined;
  /** Whether the tensor has one dimension, as norms and biases do; with `base`. */
  readonly isNorm?: boolean;
}

/**
 * Values computed, encoded row by row, and written. Rows must fill whole blocks of the encoding. Result per piece: [values
 * or scales that are not finite].
 */
export interface EncodeJob extends OfValue {
  readonly kind: "encode";
  readonly to: FilePosition;
  readonly encoding: Encoding;
  /** Where the scales of blocks are written, if apart from their codes; see `splitBlocks`. */
  readonly scales?: FilePosition;
  /** Added to each value; default 0. */
  readonly plus?: number;
  /** Whether a value x is written as -exp(x). Default: no. */
  readonly negativeExp?: boolean;
  /** Only these elements, in whole rows. Default: all. */
  readonly within?: ElementRange;
  readonly turn?: Turn;
}

export interface ElementRange {
  readonly begin: number;
  readonly end: number;
}

/** Bytes compared with those of another file. Result per piece: [differing elements, first differing element or -1]. */
export interface CompareCopyJob extends Named {
  readonly kind: "compare-copy";
  readonly bytes: number;
  readonly from: Stored;
  readonly against: Stored;
}

/** Values computed, rounded, and compared with the bytes of another file. Result per piece as above. */
export interface CompareJob extends OfValue {
  readonly kind: "compare";
  readonly against: Stored;
}

/** Statistics of value - minus, or of value alone. Result per piece: `DeltaStatistics`. */
export interface DeltaJob extends OfValue {
  readonly kind: "delta";
  readonly minus?: Evaluation;
}

/** How many elements are positive and how many negative. Reports a Float64Array per piece: [positive, negative]. */
export interface SignsJob extends OfValue {
  readonly kind: "signs";
}

/**
 * Keys of magnitudes, the bits of |x| as float32: `bins` ranges of 2^shift keys from the key `from` on. The keys below have a
 * counter, and so has the first key of a range, apart from the others: differences of 16-bit numbers end in zeros, so most
 * ranges have only that one.
 */
export interface KeyRanges {
  readonly from: number;
  readonly shift: number;
  readonly bins: number;
}

export const countersOf = ({ shift, bins }: KeyRanges) => 1 + bins * (shift > 0 ? 2 : 1);

/**
 * Counts magnitudes by their keys. Reports a Uint32Array per piece: index, count, index, count, ... of the counters that are
 * not zero, by ascending index among the counters of all ranges.
 */
export interface CountJob extends OfValue {
  readonly kind: "count";
  readonly ranges: readonly KeyRanges[];
  /** Counts only one run of `SAMPLE_RUN` elements of each `every` ones. */
  readonly every?: number;
}

/**
 * Counts and statistics of values with the same elements, block by block: what they have in common is read once. Reports what each
 * reports, and of statistics their sum.
 */
export interface JointJob extends Named {
  readonly kind: "joint";
  readonly jobs: readonly (CountJob | SignsJob | DeltaJob)[];
  /** As of all its jobs. */
  readonly every?: number | undefined;
}

/** Counts the elements of a magnitude. Result per piece: [how many, index of the `nth` or -1]. */
export interface TiesJob extends OfValue {
  readonly kind: "ties";
  readonly magnitude: number;
  /** Counted from 0 in the piece. */
  readonly nth?: number;
  /** Only this piece. */
  readonly within?: ElementRange;
}

/** Neighboring elements that a sample takes at once. */
export const SAMPLE_RUN = 512;

/** Products of values with each other. Reports a Float64Array per piece: (0,0), (0,1), ..., (1,1), (1,2), ... */
export interface GramJob extends Named {
  readonly kind: "gram";
  readonly values: readonly Evaluation[];
  /** Only of each value with itself; the others are 0. Default: all. */
  readonly diagonal?: boolean;
  /** Products within each row (of the piece) or column, [lines, pairs]; default within the whole tensor. */
  readonly axis?: "rows" | "columns";
}

/** The largest magnitude of each stretch of `width` elements of each row. Reports a Float64Array per piece. */
export interface MaximaJob extends OfValue {
  readonly kind: "maxima";
  readonly width: number;
}

/** The best low-rank approximation of a matrix. Its only piece is the whole matrix, and reports `LowRankFactors`. */
export interface LowRankJob extends OfValue {
  readonly kind: "low-rank";
  /** Squared Frobenius norm of the values, which must be finite. */
  readonly squares: number;
  /** Largest rank. */
  readonly rank: number;
  /** Share of `squares` to keep with the smallest rank that does; 1 for all of `rank`. */
  readonly energy: number;
  /** Seed of the random start, which also depends on the name. */
  readonly seed: number;
}

/** Data that a piece reports in addition to numbers. */
export type Payload = AnalyzedPiece | LowRankFactors | Float64Array | Joint;

export interface Joint {
  readonly reports: readonly (Float64Array | Uint32Array)[];
}

/**
 * How several experts differ from one base, per row and as a whole. Reports a payload per piece, see `AnalyzedPiece`.
 *
 * All evaluations have the same elements. A vector has one row; of a matrix the rows are its columns (input features) or
 * its stored rows (output features), as `axis` says.
 */
export interface AnalyzeJob extends Named {
  readonly kind: "analyze";
  readonly base: Evaluation;
  readonly experts: readonly Evaluation[];
  readonly axis: "vector" | "columns" | "rows";
}

/** Where bytes are written. */
export interface FilePosition {
  /** Index into `Program.outputs`, or into `Program.memory` where there is some. */
  readonly file: number;
  readonly offset: number;
}

/** Where results are written. */
export interface Target extends FilePosition {
  readonly dtype: DType;
}

export type Job =
  | CopyJob
  | WriteJob
  | EncodeJob
  | CompareCopyJob
  | CompareJob
  | DeltaJob
  | JointJob
  | TiesJob
  | AnalyzeJob
  | GramJob
  | MaximaJob
  | LowRankJob;

/** An input file and the size it had when its header was read. */
export interface InputFile {
  readonly path: string;
  readonly bytes: number;
  /** Where the bytes are, if not on the disk; threads only see that there is one. */
  readonly remote?: RemoteFile;
}

export interface Program {
  readonly inputs: readonly InputFile[];
  /** Paths of files that already exist at their full size. */
  readonly outputs: readonly string[];
  /** Memory that is written in place of files. */
  readonly memory?: readonly SharedArrayBuffer[];
  readonly jobs: readonly Job[];
}

/** The texts of the users' files whose functions a program calls. */
export function codeOf({ jobs }: Program): string[] {
  const called = jobs.flatMap(evaluationsOf).flatMap(operationsOf);
  return [...new Set(called.flatMap((one) => (one.op === "call" ? [one.code] : [])))].map(textOfCode);
}

/** All that a job computes. */
export function evaluationsOf(job: Job): readonly Evaluation[] {
  switch (job.kind) {
    case "copy":
    case "compare-copy":
      return [];
    case "delta":
      return job.minus ? [job.value, job.minus] : [job.value];
    case "analyze":
      return [job.base, ...job.experts];
    case "gram":
      return job.values;
    case "joint":
      return job.jobs.map(({ value }) => value);
    case "write":
      return job.base ? [job.value, job.base] : [job.value];
    default:
      return [job.value];
  }
}

/** The dtype a stored value is computed in. */
export function requireFloat(dtype: StoredType): FloatDType {
  if (!isDType(dtype) || !isFloatDType(dtype)) throw new TypeError(`${dtype} does not support arithmetic`);
  return dtype;
}

/** What values are rounded to; float8 has no infinities, and holds codes and scales. */
export type RoundedDType = FloatDType | "F8_E4M3" | "F8_E8M0";

export const isRounded = (dtype: string): dtype is RoundedDType =>
  dtype === "F8_E4M3" || dtype === "F8_E8M0" || (isDType(dtype) && isFloatDType(dtype));

export function requireRounded(dtype: StoredType): RoundedDType {
  if (!isRounded(dtype)) throw new TypeError(`values are not written as ${dtype}`);
  return dtype;
}

/** Names the range of a stored term, whatever is done with its values. */
export function rangeOf({ file, offset, dtype, gathered, coded }: StoredTerm): string {
  return `${file} ${offset} ${dtype} ${gathered ? identify(gathered.row) : ""} ${coded?.first ?? ""}`;
}

/** Terms that are stored as they are, by range: what others gather from the same place is not read again. */
export function plainTerms(terms: readonly StoredTerm[]): Map<string, StoredTerm> {
  return new Map(terms.filter(({ gathered, coded }) => !gathered && !coded).map((term) => [rangeOf(term), term]));
}

const IDENTITIES = new WeakMap<object, number>();
let identified = 0;

/** A number for an object that is compared by identity: within a thread, equal objects of a program are one. */
export function identify(object: object): number {
  const known = IDENTITIES.get(object) ?? ++identified;
  IDENTITIES.set(object, known);
  return known;
}
