import { CancelledError } from "../../core/index.js";

export function stopped(): CancelledError {
  return new CancelledError("the evaluation was stopped; run the same command with --resume to continue");
}
