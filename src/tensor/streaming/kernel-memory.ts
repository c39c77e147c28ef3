// The memory of kernels that jobs on whole matrices need.

import { largestOf } from "../../kit/arrays/index.js";
import { LayergraftError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { lowRankKernelBytes } from "./low-rank.js";
import { evaluationsOf, type Job, operationsOf, type Program } from "./program.js";
import { wholeKernelBytes } from "./whole-matrix.js";

/** What WebAssembly allows one memory of 32-bit addresses. */
const MOST_KERNEL_BYTES = 2 ** 32;

/**
 * Refuses matrices that are too large to be taken whole; buffers of blocks are small beside them.
 * @throws LayergraftError code `memory` with the tensor that needs most
 */
export function requireKernelMemory({ jobs }: Pick<Program, "jobs">): void {
  let peak = { bytes: 0, job: undefined as Job | undefined };
  for (const job of jobs) {
    const bytes = largestOf(matrixBytes(job), 0);
    if (bytes > peak.bytes) peak = { bytes, job };
  }
  if (!peak.job || peak.bytes <= MOST_KERNEL_BYTES) return;
  const { name: tensor, kind } = peak.job;
  throw new LayergraftError(
    "memory",
    `${tensor} is computed as a whole matrix, which takes ${formatBytes(peak.bytes)} of a WebAssembly memory; that has ${formatBytes(MOST_KERNEL_BYTES)} at most. ${kind === "low-rank" ? "Choose a lower rank" : "Choose another method"}, or leave the tensor out.`,
    { tensor, expected: `at most ${MOST_KERNEL_BYTES} bytes`, actual: `${peak.bytes} bytes` },
  );
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
