// Parquet files are decoded in a process of their own: a few bytes of a file can claim billions of values.
import { stat } from "node:fs/promises";
import { Answerer, LayergraftError, startGuarded } from "../../../kit/index.js";
import type { ParquetAnswers } from "./parquet-process.js";
import { DataError, type FileReader } from "./row.js";

/** Heap of the process, and seconds for a part: four times what the largest row group needs. */
const LIMITS = { mebibytes: 4096, seconds: 120 };

/**
 * Rows of a parquet file, as `decodeParquet`.
 * @throws DataError if it cannot be decoded, or not within the limits
 */
export async function* readParquet(file: string, columns?: readonly string[], limits = LIMITS): FileReader {
  await stat(file);
  const beyond = (limit: string) => {
    const advice = "Write it again with smaller row groups, or do not use it if you do not know where it is from.";
    return new DataError(`${file} needs more than ${limit} to decode. ${advice}`, { file });
  };
  const decoder = new Answerer<ParquetAnswers>(startGuarded("#parquet-process", limits.mebibytes), (code) =>
    code === 1
      ? new Error("the process that decodes parquet files does not start")
      : beyond(`${limits.mebibytes} MiB of memory`),
  );
  try {
    await decoder.ask("open", { file, columns });
    for (;;) {
      const timer = setTimeout(() => decoder.end(beyond(`${limits.seconds} s`)), limits.seconds * 1000);
      const part = await decoder.ask("next", undefined).finally(() => clearTimeout(timer));
      if (part === undefined) return;
      yield part;
    }
  } catch (error) {
    const isForeign = error instanceof LayergraftError && !(error instanceof DataError);
    throw isForeign ? new DataError(error.message, { file }) : error;
  } finally {
    decoder.end();
  }
}
