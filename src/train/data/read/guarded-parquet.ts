// Parquet files are decoded in a process of their own: a few bytes of a file can claim billions of values.
import { stat } from "node:fs/promises";
import { Answerer, isObject, LayergraftError, startGuarded } from "../../../kit/index.js";
import { keepFloat } from "../../../kit/numbers/index.js";
import type { ParquetAnswers } from "./parquet-process.js";
import { ANY_KEY, DataError, type FileReader, type Floats } from "./row.js";

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
      // What is kept beside numbers does not come along.
      if (part.floats) for (const { row } of part.found) keepFloats(row, part.floats);
      yield part;
    }
  } catch (error) {
    const isForeign = error instanceof LayergraftError && !(error instanceof DataError);
    throw isForeign ? new DataError(error.message, { file }) : error;
  } finally {
    decoder.end();
  }
}

/** Keeps which numbers of a row are floats; those of a list are all, or none. */
function keepFloats(value: unknown, floats: Floats): void {
  if (Array.isArray(value)) for (const one of value) keepFloats(one, floats);
  if (!isObject(value)) return;
  for (const [key, one] of Object.entries(value)) {
    const own = floats[key] ?? floats[ANY_KEY];
    if (own === undefined || one === null) continue;
    if (own !== true) keepFloats(one, own);
    else if (Array.isArray(one)) keepAll(one);
    else keepFloat(value, key);
  }
}

function keepAll(list: readonly unknown[]): void {
  for (const [at, one] of list.entries()) {
    if (Array.isArray(one)) keepAll(one);
    else keepFloat(list, at);
  }
}
