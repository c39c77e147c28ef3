// Training data: from files and data sets of the Hub to batches of token ids.
export { type Batch, type BatchOptions, type BatchPosition, BatchStream, type ExampleList } from "./batches.js";
export type { SetCounts } from "./counts.js";
export { type DataInput, dataSchema, planSet } from "./declaration.js";
export { dataFields } from "./field-reference.js";
export { compileFilters } from "./filter.js";
export { type HubDatasetOptions, hubDataset } from "./hub/index.js";
export { compileMapping } from "./mapping.js";
export { checkData, type PreparedData, type PrepareProgress, prepareData } from "./prepare.js";
export { previewOf } from "./preview.js";
export { DataError } from "./read/data-error.js";
export { formatOfName, type ReadOptions, type Row, readRows } from "./read/index.js";
export { KNOWN_COLUMNS, mappingOf, requireColumns } from "./recognize-columns.js";
export { bytesToDownload, findSource } from "./source.js";
