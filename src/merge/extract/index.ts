export { type ExtractionOutput, extractAdapter } from "./extract.js";
export type { ExtractedModule, ExtractedPart, Extraction } from "./extraction.js";
export type { ExtractOptions } from "./open-models.js";
export { DEFAULT_RANK, type ExtractionPlan, planExtraction } from "./plan-extraction.js";
