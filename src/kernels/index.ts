// The public face of kernels/.
export { type DeltaStatistics, type KernelDType, Kernels } from "./kernels.js";
export * as reference from "./reference.js";
