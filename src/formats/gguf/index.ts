export { ggufGeneration, PENALTY_KEY } from "./generation.js";
export { ggufTypeNumber, readGgufHeader } from "./header.js";
export { requireModelFile } from "./kinds.js";
export { findPreTokenizer, SPLIT_PATTERNS } from "./pre-tokenizers.js";
export type { FolderRows, LaidOutTensor, Writing } from "./tensor-list.js";
export { layOutTensors } from "./tensors.js";
