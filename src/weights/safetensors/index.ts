// The public face of safetensors/.
export {
  type Header,
  MAX_HEADER_BYTES,
  parseHeader,
  parseHeaderLength,
  serializeHeader,
  type TensorDeclaration,
  type TensorInfo,
} from "./header.js";
export { DEFAULT_SHARD_BYTES, type FolderLayout, layoutFolder, type ShardLayout } from "./layout.js";
export { openSafetensors, type SafetensorsFile } from "./reader.js";
export { INDEX_FILE, openShards, SINGLE_FILE } from "./sharded.js";
export { readTensor, type TensorData, writeSafetensors, writeSharded } from "./writer.js";
