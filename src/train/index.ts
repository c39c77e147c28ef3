// The public face of train/.

export { dataFields } from "../data/index.js";
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
} from "./loop/lora.js";
export { clipFactor, Optimizer, type OptimizerSettings, type Parameter, type StepResult } from "./loop/optimizer.js";
export {
  configurationDifferences,
  type Difference,
  type ResumeParts,
  requireSameRun,
} from "./loop/resume-check.js";
export { DECAY_SHAPES, describeSchedule, learningRateFactor, SCHEDULES, type Schedule } from "./loop/schedule.js";
export { formatSelection, parseSelection, resolveSelection, type Selection } from "./loop/selection.js";
export {
  findState,
  type Progress,
  restoreParameters,
  type SavedState,
  type StateToWrite,
  writeState,
} from "./loop/state.js";
export { type BatchLoss, type TokenBatch, TrainableDecoder, type TrainableOptions } from "./loop/trainable.js";
export {
  type BatchSource,
  type TrainingBatch,
  type TrainingStream,
  type TrainOptions,
  type TrainProgress,
  type TrainResult,
  train,
} from "./loop/trainer.js";
export { RUN_FILES } from "./loop/training-folder.js";
export type { RunSettings } from "./loop/training-settings.js";
export { PRESET_NAMES, type PresetFields, presetFields, scaledPreset } from "./presets.js";
export {
  checkRun,
  type FieldText,
  type LocatedRun,
  parseRun,
  type Run,
  type RunInput,
  readRun,
  runFields,
  runJsonSchema,
} from "./run-file.js";
export { type RunData, type RunModel, settleRun, trainedSelection } from "./run-settings.js";
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
} from "./train-run.js";
export { startTrlRun, TRL_FILES, type TrlCluster, type TrlFolder, type TrlRun, writeTrlRun } from "./trl/index.js";
