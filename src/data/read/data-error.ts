import { type ErrorWhere, LayergraftError } from "../../core/index.js";

/** A data file, row, hub data set or mixture that cannot be used. */
export class DataError extends LayergraftError {
  /** Line of a text file, or row of a parquet file, counted from 1. */
  readonly line: number | undefined;

  constructor(message: string, where: ErrorWhere & { readonly line?: number } = {}, cause?: unknown) {
    super("data", message, where, cause);
    this.line = where.line;
  }
}
