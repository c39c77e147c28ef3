export { eigenvectors } from "./exact-decomposition.js";
export { Tally } from "./job-kinds.js";
export { requireKernelMemory } from "./kernel-memory.js";
export type { LowRankFactors } from "./low-rank.js";
export { guardCode, runCode } from "./own-code.js";
export { blockRowsOf, countBytes, cutIntoPieces, isDivisible, rowsMatter } from "./pieces.js";
export {
  type ElementRange,
  type EncodeJob,
  type Evaluation,
  type FilePosition,
  isRounded,
  isStored,
  type Job,
  type LowRankJob,
  operationsOf,
  type Program,
  remembered,
  type Stored,
  type StoredTerm,
  storedTerms,
  type Target,
} from "./program.js";
export { blockRowsFor, PURSUED } from "./pursuit.js";
export { REGRESSION_MEMORY, regress } from "./regression.js";
export { countFetched } from "./remote-ranges.js";
export { concatenate, resultsByJob, totalDifferences, totalStatistics } from "./results.js";
export { pairsOf } from "./row-statistics.js";
export {
  memoryPerThread,
  type RunOptions,
  type RunResult,
  requireThreadMemory,
  runProgram,
  type StreamOptions,
} from "./run-program.js";
export { runThread } from "./thread.js";
export { type Arithmetic, addArithmetic, onValues, type Seed, seedAt } from "./value-operation.js";
export {
  added,
  decompose,
  isSquare,
  JOINED_MEMORY,
  joined,
  type MatrixRule,
  mean,
  product,
  productBytes,
  turn,
  VALUES_MEMORY,
  withValues,
} from "./whole-matrix.js";
