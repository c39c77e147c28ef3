// The public face of streaming/.
export * from "./program.js";
export { resultsByJob, totalDifferences, totalStatistics } from "./results.js";
export { DEFAULT_MEMORY, type Progress, type RunOptions, type RunResult, runProgram } from "./run-program.js";
