// The memory of kernels that jobs on whole matrices need.

import { largestOf } from "../../kit/arrays/index.js";
import { lowRankKernelBytes } from "./low-rank.js";
import { evaluationsOf, type Job, operationsOf, type Program } from "./program.js";
import { wholeKernelBytes } from "./whole-matrix.js";

/** What WebAssembly allows one memory of 32-bit addresses; the largest job of a program that needs more. */
export const MOST_KERNEL_BYTES = 2 ** 32;

/** The job that takes most of the memory of kernels, and how much; buffers of blocks are small beside it. */
export function kernelPeak({ jobs }: Program): { readonly bytes: number; readonly job: Job | undefined } {
  let peak = { bytes: 0, job: undefined as Job | undefined };
  for (const job of jobs) {
    const bytes = largestOf(matrixBytes(job), 0);
    if (bytes > peak.bytes) peak = { bytes, job };
  }
  return peak;
}

/** Bytes of kernels for each matrix that a job takes whole. */
function matrixBytes(job: Job): number[] {
  if (job.kind === "low-rank") {
    const { elements, columns } = job.value;
    return [lowRankKernelBytes({ rows: elements / columns, columns }, job.rank)];
  }
  return evaluationsOf(job).flatMap((evaluation) =>
    operationsOf(evaluation).flatMap((one) =>
      one.op === "whole-matrix" ? [wholeKernelBytes(one, evaluation.columns)] : [],
    ),
  );
}
