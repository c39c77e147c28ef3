// Fine-tuning: run files, the training loop, and runs for TRL.
export { dataFields } from "../data/index.js";
export { initialFactors, planLora, writeAdapter } from "./loop/lora.js";
export { Optimizer } from "./loop/optimizer.js";
export { describeSchedule } from "./loop/schedule.js";
export { resolveSelection } from "./loop/selection.js";
export { TrainableDecoder } from "./loop/trainable.js";
export type { TrainProgress } from "./loop/trainer.js";
export { RUN_FILES } from "./loop/training-folder.js";
export { PRESET_NAMES, presetFields } from "./presets.js";
export { checkRun, type FieldText, type Run, type RunInput, readRun, runFields, runJsonSchema } from "./run-file.js";
export { handOverRun, type PreparedRun, prepareRun, type RunResult, trainRun } from "./train-run.js";
export type { TrlCluster } from "./trl/launch.js";
export { startTrlRun } from "./trl/start.js";
export { TRL_FILES } from "./trl/write.js";
