export { RuntimeError, RuntimeMissingError } from "./errors.js";
export { externalLocation } from "./external-paths.js";
export { loadRuntime } from "./load-runtime.js";
export { type Emitter, lowerGraph, type QuantizedWeight, type Weight } from "./lower.js";
export { type ExternalData, MICROSOFT, OnnxModel } from "./onnx.js";
export { openSession, type Session, type SessionOptions, type TensorValue } from "./session.js";
