export {
  arenaBytes,
  derivedLogitsBytes,
  describeNeed,
  estimateEngine,
  fitsIn,
  type MemoryAdvice,
  type MemoryEstimate,
  type MemoryUse,
  programBytes,
  requireMemory,
  summed,
  tokensOf,
} from "./estimate.js";
