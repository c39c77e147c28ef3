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
  type RunInput,
  readRun,
  runJsonSchema,
  startTrlRun,
  type TrlCluster,
} from "../../train/index.js";
