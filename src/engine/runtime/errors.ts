import { type ErrorWhere, LayergraftError } from "../../kit/index.js";

/** A graph that cannot be written, loaded or run. `where.tensor` is the node or tensor with the problem, if that is known. */
export class RuntimeError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("runtime", message, where, cause);
  }
}

/** ONNX Runtime is not installed, or has no binary that runs here. */
export class RuntimeMissingError extends RuntimeError {}
