// Fine-tuning: run files, the training loop, and runs for TRL.
export { dataFields } from "../data/index.js";
export { initialFactors, planLora, writeAdapter } from "./loop/lora.js";
export { Optimizer } from "./loop/optimizer.js";
export { TrainableDecoder } from "./loop/trainable.js";
export { RUN_FILES } from "./loop/training-folder.js";
export type { TrainProgress } from "./loop/training-types.js";
export { PRESET_NAMES, presetFields } from "./run/presets.js";
export { checkRun, type FieldText, readRun, runFields, runJsonSchema } from "./run/run-file.js";
export type { Run, RunInput } from "./run/run-schema.js";
export { describeSchedule } from "./run/schedule.js";
export { resolveSelection } from "./run/selection.js";
export { handOverRun, type PreparedRun, prepareRun, type RunOptions, type RunResult, trainRun } from "./train-run.js";
export type { TrlCluster } from "./trl/accelerate.js";
export { startTrlRun } from "./trl/start.js";
export { TRL_FILES } from "./trl/write.js";
