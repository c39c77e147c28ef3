/**
 * Run files, previews of data, and runs for TRL.
 * @module layergraft/train
 */
export {
  checkRun,
  handOverRun,
  PRESET_NAMES,
  prepareRun,
  type Run,
  readRun,
  runJsonSchema,
  type TrlCluster,
} from "../../train/index.js";
