// The public face of kernels/.
export { addStatistics, type DeltaStatistics, type KernelDType, Kernels, NO_DELTA } from "./kernels.js";
export * as reference from "./reference.js";
