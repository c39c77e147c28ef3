export type { TensorInfo } from "./header.js";
export { type FolderLayout, layoutFolder, lengthenHeader, type ShardLayout } from "./layout.js";
export { openSafetensors, type RemoteFile, readRange, readRanges, type SafetensorsFile } from "./reader.js";
export { INDEX_FILE, isModuleFolder, moduleTensor, openShards } from "./sharded.js";
export { checkpointOfRun } from "./training-run.js";
export {
  readTensor,
  readTensorPieces,
  type TensorBytes,
  type TensorData,
  type TensorToWrite,
  writeSafetensors,
  writeSharded,
} from "./writer.js";
