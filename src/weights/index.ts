export { ADAPTER_WEIGHTS } from "./checkpoint/adapter.js";
export { ADAPTER_CONFIG } from "./checkpoint/adapter-config.js";
export {
  adapterConfig,
  factorNames,
  factorOf,
  type PeftTargets,
  peftName,
  peftTargets,
} from "./checkpoint/adapter-files.js";
export { type Alignment, alignVocabularies, isWithin, type VocabularyChoice } from "./checkpoint/alignment.js";
export { blockOf, compareParts, type Part } from "./checkpoint/architectures.js";
export {
  type Checkpoint,
  type CheckpointTensor,
  foldersOf,
  openCheckpoint,
  parameterCount,
  requireUnchanged,
  zeroRows,
} from "./checkpoint/checkpoint.js";
export { besideDecoder, withCommonNames } from "./checkpoint/common-names.js";
export {
  type CompanionKind,
  companionOf,
  isCompanionFolder,
  isWorthNoting,
  TEMPLATES,
  UNKNOWN_BYTES,
  UNKNOWN_FILES,
} from "./checkpoint/companion-names.js";
export { compareVocabularies, type Labelled, requireCompatible } from "./checkpoint/compatibility.js";
export {
  type CheckpointConfig,
  isTower,
  type Json,
  mapTowers,
  parseConfig,
  readConfig,
  textOf,
} from "./checkpoint/config.js";
export {
  cachedFolder,
  HUB_PREFIX,
  type HubAccess,
  hubCache,
  parseHubName,
  pinKey,
  type SourceOptions,
} from "./checkpoint/hub-source.js";
export { type Inspection, inspectCheckpoint, inspectTensors, type TensorInspection } from "./checkpoint/inspection.js";
export { layerKinds, requireStackable, stackedConfig } from "./checkpoint/layer-kinds.js";
export { folderName, hubPlace, locateOrFetch, locateSource } from "./checkpoint/locate.js";
export { moveTokenIds } from "./checkpoint/token-ids.js";
export { transplant } from "./checkpoint/transplant.js";
export { type AddedToken, BYTE_OF, textFoldersOf } from "./checkpoint/vocabulary.js";
export { ggufTypeNumber, readGgufHeader } from "./gguf/header.js";
export { findPreTokenizer, SPLIT_PATTERNS } from "./gguf/pre-tokenizers.js";
export { addRows } from "./kernels/adamw.js";
export { Converter } from "./kernels/convert.js";
export { BLOCKS, ENCODINGS, type Encoding, encodedBytes } from "./kernels/encodings.js";
export type { KernelDType } from "./kernels/kernels.js";
export { BLOCK_COLUMNS, splitBytes } from "./kernels/split-blocks.js";
export { TrainingKernels } from "./kernels/training.js";
export type { TensorInfo } from "./safetensors/header.js";
export { type FolderLayout, layoutFolder, lengthenHeader, type ShardLayout } from "./safetensors/layout.js";
export { openSafetensors, readRange, type SafetensorsFile } from "./safetensors/reader.js";
export { INDEX_FILE, openShards } from "./safetensors/sharded.js";
export { readTensor, type TensorData, writeSafetensors, writeSharded } from "./safetensors/writer.js";
export { Collector } from "./streaming/collector.js";
export { eigenvectors } from "./streaming/eigenvectors.js";
export { Evaluator } from "./streaming/evaluate-block.js";
export { InputFiles } from "./streaming/files.js";
export { isReporting } from "./streaming/job-kinds.js";
export type { LowRankFactors } from "./streaming/low-rank.js";
export { guardCode, runCode } from "./streaming/own-code.js";
export { countBytes, cutIntoPieces, eachBlock, rowsMatter } from "./streaming/pieces.js";
export {
  type AnalyzeJob,
  type BoundTerms,
  bytesPerValue,
  type Combination,
  type CountJob,
  type EncodeJob,
  type Evaluation,
  type GramJob,
  type InputFile,
  isStored,
  type Job,
  type KeyRanges,
  type LowRankJob,
  type LowRankTerm,
  operationsOf,
  type Payload,
  type Place,
  type Program,
  partOf,
  requireFloat,
  SAMPLE_RUN,
  type Stored,
  type StoredTerm,
  type Target,
  type Term,
  type TiesJob,
} from "./streaming/program.js";
export { regress, regressionBytes } from "./streaming/regression.js";
export { countFetched } from "./streaming/remote-ranges.js";
export {
  addUp,
  concatenate,
  type DeltaStatistics,
  resultsByJob,
  totalDifferences,
  totalStatistics,
} from "./streaming/results.js";
export { type AnalyzedPiece, pairsOf } from "./streaming/row-statistics.js";
export {
  memoryPerThread,
  type RunOptions,
  type RunResult,
  runProgram,
  type StreamOptions,
} from "./streaming/run-program.js";
export {
  type Arithmetic,
  addArithmetic,
  arithmeticOf,
  type Declaration,
  type FieldKind,
  type Fields,
  type FieldsOf,
  mapOperation,
  type Operation,
  type OwnOperation,
  onValues,
  operations,
  type Seed,
} from "./streaming/value-operation.js";
export {
  added,
  decompose,
  isSquare,
  joined,
  type MatrixRule,
  mean,
  product,
  withValues,
} from "./streaming/whole-matrix.js";
export { runThread } from "./streaming/worker.js";
