// How jobs are cut into pieces and blocks, and how many bytes they move.

import { bytesPerValue, encodedBytes, turnedElements } from "../../kernels/index.js";
import { bytesPerElement } from "../../kit/index.js";
import {
  type CompareCopyJob,
  type CopyJob,
  type ElementRange,
  type Evaluation,
  evaluationsOf,
  type Job,
  operationsOf,
  plainTerms,
  rangeOf,
  SAMPLE_RUN,
  type StoredTerm,
  storedTerms,
} from "./program.js";
import type { Pursuit } from "./pursuit.js";
import { MAX_PASSES } from "./sketch.js";
import { declarationOf } from "./value-operation.js";

/** Numbers that each piece can report; their meaning depends on the kind of job. */
export const RESULTS_PER_PIECE = 6;

// A piece is the unit of work of a thread and of the journal. Its size is fixed, as sums are formed per piece and must
// not depend on threads or memory.
const PIECE_BYTES = 8 * 2 ** 20;
const PIECE_ELEMENTS = 2 ** 21;

/** Elements read at once: more per system call gains nothing. Sums of float64 are formed per block. */
export const BLOCK_ELEMENTS = 2 ** 16;
/** Bytes copied at once; more per system call gains nothing, less costs calls. */
export const COPY_BLOCK_BYTES = 2 ** 19;

/** A range of a job: bytes for copies, elements for computation. */
export interface Piece {
  readonly job: number;
  readonly begin: number;
  readonly end: number;
}

/** How rows of a job are approximated, if some are: such a piece is one block. */
export const pursuitOf = (job: Job): Pursuit | undefined =>
  evaluationsOf(job)
    .flatMap(storedTerms)
    .find((term) => term.gathered?.pursuit)?.gathered?.pursuit;

/** Rows in a block where whole rows count. */
export const blockRowsOf = (columns: number) => Math.max(1, Math.floor(BLOCK_ELEMENTS / columns));

/** Elements read at once for this job: whole rows where rows matter. */
export function blockElements(job: Job): number {
  const evaluations = evaluationsOf(job);
  const [first] = evaluations;
  const isCutByRows = ["low-rank", "encode", "maxima"].includes(job.kind);
  const isByLine = (job.kind === "analyze" && job.axis !== "vector") || (job.kind === "gram" && job.axis !== undefined);
  if (!first || !(isCutByRows || isByLine || rowsMatter(evaluations))) return BLOCK_ELEMENTS;
  const pursuit = pursuitOf(job);
  if (pursuit) return pursuit.blockRows * first.columns;
  const turned = job.kind === "encode" && job.turn ? turnedElements(job.turn) : 1;
  const unit = Math.max(first.columns, turned);
  return blockRowsOf(unit) * unit;
}

/** Whether values are computed in whole rows. */
export function rowsMatter(evaluations: readonly Evaluation[]): boolean {
  return evaluations.some(
    (evaluation) =>
      storedTerms(evaluation).some((term) => term.lowRank || term.gathered || term.coded || term.undo?.turn) ||
      operationsOf(evaluation).some((operation) => declarationOf(operation).wholeRows),
  );
}

const isCopy = (job: Job): job is CopyJob | CompareCopyJob => job.kind === "copy" || job.kind === "compare-copy";

/** Length of a block in the unit of a job's pieces. */
const blockOf = (job: Job) => (isCopy(job) ? COPY_BLOCK_BYTES : blockElements(job));

/** Calls `each` for the blocks [begin, end) of a job, in order. */
export function eachBlock(job: Job, begin: number, end: number, each: (from: number, to: number) => void): void {
  const step = blockOf(job);
  for (let from = begin; from < end; from += step) each(from, Math.min(from + step, end));
}

/** Length of a job in the unit of its pieces. */
export function lengthOf(job: Job): number {
  return isCopy(job) ? job.bytes : (evaluationsOf(job)[0]?.elements ?? 0);
}

/** The parts of its elements that a job reads, where it does not read all. */
const withinOf = (job: Job): readonly ElementRange[] | undefined =>
  (job.kind === "ties" || job.kind === "encode") && job.within ? [job.within] : job.sampled;

/** Whether parts of a job's rows can be computed without the others. */
export const isDivisible = (job: Job): boolean =>
  job.kind !== "low-rank" && !isWhole(job) && !pursuitOf(job) && matrixInLines(job) === undefined;

const isWhole = (job: Job): boolean =>
  evaluationsOf(job).some((evaluation) => operationsOf(evaluation).some((one) => one.op === "whole-matrix"));

/** Elements of a matrix whose codes lie column by column: its pieces are whole matrices, as parts of them are far apart. */
const matrixInLines = (job: Job): number | undefined =>
  evaluationsOf(job)
    .flatMap(storedTerms)
    .flatMap(({ coded }) => (coded && coded.lines > 1 ? [coded.rows * coded.columns] : []))[0];

/** Cuts all jobs into pieces, in order. A job without elements has none. */
export function cutIntoPieces(jobs: readonly Job[]): Piece[] {
  const pieces: Piece[] = [];
  jobs.forEach((job, index) => {
    const block = blockOf(job);
    const length = lengthOf(job);
    const whole = Math.max(1, Math.floor((isCopy(job) ? PIECE_BYTES : PIECE_ELEMENTS) / block)) * block;
    const matrix = matrixInLines(job);
    const cut = matrix === undefined ? whole : Math.ceil(whole / matrix) * matrix;
    const step = job.kind === "low-rank" || isWhole(job) ? length : pursuitOf(job) ? block : cut;
    for (const { begin: from, end } of withinOf(job) ?? [{ begin: 0, end: length }]) {
      for (let begin = from; begin < end; begin += step) {
        pieces.push({ job: index, begin, end: Math.min(begin + step, end) });
      }
    }
  });
  return pieces;
}

/**
 * Bytes that reading (and writing) the given jobs moves; factors of adapters are counted once per job, and a low-rank
 * approximation as its largest number of passes.
 */
export function countBytes(jobs: readonly Job[]): { read: number; written: number } {
  let read = 0;
  let written = 0;
  for (const job of jobs) {
    if (isCopy(job)) {
      read += (job.kind === "copy" ? job.bytes : 2 * job.bytes) * passesOf(job);
      if (job.kind === "copy") written += job.bytes;
      continue;
    }
    const counted = new Set<string>();
    const plain = plainTerms(evaluationsOf(job).flatMap(storedTerms));
    for (const evaluation of evaluationsOf(job)) {
      for (const term of storedTerms(evaluation)) {
        if (counted.has(rangeOf(term))) continue;
        counted.add(rangeOf(term));
        const own = evaluation.elements * bytesPerValue(term.dtype) * ownShare(term, plain);
        read += passesOf(job) * (own + factorBytes(term));
      }
    }
    if (job.kind === "write") written += job.value.elements * bytesPerElement(job.to.dtype);
    if (job.kind === "encode") {
      const { encoding, value, turn } = job;
      written += encodedBytes(encoding, (passesOf(job) * value.elements) / (turn?.every ?? 1));
    }
    if (job.kind === "compare") read += passesOf(job) * job.value.elements * bytesPerValue(job.against.dtype);
  }
  return { read, written };
}

/** How often a job reads its values; a fraction if it reads a part. */
function passesOf(job: Job): number {
  if (job.kind === "low-rank") return MAX_PASSES;
  if (job.kind === "joint" && job.every) return SAMPLE_RUN / job.every;
  const within = withinOf(job);
  return within ? within.reduce((sum, { begin, end }) => sum + end - begin, 0) / Math.max(1, lengthOf(job)) : 1;
}

/** Share of a term's rows that are not those of another term in the same place. */
function ownShare({ gathered, dtype }: StoredTerm, plain: ReadonlyMap<string, StoredTerm>): number {
  if (!gathered) return 1;
  const { parts, part, row } = gathered;
  const isShared = parts.map((stored) => plain.has(rangeOf({ ...stored, dtype, weight: 1 })));
  if (!isShared.includes(true)) return 1;
  return part.reduce((own, one, i) => own + (isShared[one] && row[i] === i ? 0 : 1), 0) / part.length;
}

function factorBytes({ lowRank }: StoredTerm): number {
  if (!lowRank) return 0;
  const { input, output, rank, experts = { count: 1 } } = lowRank;
  return (input + output) * rank * experts.count * bytesPerValue(lowRank.a.dtype);
}
