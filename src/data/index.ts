// Training data: from files and data sets of the hub to batches of token ids.
export {
  type Batch,
  type BatchOptions,
  type BatchPosition,
  BatchStream,
  type ExampleList,
} from "./batches.js";
export { ContaminationIndex, contaminationSchema, readEvaluationFiles } from "./contamination.js";
export type { SetCounts } from "./counts.js";
export {
  type DataDeclaration,
  type DataInput,
  dataSchema,
  mixtureFields,
  planSet,
  type SetDeclaration,
  type SetInput,
  setFields,
} from "./declaration.js";
export { type Encoded, Encoder, type EncodingOptions, type EncodingResult } from "./encode.js";
export type { Example, Message, Role } from "./example.js";
export { dataFields } from "./fields.js";
export { compileFilters } from "./filter.js";
export { type HubDataset, type HubDatasetOptions, hubDataset, isHubName } from "./hub/index.js";
export { type HubRowsRequest, hubRows } from "./hub-rows.js";
export { compileMapping, type Mapping, mappingSchema } from "./mapping.js";
export { Mixture, type MixtureOptions } from "./mixture.js";
export { checkData, type PreparedData, type PrepareOptions, type PrepareProgress, prepareData } from "./prepare.js";
export { type ExamplePreview, type PreviewOptions, type PreviewPiece, previewExamples, previewOf } from "./preview.js";
export { DataError } from "./read/data-error.js";
export { type BadRow, type Format, type ReadOptions, type Row, type RowBatch, readRows } from "./read/index.js";
export { READY, READY_NAMES, type ReadyName, type ReadySet, readySet } from "./ready.js";
export { columnsOf, KNOWN_COLUMNS, mappingOf, missingColumns } from "./recognize.js";
export type { LossOn, PromptTemplate } from "./row-template.js";
export { findSource, type SourceDeclaration } from "./source.js";
