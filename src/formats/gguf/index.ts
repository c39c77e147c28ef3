export { ggufTypeNumber, readGgufHeader } from "./header.js";
export { findPreTokenizer, SPLIT_PATTERNS } from "./pre-tokenizers.js";
