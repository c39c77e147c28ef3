export { RuntimeError, RuntimeMissingError } from "./errors.js";
export { externalLocation, externalRoot } from "./external.js";
export { loadRuntime } from "./load.js";
export { type LowerOptions, lowerGraph, type Weight } from "./lower.js";
export { bytesOf, MICROSOFT, OnnxModel } from "./onnx.js";
export { openSession, type Session, type SessionOptions, type TensorValue } from "./session.js";
