import { type ErrorWhere, LayergraftError } from "../../kit/index.js";

/** A repository of the Hugging Face hub that cannot be read. */
export class HubError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("hub", message, where, cause);
  }
}
