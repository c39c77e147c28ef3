export { type Chunks, chunksOfLogits } from "./chunks.js";
export { installRuntime, loadRuntime } from "./load-runtime.js";
export { type Emitter, lowerGraph, type Weight } from "./lower.js";
export type { ExternalData } from "./onnx.js";
export { openSession, type Session, type TensorValue } from "./session.js";
