/**
 * Checkpoints and safetensors files.
 * @module layergraft/weights
 */
export type { DType } from "../../core/index.js";
export {
  type Checkpoint,
  type CheckpointTensor,
  type HubAccess,
  openCheckpoint,
  openSafetensors,
  parameterCount,
  readTensor,
  type SafetensorsFile,
  type TensorData,
  writeSafetensors,
  writeSharded,
} from "../../weights/index.js";
