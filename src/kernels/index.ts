export { addRows } from "./adamw.js";
export { Converter } from "./convert.js";
export {
  BLOCKS,
  bytesPerValue,
  CODE_BITS,
  type Code,
  codeValues,
  ENCODINGS,
  type Encoding,
  encodedBytes,
  isCode,
  type StoredBlocks,
  type StoredType,
} from "./encodings.js";
export { describeKept, type KeptChange, keptSums, losesChange, Rounding } from "./kept-change.js";
export { type KernelDType, Kernels } from "./kernels.js";
export { BLOCK_COLUMNS, type SplitEncoding, splitBlocks, splitBytes } from "./split-blocks.js";
export { TrainingKernels } from "./training.js";
export { type Turn, turnedElements, turnValues } from "./turn.js";
