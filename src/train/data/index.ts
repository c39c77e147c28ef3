export type { SetCounts } from "./counts.js";

import { dataFields, planSet } from "./declaration.js";
import { previewOf, templateVariables } from "./encode.js";

export { compileFilters } from "./filter.js";
export { type HubDatasetOptions, hubDataset } from "./hub/index.js";
export { checkData } from "./prepare.js";
export { formatOfName, type ReadOptions, type Row, readRows } from "./read/index.js";
export { DataError } from "./read/row.js";
export { mappedRows } from "./recognize-columns.js";
export { bytesToDownload, findSource } from "./source.js";
