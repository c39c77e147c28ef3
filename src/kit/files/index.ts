export { AppendLog, readLog } from "./append-log.js";
export { cacheFolder, makeCacheFolder } from "./cache-folder.js";
export { canonicalJson, digestOf, digestOfFile, digestOfJson, digestOfValue, keptText } from "./digest.js";
export {
  beginsHere,
  bytesOf,
  exists,
  isFile,
  READ_NOW,
  readBounded,
  readJsonObject,
  requireSpace,
  rewriteJson,
  rewrittenJson,
  stampOf,
  statFile,
  staysIn,
  syncFile,
  syncFolder,
  withFile,
  writeFileAtomically,
  writeFully,
} from "./files.js";
export { isAlive, isLocked, LOCK_FILE, type Lock, lockHolder, processStat, takeLock, waitWhileLocked } from "./lock.js";
export {
  type CacheEntry,
  cachedFile,
  cacheEntries,
  cacheFolderOf,
  clearCache,
  type ModelCacheSettings,
  markUsed,
  markWhileHeld,
  modelCacheSettings,
  requireCacheSpace,
  requireWhole,
} from "./model-cache.js";
export {
  changesOf,
  checkFolderOutput,
  filesOfRun,
  LockedFolder,
  namesIn,
  RunFolder,
  requireOutside,
  requireOwnFiles,
  writeFolder,
} from "./run-folder.js";
