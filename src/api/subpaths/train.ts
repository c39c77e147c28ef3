// layergraft/train: run files, previews of data, and runs for TRL.

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
