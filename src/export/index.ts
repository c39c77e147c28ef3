export { EXPORT_FORMATS, type ExportPlan } from "./formats.js";
export { ggufPlanner, planGguf } from "./gguf/plan-gguf.js";
export { ENCODING_NAMES, FILE_TYPE_NAMES, type FileType } from "./gguf/tensor-types.js";
export { type WriteGgufOptions, writeGguf } from "./gguf/write-gguf.js";
export { ONNX_TYPES, type OnnxType, planOnnx } from "./onnx/plan-onnx.js";
export { writeOnnx } from "./onnx/write-onnx.js";
