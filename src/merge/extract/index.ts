export { type ExtractionOutput, extractAdapter } from "./extract.js";
export type { ExtractedModule, ExtractedPart, Extraction } from "./extraction.js";
export { DEFAULT_RANK, type ExtractionPlan, type ExtractOptions, planExtraction } from "./plan-extraction.js";
