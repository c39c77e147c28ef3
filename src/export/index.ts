// Exports of export/ for other rooms.

export { EXPORTED_FAMILIES } from "./gguf/architectures.js";
export { type GgufOptions, type GgufPlan, planGguf } from "./gguf/plan-gguf.js";
export { ENCODING_NAMES, FILE_TYPE_NAMES, type FileType } from "./gguf/tensor-types.js";
export { type WriteGgufOptions, type WrittenGguf, writeGguf } from "./gguf/write-gguf.js";
export { ONNX_TYPES, type OnnxOptions, type OnnxPlan, type OnnxType, planOnnx } from "./onnx/plan-onnx.js";
export { type WriteOnnxOptions, type WrittenOnnx, writeOnnx } from "./onnx/write-onnx.js";
