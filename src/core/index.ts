export { AppendLog, readLog } from "./append-log.js";
export { cacheFolder, makeCacheFolder } from "./cache-folder.js";
export { canonicalJson, digestOf, digestOfFile, digestOfJson, digestOfValue } from "./digest.js";
export {
  bytesPerElement,
  DTYPE_BITS,
  DTYPE_BY_TORCH_NAME,
  type DType,
  elementCount,
  type FloatDType,
  formatShape,
  isDType,
  isFloatDType,
  type Shape,
  sameShape,
  type TorchDTypeName,
} from "./dtype.js";
export {
  CancelledError,
  CheckpointError,
  DiskFullError,
  type ErrorWhere,
  FormatError,
  formatLocated,
  isAnySystemError,
  isOutOfMemory,
  isSystemError,
  LayergraftError,
  type LocatedProblem,
  MismatchError,
  messageOf,
  OUT_OF_MEMORY,
  OutputError,
  ProblemsError,
  RecipeError,
  systemMessage,
  usageError,
} from "./errors.js";
export {
  beginsHere,
  bytesOf,
  exists,
  isFile,
  readBounded,
  readJsonObject,
  rewriteJson,
  rewrittenJson,
  stampOf,
  staysIn,
  syncFile,
  syncFolder,
  withFile,
  writeFileAtomically,
  writeFully,
} from "./files.js";
export {
  formatBytes,
  formatCount,
  formatDuration,
  formatFixed,
  formatPercent,
  formatRanges,
  formatShare,
  formatSome,
  parseBytes,
  plural,
  shorten,
} from "./format.js";
export { groupBy } from "./group.js";
export { endWithParent, startGuarded } from "./guard/child.js";
export { GuardError, guarded, guardedPatterns } from "./guard/index.js";
export {
  type Difference,
  defined,
  differencesOf,
  isDeeperThan,
  isObject,
  mergeObjects,
  own,
  parsePythonJson,
} from "./json.js";
export { findLanguage, LANGUAGES, type Language, requireLanguage } from "./languages.js";
export { isAlive, isLocked, LOCK_FILE, type Lock, lockHolder, processStat, takeLock, waitWhileLocked } from "./lock.js";
export type { CallOptions, Progress } from "./progress.js";
export { MAX_THREADS } from "./progress.js";
export { ProtoWriter } from "./protobuf.js";
export { Random } from "./random.js";
export { removedAdvice } from "./removed.js";
export { readRetryAfter } from "./retry-after.js";
export { checkFolderOutput, RunFolder, writeFolder } from "./run-folder.js";
export { redactor } from "./secrets.js";
export { closest, didYouMean, suggestName } from "./spelling.js";
export { shellQuote, visible, write } from "./terminal.js";
export { VERSION } from "./version.js";
