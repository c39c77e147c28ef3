// Entry of the process that decodes a parquet file. It sends a part when it is asked for one.
import { endWithParent, isAnySystemError } from "../../../kit/index.js";
import { decodeParquet } from "./parquet.js";
import { DataError, type FilePart, type FileReader } from "./row.js";

export type ParquetRequest = { readonly file: string; readonly columns: readonly string[] | undefined } | "next";

/** A part, the end, or why it cannot be decoded; `isFile`: the file is wrong. */
export type ParquetAnswer =
  | { readonly part: FilePart }
  | "end"
  | { readonly error: { readonly message: string; readonly isFile: boolean } };

let parts: FileReader | undefined;

async function answerTo(request: ParquetRequest): Promise<ParquetAnswer> {
  try {
    if (request !== "next") parts = decodeParquet(request.file, request.columns);
    const next = await parts?.next();
    return next?.value ? { part: next.value } : "end";
  } catch (error) {
    const { message } = error as Error;
    return { error: { message, isFile: error instanceof DataError || isAnySystemError(error) } };
  }
}

process.on("message", (request: ParquetRequest) => {
  void answerTo(request).then((answer) => process.send?.(answer));
});
endWithParent();
