export { describeKept } from "../kernels/index.js";
export { expectedNotes, keptNotes } from "./kept-notes.js";
export { planLora } from "./loop/lora.js";
export { Optimizer } from "./loop/optimizer.js";
export { TrainableDecoder } from "./loop/trainable.js";
export { RUN_FILES, readTrainingLog } from "./loop/training-folder.js";
export type { TrainProgress } from "./loop/training-types.js";
export { type MeasureDataOptions, measureData } from "./measure-data.js";
export { type DataSample, type RunOutlook, runOutlook, TYPICAL_SAMPLES } from "./run/outlook.js";
export { PRESET_NAMES, presetFields } from "./run/presets.js";
export { CLOSED, checkRun, type FieldText, readRun, runFields, runJsonSchema } from "./run/run-file.js";
export { dataOf, type Run, type RunInput, runSchema } from "./run/run-schema.js";
export { settleRun } from "./run/run-settings.js";
export { sampleWeights } from "./run/sample-weights.js";
export { describeSchedule, rateText } from "./run/schedule.js";
export { resolveSelection } from "./run/selection.js";
export { estimateTraining, requireTrainingMemory, type TrainingUse } from "./train-memory.js";
export {
  handOverRun,
  type PreparedRun,
  prepareRun,
  type RunOptions,
  type RunResult,
  trainRun,
} from "./train-run.js";
export { startTrlRun } from "./trl/start.js";
export { TRL_FILES, TRL_PRECISIONS, type TrlCluster, type TrlPrecision } from "./trl/write.js";
