/**
 * Checkpoints and safetensors files.
 * @module layergraft/weights
 */

export {
  type Checkpoint,
  type CheckpointTensor,
  type HubAccess,
  openCheckpoint,
  parameterCount,
} from "../../formats/checkpoint/index.js";
export {
  openSafetensors,
  readTensor,
  type SafetensorsFile,
  type TensorData,
  writeSafetensors,
  writeSharded,
} from "../../formats/safetensors/index.js";
export type { DType } from "../../kit/index.js";
