// The public face of train/.

export { type DataField, dataFields } from "../data/index.js";
export {
  configurationDifferences,
  type Difference,
  type ResumeParts,
  requireSameRun,
} from "./configuration.js";
export {
  adapterConfig,
  factorNames,
  factorShapes,
  initialFactors,
  type LoraFactors,
  type LoraModule,
  type LoraPlan,
  type LoraSettings,
  loraScale,
  planLora,
  type WriteAdapterOptions,
  writeAdapter,
} from "./lora.js";
export { clipFactor, Optimizer, type OptimizerSettings, type Parameter, type StepResult } from "./optimizer.js";
export { PRESET_NAMES, type PresetFields, presetFields, scaledPreset } from "./presets.js";
export {
  batchSource,
  type HandOverOptions,
  handOverRun,
  type PreparedRun,
  type PreparedStream,
  prepareRun,
  type RunOptions,
  type RunResult,
  trainRun,
} from "./run.js";
export {
  checkRun,
  type FieldText,
  type LocatedRun,
  parseRun,
  type Run,
  type RunField,
  type RunInput,
  readRun,
  runFields,
  runJsonSchema,
} from "./run-file.js";
export {
  type RunData,
  type RunModel,
  type RunSettings,
  settleRun,
  trainedSelection,
} from "./run-settings.js";
export { DECAY_SHAPES, describeSchedule, learningRateFactor, SCHEDULES, type Schedule } from "./schedule.js";
export { formatSelection, parseSelection, resolveSelection, type Selection } from "./selection.js";
export {
  findState,
  type Progress,
  restoreParameters,
  type SavedState,
  type StateToWrite,
  writeState,
} from "./state.js";
export { type BatchLoss, type TokenBatch, TrainableDecoder, type TrainableOptions } from "./trainable.js";
export {
  type BatchSource,
  type TrainingBatch,
  type TrainingStream,
  type TrainOptions,
  type TrainProgress,
  type TrainResult,
  train,
} from "./trainer.js";
export { RUN_FILES } from "./training-folder.js";
export { startTrlRun, TRL_FILES, type TrlCluster, type TrlFolder, type TrlRun, writeTrlRun } from "./trl/index.js";
