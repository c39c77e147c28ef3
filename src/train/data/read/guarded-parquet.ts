// Parquet files are decoded in a process of their own: a few bytes of a file can claim billions of values.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { startGuarded } from "../../../kit/index.js";
import type { ParquetAnswer, ParquetRequest } from "./parquet-process.js";
import { DataError, type FileReader } from "./row.js";

/** Heap of the process, and seconds for a part: four times what the largest row group needs. */
const LIMITS = { mebibytes: 4096, seconds: 120 };

/**
 * Rows of a parquet file, as `decodeParquet`.
 * @throws DataError if it cannot be decoded, or not within the limits
 */
export async function* readParquet(file: string, columns?: readonly string[], limits = LIMITS): FileReader {
  await stat(file);
  const child = startGuarded("#parquet-process", limits.mebibytes);
  try {
    for (let request: ParquetRequest = { file, columns }; ; request = "next") {
      const answer = await answerTo(child, request, limits.seconds);
      if (answer === "end") return;
      if (typeof answer === "string") {
        const limit = answer === "time" ? `${limits.seconds} s` : `${limits.mebibytes} MiB of memory`;
        const advice = "Write it again with smaller row groups, or do not use it if you do not know where it is from.";
        throw new DataError(`${file} needs more than ${limit} to decode. ${advice}`, { file });
      }
      if ("part" in answer) yield answer.part;
      else if (answer.error.isFile) throw new DataError(answer.error.message, { file });
      else throw new Error(answer.error.message);
    }
  } finally {
    child.kill("SIGKILL");
  }
}

/** The answer of the process, or the limit that it exceeded. */
async function answerTo(
  child: ChildProcess,
  request: ParquetRequest,
  seconds: number,
): Promise<ParquetAnswer | "time" | "memory"> {
  const settled = new AbortController();
  const timeout = AbortSignal.timeout(seconds * 1000);
  const signal = AbortSignal.any([settled.signal, timeout]);
  const message = once(child, "message", { signal }).then(([answer]) => answer as ParquetAnswer);
  const exit = once(child, "exit", { signal }).then(([code]) => {
    if (code === 1) throw new Error("the process that decodes parquet files does not start");
    return "memory" as const;
  });
  try {
    // Its end is an event of its own.
    child.send(request, () => {});
    return await Promise.race([message, exit]);
  } catch (error) {
    if (timeout.aborted) return "time";
    throw error;
  } finally {
    settled.abort();
  }
}
