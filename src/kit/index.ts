export { Answerer, answerQuestions, type Controls, errorOf, type PlainError, plainError } from "./ask.js";
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
  HubError,
  isAnySystemError,
  isOutOfMemory,
  isSystemError,
  LayergraftError,
  MismatchError,
  messageOf,
  OUT_OF_MEMORY,
  OutputError,
  ProblemsError,
  RecipeError,
  RuntimeError,
  RuntimeMissingError,
  systemMessage,
  usageError,
} from "./errors.js";
export { endWithParent, startGuarded } from "./guard/child.js";
export { GuardError, guarded, guardedPatterns } from "./guard/guarded.js";
export {
  defined,
  groupBy,
  isObject,
  type JsonObject,
  mergeObjects,
  own,
  parsePythonJson,
} from "./json.js";
export { findLanguage, type Language, requireLanguage } from "./languages.js";
export { type CallOptions, MAX_THREADS, type Progress } from "./progress.js";
export { ProtoWriter } from "./protobuf.js";
export { Random } from "./random.js";
export { readRetryAfter } from "./retry-after.js";
export { VERSION } from "./version.js";
