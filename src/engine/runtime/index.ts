export { RuntimeError, RuntimeMissingError } from "./errors.js";
export { externalLocation } from "./external-paths.js";
export { loadRuntime } from "./load-runtime.js";
export { lowerGraph, type Weight } from "./lower.js";
export { bytesOf, MICROSOFT, OnnxModel } from "./onnx.js";
export { openSession, type Session, type SessionOptions, type TensorValue } from "./session.js";
