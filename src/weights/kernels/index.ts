// The public face of kernels/.
export {
  type AdamWArrays,
  type AdamWCoefficients,
  type AdamWSettings,
  adamwCoefficients,
  addRows,
} from "./adamw.js";
export { Converter } from "./convert.js";
export { addStatistics, type DeltaStatistics, type KernelDType, Kernels, NO_DELTA } from "./kernels.js";
export { MOST_TRAINING_BYTES, TrainingKernels } from "./training.js";
